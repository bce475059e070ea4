"""`schedlab lab`: ready-made experiments, one per published study."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("schedlab.cli.lab.list:list_labs", "List the ready-made experiments."),
    "run": ("schedlab.cli.lab.run:run", "Run one."),
}


@click.command(cls=LazyGroup, commands_by_name=COMMANDS)
def lab() -> None:
    """Run ready-made experiments; each repeats a published study."""
