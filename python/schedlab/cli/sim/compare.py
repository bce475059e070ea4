"""`schedlab sim compare`: policies against each other, with a verdict: seeds are blocks."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.options import SEED, dry_run_option, json_option, out_option
from schedlab.cli.sim.options import (
    buffer_option,
    device_options,
    service_option,
    trace_options,
    warn,
)
from schedlab.cli.sim.scheduled import scheduler_options


@click.command()
@device_options("ncq2014")
@click.option("--workloads", default="A,B,C,D", show_default=True, help="Names, comma-separated.")
@trace_options
@click.option("--policies", default="fcfs,s,ts,tsb", show_default=True,
              help="Baseline first; parameters after a colon: stb:read_limit=10ms,write_limit=1s.",
)  # fmt: skip
@buffer_option
@service_option
@click.option("--requests", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--seeds", type=click.IntRange(2, 1000), default=8, show_default=True)
@click.option("--seed", type=SEED, default=1, show_default=True)
@click.option("--warm-up", default="none", help="Not reported: none, N requests, or a time.")
@click.option("--metric", default="mean_read_ms", show_default=True, help="The primary metric.")
@out_option
@dry_run_option
@json_option
@scheduler_options(verdict=True)
def compare(**typed: Any) -> None:
    """Decide which policy of the command queue is better on which workload, and by how much.

    If a policy is overloaded, its pairs get no verdict on response times, because these depend on
    how long the simulation runs.
    """
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission
    from schedlab.sim.experiments import judged_by_rate
    from schedlab.sim.typed import ssd_experiment_of

    experiment, notes = judged_by_rate(ssd_experiment_of(typed))
    warn(notes)
    run_and_present(experiment, Permission(), "sim", typed)
