"""`schedlab import`: existing measurements become a result folder."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "dmesg": ("schedlab.cli.import_.tools:dmesg", "Kernel logs with a line per CPU burst."),
    "csv": ("schedlab.cli.import_.csv:csv", "A long-format CSV, by a mapping of its columns."),
    "fio": ("schedlab.cli.import_.tools:fio", "fio's JSON and json+ output."),
    "fio-job": ("schedlab.cli.import_.tools:fio_job", "A fio job file, as our engine's job."),
    "hdparm": ("schedlab.cli.import_.tools:hdparm", "Text of hdparm -tT."),
    "iozone": ("schedlab.cli.import_.tools:iozone", "IOzone: text, -R and BIFF2 (-b)."),
    "time": ("schedlab.cli.import_.tools:time", "time(1) and the time of bash, zsh and POSIX."),
}


@click.group(name="import", cls=LazyGroup, commands_by_name=COMMANDS)
def import_() -> None:
    """Import existing measurements, for `schedlab analyse`."""
