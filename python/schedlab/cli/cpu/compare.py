"""`schedlab cpu compare`: which CPU policy, for this work beside that load?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.command_options import started_options, work_of
from schedlab.cli.compare import design_options
from schedlab.cli.options import PATH, dry_run_option, json_option, out_option, seed_option
from schedlab.cli.types import Duration, Words


@click.command()
@click.option(
    "--policies",
    default="other,batch,fifo",
    show_default=True,
    help="Candidates: other,rr:10ms,other:slice=3ms,nice=5,other:weight=50 …",
)
@click.option(
    "--apply-to",
    type=click.Choice(["work", "load", "all"]),
    default="work",
    show_default=True,
    help="Who gets the policy; the others stay at `other`.",
)
@click.option(
    "--workloads",
    type=Words(),
    help="wakeup, mixed, messaging, pipe, fork-storm, groups (default: wakeup).",
)
@click.option(
    "--load",
    type=click.IntRange(0, 1000),
    help="Hogs beside the work (default: twice as many as CPUs; 0 for a COMMAND).",
)
@click.option("--cpus", metavar="LIST", help="CPUs of work and load: 0 or 0,2-3 (default: all).")
@click.option("--seconds", type=Duration(), help="Length of one run (default: the workload's).")
@click.option("--explain", is_flag=True,
              help="Then one more, traced run each: how long tasks waited for a CPU.")
@click.option("--directory", type=PATH, help="Where a COMMAND works (default: here).")
@started_options
@design_options
@seed_option
@out_option
@dry_run_option
@json_option
@click.option("--resume", type=PATH, metavar="DIR", help="Resume, or extend by --blocks.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def compare(
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    resume: Path | None,
    rehearse: bool,
    explain: bool,
    command: tuple[str, ...],
    **typed: Any,
) -> None:
    """Compare CPU policies on this machine: latency of the work, and what it takes from the load.

    With `-- COMMAND ARG…` your own program is the work. All settings are restored.
    """  # fmt: skip
    from schedlab.app import measure
    from schedlab.cli.compare import design_of, show_rehearsal
    from schedlab.cli.show import measuring, present, run_and_present
    from schedlab.run.admitted import Permission

    if resume:
        with measuring() as observer:
            result = measure.resume(resume, blocks=typed["blocks"], observer=observer)
        present(result, as_json)
        return
    experiment = experiment_of(command, typed, design_of)
    if rehearse:
        show_rehearsal(experiment, Permission())
        return
    how: Any = {"out": out, "name": "cpu-compare", "dry_run": dry_run, "as_json": as_json}
    measured = run_and_present(experiment, Permission(), **how)
    if explain and measured is not None:
        from schedlab.app.cpu_comparison import explain as explain_waiting

        with measuring() as observer:
            lines = explain_waiting(measured, observer)
        click.echo("\n".join(lines), err=as_json)


def experiment_of(command: tuple[str, ...], typed: dict[str, Any], design_of: Any) -> Any:
    """The experiment that the options mean."""
    from schedlab.app.cpu_comparison import CpuLoad, policy_comparison
    from schedlab.cpu.settings import parse_cpus

    directory = typed["directory"]
    load = CpuLoad(
        workloads=typed["workloads"] or (),
        work=work_of(command, typed),
        load=typed["load"],
        cpus=parse_cpus(typed["cpus"]) if typed["cpus"] else (),
        seconds=typed["seconds"],
        directory=str(directory.resolve()) if directory else "",
    )
    design = design_of({"schedulers": None, "labels": None, **typed})
    for key in ("schedulers", "labels"):
        design.pop(key)
    if (
        click.get_current_context().get_parameter_source("goal")
        == click.core.ParameterSource.DEFAULT
    ):
        design["goal"] = "latency"
    return policy_comparison(load, policies=typed["policies"], apply_to=typed["apply_to"], **design)
