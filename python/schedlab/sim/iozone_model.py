"""The study of noop, deadline and cfq again, on a modelled disk of its time.

One process with one request at a time leaves a scheduler nothing to order. What a published table
of such runs says about schedulers is then noise, and how large that is follows from its own
repetitions.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from schedlab.sim.pool import map_threads
from schedlab.sim.simulation import Simulation
from schedlab.store.files import made, make_directory

SCHEDULERS = ("noop", "deadline", "cfq")
# The study's name of a test: pattern, and share of reads. For the device a rewrite is a write, and
# a second read a read: O_DIRECT leaves nothing in the page cache.
TESTS: Mapping[str, tuple[str, int]] = {
    "Initial write": ("sequential", 0),
    "Rewrite": ("sequential", 0),
    "Read": ("sequential", 1),
    "Re-Read": ("sequential", 1),
    "Reverse Read": ("reverse", 1),
    "Random read": ("random", 1),
    "Random write": ("random", 0),
}
RECORDS = tuple(kib << 10 for kib in (8, 16, 32, 64, 128, 256, 512, 8192, 16384))
FILE_BYTES = 1 << 30
# The largest request of a kernel of that time.
MAX_SECTORS_KB = 512
# Two-sided 95 % of Student's t for two samples of five.
T_8 = 2.306
Key = tuple[str, str, int]


def published() -> dict[Key, list[float]]:
    """KiB/s of every repetition of the study by scheduler, test and record size."""
    file = resources.files("schedlab") / "labs" / "iozone-noop-deadline-cfq.csv"
    rates: dict[Key, list[float]] = {}
    for row in csv.DictReader(file.read_text("utf-8").splitlines()):
        rates.setdefault(_key(row), []).append(float(row["kib_per_s"]))
    return rates


def _key(row: Mapping[str, str]) -> Key:
    return row["scheduler"], row["test"], int(row["record_bytes"])


def simulated(
    processes: int, tags: int, seconds: float, repetitions: int
) -> dict[Key, list[float]]:
    """KiB/s of the model, with so many processes, each in its own file."""
    cells = list(itertools.product(SCHEDULERS, TESTS, RECORDS, range(1, repetitions + 1)))
    with tempfile.TemporaryDirectory() as directory:
        files = _process_files(Path(directory), processes)

        def simulate(cell: tuple[str, str, int, int], stop: Any) -> float:
            scheduler, test, record, seed = cell
            run = Simulation(
                device="disk2005",
                scheduler=scheduler,
                processes=files[test, record],
                tags=tags,
                window=tags,
                seconds=seconds,
                seed=seed,
                settings={"max_sectors_kb": MAX_SECTORS_KB},
            ).run(stop)
            return float(run["total"]["throughput_bytes_per_s"]) / 1024

        rates = map_threads(simulate, cells)
    times: dict[Key, list[float]] = {}
    for (scheduler, test, record, _), rate in zip(cells, rates, strict=True):
        times.setdefault((scheduler, test, record), []).append(rate)
    return times


def _process_files(directory: Path, processes: int) -> dict[tuple[str, int], Path]:
    """A file of processes for each test and record size."""
    files = {}
    for (test, (pattern, reads)), record in itertools.product(TESTS.items(), RECORDS):
        span = FILE_BYTES * processes
        text = (
            f'[[process]]\nname = "iozone"\ncount = {processes}\npattern = "{pattern}"\n'
            f"read_share = {reads}\nrecord = {record}\noffset = 0\nspan = {span}\n"
        )
        path = directory / f"{test.replace(' ', '-')}-{record}.toml"
        path.write_text(text, encoding="utf-8")
        files[test, record] = path
    return files


def spread(rates: Mapping[Key, Sequence[float]]) -> list[float]:
    """For each test and record size: the best scheduler over the worst, less one."""
    spreads = []
    for test, record in itertools.product(TESTS, RECORDS):
        means = [statistics.fmean(rates[each, test, record]) for each in SCHEDULERS]
        spreads.append(max(means) / min(means) - 1 if min(means) > 0 else math.inf)
    return spreads


def margins(rates: Mapping[Key, Sequence[float]]) -> list[float]:
    """For each test and record size: the difference of two means, relative, below which the
    repetitions of the study cannot separate two schedulers (95 %, the widest of the three pairs).
    """
    shares = []
    for test, record in itertools.product(TESTS, RECORDS):
        widths = []
        for one, other in itertools.combinations(SCHEDULERS, 2):
            a, b = rates[one, test, record], rates[other, test, record]
            variance = statistics.variance(a) / len(a) + statistics.variance(b) / len(b)
            widths.append(T_8 * math.sqrt(variance) / statistics.fmean([*a, *b]))
        shares.append(max(widths))
    return shares


def side_by_side(tables: Mapping[str, Mapping[Key, Sequence[float]]]) -> list[str]:
    """The study's layout, MB/s: for each test a row per record size, the tables side by side."""
    head = "".join(f"{name:>10}" for name in SCHEDULERS)
    lines = []
    for test in TESTS:
        titles = "".join(f"{name + ':':>10}{head}" for name in tables)
        lines += ["", f"{test}, MB/s", f"{'record':>8}{titles}"]
        for record in RECORDS:
            row = f"{_size(record):>8}"
            for source in tables.values():
                row += " " * 10
                for name in SCHEDULERS:
                    rate = statistics.fmean(source[name, test, record]) * 1024 / 1e6
                    row += f"{rate:>10.2f}"
            lines.append(row)
    return lines


def sentences(
    one: Mapping[Key, Sequence[float]],
    four: Mapping[Key, Sequence[float]],
    study: Mapping[Key, Sequence[float]],
) -> list[str]:
    """Conclusions that are computed from the tables."""
    cells = list(itertools.product(TESTS, RECORDS))
    modelled = dict(zip(cells, spread(one), strict=True))
    untied = {cell: each for cell, each in modelled.items() if each > 0.01}
    apart = sum(each > 0.05 for each in spread(four))
    needed = margins(study)
    own = zip(cells, spread(study), needed, strict=True)
    beyond = [cell for cell, a, b in own if a > b]
    single = [cell for cell in beyond if not _is_cut(cell)]
    fastest = max(statistics.fmean(rates) for rates in one.values())
    faster = [
        cell
        for cell in cells
        if min(statistics.fmean(study[name, *cell]) for name in SCHEDULERS) > fastest
    ]
    lines = [
        f"One process, one request at a time: in the model the three schedulers are within 1 % of "
        f"each other in {len(cells) - len(untied)} of {len(cells)} cells."
    ]
    if untied:
        named = ", ".join(
            f"{test} {_size(record)} ({each:.1%})" for (test, record), each in untied.items()
        )
        lines[0] += f" The others: {named}."
        if all(map(_is_cut, untied)):
            lines[0] += (
                f" Their records are longer than the largest request, {MAX_SECTORS_KB} KiB: they "
                "are several requests, which a scheduler can order."
            )
    lines.append(
        f"The study's five repetitions tell two schedulers apart from a difference of "
        f"{statistics.median(needed):.1%} on (median over the cells; largest {max(needed):.0%}); "
        f"its own means differ by more than that in {len(beyond)} of {len(cells)} cells."
    )
    if single:
        lines[-1] += (
            f" In {len(single)} of these a record is one request, which leaves a scheduler nothing "
            "to order: look for the reason elsewhere, such as the order of the runs and the place "
            "on the disk."
        )
    if faster:
        lines.append(
            f"In {len(faster)} of {len(cells)} cells all of the study's rates are above the "
            f"fastest of the modelled disk in any cell, {fastest * 1024 / 1e6:.0f} MB/s: there its "
            "data came from memory, the page cache or that of a host, or from a faster device."
        )
    lines.append(f"Four processes: they differ by more than 5 % in {apart} of {len(cells)} cells.")
    return lines


def _is_cut(cell: tuple[str, int]) -> bool:
    """Whether a record of the cell is more than one request."""
    return cell[1] > MAX_SECTORS_KB << 10


def present(seconds: float, repetitions: int, out: Path | None, as_json: bool) -> str:
    """The whole lab as text, or as JSON; `out` is a folder that gets the tables as CSV."""
    study = published()
    one = simulated(1, 1, seconds, repetitions)
    four = simulated(4, 1, seconds, repetitions)
    four_ncq = simulated(4, 31, seconds, repetitions)
    tables = {"1 process": one, "4 processes": four, "4 processes, 31 tags": four_ncq}
    if out is not None:
        make_directory(out)
        _write_csv(out / "model.csv", tables)
    text = sentences(one, four, study)
    if as_json:
        rows = [
            {"table": name, "scheduler": key[0], "test": key[1], "record_bytes": key[2],
             "kib_per_s": rates}
            for name, table in tables.items()
            for key, rates in table.items()
        ]  # fmt: skip
        return json.dumps({"schema": 1, "rows": rows, "sentences": text})
    lines = ["One process", *side_by_side({"study": study, "model": one})]
    lines += ["", "Four processes, model", *side_by_side({"1 tag": four, "31 tags": four_ncq})]
    return "\n".join([*lines, "", *text])


def _write_csv(path: Path, tables: Mapping[str, Mapping[Key, Sequence[float]]]) -> None:
    with made(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "scheduler", "test", "record_bytes", "repetition", "kib_per_s"])
        for name, table in tables.items():
            for key, rates in table.items():
                for number, rate in enumerate(rates, 1):
                    writer.writerow([name, *key, number, f"{rate:.2f}"])


def _size(record: int) -> str:
    return f"{record >> 20}M" if record >= 1 << 20 else f"{record >> 10}k"
