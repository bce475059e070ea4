"""`schedlab lab run`: a ready-made experiment, on the target of your choice."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.options import (
    command,
    dask_option,
    kernel_option,
    measured_options,
    target_options,
    typed_options,
)
from schedlab.cli.sections import section
from schedlab.cli.types import Listed


@command()
@click.argument("name")
@section(
    "Study",
    click.option("--scale", type=click.Choice(["small", "full"]), default="small",
                 show_default=True, help="small: minutes; full: as large as the study."),
    click.option("--schedulers", type=Listed(), help="Candidates, instead of the lab's: none,bfq."),
    click.option("--blocks", type=click.IntRange(1, 10_000), help="Number of blocks."),
    dask_option,
    usual="--scale --schedulers --blocks",
)  # fmt: skip
@kernel_option
@target_options
@measured_options
@click.pass_context
def run(ctx: click.Context, /, name: str, scale: Any, **typed: Any) -> None:
    """Run the lab NAME; a temporary loop device is its target unless you name another.

    For example: schedlab lab run iozone-schedulers --scale full --device /dev/sdb --destroy-data
    /dev/sdb
    """  # fmt: skip
    from schedlab.app import options
    from schedlab.app.measure.labs import LabChanges, check_options, lab_experiment, lab_named
    from schedlab.app.measure.virtual import with_usual
    from schedlab.cli.cpu.sweep import present_quanta
    from schedlab.cli.show import print_message, run_and_present

    lab = lab_named(name)
    check_options(lab, typed_options(ctx))
    print_message(lab.title)
    print_message(lab.study)
    place = options.place_of(with_usual(typed) if lab.kind == "io" else typed)
    names = ("schedulers", "blocks", "seed", "kernel")
    changes = LabChanges(place, *(typed[name] for name in names))
    probe = not typed["dry_run"]
    experiment = lab_experiment(lab, scale, changes, print_message, probe=probe)
    shown_by = present_quanta if lab.kind == "cpu" else None
    run_and_present(experiment, options.permission_of(place), name, typed, shown_by)
