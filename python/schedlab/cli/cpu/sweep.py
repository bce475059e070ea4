"""`schedlab cpu sweep`: the same work under several quanta, as one experiment."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cpu.settings import (
    KERNELS,
    PRIORITY_DEFAULT,
    parse_cpus,
    parse_slices,
    parse_time_ns,
)

if TYPE_CHECKING:
    from schedlab.result import Result

POLICIES = ("rr", "other", "batch")


@click.command()
@click.option("--slices", default="1,10,100", show_default=True, help="Quanta in ms.")
@click.option("--processes", type=click.IntRange(1, 1000), default=2, show_default=True)
@click.option("--time", "time", default="30s", show_default=True, help="Length of one run.")
@click.option(
    "--repeat", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Blocks."
)
@click.option("--policy", type=click.Choice(POLICIES), default="rr", show_default=True)
@click.option("--priority", type=int, default=PRIORITY_DEFAULT, show_default=True)
@click.option("--cpu", "cpus", help="CPU of the workers (default: the last one).")
@click.option("--kernel", type=click.Choice(KERNELS), default="elementwise", show_default=True)
@click.option(
    "--precision",
    is_flag=True,
    help="Flip the quantum inside one run: small differences, about 100 times sooner.",
)
@click.option("--budget", default="60s", show_default=True, help="Time that --precision may take.")
@click.option("--aa/--no-aa", default=None, help="Measure the first quantum under a second name.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Fixes the orders.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.")
@click.option("--dry-run", is_flag=True, help="Print the plan, the setting and the time.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Go on with an interrupted folder.",
)
def sweep(
    slices: str,
    processes: int,
    time: str,
    repeat: int,
    policy: str,
    priority: int,
    cpus: str | None,
    kernel: str,
    precision: bool,
    budget: str,
    aa: bool | None,
    seed: int | None,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    resume: Path | None,
) -> None:
    """Compare quanta: calculations per CPU second of the same processes under each.

    Each request is measured under the quantum that the kernel makes of it; requests that become
    the same quantum are measured once. The host's setting is put back at the end.
    """
    from schedlab.app import measure
    from schedlab.app.quanta import Sweep, effective_slices, quantum_experiment
    from schedlab.cli.show import measuring, run_and_present, say
    from schedlab.cpu.crew import last_cpu
    from schedlab.run.admitted import Permission

    if resume:
        with measuring() as observer:
            result = measure.resume(resume, observer=observer)
        present_quanta(result, as_json)
        return
    typed = Sweep(
        slices=parse_slices(slices),
        processes=processes,
        seconds=parse_time_ns(time) / 1e9,
        repeat=repeat,
        policy=policy,
        priority=priority,
        cpus=parse_cpus(cpus) if cpus else (last_cpu(),),
        kernel=kernel,
        precision=precision,
        budget_s=parse_time_ns(budget) / 1e9,
        aa=not precision if aa is None else aa,
        seed=secrets.randbits(32) if seed is None else seed,
    )
    run_and_present(
        quantum_experiment(typed, effective_slices(typed, say)),
        Permission(),
        out=out,
        name="cpu-sweep",
        dry_run=dry_run,
        as_json=as_json,
        shown_by=present_quanta,
    )


def present_quanta(result: Result, as_json: bool) -> None:
    """Verdict, reports, charts (drawn before the record that shows them is read), tables."""
    from schedlab.app.quanta import write_charts
    from schedlab.cli.show import present
    from schedlab.report.quanta_tables import published_tables
    from schedlab.result import Result

    folder = result.folder
    charts = write_charts(folder)
    result = Result(folder)
    present(result, as_json)
    if as_json:
        return
    click.echo("\n".join(published_tables(result.record, result.verdict)))
    for path in charts:
        click.echo(f"chart:    {path}")
