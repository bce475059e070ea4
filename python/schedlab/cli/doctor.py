"""`schedlab doctor`: what this machine can measure, what not, the next command; then each fact."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.options import PATH, command, json_option
from schedlab.cli.types import Listed


@command()
@click.option("--directory", type=PATH, default=".", help="Where scratch files go (here).")
@click.option("--path", type=PATH, help="Print the queues below a directory or device instead.")
@click.option(
    "--quanta", type=Listed(), default="", help="Round-robin quanta in ms to look up, e.g. 1,5,10."
)
@click.option("--all", "everything", is_flag=True, help="Print every fact, too.")
@json_option
def doctor(
    directory: Path, path: Path | None, quanta: str, everything: bool, as_json: bool
) -> None:
    """Show what this machine can measure, what not, and the next command.

    --all prints each fact, its effect, and what changes it; --quanta does, too.

    Changes nothing, and works without root.
    """
    import dataclasses

    from schedlab.errors import SpecError
    from schedlab.host.doctor import QUANTA_MS, examine, summary
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
    able, unable, command = summary(facts)
    if as_json:
        short = {"measurable": able, "not_measurable": unable, "next": command}
        document = {"schema": 1, "facts": [dataclasses.asdict(fact) for fact in facts], **short}
        return click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    for title, text in (("Can measure", able), ("Cannot measure", unable), ("Next", command)):
        click.echo(click.wrap_text(text, 80, f"{title:16}", " " * 16))
    for fact in facts if everything or quanta else ():
        command = f"  [{fact.command}]" if fact.command else ""
        click.echo(f"{fact.topic}: {fact.found}; {fact.follows}{command}")
