"""`schedlab io`: the schedulers of block devices, and block I/O under them."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

# name -> (module:attribute, one-line help); the modules are imported when the command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "get": ("schedlab.cli.io.get:get", "Show the scheduler of each device."),
    "list": ("schedlab.cli.io.list:list_", "Show the schedulers that each device offers."),
    "extract": ("schedlab.cli.io.extract:extract", "Time the extraction of an archive."),
    "run": ("schedlab.cli.io.run:run", "Put one load on a file or device."),
    "sweep": ("schedlab.cli.io.sweep:sweep", "Block sizes × open modes; where the knee is."),
    "timings": ("schedlab.cli.io.timings:timings", "Cached and buffered reads, as hdparm -tT."),
    "set": ("schedlab.cli.io.set:set_", "Set a scheduler on the devices that you name."),
}


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
def io() -> None:
    """I/O schedulers and block I/O."""
