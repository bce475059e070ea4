"""`schedlab io`: the schedulers of block devices, and block I/O under them."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

# name -> module:attribute; the modules are imported when the command runs.
COMMANDS = {
    "get": "schedlab.cli.io.get:get",
    "list": "schedlab.cli.io.list:list_",
    "sweep": "schedlab.cli.io.sweep:sweep",
    "set": "schedlab.cli.io.set:set_",
}


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
def io() -> None:
    """I/O schedulers and block I/O."""
