"""`schedlab sim ncq-study`: repeat the NCQ study; charts, and the paper against the model."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.spec import SCHEMA_VERSION


@click.command("ncq-study")
@click.option("--requests", type=click.IntRange(min=100), default=20_000, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Folder (default: results/DATE-ncq).")
@click.option("--json", "as_json", is_flag=True, help="The statements as JSON.")
def ncq_study(requests: int, seeds: int, out: Path | None, as_json: bool) -> None:
    """Repeat the study of request scheduling in the NCQ of an SSD; resumes what is in OUT."""
    from schedlab.app.measure.measure import default_folder
    from schedlab.cli.sim.sweep import progress
    from schedlab.report.ncq_page import write_study
    from schedlab.sim.ncq_figures import figures
    from schedlab.sim.ncq_study import Study, study_sweep
    from schedlab.sim.sweep_run import run_sweep

    folder = out or default_folder("ncq")
    with progress() as update:
        study = Study(run_sweep(study_sweep(requests, seeds), folder, update))
    rows = study.rows()
    page = folder / "report.html"
    basis = study.basis(requests, seeds)
    write_study(page, rows, study.cannot(), [vars(each) for each in figures(study)], basis)
    if as_json:
        document = {"schema": SCHEMA_VERSION, "statements": rows, "page": str(page)}
        click.echo(json.dumps({**document, "cannot": list(study.cannot())}))
        return
    click.echo("\n".join([*study.lines(), f"report: {page}"]))
