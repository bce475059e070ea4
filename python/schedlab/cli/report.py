"""`schedlab report DIR`: the verdict of a result folder as a page, a workbook, Markdown or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import goal_option
from schedlab.spec import Objective


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--html", type=click.Path(dir_okay=False), help="Write a self-contained page.")
@click.option("--xlsx", type=click.Path(dir_okay=False), help="Write an Excel workbook.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every pair as CSV.")
@click.option("--lang", type=click.Choice(("en", "ko", "ru")), default="en", show_default=True,
              help="Language of headings and sentences.")  # fmt: skip
@goal_option
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and the files as JSON.")
def report(directory: str, lang: str, goal: Objective | None, **typed: Any) -> None:
    """Write the report of the result folder DIRECTORY.

    Without options: DIRECTORY/report.html and DIRECTORY/report.xlsx. `--markdown` and `--csv`
    print to stdout.
    """  # fmt: skip
    html, xlsx = typed["html"], typed["xlsx"]
    if typed["markdown"] + typed["as_csv"] + typed["as_json"] > 1:
        raise click.UsageError("--markdown, --csv and --json cannot be used together")
    from schedlab import report as reporting
    from schedlab.result import Result

    result = Result.load(directory, goal)
    record, verdict = result.record, result.verdict
    if not (html or xlsx or typed["markdown"] or typed["as_csv"]):
        html, xlsx = f"{directory}/report.html", f"{directory}/report.xlsx"
    written = {name: path for name, path in (("html", html), ("xlsx", xlsx)) if path}
    for name, path in written.items():
        (result.write_html if name == "html" else result.write_xlsx)(Path(path), lang)
    if typed["markdown"]:
        click.echo(reporting.markdown(record, verdict, lang), nl=False)
    elif typed["as_csv"]:
        click.echo(reporting.csv(record, verdict), nl=False)
    elif typed["as_json"]:
        from schedlab.cli.show import print_json
        from schedlab.spec import to_json

        headline = reporting.headline(record, verdict, lang)
        print_json({"headline": headline, "files": written, "verdict": to_json(verdict)})
    for name, path in written.items():
        click.echo(f"{name}: {path}", err=True)
