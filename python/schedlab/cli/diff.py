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
@click.option("--junit", type=PATH, help="JUnit's XML: what became worse has failed.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option(
    "--fail-on", type=click.Choice(["worse", "changed", "this-boot", "never"]), default="worse",
    show_default=True, help="Exit with 1 if a candidate is proven so, or a replay disagrees; "
    "with a single boot on a side only this-boot does.",
)  # fmt: skip
@json_option
def diff(
    first: Path, second: Path, despite: bool, html: Path | None, junit: Path | None,
    markdown: bool, fail_on: str, as_json: bool,
) -> None:  # fmt: skip
    """Show what changed from FIRST to SECOND: for each candidate, is it faster now, or slower?

    The change itself is told, and the change beside the baseline. Sessions (boots) of the same
    setup differ: with several on both sides they are the units. With one the answer holds for these
    two, exits with 0, and says how many boots would decide.

    Of a live load and the replay of its recording: whether both recommend the same candidate.
    """
    from schedlab.app.compare.difference import difference
    from schedlab.cli.show import print_message, terminal
    from schedlab.store.files import write_atomic

    if markdown and as_json:
        raise click.UsageError("--markdown and --json cannot be used together")
    found = difference(first, second, despite, html, print_message)
    if junit:
        write_atomic(junit, found.junit(fail_on))
    if as_json:
        click.echo(json.dumps(found.as_json()))
    elif markdown:
        click.echo(found.shown.markdown(), nl=False)
    else:
        click.echo("\n".join([*found.shown.lines(terminal()[0]), "", f"Report {found.page}"]))
    if found.fails(fail_on):
        raise SystemExit(1)
