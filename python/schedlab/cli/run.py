"""`schedlab run FILE`: measure an experiment file, or resume or extend a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import (
    PATH,
    command,
    dask_option,
    destroy_option,
    dry_run_option,
    json_option,
    kernel_option,
    out_option,
    resume_option,
    trust_option,
)
from schedlab.cli.sections import heeded
from schedlab.cli.types import Duration, Words
from schedlab.errors import SpecError


@command()
@click.argument("file", type=PATH, required=False)
@trust_option
@destroy_option
@kernel_option
@resume_option
@click.option("--blocks", type=click.IntRange(1, 10_000), help="Blocks; with --resume: in all.")
@click.option("--budget", type=Duration(), help="Plan for this time; with --resume: add it.")
@click.option("--sessions", type=click.IntRange(1, 100), help="Repeat on so many new file layouts.")
@click.option("--directory", type=click.Path(), help="Measure in this directory instead.")
@heeded(
    "--directory",
    "--switch",
    type=Words(),
    metavar="NAMES",
    help="Disks and settings of the machine to switch.",
)
@dask_option
@out_option
@dry_run_option
@json_option
def run(file: Path | None, destroy_data: Path | None, **typed: Any) -> None:
    """Measure the experiment in FILE (write one with `schedlab init`), or in a result folder."""
    from schedlab.app.measure.files import elsewhere, read_experiment, stopped_by
    from schedlab.app.options import permission
    from schedlab.cli.show import resume_and_present, run_and_present

    if (file is None) == (typed["resume"] is None):
        raise SpecError("name either FILE or --resume DIR", "schedlab run experiment.toml")
    switch, trust = typed["switch"] or (), typed["trust"]
    allowed = permission(destroy_data, trust=trust, in_use=trust, switch=switch)
    if file is None:
        resume_and_present(typed, allowed)
    else:
        experiment = elsewhere(read_experiment(file), typed["directory"], switch)
        run_and_present(stopped_by(experiment, typed), allowed, file.stem, typed)
