"""`schedlab sim validate`: a simulated disk against the response times of a measured trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import PATH, command, json_option
from schedlab.cli.sim.options import set_option, show, volumes_option
from schedlab.cli.types import Percent


@command()
@click.argument("device")
@click.argument("trace", metavar="TRACE[:FORMAT]")
@click.option("--policy", default="fcfs", show_default=True)
@set_option
@click.option("--arrivals", type=click.Choice(["trace", "measured"]), default="trace",
              help="measured: use the measured times, also for a disksim-validate trace.",
)  # fmt: skip
@volumes_option
@click.option("--closed", is_flag=True, help="Keep the measured think times, not the arrivals.")
@click.option("--requests", type=click.IntRange(min=1), help="At most this number.")
@click.option("--event", type=click.Choice(["queue", "dispatch", "complete"]), default="complete")
@click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them.")
@click.option("--fail-above", type=Percent(),
              help="Exit 1 when the demerit is above this share, such as 8%.")  # fmt: skip
@click.option("--out", type=PATH, help="Folder for figures and report.html.")
@json_option
def validate(out: Path | None, fail_above: float | None, as_json: bool, **typed: Any) -> None:
    """Compare the response times of DEVICE with those recorded in TRACE (demerit)."""
    from schedlab.app.compare.validation import validated, write_page

    validation, shown = validated(typed)
    if out is not None:
        write_page(validation, typed, out)
    show(shown, as_json)
    if fail_above is not None and not validation.parts["all"].demerit_share <= fail_above:
        raise SystemExit(1)
