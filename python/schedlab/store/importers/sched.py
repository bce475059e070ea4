"""CPU bursts from sched_switch events.

`perf sched script`, `trace-cmd report` and ftrace print those of any kernel. They are read by
crates/formats/src/bursts.rs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns.foreign import explained
from schedlab.nouns.quantities import counted
from schedlab.store.importers.dmesg import Files, LoggedBurst, imported_bursts, reading_of
from schedlab.store.importers.imported import Imported, Options

HINT = "perf sched record, then perf sched script > FILE; or trace-cmd report > FILE"


def read(files: Files, options: Options) -> Imported:
    """The import of (candidate, file) pairs, one run each; SpecError naming file and line."""
    readings = []
    for candidate, path in files:
        rows, names = events(path)
        lines = [LoggedBurst(end_ns, pid, burst_ns) for end_ns, burst_ns, pid, *_ in rows]
        readings.append(reading_of(candidate, path, lines, names))
    return imported_bursts(readings, options, [], "sched", files)


def events(path: Path, hint: str = HINT) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """(bursts as the compiled part has them, name of each thread); SpecError with `hint`, and where
    the kernel lost events.
    """
    from schedlab._core import sched_bursts

    try:
        rows, names, lost = sched_bursts(str(path))
    except ValueError as error:
        raise explained(SpecError(str(error), hint), [path], "sched") from None
    if lost:
        hint = "record again with a larger buffer (perf record -m, trace-cmd record -b)"
        raise SpecError(f"{path}: the kernel lost {counted(lost, 'event')} of it", hint)
    return rows, names
