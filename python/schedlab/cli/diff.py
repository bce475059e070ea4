"""`schedlab diff`: the same candidates measured at two times, or on two kernels."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.options import PATH, json_option


@click.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@click.option("--despite", is_flag=True, help="Compare even if the machines differ.")
@click.option("--html", type=PATH, help="The page (default: SECOND/diff.html).")
@json_option
def diff(first: Path, second: Path, despite: bool, html: Path | None, as_json: bool) -> None:
    """Show what changed from FIRST to SECOND: for each candidate, is it faster now, or slower?

    Two results are two sessions, and sessions of the same setup differ. With one session on a
    side, the difference has no bound. For a bound, measure with --sessions, or merge.
    """
    from schedlab.app.difference import difference
    from schedlab.cli.show import print_message, terminal

    changes = difference(first, second, despite, html, print_message)
    click.echo(
        json.dumps(changes.as_json()) if as_json else "\n".join(changes.lines(terminal()[0]))
    )
