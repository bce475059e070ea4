"""`schedlab lab list`."""

from __future__ import annotations

import json

import click

from schedlab.cli.options import command, json_option


@command("list")
@json_option
def list_labs(as_json: bool) -> None:
    """List the ready-made experiments: name, title, and the study that each repeats."""
    import textwrap

    from schedlab.app.measure.labs import labs
    from schedlab.cli.show import terminal

    experiments = labs().values()
    if as_json:
        shown = ("name", "title", "study", "kind")
        click.echo(json.dumps([{name: getattr(e, name) for name in shown} for e in experiments]))
        return
    width = min(terminal()[0], 100)
    for each in experiments:
        click.echo(f"{each.name}: {each.title}")
        click.echo(textwrap.fill(each.study, width, initial_indent="  ", subsequent_indent="  "))
