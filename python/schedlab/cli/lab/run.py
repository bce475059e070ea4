"""`schedlab lab run`: a ready-made experiment, on the target of your choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import (
    dry_run_option,
    json_option,
    out_option,
    permission_of,
    place_of,
    seed_option,
    target_options,
)

if TYPE_CHECKING:
    from schedlab.result import Result


@click.command()
@click.argument("name")
@click.option("--scale", type=click.Choice(["small", "full"]), default="small", show_default=True,
              help="small: minutes; full: as large as the study.")  # fmt: skip
@target_options
@click.option("--schedulers", help="Candidates in place of the lab's own: none,bfq.")
@click.option("--blocks", type=click.IntRange(1, 10_000), help="Number of blocks.")
@seed_option
@out_option
@dry_run_option
@json_option
def run(
    name: str,
    scale: Any,
    schedulers: str | None,
    blocks: int | None,
    seed: int | None,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    **typed: Any,
) -> None:
    """Run the lab NAME; a temporary loop device is its target unless you name another.

    For example: schedlab lab run interference --scale full --device /dev/sdb --destroy-data
    /dev/sdb
    """  # fmt: skip
    from schedlab.app.labs import Wishes, lab_experiment, lab_named
    from schedlab.cli.show import run_and_present, say

    lab = lab_named(name)
    say(f"{lab.title}. {lab.study}")
    simulated = lab.scaled(scale).get("ncq_study")
    if simulated:
        from schedlab.cli.sim.ncq_study import ncq_study

        click.get_current_context().invoke(ncq_study, **simulated, out=out, as_json=as_json)
        return
    if modelled := lab.scaled(scale).get("iozone_model"):
        from schedlab.sim.iozone_model import present

        click.echo(present(**modelled, out=out, as_json=as_json))
        return
    place = place_of(typed)
    permission = permission_of(place)
    experiment = lab_experiment(lab, scale, Wishes(place, schedulers, blocks, seed), say)
    shown_by: Callable[[Result, bool], None] | None = None
    if lab.kind == "cpu":
        from schedlab.cli.cpu.sweep import present_quanta

        shown_by = present_quanta
    run_and_present(
        experiment, permission, out=out, name=name, dry_run=dry_run, as_json=as_json,
        shown_by=shown_by,
    )  # fmt: skip
