"""`schedlab cpu sweep`: the same work under several quanta, as one experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import (
    command,
    kernel_option,
    measured_options,
    resume_rest_options,
    typed_options,
)
from schedlab.cli.sections import heeded, together
from schedlab.cli.types import Cpus, Duration, SliceList
from schedlab.cpu.policy import KERNELS, PRIORITY_DEFAULT

if TYPE_CHECKING:
    from schedlab.result import Result

_options = together(
    click.option("--slices", type=SliceList(), default="1,10,100", show_default=True,
                 help="Quanta in ms."),
    click.option("--processes", type=click.IntRange(1, 1000), default=2, show_default=True),
    heeded("whole runs", "--time", "seconds", type=Duration(), default="30s", show_default=True,
           help="Length of one run."),
    heeded("whole runs", "--repeat", type=click.IntRange(1, 10_000), default=5, show_default=True,
           help="Blocks."),
    click.option("--policy", type=click.Choice(["rr", "other", "batch"]), default="rr",
                 show_default=True),
    click.option("--priority", type=int, default=PRIORITY_DEFAULT, show_default=True),
    click.option("--cpu", "cpus", type=Cpus(), help="CPU of the workers (default: the last one)."),
    click.option("--calculation", type=click.Choice(KERNELS), default="elementwise",
                 show_default=True),
    click.option("--precision", is_flag=True,
                 help="Flip the quantum inside one run: small differences, 100 times sooner."),
    heeded("--precision", "--budget", "budget_s", type=Duration(), default="60s",
           show_default=True, help="Time that --precision may take."),
    click.option("--aa/--no-aa", default=None,
                 help="Measure the first quantum under a second name."),
)  # fmt: skip


@command()
@_options
@kernel_option
@measured_options
@resume_rest_options
def sweep(**typed: Any) -> None:
    """Compare quanta: calculations per CPU second of the same processes under each.

    The kernel rounds a requested quantum; requests that become the same quantum are measured once.
    The host's setting is restored at the end.
    """
    from schedlab.app.compare.quanta import effective_slices, quantum_experiment, sweep_of
    from schedlab.app.measure import virtual
    from schedlab.app.options import check_heeded
    from schedlab.cli.show import print_message, resume_and_present, run_and_present
    from schedlab.run.admitted import Permission

    if typed["resume"]:
        resume_and_present(typed, Permission(), present_quanta)
        return
    how = "--precision" if typed["precision"] else "whole runs"
    check_heeded(typed_options(click.get_current_context()), {how})
    request = sweep_of(typed)
    # A dry run sets nothing, so it cannot know what the kernel makes of a quantum.
    known: dict[float, float | None] = {ms: ms for ms in request.slices}
    if typed["kernel"]:
        known.update(virtual.effective_slices(request.policy, request.slices, typed["kernel"]))
    elif not typed["dry_run"]:
        known = effective_slices(request, print_message)
    experiment = quantum_experiment(request, known)
    run_and_present(experiment, Permission(), "cpu-sweep", typed, present_quanta)


def present_quanta(result: Result, as_json: bool) -> None:
    """Answer and reports with the charts, and the tables of the study."""
    from schedlab.app.compare.quanta import with_charts
    from schedlab.cli.show import present
    from schedlab.report import tables_text

    result, charts = with_charts(result)
    present(result, as_json)
    if not as_json:
        click.echo("\n" + tables_text(result.record, result.answer))
        for path in charts:
            click.echo(f"chart:    {path}")
