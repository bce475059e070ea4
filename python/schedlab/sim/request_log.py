"""Every request of simulated runs as a table: CSV, or Arrow for large ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.results import LOG_DTYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Policy, seed and the log of a run, as `SimResult.log` has it.
LoggedRun = tuple[str, int, "NDArray[Any]"]

NAMES = ("policy", "seed", *(name for name, _ in LOG_DTYPE))
OPERATIONS = ("read", "write", "trim")


def check_log_name(path: Path) -> None:
    """SpecError, before anything is simulated, when `path` cannot be written as a log."""
    if path.suffix not in {".csv", ".arrow"}:
        raise SpecError(f"--log {path}: expected a name that ends in .csv or .arrow", "rename it")
    if path.suffix == ".arrow":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            hint = "install the extra: pip install 'schedlab[arrow]', or write .csv"
            raise SpecError(f"--log {path}: needs the package pyarrow", hint) from None


def write_log(path: Path, runs: Iterable[LoggedRun]) -> None:
    """One row for each completed request, in the order of completion, run after run.

    Columns: `NAMES`, times in ns from the start of the run, `operation` in words. Arrow files are
    in the IPC file format, one record batch for each run.
    """
    (_write_arrow if path.suffix == ".arrow" else _write_csv)(path, runs)


def _write_csv(path: Path, runs: Iterable[LoggedRun]) -> None:
    with path.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(NAMES)
        for policy, seed, log in runs:
            for *numbers, operation in log.tolist():
                writer.writerow([policy, seed, *numbers, OPERATIONS[operation]])


def _write_arrow(path: Path, runs: Iterable[LoggedRun]) -> None:
    import numpy as np
    import pyarrow as pa

    words = pa.dictionary(pa.uint8(), pa.string())
    numbers = [(name, pa.from_numpy_dtype(np.dtype(kind))) for name, kind in LOG_DTYPE[:-1]]
    schema = pa.schema(
        [("policy", pa.string()), ("seed", pa.uint64()), *numbers, ("operation", words)]
    )
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, schema) as writer:
        for policy, seed, log in runs:
            columns = [pa.array(np.ascontiguousarray(log[name])) for name, _ in numbers]
            operations = pa.DictionaryArray.from_arrays(
                pa.array(np.ascontiguousarray(log["operation"])), pa.array(OPERATIONS)
            )
            constant = [
                pa.repeat(pa.scalar(value, kind), len(log))
                for value, kind in ((policy, pa.string()), (seed, pa.uint64()))
            ]
            writer.write_batch(pa.record_batch([*constant, *columns, operations], schema=schema))
