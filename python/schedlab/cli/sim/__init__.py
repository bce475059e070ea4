"""`schedlab sim`: simulates what cannot be measured here; commands by name in COMMANDS."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS = {
    "cpu": "schedlab.cli.sim.cpu:cpu",
    "compare": "schedlab.cli.sim.run:compare",
    "run": "schedlab.cli.sim.run:run",
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def sim() -> None:
    """Simulate schedulers of CPUs and of storage devices."""
