"""`schedlab report DIR`: the answer in a folder as a page, a workbook, tables or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli.options import command, goal_option, language_option
from schedlab.errors import SpecError
from schedlab.nouns import Objective

if TYPE_CHECKING:
    from schedlab.result import Result


@command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--html", type=click.Path(dir_okay=False), help="Write a self-contained page.")
@click.option("--xlsx", type=click.Path(dir_okay=False), help="Write an Excel workbook.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--figures", type=click.Path(file_okay=False), help="Write all as SVG and PDF.")
@click.option(
    "--fio",
    type=click.Path(file_okay=False),
    metavar="DIRECTORY",
    help="Write fio's json+ with bins, named for fio-plot.",
)
@click.option(
    "--iozone",
    type=click.Path(file_okay=False),
    metavar="DIRECTORY",
    help="Write text of IOzone's -R.",
)
@click.option("--tables", is_flag=True, help="Print the tables of the study.")
@click.option(
    "--table", metavar="NAME", help="Print that one, also with --csv, --markdown, --json."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every cell of the answer as CSV.")
@language_option
@goal_option
@click.option("--json", "as_json", is_flag=True, help="Print answer, tables and files as JSON.")
def report(directory: str, lang: str | None, goal: Objective | None, **typed: Any) -> None:
    """Write the report of the result folder DIRECTORY.

    Without options: DIRECTORY/report.html and DIRECTORY/report.xlsx. `--table`, `--markdown` and
    `--csv` print to stdout. For a directory of results: DIRECTORY/index.html, which leads to them.
    """  # fmt: skip
    forms = [name for name in ("tables", "markdown", "as_csv", "as_json") if typed[name]]
    if len(forms) > 1 or (forms == ["tables"] and typed["table"]):
        raise click.UsageError("--tables, --markdown, --csv and --json cannot be used together")
    from schedlab import report as reporting
    from schedlab.app.results_index import holds_results, write_index
    from schedlab.cli.show import print_json, terminal
    from schedlab.result import Result

    forms_of_files = ("html", "xlsx", "figures", "fio", "iozone")
    written = {name: typed[name] for name in forms_of_files if typed[name]}
    if holds_results(Path(directory)):
        if forms or written or goal or typed["table"]:
            raise SpecError(
                f"{directory}: a directory of results has only its index",
                "name one of its result folders",
            )
        click.echo(f"html: {write_index(Path(directory), lang)}", err=True)
        return
    result = Result.load(directory, goal)
    if not (written or typed["table"] or (forms and forms != ["as_json"])):
        written = {name: f"{directory}/report.{name}" for name in ("html", "xlsx")}
    for name, path in written.items():
        if name in ("fio", "iozone"):
            _export(result, name, Path(path))
        elif made := getattr(result, f"write_{name}")(Path(path), lang):
            click.echo(f"timeline: {made}", err=True)
    for name, path in written.items():
        click.echo(f"{name}: {path}", err=True)
    if not (forms or typed["table"]):
        return
    record, answer = result.record, result.answer
    if typed["table"]:
        form = forms[0].removeprefix("as_") if forms else "text"
        one = reporting.one_table(record, answer, typed["table"], form, lang, terminal()[0])
        click.echo(one, nl=False)
    elif typed["tables"]:
        click.echo(reporting.tables_text(record, answer, lang, terminal()[0]))
    elif typed["markdown"]:
        click.echo(reporting.markdown(record, answer, lang), nl=False)
    elif typed["as_csv"]:
        click.echo(reporting.csv(record, answer), nl=False)
    elif typed["as_json"]:
        shown = reporting.printed(record, answer, lang)
        print_json({**shown, "files": written, "answer": result.as_json()})


def _export(result: Result, form: str, out: Path) -> None:
    """Write the runs as another tool would have."""
    from schedlab.store.exporters import fio, iozone

    record, parameters = result.record, result.parameters
    try:
        written = {"fio": fio, "iozone": iozone}[form].write(record, parameters, out)
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}", "name a writable folder") from error
    if not written:
        raise SpecError(f"{form}: no run has a throughput", "look at runs.jsonl")
