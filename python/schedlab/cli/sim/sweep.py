"""`schedlab sim sweep`: parameters × policies × seeds over all cores, or over a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from schedlab.spec.quantities import duration_text


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder; default: FILE without .toml.")
@click.option("--dask", metavar="tcp://HOST:PORT|local:N", help="Run on a Dask cluster.")
@click.option("--json", "as_json", is_flag=True, help="All rows as one JSON document on stdout.")
def sweep(file: Path, out: Path | None, dask: str | None, as_json: bool) -> None:
    """Simulate every combination of FILE; call it again to resume an interrupted sweep."""
    from schedlab.app.compare.sweep_result import ending, write_result
    from schedlab.sim.pool import dask_executor
    from schedlab.sim.sweep import read_sweep
    from schedlab.sim.sweep_run import run_sweep

    plan = read_sweep(file)
    folder = out or file.with_suffix("")
    where = dask_executor(dask) if dask else contextlib.nullcontext(None)
    with where as executor, progress() as update:
        rows = run_sweep(plan, folder, update, executor)
    result = write_result(rows, folder, plan.title or f"Sweep of {file.name}")
    document = {"schema": 1, "folder": str(folder), "result": result and str(result), "rows": rows}
    click.echo(json.dumps(document) if as_json else "\n".join(ending(rows, folder, result)))


@contextlib.contextmanager
def progress(
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[int, int], None]]:
    """Points done, and the time left, on stderr: in place on a terminal, else every tenth."""
    from schedlab.cli.show import live_line

    began = clock()
    first = tenths = -1

    def update(count: int, total: int) -> None:
        nonlocal first, tenths
        text = f"{count}/{total} points"
        if first < 0:
            first = count
        elif count > first:  # before the first point the time left is unknown
            left_s = (clock() - began) / (count - first) * (total - count)
            text += f", {duration_text(left_s)} left"
        reached = count * 10 // max(total, 1)
        line.show(text, is_due=reached > tenths)
        tenths = max(tenths, reached)

    with live_line() as line:
        yield update
