"""Carrying out a sweep: each result stored as it comes, so that a sweep can be resumed.

A sweep folder holds `sweep.toml` (frozen), `done.jsonl` (a line of `store/lines.py` for each point,
in the order of completion) and, once all is done, `results.jsonl` (in the order of the points: the
same bytes however and wherever the points ran).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from schedlab.errors import Interrupted, SpecError
from schedlab.sim.pool import completed
from schedlab.sim.sweep import Point, Sweep, run_point
from schedlab.store import files
from schedlab.store.lines import LineFile

Report = Callable[[int, int], None]


def run_sweep(
    sweep: Sweep, folder: Path, report: Report | None = None, executor: Executor | None = None
) -> list[dict[str, Any]]:
    """Run the remaining points of a sweep; all rows (`settings`, `seed`, `metrics`) in order.

    `report` gets the number of finished points and of all points. `executor` defaults to one
    thread per core. SpecError when the folder holds another sweep; Interrupted on Ctrl-C, and
    the finished points stay.
    """
    done, finished = _open_folder(sweep, folder)
    show_progress = report or (lambda _done, _total: None)
    left = [point for point in sweep.points if point.key not in finished]
    show_progress(len(finished), len(sweep.points))
    with _results(left, executor) as results:
        for key, row in results:
            done.append(row)
            finished[key] = row
            show_progress(len(finished), len(sweep.points))
    rows = [finished[point.key] for point in sweep.points]
    lines = (json.dumps(row, sort_keys=True) + "\n" for row in rows)
    files.write_atomic(folder / "results.jsonl", "".join(lines))
    return rows


def _open_folder(sweep: Sweep, folder: Path) -> tuple[LineFile, dict[str, dict[str, Any]]]:
    """The file of what is done, and its rows by point."""
    files.make_directory(folder)
    frozen = folder / "sweep.toml"
    if not frozen.exists():
        files.write_atomic(frozen, sweep.text)
    elif frozen.read_text() != sweep.text:
        raise SpecError(f"{folder} is the folder of another sweep", "name a new folder with --out")
    done, known = LineFile(folder / "done.jsonl"), {point.key for point in sweep.points}
    rows = {Point(row["settings"], row["seed"]).key: row for row in done.read()}
    return done, {key: row for key, row in rows.items() if key in known}


@contextlib.contextmanager
def _results(
    points: list[Point], executor: Executor | None
) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """Key and row of each point as it is completed; leaving early stops all that run."""
    from schedlab import _core

    stop = _core.SimStop()
    pool = executor or ThreadPoolExecutor(os.cpu_count())
    # The flag lives in this process: threads can be told to stop, workers elsewhere are cancelled.
    more = () if executor else (stop,)
    futures: dict[Future[dict[str, Any]], str] = {}
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
