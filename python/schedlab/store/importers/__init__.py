"""Foreign measurements become result folders of kind "import": one file per format.

`IMPORTERS` is the one list of them: the commands of `schedlab import` are made from it, and the
fuzzer and the documents are held to it. The files are imported when something is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.spec.foreign import explained

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported


Reader = Callable[..., Any]


@dataclass(frozen=True)
class Importer:
    """A format: its reader, its line in the list of commands, what its command does, and an
    example of its arguments. The command of one whose `read` needs (candidate, file) pairs and the
    user's options is made from this; one that needs more has its own in cli/import_.
    """

    name: str
    load: Callable[[], Reader]
    line: str
    what: str
    example: str = ""

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


_FILES = "none=1.{0} none=2.{0} bfq=3.{0} bfq=4.{0}"
_IMPORTERS = (
    Importer(
        "csv",
        _csv,
        "A table (CSV, .xlsx), by a mapping of its columns.",
        "Import FILE, a CSV or a workbook (.xlsx) with a header line and one figure per row.",
        "results.csv --candidate scheduler --workload test,record_bytes \\\n    --value kib_per_s"
        " --unit KiB/s --higher-is-better --block repetition --unblocked",
    ),
    Importer(
        "dmesg",
        _dmesg,
        "Kernel logs with a line per CPU burst.",
        "Import kernel logs with a line per CPU burst, one run per FILE.",
        "'1 ms=rr-1.log' '10 ms=rr-10.log'",
    ),
    Importer(
        "fio",
        _fio,
        "fio's JSON and json+ output.",
        "Import JSON output of fio, a workload per job; files of one candidate are its "
        "repetitions.",
        _FILES.format("json"),
    ),
    Importer(
        "hackbench",
        _hackbench,
        "Text of hackbench, and of perf bench.",
        "Import text of hackbench or of `perf bench sched messaging`; runs are repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "hdparm",
        _hdparm,
        "Text of hdparm -tT.",
        "Import text of `hdparm -tT`; several files of one candidate are its repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "iostat",
        _iostat,
        "JSON of iostat -o JSON, a workload per device.",
        "Import `iostat -o JSON`: means of its reports; files of a candidate are repetitions.",
        _FILES.format("json"),
    ),
    Importer(
        "iozone",
        _iozone,
        "IOzone: text, -R and BIFF2 (-b).",
        "Import outputs of IOzone; several files of one candidate are its repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "pgbench",
        _pgbench,
        "Text of pgbench, and its log (-l).",
        "Import text of pgbench, or logs of its transactions (-l); runs are repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "sched",
        _sched,
        "CPU bursts from sched_switch events.",
        "Import the CPU bursts of `perf sched script`, `trace-cmd report` or ftrace, one run "
        "per FILE.",
        "none=1.txt bfq=2.txt",
    ),
    Importer(
        "schbench",
        _schbench,
        "Text of schbench.",
        "Import text of schbench; runs are repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "sysbench",
        _sysbench,
        "Text of sysbench: cpu, fileio, oltp, memory.",
        "Import text of sysbench; runs are repetitions.",
        _FILES.format("txt"),
    ),
    Importer(
        "time",
        _time,
        "time(1) and the time of bash, zsh and POSIX.",
        "Import the output of time(1) or of a shell's `time`; files of a candidate are "
        "repetitions.",
        _FILES.format("txt"),
    ),
)
IMPORTERS: Mapping[str, Importer] = {each.name: each for each in _IMPORTERS}
