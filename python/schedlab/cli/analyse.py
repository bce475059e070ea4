"""`schedlab analyse`: the verdict of a stored result, at any time."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import goal_option
from schedlab.spec import Objective


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@goal_option
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def analyse(directory: Path, goal: Objective | None, as_json: bool) -> None:
    """Print the verdict of the result folder DIRECTORY; its measurements stay as they are."""
    from schedlab.cli.show import print_json, terminal
    from schedlab.result import Result
    from schedlab.spec import to_json

    result = Result.load(directory, goal)
    if as_json:
        print_json(to_json(result.verdict))
        return
    width, colour = terminal()
    click.echo(result.text(width=width, colour=colour))
