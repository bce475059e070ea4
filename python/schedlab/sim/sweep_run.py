"""Carrying out a sweep: each result stored as it comes, so that a sweep can be resumed.

A sweep folder holds `sweep.toml` (frozen), `done.jsonl` (append-only, in the order of completion)
and, once all is done, `results.jsonl` (in the order of the points: the same bytes however and
wherever the points ran).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from schedlab.errors import Interrupted, SpecError
from schedlab.sim.pool import completed
from schedlab.sim.sweep import Point, Sweep, run_point
from schedlab.store import files

Report = Callable[[int, int], None]


def run_sweep(
    sweep: Sweep, folder: Path, report: Report | None = None, executor: Executor | None = None
) -> list[dict[str, Any]]:
    """Run the remaining points of a sweep; all rows (`settings`, `seed`, `metrics`) in order.

    `report` gets the number of finished points and of all points. `executor` defaults to one
    thread per core. SpecError when the folder holds another sweep; Interrupted on Ctrl-C, and
    the finished points stay.
    """
    finished = _open_folder(sweep, folder)
    show_progress = report or (lambda _done, _total: None)
    left = [point for point in sweep.points if point.key not in finished]
    show_progress(len(finished), len(sweep.points))
    with _open_lines(folder / "done.jsonl") as out, _results(left, executor) as results:
        for key, line in results:
            out.write(line.encode() + b"\n")
            os.fsync(out.fileno())
            finished[key] = line
            show_progress(len(finished), len(sweep.points))
    lines = [finished[point.key] for point in sweep.points]
    files.write_atomic(folder / "results.jsonl", "".join(line + "\n" for line in lines))
    return [json.loads(line) for line in lines]


def _open_folder(sweep: Sweep, folder: Path) -> dict[str, str]:
    """Lines that are done, by point. Nothing that is done is ever rewritten: a line that a crash
    cut short is skipped, and the next one begins on a line of its own.
    """
    files.make_directory(folder)
    frozen = folder / "sweep.toml"
    if not frozen.exists():
        files.write_atomic(frozen, sweep.text)
    elif frozen.read_text() != sweep.text:
        raise SpecError(f"{folder} is the folder of another sweep", "name a new folder with --out")
    path = folder / "done.jsonl"
    if not path.exists():
        return {}
    known = {point.key for point in sweep.points}
    finished: dict[str, str] = {}
    for line in path.read_text(errors="replace").splitlines():
        with contextlib.suppress(json.JSONDecodeError, KeyError, TypeError):
            row = json.loads(line)
            key = Point(row["settings"], row["seed"]).key
            if key in known and isinstance(row["metrics"], dict):
                finished[key] = line
    return finished


def _open_lines(path: Path) -> BinaryIO:
    """The file for appending, unbuffered; a cut last line gets its end first."""
    out = files.made(path).open("ab", buffering=0)
    with path.open("rb") as written:
        if out.tell() and written.seek(-1, os.SEEK_END) >= 0 and written.read(1) != b"\n":
            out.write(b"\n")
    files.sync_directory(path.parent)
    return out


@contextlib.contextmanager
def _results(points: list[Point], executor: Executor | None) -> Iterator[Iterator[tuple[str, str]]]:
    """Key and line of each point as it is completed; leaving early stops all that run."""
    from schedlab import _core

    stop = _core.SimStop()
    pool = executor or ThreadPoolExecutor(os.cpu_count())
    # The flag lives in this process: threads can be told to stop, workers elsewhere are cancelled.
    more = () if executor else (stop,)
    futures: dict[Future[str], str] = {}
    try:
        for point in points:
            future = pool.submit(run_point, dict(point.settings), point.seed, *more)
            futures[future] = point.key
        yield ((futures[future], future.result()) for future in completed(futures))
    except (KeyboardInterrupt, CancelledError):
        raise Interrupted("the sweep was interrupted; finished points are kept") from None
    finally:
        stop.set()
        for future in futures:
            future.cancel()
        if executor is None:
            pool.shutdown()
