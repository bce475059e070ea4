"""`schedlab sim compare`: policies against each other, with a verdict: seeds are blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.sim.options import device_options, json_option, trace_options, warn
from schedlab.cli.sim.scheduled import scheduler_options


@click.command()
@device_options("ncq2014")
@click.option("--workloads", default="A,B,C,D", show_default=True, help="Names, comma-separated.")
@trace_options
@click.option(
    "--policies",
    default="fcfs,s,ts,tsb",
    show_default=True,
    help="The first is the baseline; parameters follow a colon: tsb:alpha=0.95.",
)
@click.option("--buffer", help="Size of the page buffer, such as 64MiB.")
@click.option("--service", type=click.Choice(["serial", "parallel"]), default="serial")
@click.option("--requests", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--seeds", type=click.IntRange(2, 1000), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--warm-up", default="none", help="Not reported: none, N requests, or a time.")
@click.option("--metric", default="mean_read_ms", show_default=True, help="The primary metric.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.")
@json_option
@scheduler_options(verdict=True)
def compare(
    out: Path | None,
    as_json: bool,
    workloads: str,
    trace: str | None,
    changes: tuple[str, ...],
    buffer: str | None,
    **typed: Any,
) -> None:
    """Decide which policy of the command queue is better on which workload, and by how much.

    A pair of which one is overloaded gets no verdict on response times: they depend on how long
    the simulation runs.
    """
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission
    from schedlab.sim.experiments import judged_by_rate, ssd_experiment
    from schedlab.sim.replay import replay_of
    from schedlab.sim.settings import device_changes

    names = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines")
    replaying = {name: typed.pop(name) for name in names}
    experiment = ssd_experiment(
        workloads=workloads.split(","),
        trace=replay_of(trace, **replaying) if trace else None,
        device_set=device_changes(changes, buffer),
        **typed,
    )
    experiment, notes = judged_by_rate(experiment)
    warn(notes)
    how: Any = {"out": out, "name": "sim", "dry_run": False, "as_json": as_json}
    run_and_present(experiment, Permission(), **how)
