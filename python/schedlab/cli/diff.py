"""`schedlab diff`: the same candidates measured at two times, or on two kernels."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.errors import SpecError
from schedlab.spec import to_json


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--despite", is_flag=True, help="Compare although the machines differ.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(first: Path, second: Path, despite: bool, as_json: bool) -> None:
    """Say what changed from FIRST to SECOND: for each candidate, is it faster now, or slower?

    The two were not measured in common blocks, so drift between them is not told apart from a
    change: the unpaired procedure is used and the result carries that warning.
    """
    from schedlab import report
    from schedlab.app.difference import (
        REPORTED,
        changes,
        environment_differences,
        require_same_work,
    )
    from schedlab.cli.show import say
    from schedlab.result import Result

    before, after = Result.load(first).record, Result.load(second).record
    differences = environment_differences(before.host, after.host)
    for name, (was, now) in differences.items():
        say(f"differs: {name}: {was} -> {now}")
    refused = [name for name in differences if name not in REPORTED]
    if refused and not despite:
        raise SpecError(
            f"the two machines differ in {', '.join(refused)}", "add --despite to compare anyway"
        )
    require_same_work(before, after)
    verdicts = changes(before, after)
    if as_json:
        data = {name: to_json(verdict) for name, verdict in verdicts.items()}
        click.echo(json.dumps({"schema": 1, "differences": differences, "candidates": data}))
        return
    for name, verdict in verdicts.items():
        first_line, *pairs = report.changes(before, verdict)
        click.echo("\n".join([f"{name}: {first_line}", *pairs]))
