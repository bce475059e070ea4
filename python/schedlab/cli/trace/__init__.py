"""`schedlab trace`: what the kernel really did while a command ran."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "cpu": ("schedlab.cli.trace.cpu:cpu", "CPU bursts of a command and of all it forks."),
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def trace() -> None:
    """Record what the kernel did while a command ran."""
