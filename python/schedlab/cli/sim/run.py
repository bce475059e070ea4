"""`schedlab sim run`: policies or schedulers × seeds on one simulated device and workload."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.sim.options import simulate, simulation_options


@click.command()
@simulation_options("ncq2014")
def run(**typed: Any) -> None:
    """Simulate a device under policies of its queue, or under the kernel's schedulers.

    One run per policy, or per scheduler, and seed. An option that would change nothing is refused.
    With --out, policies or schedulers are candidates and seeds blocks of an experiment: its result
    folder holds every run, the verdict and the report.

    \b
    schedlab sim run --policy fcfs,tsb --workload A --buffer 64MiB
    schedlab sim run --device nvme --scheduler 'none;bfq' --processes reader-writers
    """
    simulate(typed)
