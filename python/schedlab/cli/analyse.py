"""`schedlab analyse`: the answer of a stored result, at any time."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import command, goal_option, language_option
from schedlab.nouns import Objective


@command()
@click.argument("directory", type=click.Path(path_type=Path))
@goal_option
@language_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def analyse(directory: Path, goal: Objective | None, lang: str | None, as_json: bool) -> None:
    """Print the answer of the result folder DIRECTORY; its measurements stay as they are."""
    from schedlab.cli.show import print_json, terminal
    from schedlab.result import Result

    result = Result.load(directory, goal)
    if as_json:
        print_json(result.as_json())
        return
    width, colour = terminal()
    click.echo(result.text(width=width, colour=colour, lang=lang))
