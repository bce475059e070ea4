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
@click.option(
    "--html", type=click.Path(path_type=Path), help="The page (default: SECOND/diff.html)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(first: Path, second: Path, despite: bool, html: Path | None, as_json: bool) -> None:
    """Say what changed from FIRST to SECOND: for each candidate, is it faster now, or slower?

    Two results are two sessions, and sessions of one setup differ by themselves: with one on a
    side the difference is printed without a verdict. For one, measure with --sessions, or merge.
    """
    from schedlab import report
    from schedlab.app.difference import (
        REPORTED,
        changes,
        environment_differences,
        names_of,
        require_same_work,
    )
    from schedlab.cli.show import say
    from schedlab.report.difference_page import render
    from schedlab.result import Result
    from schedlab.store.files import write_atomic

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
    names = names_of(first, second)
    verdicts = changes(before, after, names)
    page = html or second / "diff.html"
    write_atomic(page, render(before, verdicts, names, differences))
    if as_json:
        data = {name: to_json(verdict) for name, verdict in verdicts.items()}
        told = {"schema": 1, "differences": differences, "candidates": data, "html": str(page)}
        click.echo(json.dumps(told))
        return
    for name, verdict in verdicts.items():
        first_line, *pairs = report.changes(before, verdict)
        click.echo("\n".join([f"{name}: {first_line}", *pairs]))
    click.echo(f"Report {page}")
