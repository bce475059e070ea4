"""`schedlab cpu compare`: which CPU policy, for this work beside that load?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.command_options import started_options
from schedlab.cli.options import (
    candidate_option,
    command,
    command_argument,
    design_options,
    kernel_option,
    measured_options,
    resume_options,
    switch_option,
    typed_options,
)
from schedlab.cli.sections import heeded, section
from schedlab.cli.types import Cpus, Duration, Listed, Words

if TYPE_CHECKING:
    from schedlab.result import Result

_policy_options = section(
    "Policies and work",
    click.option("--policies", type=Listed(),
                 help="other,rr:10ms,other:slice=3ms,nice=5,…  [default: other,batch,fifo]"),
    candidate_option,
    switch_option,
    click.option("--apply-to", type=click.Choice(["work", "load", "all"]), default="work",
                 show_default=True, help="Tasks that get the policy; others stay at `other`."),
    click.option("--workloads", type=Words(),
                 help="wakeup, mixed, messaging, pipe, fork-storm, groups (default: wakeup)."),
    click.option("--load", type=click.IntRange(0, 1000),
                 help="Hogs that run meanwhile (default: 2 × CPUs; 0 for a COMMAND)."),
    click.option("--cpus", type=Cpus(), metavar="LIST", default=(),
                 help="CPUs of work and load: 0 or 0,2-3 (default: all)."),
    heeded("a window", "--seconds", type=Duration(),
           help="Length of one run (default: the workload's)."),
    heeded("built-in workloads", "--explain", is_flag=True,
           help="Trace one more run each: how long tasks wait for a CPU."),
    heeded("a COMMAND", "--directory", type=click.Path(resolve_path=True),
           help="Where a COMMAND works (default: here)."),
    usual="--policies --apply-to --workloads --load --cpus --seconds",
)  # fmt: skip


@command()
@_policy_options
@kernel_option
@started_options
@design_options
@measured_options
@resume_options
@command_argument
def compare(command: tuple[str, ...], **typed: Any) -> None:
    """Compare CPU policies on this machine: response time of the work, and its price for the load.

    With `-- COMMAND ARG…` your own program is the work. All settings are restored.
    """  # fmt: skip
    from schedlab.app import options
    from schedlab.app.compare.cpu_comparison import explain
    from schedlab.cli.show import (
        measuring,
        present,
        print_message,
        resume_and_present,
        run_and_present,
    )
    from schedlab.run.admitted import Permission

    if typed["resume"]:
        resume_and_present(typed, Permission())
        return
    options.check_policy_work(typed_options(click.get_current_context()), command, typed)
    experiment = options.policy_comparison(command, typed, print_message)

    def shown_by(measured: Result, as_json: bool) -> None:
        present(measured, as_json)
        if typed["explain"]:
            with measuring() as observer:
                lines = explain(measured, observer)
            click.echo("\n".join(lines), err=as_json)

    run_and_present(experiment, Permission(), "cpu-compare", typed, shown_by)
