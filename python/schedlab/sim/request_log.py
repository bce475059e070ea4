"""Every request of simulated runs as a table: CSV, or Arrow for large ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError, to_install
from schedlab.sim.disk import DISK_LOG_DTYPE, KINDS
from schedlab.sim.results import LOG_DTYPE
from schedlab.store.files import made

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Policy, seed and the log of a run, as `SimResult.log` has it.
LoggedRun = tuple[str, int, "NDArray[Any]"]

OPERATIONS = ("read", "write", "trim")
HOST_OPERATIONS = ("read", "write", "discard")
HOST_COLUMNS = (
    "sector", "sectors", "bios", "arrival_ns", "inserted_ns", "dispatched_ns", "completed_ns",
)  # fmt: skip
# File of processes, scheduler and seed, and what `HostSimulation.run_logged` gave.
LoggedHostRun = tuple[tuple[str, str, int], tuple[Mapping[str, Any], Any]]


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


def write_log(path: Path, runs: Iterable[LoggedRun]) -> None:
    """One row for each completed request, in the order of completion, run after run.

    Columns: policy, seed and those of the log, times in ns from the start of the run, `operation`
    in words. Arrow files are in the IPC file format, one record batch for each run.
    """
    _write(path, runs, LOG_DTYPE, {"operation": OPERATIONS})


def write_disk_log(path: Path, runs: Iterable[LoggedRun]) -> None:
    """The same of a disk, with `kind` in words."""
    _write(path, runs, DISK_LOG_DTYPE, {"operation": OPERATIONS[:2], "kind": KINDS})


def write_host_log(path: Path, runs: Iterable[LoggedHostRun]) -> None:
    """The same of processes under a scheduler, as CSV: who issued a request, and when it passed
    each stage.
    """
    with made(path).open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["scheduler", "processes", "seed", "pid", "operation", *HOST_COLUMNS])
        for (file, scheduler, seed), (run, log) in runs:
            for row in log:
                process = run["processes"][row["process"]]["name"]
                head = [scheduler, file, seed, process, HOST_OPERATIONS[row["operation"]]]
                writer.writerow([*head, *(int(row[name]) for name in HOST_COLUMNS)])


Dtype = list[tuple[str, str]]
Words = Mapping[str, tuple[str, ...]]


def _write(path: Path, runs: Iterable[LoggedRun], dtype: Dtype, words: Words) -> None:
    (_write_arrow if path.suffix == ".arrow" else _write_csv)(path, runs, dtype, words)


def _write_csv(path: Path, runs: Iterable[LoggedRun], dtype: Dtype, words: Words) -> None:
    names = [name for name, _ in dtype]
    spelled = [words.get(name) for name in names]
    with made(path).open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["policy", "seed", *names])
        for policy, seed, log in runs:
            for row in log.tolist():
                cells = [w[value] if w else value for w, value in zip(spelled, row, strict=True)]
                writer.writerow([policy, seed, *cells])


def _write_arrow(path: Path, runs: Iterable[LoggedRun], dtype: Dtype, words: Words) -> None:
    import numpy as np
    import pyarrow as pa

    text = pa.dictionary(pa.uint8(), pa.string())
    kinds = [
        (name, text if name in words else pa.from_numpy_dtype(np.dtype(kind)))
        for name, kind in dtype
    ]
    schema = pa.schema([("policy", pa.string()), ("seed", pa.uint64()), *kinds])
    with pa.OSFile(str(made(path)), "wb") as out, pa.ipc.new_file(out, schema) as writer:
        for policy, seed, log in runs:
            columns = []
            for name, _ in dtype:
                column = pa.array(np.ascontiguousarray(log[name]))
                if name in words:
                    column = pa.DictionaryArray.from_arrays(column, pa.array(words[name]))
                columns.append(column)
            constant = [
                pa.repeat(pa.scalar(value, kind), len(log))
                for value, kind in ((policy, pa.string()), (seed, pa.uint64()))
            ]
            writer.write_batch(pa.record_batch([*constant, *columns], schema=schema))
