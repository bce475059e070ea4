"""The commands of `schedlab import`: help from the table, options, and how they print."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import PATH, command, json_option
from schedlab.cli.sections import together
from schedlab.cli.types import Listed
from schedlab.store.importers import IMPORTERS

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options

_files_argument = click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
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
_mapping_options = together(
    click.option("--candidate", type=Listed(), required=True,
                 help="Column(s) that name the candidate."),
    click.option("--value", required=True,
                 help="Column of the figures, or a ratio COLUMN/COLUMN."),
    click.option("--workload", type=Listed(), help="Column(s) that name the workload."),
    click.option("--sheet", default="", help="Sheet of a workbook (default: the first)."),
    click.option("--block", default="", help="Column of the repetition (default: order of rows)."),
    click.option("--unit", default="", help="Unit of the figures: KiB/s, MB/s, s, ms, 1/s, …."),
    click.option("--metric", default="", help="Metric of the figures (default: by the unit)."),
    click.option("--unit-column", default="", help="Column that holds the unit of each row."),
    click.option("--metric-column", default="", help="Column with the metric of each row."),
    click.option("--higher-is-better/--lower-is-better", "higher_is_better", default=None,
                 help="Direction; needed only where the unit does not imply it."),
    click.option("--binary-units", is_flag=True,
                 help="kB, MB, GB are powers of 1024 (IOzone, hdparm)."),
    click.option("--sum", "sum_over", type=Listed(),
                 help="Column(s) whose rows are parts of one run: added up."),
    click.option("--set", "constants", multiple=True, help="NAME=VALUE added to every workload."),
    click.option("--cpu-share", multiple=True,
                 help="WORKLOAD=OTHER: OTHER holds the CPU seconds of WORKLOAD's runs."),
    click.option("--published-means", "means_file", type=PATH, help="CSV of means that were "
                 "published for these rows; wrong ones are listed."),
)  # fmt: skip


def _command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """The command of an importer, with its help from the table."""
    importer = IMPORTERS[name]
    example = f"\n\n\b\nschedlab import {name} {importer.example} --out DIR"
    text = importer.what + (example if importer.example else "")
    return command(name, help=text)


def _imports(command: Callable[..., Imported]) -> Callable[..., None]:
    """Add the options of every import to a command; save and print what it returns.

    The command takes the library's `options` in addition to its own arguments.
    """

    @functools.wraps(command)
    def run(out: Path, as_json: bool, **own: Any) -> None:
        from schedlab.cli.show import print_json, print_lines
        from schedlab.store.importers.imported import Options

        common = {name: own.pop(name) for name in ("title", "baseline", "blocked", "controls")}
        imported = command(options=Options(**common), **own)
        imported.save(out)
        if as_json:
            print_json(imported.as_json(out))
            return
        print_lines(imported.lines(out))
        click.echo(f"next: schedlab analyse {out}", err=True)

    return _import_options(run)


def of_files(name: str, *more: Callable[[Any], Any]) -> click.Command:
    """The command of an importer that needs files, and what `more` options say."""

    @_command(name)
    @_files_argument
    @together(*more)
    @_imports
    def command(files: tuple[str, ...], **options: Any) -> Imported:
        from schedlab.store.importers.imported import labelled

        imported: Imported = IMPORTERS[name].read(labelled(files), **options)
        return imported

    return command


@_command("csv")
@click.argument("file", type=PATH)
@_mapping_options
@_imports
def csv(file: Path, means_file: Path | None, options: Options, **mapping: Any) -> Imported:
    """By the user's mapping of its columns."""
    from schedlab.app.compare.csv_import import import_csv

    return import_csv(file, mapping, options, means_file)


_workload = click.option("--workload", default="command", show_default=True, help="What was timed.")
time = of_files("time", _workload)
