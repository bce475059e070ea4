"""`schedlab lab`: ready-made experiments, one per published study."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS = {
    "list": "schedlab.cli.lab.list:list_labs",
    "run": "schedlab.cli.lab.run:run",
}


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
def lab() -> None:
    """Run ready-made experiments that repeat published studies."""
