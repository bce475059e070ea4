"""`schedlab reproduce`: measure a stored experiment again, and say whether it still holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from schedlab.spec import Verdict


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Result folder of the repetition.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.pass_context
def reproduce(ctx: click.Context, directory: Path, out: Path | None, as_json: bool) -> None:
    """Measure the experiment of DIRECTORY again, with the same plan and seeds, in a new folder.

    Exits 0 when no pair of candidates contradicts the first result, 1 when one does.
    """
    from schedlab.cli.compare import create_folder, default_folder
    from schedlab.cli.conduct import conduct, present, say
    from schedlab.result import Result

    first = Result.load(directory)
    result = conduct(create_folder(first.record.experiment, out or default_folder("reproduce")))
    lines = contradictions(first.verdict, result.verdict)
    if as_json:
        files = {"first": str(directory), "again": str(result.folder.path)}
        click.echo(json.dumps({"contradictions": lines, **files}))
    else:
        present(result, as_json=False)
    for line in lines:
        say(f"not reproduced: {line}")
    if not lines:
        say(f"nothing contradicts {directory}")
    ctx.exit(1 if lines else 0)


def contradictions(first: Verdict, again: Verdict) -> list[str]:
    """Pairs that were better and are now worse, or the other way round, or equivalent no more."""
    opposite = {("better", "worse"), ("better", "equivalent"), ("worse", "equivalent")}
    opposite |= {(now, then) for then, now in opposite}
    found = []
    for label, work in first.workloads.items():
        now = (
            {(p.a, p.b): p for p in again.workloads[label].pairs}
            if label in again.workloads
            else {}
        )
        for pair in work.pairs:
            other = now.get((pair.a, pair.b))
            if other and (pair.verdict, other.verdict) in opposite:
                found.append(
                    f"{label}: {pair.a} was {pair.verdict}, now {other.verdict}, against {pair.b}"
                )
    return found
