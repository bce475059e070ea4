"""`schedlab sim`: simulates what cannot be measured here; commands by name in COMMANDS."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "cpu": ("schedlab.cli.sim.cpu:cpu", "Simulate CPU scheduling policies and draw the schedule."),
    "disk": ("schedlab.cli.sim.run:disk", "Simulate a disk with heads and its command queue."),
    "compare": ("schedlab.cli.sim.run:compare", "Compare SSD policies, with a verdict."),
    "run": ("schedlab.cli.sim.run:run", "Simulate an SSD under one or more policies."),
    "validate": ("schedlab.cli.sim.validate:validate", "Compare a disk with measured responses."),
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def sim() -> None:
    """Simulate schedulers of CPUs and of storage devices."""
