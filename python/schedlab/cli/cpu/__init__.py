"""`schedlab cpu N TIME …` runs worker processes; `schedlab cpu COMMAND` does more with them."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("schedlab.cli.cpu.run:run", "N TIME: run N workers for TIME (you may omit `run`)."),
    "compare": ("schedlab.cli.cpu.compare:compare", "Compare CPU policies for a workload."),
    "cost": ("schedlab.cli.cpu.cost:cost", "Measure what a context switch costs."),
    "sweep": ("schedlab.cli.cpu.sweep:sweep", "Compare quanta, as one experiment."),
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
    """Count calculations of N processes under a CPU scheduler, for TIME.

    `schedlab cpu 2 30s --policy rr --slice 10` runs two workers; see `schedlab cpu run --help`.
    """
