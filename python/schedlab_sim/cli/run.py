"""`schedlab sim run` and `compare`: policies or schedulers × seeds on simulated devices."""

from __future__ import annotations

from typing import Any

from schedlab.cli.options import command
from schedlab_sim.cli.options import simulate, simulation_options


@command()
@simulation_options()
def run(**typed: Any) -> None:
    """Simulate a device under policies of its queue, or under the kernel's schedulers.

    One run per policy, or per scheduler, and seed. An option that would change nothing is refused.
    With --out, policies or schedulers are candidates and seeds blocks of an experiment: its result
    folder holds every run, the verdict and the report.

    \b
    schedlab sim run --policy fcfs,tsb --workload A --buffer 64MiB
    schedlab sim run --device disk7200 --policy fcfs,sstf,scan,clook,sptf --depth 32
    schedlab sim run --device nvme --scheduler 'none;bfq' --processes reader-writers
    """
    simulate(typed)


@command()
@simulation_options(verdict=True)
def compare(**typed: Any) -> None:
    """Decide which policy or scheduler is better on which workload, and by how much.

    If a policy is overloaded, its pairs get no verdict on response times, because these depend on
    how long the simulation runs. A trace is one sample, without a verdict: see `schedlab sim run`.
    """
    simulate(typed, verdict=True)
