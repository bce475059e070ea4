"""Foreign measurements become result folders of kind "import": one file per format.

`IMPORTERS` is the one list of them: the commands of `schedlab import` are made from it, and the
fuzzer and the documents are held to it. The files are imported when something is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.store.importers.csv import Columns
    from schedlab.store.importers.imported import Imported, Options

Files = Sequence[tuple[str, Path]]


@dataclass(frozen=True)
class Importer:
    """A format: how it is read, its line in the list of commands, what its command does, and an
    example of its arguments. The command of one whose `read` needs (candidate, file) pairs and the
    user's options is made from this; one that needs more has its own in cli/import_.
    """

    read: Callable[..., Any]
    line: str
    what: str
    example: str = ""


def _csv(path: Path, columns: Columns, options: Options) -> Imported:
    from schedlab.store.importers.csv import read

    return read(path, columns, options)


def _dmesg(files: Files, options: Options) -> Imported:
    from schedlab.store.importers.dmesg import read

    return read(files, options)


def _fio(files: Files, options: Options) -> Imported:
    from schedlab.store.importers.fio import read

    return read(files, options)


def _hdparm(files: Files, options: Options) -> Imported:
    from schedlab.store.importers.hdparm import read

    return read(files, options)


def _iozone(files: Files, options: Options) -> Imported:
    from schedlab.store.importers.iozone import read

    return read(files, options)


def _time(files: Files, workload: str, options: Options) -> Imported:
    from schedlab.store.importers.time import read

    return read(files, workload, options)


_FILES = "none=1.{0} none=2.{0} bfq=3.{0} bfq=4.{0}"
IMPORTERS: Mapping[str, Importer] = {
    "csv": Importer(
        _csv,
        "A table (CSV, .xlsx), by a mapping of its columns.",
        "Import FILE, a CSV or a workbook (.xlsx) with a header line and one figure per row.",
        "results.csv --candidate scheduler --workload test,record_bytes \\\n    --value kib_per_s"
        " --unit KiB/s --higher-is-better --block repetition --unblocked",
    ),
    "dmesg": Importer(
        _dmesg,
        "Kernel logs with a line per CPU burst.",
        "Import kernel logs with a line per CPU burst, one run per FILE.",
        "'1 ms=rr-1.log' '10 ms=rr-10.log'",
    ),
    "fio": Importer(
        _fio,
        "fio's JSON and json+ output.",
        "Import JSON output of fio, a workload per job; files of one candidate are its "
        "repetitions.",
        _FILES.format("json"),
    ),
    "hdparm": Importer(
        _hdparm,
        "Text of hdparm -tT.",
        "Import text of `hdparm -tT`; several files of one candidate are its repetitions.",
        _FILES.format("txt"),
    ),
    "iozone": Importer(
        _iozone,
        "IOzone: text, -R and BIFF2 (-b).",
        "Import outputs of IOzone; several files of one candidate are its repetitions.",
        _FILES.format("txt"),
    ),
    "time": Importer(
        _time,
        "time(1) and the time of bash, zsh and POSIX.",
        "Import the output of time(1) or of a shell's `time`; files of a candidate are "
        "repetitions.",
        _FILES.format("txt"),
    ),
}
