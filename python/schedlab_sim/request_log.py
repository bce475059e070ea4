"""Every request of simulated runs as a table: CSV, or Arrow for large ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError, to_install
from schedlab.store.files import made
from schedlab_sim.results import KINDS, NOT_MEASURED

if TYPE_CHECKING:
    from schedlab_sim.results import SimResult
    from schedlab_sim.simulation_set import SimulationCell

OPERATIONS = ("read", "write", "trim")


def check_log_name(path: Path) -> None:
    """SpecError, before anything is simulated, when `path` cannot be written as a log."""
    if path.suffix not in {".csv", ".arrow"}:
        raise SpecError(f"--log {path}: expected a name that ends in .csv or .arrow", "rename it")
    if path.suffix == ".arrow":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            hint = f"write .csv, or {to_install('pyarrow')}"
            raise SpecError(f"--log {path}: needs the package pyarrow", hint) from None


def write_log(path: Path, runs: Iterable[tuple[SimulationCell, SimResult]]) -> None:
    """One row for each completed request, in the order of completion, run after run.

    Columns: candidate, under a scheduler the source, seed, and those of the log, times in ns from
    the start of the run; `operation`, the `kind` of a disk's and the `process` are words, and a
    response time that no trace states is blank. Arrow files are in the IPC file format, one record
    batch for each run.
    """
    (_write_arrow if path.suffix == ".arrow" else _write_csv)(path, map(_table, runs))


# The cells that are the same in all rows of a run, and its columns, of which some are places in
# lists of words.
Table = tuple[dict[str, object], dict[str, tuple[Any, Sequence[str] | None]]]


def _table(run: tuple[SimulationCell, SimResult]) -> Table:
    cell, result = run
    words: dict[str, Sequence[str]] = {"operation": OPERATIONS, "kind": KINDS}
    constant: dict[str, object] = {"policy": cell.candidate.label}
    if cell.simulation.scheduler is not None:
        constant = {"scheduler": cell.candidate.label, "processes": cell.source}
        words["process"] = [each["name"] for each in result["processes"]]
    constant["seed"] = cell.simulation.seed
    log = result.log
    return constant, {name: (log[name], words.get(name)) for name in log.dtype.names or ()}


def _write_csv(path: Path, tables: Iterable[Table]) -> None:
    with made(path).open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        for number, (constant, columns) in enumerate(tables):
            if number == 0:
                writer.writerow([*constant, *columns])
            cells = [
                [words[value] for value in values]
                if words
                else ["" if value == NOT_MEASURED else value for value in values.tolist()]
                for values, words in columns.values()
            ]
            writer.writerows([*constant.values(), *row] for row in zip(*cells, strict=True))


def _write_arrow(path: Path, tables: Iterable[Table]) -> None:
    import numpy as np
    import pyarrow as pa

    writer = None
    with pa.OSFile(str(made(path)), "wb") as out:
        for constant, columns in tables:
            rows = len(next(iter(columns.values()))[0])
            arrays = {
                name: pa.repeat(pa.scalar(value, pa.uint64() if name == "seed" else None), rows)
                for name, value in constant.items()
            }
            for name, (values, words) in columns.items():
                arrays[name] = pa.array(np.ascontiguousarray(values), mask=values == NOT_MEASURED)
                if words:
                    arrays[name] = pa.DictionaryArray.from_arrays(arrays[name], pa.array(words))
                if name == "process":  # a file has one dictionary for all runs of a column
                    arrays[name] = arrays[name].dictionary_decode()
            batch = pa.record_batch(arrays)
            writer = writer or pa.ipc.new_file(out, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
