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
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from schedlab.errors import Interrupted, SpecError
from schedlab.sim.sweep import Point, Sweep, run_point

Report = Callable[[int, int], None]


def run_sweep(
    sweep: Sweep, folder: Path, report: Report | None = None, executor: Executor | None = None
) -> list[dict[str, Any]]:
    """Run what is left of a sweep and give all rows (`settings`, `seed`, `metrics`) in order.

    `report` is told how many points are done and how many there are. `executor` defaults to one
    thread per core. SpecError when the folder holds another sweep; Interrupted on Ctrl-C, and
    what is done stays.
    """
    done = _open_folder(sweep, folder)
    tell = report or (lambda _done, _total: None)
    left = [point for point in sweep.points if point.key not in done]
    tell(len(done), len(sweep.points))
    with (folder / "done.jsonl").open("a") as out, _results(left, executor) as results:
        for key, line in results:
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())
            done[key] = line
            tell(len(done), len(sweep.points))
    lines = [done[point.key] for point in sweep.points]
    partial = folder / "results.jsonl.partial"
    partial.write_text("".join(line + "\n" for line in lines))
    partial.replace(folder / "results.jsonl")
    return [json.loads(line) for line in lines]


def _open_folder(sweep: Sweep, folder: Path) -> dict[str, str]:
    """Lines that are done, by point; a line that a crash cut short is dropped."""
    folder.mkdir(parents=True, exist_ok=True)
    frozen = folder / "sweep.toml"
    if frozen.exists() and frozen.read_text() != sweep.text:
        raise SpecError(f"{folder} holds another sweep", "give a new folder with --out")
    frozen.write_text(sweep.text)
    path = folder / "done.jsonl"
    if not path.exists():
        return {}
    done: dict[str, str] = {}
    for line in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            row = json.loads(line)
            done[Point(row["settings"], row["seed"]).key] = line
    path.write_text("".join(line + "\n" for line in done.values()))
    return done


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
        yield ((futures[future], future.result()) for future in as_completed(futures))
    except (KeyboardInterrupt, CancelledError):
        raise Interrupted("the sweep was interrupted; what is done is kept") from None
    finally:
        stop.set()
        for future in futures:
            future.cancel()
        if executor is None:
            pool.shutdown()
