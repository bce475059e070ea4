"""Options that every import has, and how its outcome is told."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported

_OPTIONS = (
    click.option("--out", type=click.Path(path_type=Path), required=True, help="Result folder."),
    click.option("--title", default="", help="Title of the experiment."),
    click.option("--baseline", default="", help="Candidate to compare with (default: the first)."),
    click.option(
        "--control",
        "controls",
        multiple=True,
        help="Workload that cannot depend on the candidate (negative control); may be repeated.",
    ),
    click.option(
        "--blocked/--unblocked",
        default=False,
        show_default=True,
        help="Whether every candidate was run block by block (repetition by repetition).",
    ),
    click.option("--json", "as_json", is_flag=True, help="Tell the outcome as JSON."),
)


def imports(command: Callable[..., Imported]) -> Callable[..., None]:
    """Add the options of every import to a command; what it gives is saved and told.

    The command takes the library's `options` beside its own arguments.
    """

    @functools.wraps(command)
    def carry_out(
        out: Path,
        as_json: bool,
        title: str,
        baseline: str,
        controls: tuple[str, ...],
        blocked: bool,
        **own: Any,
    ) -> None:
        from schedlab.store.importers.imported import Options

        finish(command(options=Options(title, baseline, blocked, controls), **own), out, as_json)

    whole: Callable[..., None] = carry_out
    for option in reversed(_OPTIONS):
        whole = option(whole)
    return whole


def labelled(arguments: tuple[str, ...]) -> list[tuple[str, Path]]:
    """(candidate, file) of arguments typed `CANDIDATE=FILE` or `FILE` (candidate: its stem)."""
    pairs = []
    for text in arguments:
        label, equals, file = text.partition("=")
        whole = not equals or Path(text).exists()
        pairs.append((Path(text).stem, Path(text)) if whole else (label, Path(file)))
    return pairs


def finish(imported: Imported, out: Path, as_json: bool) -> None:
    """Write the folder and tell what is in it."""
    imported.save(out)
    experiment = imported.experiment
    if as_json:
        told = {
            "schema": 1,
            "folder": str(out),
            "runs": len(imported.runs),
            "blocks": experiment.stopping.blocks,
            "blocked": experiment.blocked,
            "baseline": experiment.baseline,
            "candidates": [candidate.label for candidate in experiment.candidates],
            "workloads": [workload.label for workload in experiment.workloads],
            "notes": list(experiment.notes),
        }
        click.echo(json.dumps(told, indent=1))
        return
    click.echo(
        f"imported {len(imported.runs)} runs ({len(experiment.candidates)} candidates, "
        f"{len(experiment.workloads)} workloads, {experiment.stopping.blocks} repetitions) to {out}"
    )
    for note in experiment.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"next: schedlab analyse {out}", err=True)
