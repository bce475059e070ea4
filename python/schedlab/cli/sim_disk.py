"""`schedlab sim disk`: simulate a disk with heads under the policies of its command queue."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.sim.options import device_options, json_option, trace_options, warn
from schedlab.cli.sim.scheduled import scheduler_options
from schedlab.errors import SpecError
from schedlab.spec import SCHEMA_VERSION

if TYPE_CHECKING:
    from schedlab.sim.disk import DiskSimulation


@click.command()
@device_options("disk7200")
@click.option("--import", "imported", metavar="FILE[:NAME]",
              help="Print a DiskSim parameter file as TOML.")  # fmt: skip
@click.option("--policy", default="fcfs", show_default=True, help="One or several, with commas.")
@click.option("--workload", default="random4k", show_default=True, help="random4k, seqread, ….")
@trace_options
@click.option("--record", help="Size of the requests instead of the workload's own.")
@click.option("--span", default="0", help="Bytes used from the start of the disk; 0: all.")
@click.option("--depth", type=int, help="Closed loop: so many always outstanding.  [default: 1]")
@click.option("--rate", type=float, help="Instead: Poisson arrivals per second; of a trace: scale.")
@click.option("--requests", type=int, help="Default 10000; a trace: all.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--log", type=click.Path(path_type=Path), help="Every request to FILE.csv or .arrow.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder with verdict, report.")
@json_option
@scheduler_options()
def disk(
    imported: str | None,
    policy: str,
    seeds: int,
    log: Path | None,
    out: Path | None,
    as_json: bool,
    **typed: Any,
) -> None:
    """Simulate a disk with heads, one run per policy and seed.

    DEVICE may be a DiskSim parameter file (.parv, .diskspecs, .model), as FILE or FILE:NAME. With
    --out, the policies are candidates and the seeds blocks of an experiment: its result folder
    holds every run, the verdict on the policies and the report.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    from schedlab.sim.disk import disk_device

    if imported is not None:
        click.echo(disk_device(imported)["device"], nl=False)
        return
    policies = [name.strip() for name in policy.split(",")]
    # A trace is the same whatever the seed.
    seeds = 1 if typed["trace"] and out is None else seeds
    simulation = _simulation(**typed)
    if out is not None:
        from schedlab.cli.show import run_and_present
        from schedlab.run.admitted import Permission
        from schedlab.sim.experiments import disk_experiment, judged_by_rate

        experiment, notes = judged_by_rate(disk_experiment(simulation, policies, seeds))
        warn(notes)
        how: Any = {"out": out, "name": "sim-disk", "dry_run": False, "as_json": as_json}
        run_and_present(experiment, Permission(), **how)
        return
    _simulate(simulation, policies, seeds, log, as_json)


def _simulation(
    trace: str | None, changes: tuple[str, ...], workload: str, **typed: Any
) -> DiskSimulation:
    from schedlab.sim.disk import DiskSimulation
    from schedlab.sim.replay import replay_of
    from schedlab.sim.settings import device_changes

    names = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines")
    replaying = {name: typed.pop(name) for name in names}
    device_set = device_changes(changes)
    if trace is None:
        return DiskSimulation(workload=workload, device_set=device_set, **typed)
    replay = replay_of(trace, rate=typed.pop("rate"), **replaying)
    if typed["seed"] != 1:
        raise SpecError("a trace has no seeds", "omit --seed")
    return DiskSimulation.of_trace(replay, device_set=device_set, **typed)


def _simulate(
    first: DiskSimulation, policies: list[str], seeds: int, log: Path | None, as_json: bool
) -> None:
    """All runs in threads, and their figures."""
    from schedlab.sim import judge, tables
    from schedlab.sim.pool import map_threads
    from schedlab.sim.replay import replay_warnings
    from schedlab.sim.request_log import check_log_name, write_disk_log

    if log is not None:
        check_log_name(log)
    simulations = [
        dataclasses.replace(first, policy=name, seed=number)
        for name in policies
        for number in range(first.seed, first.seed + seeds)
    ]
    logged = map_threads(lambda one, stop: one.run_logged(stop, log=log is not None), simulations)
    runs = [figures for figures, _ in logged]
    if log is not None:
        rows = zip(simulations, logged, strict=True)
        write_disk_log(log, [(one.policy, one.seed, table) for one, (_, table) in rows])
    if as_json:
        head = {"schema": SCHEMA_VERSION, "device": first.device, "workload": str(first.workload)}
        if isinstance(first.workload, str):
            head["arrivals"] = first.arrivals()
        click.echo(json.dumps({**head, "set": dict(first.device_set), "runs": runs}))
    else:
        click.echo("\n".join(tables.disk_table(runs, seeds)))
        click.echo(f"mean over {seeds} seed(s); ratio: IOPS to the first policy's", err=True)
    warn(replay_warnings(runs[0].get("trace")))
    for one, figures in zip(simulations, runs, strict=True):
        warn(judge.warnings_of(f"{one.policy}, seed {one.seed},", figures))
