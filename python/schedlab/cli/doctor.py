"""`schedlab doctor`: a line per fact of this machine: its effect, and what changes it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.options import PATH


@click.command()
@click.option("--directory", type=PATH, default=".", help="Where scratch files go (here).")
@click.option("--path", type=PATH, help="Print the queues below a directory or device instead.")
@click.option("--quanta", default="", help="Round-robin quanta in ms to look up, e.g. 1,5,10.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(directory: Path, path: Path | None, quanta: str, as_json: bool) -> None:
    """Show what this machine can measure: each fact, its effect, and what changes it.

    Changes nothing, and works without root.
    """
    import dataclasses

    from schedlab.errors import SpecError
    from schedlab.host.doctor import QUANTA_MS, examine
    from schedlab.host.queues import queues_below

    if path:
        below = queues_below(path)
        named = {"schema": 1, "queues": below.queues, "tree": below.lines()}
        return click.echo(json.dumps(named) if as_json else "\n".join(below.lines()))
    try:
        wanted = [int(word) for word in quanta.split(",") if word.strip()] or QUANTA_MS
        if min(wanted) < 1:
            raise ValueError(quanta)
    except ValueError as error:
        raise SpecError(f"--quanta {quanta!r} is not understood", "use --quanta 1,5,10") from error
    facts = examine(directory.resolve(), wanted)
    if as_json:
        document = {"schema": 1, "facts": [dataclasses.asdict(fact) for fact in facts]}
        return click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    for fact in facts:
        command = f"  [{fact.command}]" if fact.command else ""
        click.echo(f"{fact.topic}: {fact.found}; {fact.follows}{command}")
