"""`schedlab doctor`: a line per fact of this machine, what follows, and what changes it."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where scratch files would go.  [default: here]",
)
@click.option(
    "--path",
    type=click.Path(exists=True, path_type=Path),
    help="Print the request queues below a directory or device instead.",
)
@click.option("--quanta", default="", help="Round-robin quanta in ms to look up, e.g. 1,5,10.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(directory: Path, path: Path | None, quanta: str, as_json: bool) -> None:
    """Say what this machine can measure: what was found, what follows, what changes it.

    Changes nothing, and works without root.
    """
    import dataclasses

    from schedlab.errors import SpecError
    from schedlab.host.doctor import QUANTA_MS, examine
    from schedlab.host.queues import queues_below

    if path:
        below = queues_below(path)
        named = {"schema": 1, "queues": below.queues, "tree": below.lines()}
        click.echo(json.dumps(named, indent=2) if as_json else "\n".join(below.lines()))
        return
    try:
        wanted = [int(word) for word in quanta.split(",") if word.strip()] or QUANTA_MS
        if min(wanted) < 1:
            raise ValueError(quanta)
    except ValueError as error:
        raise SpecError(f"--quanta {quanta!r} is not understood", "use --quanta 1,5,10") from error
    found = examine(directory.resolve(), wanted)
    if as_json:
        lines = [dataclasses.asdict(fact) for fact in found]
        click.echo(json.dumps({"schema": 1, "facts": lines}, indent=2, ensure_ascii=False))
        return
    for fact in found:
        command = f"  [{fact.command}]" if fact.command else ""
        click.echo(f"{fact.topic}: {fact.found}; {fact.follows}{command}")
