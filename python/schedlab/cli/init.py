"""`schedlab init`: write a commented experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from schedlab.cli.options import PATH, command


@command()
@click.argument("file", type=PATH, default=Path("experiment.toml"))
@click.option("--lab", metavar="NAME", help="Start from a ready-made experiment.")
@click.option("--scale", type=click.Choice(["small", "full"]), default="small", show_default=True)
def init(file: Path, lab: str | None, scale: Literal["small", "full"]) -> None:
    """Write a commented experiment to FILE. Edit it, then measure it with `schedlab run`."""
    from schedlab.app.measure.initial import write_initial

    experiment = None
    if lab:
        from schedlab.app.measure.labs import lab_experiment, lab_named

        experiment = lab_experiment(lab_named(lab), scale)
    write_initial(file, experiment)
    click.echo(f"{file}: edit it, then run `schedlab run {file}`")
