"""`schedlab sim`: simulates what cannot be measured here; commands by name in COMMANDS."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS = {
    "cpu": "schedlab_sim.cli.cpu:cpu",
    "compare": "schedlab_sim.cli.run:compare",
    "run": "schedlab_sim.cli.run:run",
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def sim() -> None:
    """Simulate schedulers of CPUs and of storage devices."""
