"""`schedlab compare`: which I/O scheduler, with which settings, for this work?"""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.command_options import file_options, started_options, trace_options
from schedlab.cli.options import (
    candidate_option,
    command,
    command_argument,
    design_options,
    kernel_option,
    load_options,
    measured_options,
    resume_options,
    target_options,
    typed_options,
)
from schedlab.cli.sections import heeded, section
from schedlab.cli.types import Listed

EXPLAIN = "Show where requests wait also where no difference is found."
_candidate_options = section(
    "Candidates",
    click.option(
        "--schedulers",
        type=Listed(),
        help="Which to compare: none,bfq:slice_idle=0 (default: all).",
    ),
    candidate_option,
    click.option("--labels", type=Listed(), help="Names for the candidates: before,after."),
    usual="--schedulers --candidate",
)


@command()
@_candidate_options
@kernel_option
@target_options
@load_options
@design_options
@section("Design", heeded("built-in workloads", "--explain", is_flag=True, help=EXPLAIN))
@started_options
@file_options
@trace_options
@measured_options
@resume_options
@command_argument
def compare(command: tuple[str, ...], **typed: Any) -> None:
    """Compare I/O schedulers on this machine: which is better, at what price.

    Your disks are never written to unless you name one: by default the work goes to a temporary
    loop device. All settings are restored, also after Ctrl-C and kill -9.

    With `-- COMMAND ARG…` your own program is the workload; it starts in the target's directory.
    """
    from schedlab.app import options
    from schedlab.app.measure.virtual import with_usual
    from schedlab.cli.show import print_message, resume_and_present, run_and_present

    typed = with_usual(typed)
    place = options.place_of(typed)
    if typed["resume"]:
        resume_and_present(typed, options.permission_of(place))
        return
    options.check_work(typed_options(click.get_current_context()), command, typed)
    permission = options.permission_of(place)
    run_and_present(
        options.comparison(place, command, typed, print_message), permission, "compare", typed
    )
