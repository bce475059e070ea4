"""`schedlab import`: existing measurements become a result folder, one command for all formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import PATH, command, json_option, typed_options
from schedlab.cli.sections import section
from schedlab.cli.types import Listed
from schedlab.errors import SpecError
from schedlab.store.importers import IMPORTERS, format_of

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options

_TABLE = "A table (csv)"
_import_options = section(
    "Import",
    click.option("--out", type=PATH, required=True, help="Result folder."),
    click.option("--title", default="", help="Title of the experiment."),
    click.option("--baseline", default="", help="Candidate to compare with (default: the first)."),
    click.option("--control", "controls", multiple=True, help="Workload that cannot depend on the "
                 "candidate (negative control); may be repeated."),
    click.option("--blocked/--unblocked", default=False, show_default=True, help="Whether every "
                 "candidate was run block by block (repetition by repetition)."),
    click.option("--workload", type=Listed(), help="csv: column(s) that name it; time: what was "
                 "timed (command)."),
    json_option, usual="--out --title --baseline --control --blocked --workload --json",
)  # fmt: skip
_mapping_options = section(
    _TABLE,
    click.option("--candidate", type=Listed(), help="Column(s) that name the candidate."),
    click.option("--value", help="Column of the figures, or a ratio COLUMN/COLUMN."),
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
    usual="--candidate --value --block --unit --higher-is-better",
)  # fmt: skip
_WIDTH = max(map(len, IMPORTERS))
_FORMATS = "".join(f"\n  {name:{_WIDTH}}  {each.line}" for name, each in IMPORTERS.items())
_EXAMPLE = (
    "results.csv --candidate scheduler --workload test,record_bytes \\\n"
    "    --value kib_per_s --unit KiB/s --higher-is-better --block repetition --unblocked"
)
_HELP = f"""Import measurements that exist as a result folder, for `schedlab analyse`.

Files of one candidate are its repetitions. FORMAT may be omitted where their contents show it.

\b
schedlab import none=1.json none=2.json bfq=3.json bfq=4.json --out DIR
schedlab import csv {_EXAMPLE} --out DIR

\b
Formats:{_FORMATS}
"""


@command("import", help=_HELP)
@click.argument("words", nargs=-1, required=True, metavar="[FORMAT] [CANDIDATE=]FILE…")
@_import_options
@_mapping_options
@click.pass_context
def import_(
    ctx: click.Context, /, words: tuple[str, ...], out: Path, as_json: bool, **typed: Any
) -> None:
    """Import measurements that exist as a result folder, for `schedlab analyse`."""
    from schedlab.cli.show import print_json, print_lines
    from schedlab.store.importers.imported import Options

    own = {key: typed.pop(key) for key in ("title", "baseline", "blocked", "controls")}
    imported = _read(ctx, words, typed, Options(**own))
    imported.save(out)
    if as_json:
        print_json(imported.as_json(out))
        return
    print_lines(imported.lines(out))
    click.echo(f"next: schedlab analyse {out}", err=True)


def _read(
    ctx: click.Context, words: tuple[str, ...], mapping: dict[str, Any], options: Options
) -> Imported:
    """The import of the files; SpecError for options that are not of their format."""
    from schedlab.app.compare.csv_import import import_csv
    from schedlab.store.importers.imported import labelled

    is_named = words[0] in IMPORTERS
    files = words[1:] if is_named else words
    if not files:
        raise SpecError(f"import {words[0]}: no file", f"schedlab import {words[0]} FILE --out DIR")
    columns = [option.opts[0] for option in ctx.command.params
               if getattr(option, "section", "") == _TABLE]  # fmt: skip
    mapped = [name for name in typed_options(ctx) if name in columns]
    pairs = labelled(files)
    name = words[0] if is_named else "csv" if mapped else format_of([path for _, path in pairs])
    if name == "csv":
        if len(files) > 1 or not (mapping["candidate"] and mapping["value"]):
            raise SpecError("a table is one file, and needs --candidate and --value",
                            "name its columns: schedlab import --help-all")  # fmt: skip
        return import_csv(Path(files[0]), mapping, options, mapping.pop("means_file"))
    label = mapping["workload"]
    if label and name != "time":
        mapped.append("--workload")
    if mapped:
        raise SpecError(f"{', '.join(mapped)}: not of the format {name}", "remove it")
    more = {"workload": label or "command"} if name == "time" else {}
    return IMPORTERS[name].read(pairs, options=options, **more)
