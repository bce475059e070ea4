"""`schedlab run`: carry out an experiment file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from schedlab.errors import SpecError


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Result folder (default: results/…).")
@click.option("--dry-run", is_flag=True, help="Print the plan; touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def run(file: Path, out: Path | None, dry_run: bool, as_json: bool) -> None:
    """Carry out the experiment of FILE, a TOML file like experiment.toml of a result folder.

    Its form: docs/reference/experiment.schema.json.
    """
    from schedlab.cli.compare import create_folder, default_folder
    from schedlab.cli.conduct import conduct, present
    from schedlab.cli.dry_run import show_plan
    from schedlab.spec import Experiment, from_json

    try:
        data = tomllib.loads(file.read_text())
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}", "name an experiment file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{file}: {error}", "see experiment.toml of any result folder") from error
    experiment = from_json(Experiment, data, str(file))
    if experiment.kind == "import":
        raise SpecError(f"{file}: imported runs cannot be measured again", "schedlab analyse DIR")
    if dry_run:
        show_plan(experiment, as_json)
        return
    folder = create_folder(experiment, out or default_folder(file.stem))
    present(conduct(folder), as_json)
