"""`schedlab recommend`: what a device's load is, and whether a scheduler can matter to it."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import PATH, command, json_option
from schedlab.cli.types import Duration


@command()
@click.argument("path", type=PATH)
@click.option("--seconds", type=Duration(), default="60s", show_default=True, help="How long.")
@json_option
def recommend(path: Path, seconds: float, as_json: bool) -> None:
    """Show whether a scheduler can matter to the load of PATH (a device, or a directory on it).


    Nothing is changed. Shows who sends how many requests, how many are in flight, whether a
    scheduler has anything to decide, and the command that would prove which one is better.
    """
    from schedlab.app.live import recommend as app
    from schedlab.cli.show import print_result

    observed = app.observe(path, seconds)
    print_result(as_json, app.as_json(observed), app.lines(observed))
