"""The timeline of files: recorded loads and other traces, logs of simulations, CPU bursts."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlab.app.trace.files import NAME_IT
from schedlab.errors import SpecError
from schedlab.nouns.reading import read_text, split_format
from schedlab.report.bars import (
    CPU_PARTS,
    LOG_STEPS,
    OPERATIONS,
    Bars,
    Scene,
    bars_of,
    log_bars,
    request_bars,
    since,
)
from schedlab.report.texts import Texts
from schedlab.report.timeline import Timeline
from schedlab.store.bursts import from_csv
from schedlab.store.files import write_atomic
from schedlab.store.requests import read_requests

LIMIT_BYTES = 1 << 30
EXPECTED = "expected a block trace, a log of sim run --log, or the CSV of trace cpu --out"


def write_timeline(files: Sequence[str], out: Path, language: str | None) -> Timeline:
    """Write the page of these files, the first requests of which are at second 0.

    SpecError for a file that is no trace, or whose parts are others than those of the first.
    """
    texts = Texts(language)
    found = [run for file in files for run in _runs(file, texts)]
    parts = found[0][0]
    for own, bars in found:
        if own != parts:
            raise SpecError(
                f"{bars.name}: it has other parts than {found[0][1].name}: {', '.join(own)}",
                "write one page for each of them",
            )
    names = [bars.name for _, bars in found]
    if len(set(names)) < len(names):
        raise SpecError("two files have the same name", "rename one: it is shown on the page")
    runs = tuple(
        since(bars, int(bars.times_ns[0].min()) if bars.times_ns.shape[1] else 0)
        for _, bars in found
    )
    unit = "burst" if parts == CPU_PARTS else "request"
    line = Timeline((Scene(", ".join(map(_title, files)), parts, runs, unit),), texts)
    write_atomic(out, line.render())
    return line


def _title(file: str) -> str:
    return Path(split_format(file, NAME_IT)[0]).name


def _runs(file: str, texts: Texts) -> Iterator[tuple[tuple[str, ...], Bars]]:
    """The parts and bars of every run in a file."""
    path, name = split_format(file, NAME_IT)
    head = _head(path)
    if name is None and head.startswith("end_ns,"):
        yield CPU_PARTS, _burst_bars(path)
    elif name is None and head.split(",")[0] in ("policy", "scheduler"):
        yield from _logged(path)
    else:
        requests = read_requests(path, name)
        stated = str(requests.facts.get("queue", {}).get("scheduler", ""))
        chosen = stated.partition("[")[2].partition("]")[0]
        shown = f"{path.stem}: {chosen}" if chosen and chosen not in path.stem else path.stem
        yield request_bars(shown, requests, texts)


def _head(path: Path) -> str:
    """The first line, where it is one of text; other formats have their own reader."""
    try:
        with path.open("rb") as file:
            return file.readline(1024).decode("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _logged(path: Path) -> Iterator[tuple[tuple[str, ...], Bars]]:
    """The runs of a log of `sim run --log`, of the first seed."""
    rows = list(csv.DictReader(read_text(path, EXPECTED, limit_bytes=LIMIT_BYTES).splitlines()))
    if not rows:
        raise SpecError(f"{path}: no request is in it", EXPECTED)
    for number, row in enumerate(rows, 2):
        if None in row.values():
            raise SpecError(f"{path}:{number}: the line is cut off", "write the log again")
    several = len({row.get("processes") for row in rows}) > 1
    runs: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row.get("seed") == rows[0].get("seed"):
            label = row.get("scheduler") or row.get("policy") or ""
            runs.setdefault(f"{label}, {row['processes']}" if several else label, []).append(row)
    try:
        for label, mine in runs.items():
            yield log_bars(
                label, _columns(mine), [r.get("process") or r["operation"] for r in mine]
            )
    except (KeyError, ValueError) as error:
        raise SpecError(f"{path}: {error}", EXPECTED) from error


def _columns(rows: Sequence[dict[str, str]]) -> dict[str, object]:
    """The columns of a log as numbers, the operation as its place."""
    import numpy as np

    wanted = [n for n in (*LOG_STEPS, "sector", "sectors", "first_page", "pages", "offset_bytes",
                          "length_bytes") if n in rows[0]]  # fmt: skip
    columns = {name: np.array([int(row[name]) for row in rows], np.int64) for name in wanted}
    places = [
        OPERATIONS.index({"trim": "discard"}.get(o, o)) for o in (r["operation"] for r in rows)
    ]
    return {**columns, "operation": np.array(places)}


def _burst_bars(path: Path) -> Bars:
    """Stays on a CPU, each with the wait before it: since it was woken, or was preempted."""
    import numpy as np

    bursts = sorted(from_csv(path, read_text(path, EXPECTED, limit_bytes=LIMIT_BYTES)))
    if not bursts:
        raise SpecError(f"{path}: no burst is in it", "schedlab trace cpu --out FILE -- COMMAND")
    ended: dict[int, int] = {}
    ready, begins = [], []
    for burst in bursts:
        begin = burst.end_ns - burst.duration_ns
        woken = burst.scheduling.woken_ns if burst.scheduling else 0
        # One that was preempted is ready from that moment on; else nothing is known before it ran.
        ready.append(min(woken or ended.get(burst.task, begin), begin))
        begins.append(begin)
        ended.pop(burst.task, None)
        if burst.is_preempted:
            ended[burst.task] = burst.end_ns
    times = [np.array(each) for each in (ready, begins, [b.end_ns for b in bursts])]
    kind = np.array([2 if burst.is_preempted else 1 for burst in bursts])
    return bars_of(path.stem, [f"task {b.task}" for b in bursts], times, kind=kind)
