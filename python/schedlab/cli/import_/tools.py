"""`schedlab import fio|fio-job|iozone|hdparm|time|dmesg`: files of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cli.import_.common import imports
from schedlab.cli.options import PATH

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options

files_argument = click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")


def _tool(name: str, what: str, example: str) -> click.Command:
    """The command of an importer that needs nothing but files."""

    @click.command(name, help=f"Import {what}.\n\n\b\nschedlab import {name} {example} --out DIR")
    @files_argument
    @imports
    def command(files: tuple[str, ...], options: Options) -> Imported:
        from schedlab.store.importers import dmesg, fio, hdparm, iozone
        from schedlab.store.importers.imported import labelled

        readers = {"fio": fio.read, "iozone": iozone.read, "hdparm": hdparm.read}
        return (readers | {"dmesg": dmesg.read})[name](labelled(files), options)

    return command


_FILES = "none=1.{0} none=2.{0} bfq=3.{0} bfq=4.{0}"
fio = _tool("fio", "JSON output of fio, a workload per job; files of one candidate are its "
            "repetitions", _FILES.format("json"))  # fmt: skip
iozone = _tool("iozone", "outputs of IOzone; several files of one candidate are its repetitions",
               _FILES.format("txt"))  # fmt: skip
hdparm = _tool("hdparm", "text of `hdparm -tT`; several files of one candidate are its "
               "repetitions", _FILES.format("txt"))  # fmt: skip
dmesg = _tool("dmesg", "kernel logs with a line per CPU burst, one run per FILE",
              "'1 ms=rr-1.log' '10 ms=rr-10.log'")  # fmt: skip


@click.command()
@files_argument
@click.option("--workload", default="command", show_default=True, help="What was timed.")
@imports
def time(files: tuple[str, ...], workload: str, options: Options) -> Imported:
    """Import the output of time(1) or of a shell's `time`; files of a candidate are repetitions.

    \b
    schedlab import time none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import time as importer
    from schedlab.store.importers.imported import labelled

    return importer.read(labelled(files), workload, options)


@click.command()
@click.argument("file", type=PATH)
def fio_job(file: Path) -> None:
    """Print a fio job FILE as a job of our load engine; an unsupported option is an error."""
    from schedlab.cli.show import print_lines
    from schedlab.store.importers import fio_job as importer

    read = importer.read(file)
    print_lines([json.dumps(read.job, indent=1), *(f"note: {note}" for note in read.notes)])
