"""`schedlab sim run`: policies × seeds on one simulated device and workload."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from schedlab.cli.sim.options import device_options, json_option, trace_options, warn
from schedlab.cli.sim.scheduled import scheduler_options


@click.command()
@device_options("ncq2014")
@click.option("--workload", default="A", help="A, B, C, D, random4k, ….")
@trace_options
@click.option("--rate", type=float, help="Of a trace: stretch its times to this rate per second.")
@click.option(
    "--policy", "policies", default="fcfs",
    help="One or more, comma-separated; FILE.py:Class runs the policy in that file.",
)  # fmt: skip
@click.option("--buffer", help="Size of the page buffer, such as 64MiB.")
@click.option("--alpha", type=float, default=0.9, show_default=True, help="Aging weight; 1: none.")
@click.option(
    "--aging",
    type=click.Choice(["dispatch-overtake", "shorter-arrival", "every-arrival"]),
    default="dispatch-overtake",
    show_default=True,
    help="What ages a waiting command.",
)
@click.option("--service", type=click.Choice(["serial", "parallel"]), default="serial")
@click.option("--requests", type=click.IntRange(min=1), help="Default 20000; a trace: all.")
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--warm-up", default="none", help="Not reported: none, auto, N requests, or a time.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="Every request to FILE.csv or FILE.arrow."
)
@json_option
@scheduler_options()
def run(
    workload: str,
    trace: str | None,
    policies: str,
    buffer: str | None,
    seeds: int,
    seed: int,
    changes: tuple[str, ...],
    warm_up: str,
    log: Path | None,
    as_json: bool,
    **typed: Any,
) -> None:
    """Simulate an SSD and its command queue, one run per policy and seed."""
    from schedlab.sim import Simulation, judge, tables
    from schedlab.sim.policy_file import split_policies
    from schedlab.sim.replay import replay_of, replay_warnings
    from schedlab.sim.request_log import check_log_name, write_log
    from schedlab.sim.settings import device_changes

    if log is not None:
        check_log_name(log)
    names = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines", "rate")
    replaying = {name: typed.pop(name) for name in names}
    replay = replay_of(trace, **replaying) if trace else None
    policy_set = {name: typed.pop(name) for name in ("alpha", "aging")}
    first = Simulation(
        workload=replay.path if replay else workload,
        workload_set=replay.settings() if replay else {},
        log=log is not None,
        device_set=device_changes(changes, buffer),
        policy_set=policy_set,
        **typed,
    )
    # A trace is the same whatever the seed.
    numbers = range(seed, seed + (1 if trace else seeds))
    simulations = [
        dataclasses.replace(first, policy=policy, seed=number)
        for policy in split_policies(policies)
        for number in numbers
    ]
    results = judge.run_warm(simulations, warm_up)
    if log is not None:
        runs = zip(simulations, results, strict=True)
        write_log(log, ((run.policy, run.seed, result.log) for run, result in runs))
    if as_json:
        click.echo(json.dumps(tables.ssd_document(simulations, results, trace or workload)))
    else:
        click.echo("\n".join(tables.ssd_table(simulations, results)))
        click.echo(f"mean over {len(numbers)} seed(s); ratio: to the first policy", err=True)
    warn(replay_warnings(results[0].report.get("trace")))
    for one, result in zip(simulations, results, strict=True):
        warn(judge.warnings_of(f"{one.policy}, seed {one.seed},", result.report))
