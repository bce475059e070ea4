"""`schedlab sim run`: policies × seeds on one simulated device and workload."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.options import SEED, json_option
from schedlab.cli.sim.options import (
    buffer_option,
    device_options,
    log_option,
    service_option,
    show,
    trace_options,
)
from schedlab.cli.sim.scheduled import scheduler_options


@click.command()
@device_options("ncq2014")
@click.option("--workload", default="A", help="A, B, C, D, random4k, ….")
@trace_options
@click.option("--rate", type=float, help="Of a trace: stretch its times to this rate per second.")
@click.option("--policy", "policies", default="fcfs",
              help="One or more, comma-separated: fcfs,stb:read_limit=10ms,FILE.py:Class.",
)  # fmt: skip
@buffer_option
@click.option("--alpha", type=float, default=0.9, show_default=True, help="Aging weight; 1: none.")
@click.option("--aging", default="dispatch-overtake", show_default=True,
              type=click.Choice(["dispatch-overtake", "shorter-arrival", "every-arrival"]),
              help="What ages a waiting command.")  # fmt: skip
@service_option
@click.option("--requests", type=click.IntRange(min=1), help="Default 20000; a trace: all.")
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--seed", type=SEED, default=1, help="The first seed.")
@click.option("--warm-up", default="none", help="Not reported: none, auto, N requests, or a time.")
@log_option
@json_option
@scheduler_options()
def run(as_json: bool, **typed: Any) -> None:
    """Simulate an SSD and its command queue, one run per policy and seed."""
    from schedlab.sim.typed import run_ssd

    show(run_ssd(typed), as_json)
