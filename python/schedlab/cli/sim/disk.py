"""`schedlab sim disk`: simulate a disk with heads under the policies of its command queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import COUNT, PATH, SEED, dry_run_option, json_option
from schedlab.cli.sim.options import device_options, log_option, show, trace_options, warn
from schedlab.cli.sim.scheduled import scheduler_options


@click.command()
@device_options("disk7200")
@click.option("--import", "imported", metavar="FILE[:NAME]",
              help="Print a DiskSim parameter file as TOML.")  # fmt: skip
@click.option("--policy", default="fcfs", show_default=True, help="One or more, comma-separated.")
@click.option("--workload", default="random4k", show_default=True, help="random4k, seqread, ….")
@trace_options
@click.option("--record", help="Size of the requests instead of the workload's own.")
@click.option("--span", default="0", help="Bytes used from the start of the disk; 0: all.")
@click.option("--depth", type=COUNT, help="Closed loop: requests always outstanding.  [default: 1]")
@click.option("--rate", type=float, help="Instead: Poisson arrivals per second; of a trace: scale.")
@click.option("--requests", type=COUNT, help="Default 10000; a trace: all.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--seed", type=SEED, default=1, help="The first seed.")
@log_option
@click.option("--out", type=PATH, help="Result folder with verdict, report.")
@dry_run_option
@json_option
@scheduler_options()
def disk(imported: str | None, policy: str, seeds: int, log: Path | None, **typed: Any) -> None:
    """Simulate a disk with heads, one run per policy and seed.

    DEVICE may be a DiskSim parameter file (.parv, .diskspecs, .model), as FILE or FILE:NAME. With
    --out, the policies are candidates and the seeds blocks of an experiment: its result folder
    holds every run, the verdict on the policies and the report.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission
    from schedlab.sim.disk import disk_device
    from schedlab.sim.experiments import disk_experiment, judged_by_rate
    from schedlab.sim.typed import disk_simulation_of, run_disk

    if imported is not None:
        click.echo(disk_device(imported)["device"], nl=False)
        return
    policies = [name.strip() for name in policy.split(",")]
    simulation = disk_simulation_of(typed)
    if typed["out"] is None and not typed["dry_run"]:
        show(run_disk(simulation, policies, seeds, log), typed["as_json"])
        return
    experiment, notes = judged_by_rate(disk_experiment(simulation, policies, seeds))
    warn(notes)
    run_and_present(experiment, Permission(), "sim-disk", typed)
