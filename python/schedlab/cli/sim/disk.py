"""`schedlab sim disk`: `schedlab sim run` of a disk with heads."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.sim.options import simulate, simulation_options


@click.command()
@simulation_options("disk7200")
def disk(**typed: Any) -> None:
    """Simulate a disk with heads: `schedlab sim run` with another default device.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    simulate(typed)
