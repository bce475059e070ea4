"""`schedlab sim compare`: policies or schedulers against each other: seeds are blocks."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.sim.options import simulate, simulation_options


@click.command()
@simulation_options("ncq2014", verdict=True)
def compare(**typed: Any) -> None:
    """Decide which policy or scheduler is better on which workload, and by how much.

    If a policy is overloaded, its pairs get no verdict on response times, because these depend on
    how long the simulation runs. A trace is one sample, without a verdict: see `schedlab sim run`.
    """
    simulate(typed, verdict=True)
