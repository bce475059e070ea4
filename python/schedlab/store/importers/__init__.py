"""Foreign measurements become result folders of kind "import": one file per format.

`IMPORTERS` is the one list of them: `schedlab import` reads these, and the fuzzer and the documents
are held to it. The files are imported when something is read.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.spec.foreign import COMMAND, explained, reader_of

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported


@dataclass(frozen=True)
class Importer:
    """A format: its reader, `FILE:FUNCTION` of this room, and its line in the help."""

    name: str
    reader: str
    line: str

    def read(self, files: Any, *more: Any, **options: Any) -> Imported:
        """The import of (candidate, file) pairs, or of a table; SpecError, which names the reader
        that the files need where it is another one.
        """
        read: Callable[..., Imported] = pkgutil.resolve_name(f"{__name__}.{self.reader}")
        try:
            return read(files, *more, **options)
        except SpecError as error:
            # A table may be of anything.
            paths = [] if isinstance(files, Path) else [path for _, path in files]
            raise explained(error, paths, self.name) from error


_IMPORTERS = (
    Importer("csv", "csv:read", "A table (CSV, .xlsx), by a mapping of its columns."),
    Importer("dmesg", "dmesg:read", "Kernel logs with a line per CPU burst."),
    Importer("fio", "fio:read", "fio's JSON and json+ output."),
    Importer("hackbench", "benchmarks:hackbench", "Text of hackbench, and of perf bench."),
    Importer("hdparm", "hdparm:read", "Text of hdparm -tT."),
    Importer("iostat", "iostat:read", "JSON of iostat -o JSON, a workload per device."),
    Importer("iozone", "iozone:read", "IOzone: text, -R and BIFF2 (-b)."),
    Importer("pgbench", "benchmarks:pgbench", "Text of pgbench, and its log (-l)."),
    Importer("sched", "sched:read", "CPU bursts from sched_switch events."),
    Importer("schbench", "benchmarks:schbench", "Text of schbench."),
    Importer("sysbench", "benchmarks:sysbench", "Text of sysbench: cpu, fileio, oltp, memory."),
    Importer("time", "time:read", "time(1) and the time of bash, zsh and POSIX."),
)
IMPORTERS: Mapping[str, Importer] = {each.name: each for each in _IMPORTERS}


def format_of(files: Sequence[Path]) -> str:
    """The importer of the first file, by its contents, or its name where it is a table; SpecError
    for one that none reads, or that could be of several.
    """
    file = files[0]
    if file.suffix.lower() in (".csv", ".tsv", ".xlsx"):
        return "csv"
    unknown = SpecError(
        f"{file}: its contents do not show which program wrote it",
        f"name it: schedlab import FORMAT {file} --out DIR; FORMAT: {', '.join(IMPORTERS)}; "
        f"of another program: {COMMAND}",
    )
    if (name := reader_of(file, unknown.hint)) in IMPORTERS:
        return name
    raise explained(unknown, [file])
