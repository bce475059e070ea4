"""Foreign measurements become result folders of kind "import": one file per format.

`IMPORTERS` is the one list of them: `schedlab import` reads these, and the fuzzer and the documents
are held to it. The files are imported when something is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.spec.foreign import COMMAND, explained, reader_of

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported


Reader = Callable[..., Any]


@dataclass(frozen=True)
class Importer:
    """A format: its reader, and its line in the help of `schedlab import`."""

    name: str
    load: Callable[[], Reader]
    line: str

    def read(self, files: Any, *more: Any, **options: Any) -> Imported:
        """The import of (candidate, file) pairs, or of a table; SpecError, which names the reader
        that the files need where it is another one.
        """
        try:
            imported: Imported = self.load()(files, *more, **options)
        except SpecError as error:
            # A table may be of anything.
            paths = [] if isinstance(files, Path) else [path for _, path in files]
            raise explained(error, paths, self.name) from error
        return imported


def _csv() -> Reader:
    from schedlab.store.importers.csv import read

    return read


def _dmesg() -> Reader:
    from schedlab.store.importers.dmesg import read

    return read


def _fio() -> Reader:
    from schedlab.store.importers.fio import read

    return read


def _hackbench() -> Reader:
    from schedlab.store.importers.benchmarks import hackbench

    return hackbench


def _hdparm() -> Reader:
    from schedlab.store.importers.hdparm import read

    return read


def _iostat() -> Reader:
    from schedlab.store.importers.iostat import read

    return read


def _iozone() -> Reader:
    from schedlab.store.importers.iozone import read

    return read


def _pgbench() -> Reader:
    from schedlab.store.importers.benchmarks import pgbench

    return pgbench


def _sched() -> Reader:
    from schedlab.store.importers.sched import read

    return read


def _schbench() -> Reader:
    from schedlab.store.importers.benchmarks import schbench

    return schbench


def _sysbench() -> Reader:
    from schedlab.store.importers.benchmarks import sysbench

    return sysbench


def _time() -> Reader:
    from schedlab.store.importers.time import read

    return read


_IMPORTERS = (
    Importer("csv", _csv, "A table (CSV, .xlsx), by a mapping of its columns."),
    Importer("dmesg", _dmesg, "Kernel logs with a line per CPU burst."),
    Importer("fio", _fio, "fio's JSON and json+ output."),
    Importer("hackbench", _hackbench, "Text of hackbench, and of perf bench."),
    Importer("hdparm", _hdparm, "Text of hdparm -tT."),
    Importer("iostat", _iostat, "JSON of iostat -o JSON, a workload per device."),
    Importer("iozone", _iozone, "IOzone: text, -R and BIFF2 (-b)."),
    Importer("pgbench", _pgbench, "Text of pgbench, and its log (-l)."),
    Importer("sched", _sched, "CPU bursts from sched_switch events."),
    Importer("schbench", _schbench, "Text of schbench."),
    Importer("sysbench", _sysbench, "Text of sysbench: cpu, fileio, oltp, memory."),
    Importer("time", _time, "time(1) and the time of bash, zsh and POSIX."),
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
