"""`schedlab import fio-job`: a fio job file as a job of our load engine."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def fio_job(file: Path) -> None:
    """Print a fio job FILE as the job of our load engine; what that cannot honour is an error."""
    from schedlab.store.importers import fio_job as importer

    read = importer.read(file)
    for note in read.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(json.dumps(read.job, indent=1))
