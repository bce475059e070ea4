"""`schedlab cpu N TIME …` runs worker processes; `schedlab cpu COMMAND` does more with them."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS = {
    "run": "schedlab.cli.cpu.run:run",
    "compare": "schedlab.cli.cpu.compare:compare",
    "cost": "schedlab.cli.cpu.cost:cost",
    "sweep": "schedlab.cli.cpu.sweep:sweep",
}


class NumberOrCommand(LazyGroup):
    """A group in which a first argument that is a number (or an option) means `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the omitted `run`."""
        first = args[0] if args else "--help"
        is_option = first.startswith("-") and first not in ("-h", "--help")
        if is_option or first.isdigit():
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=NumberOrCommand, commands_by_name=COMMANDS)
def cpu() -> None:
    """Compare CPU policies and quanta, or run worker processes under one.

    `schedlab cpu 2 30s --policy rr --slice 10` runs two workers; see `schedlab cpu run --help`.
    """
