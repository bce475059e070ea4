"""`schedlab lab list`."""

from __future__ import annotations

import json

import click


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_labs(as_json: bool) -> None:
    """List the ready-made experiments: name, title, what the study was."""
    import dataclasses
    import textwrap

    from schedlab.cli.lab import labs
    from schedlab.cli.show import terminal

    found = labs()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found.values()]))
        return
    width = min(terminal()[0], 100)
    for each in found.values():
        click.echo(f"{each.name}: {each.title}")
        click.echo(textwrap.fill(each.study, width, initial_indent="  ", subsequent_indent="  "))
