"""Options that every import has, and how it prints its outcome."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import PATH, json_option, together

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported

_import_options = together(
    click.option("--out", type=PATH, required=True, help="Result folder."),
    click.option("--title", default="", help="Title of the experiment."),
    click.option("--baseline", default="", help="Candidate to compare with (default: the first)."),
    click.option("--control", "controls", multiple=True, help="Workload that cannot depend on the "
                 "candidate (negative control); may be repeated."),
    click.option("--blocked/--unblocked", default=False, show_default=True, help="Whether every "
                 "candidate was run block by block (repetition by repetition)."),
    json_option,
)  # fmt: skip


def imports(command: Callable[..., Imported]) -> Callable[..., None]:
    """Add the options of every import to a command; save and print what it returns.

    The command takes the library's `options` in addition to its own arguments.
    """

    @functools.wraps(command)
    def run(out: Path, as_json: bool, **own: Any) -> None:
        from schedlab.cli.show import print_lines
        from schedlab.store.importers.imported import Options

        common = {name: own.pop(name) for name in ("title", "baseline", "blocked", "controls")}
        imported = command(options=Options(**common), **own)
        imported.save(out)
        if as_json:
            click.echo(json.dumps(imported.as_json(out), indent=1))
            return
        print_lines(imported.lines(out))
        click.echo(f"next: schedlab analyse {out}", err=True)

    return _import_options(run)
