"""Step 5: a verdict that people can read: text, HTML, a workbook, Markdown, CSV.

Every function takes a `Record` (the measurements) and its `Verdict` (the conclusion); `lang` is
one of `LANGUAGES`, SpecError otherwise. XlsxWriter is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlab.report.reproduce import script as reproduce_script
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.view import View
from schedlab.spec import Record, Verdict

__all__ = [
    "LANGUAGES",
    "changes",
    "csv",
    "headline",
    "html",
    "markdown",
    "reproduce_script",
    "text",
    "write_html",
    "write_xlsx",
    "xlsx",
]


def text(
    record: Record,
    verdict: Verdict,
    width: int = 80,
    colour: bool = False,
    lang: str = "en",
    folder: Path | None = None,
    reports: Sequence[tuple[str, str]] = (),
) -> str:
    """The first screen for a terminal of `width` columns.

    `folder` is named in the commands of the next step, `reports` are (name, path) of the files.
    """
    from schedlab.report.terminal import render

    return render(View(record, verdict, Texts(lang), folder), width, colour, reports)


def headline(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """The headline with its price: the same in every form of the report."""
    from schedlab.report.sentences import headline_text

    return headline_text(View(record, verdict, Texts(lang)))


def html(record: Record, verdict: Verdict, lang: str = "en", folder: Path | None = None) -> str:
    """The whole report as one self-contained page; `folder` is named in its commands."""
    from schedlab.report.page import render

    return render(View(record, verdict, Texts(lang), folder))


def write_html(
    record: Record, verdict: Verdict, path: Path, lang: str = "en", folder: Path | None = None
) -> None:
    """Write the report as one self-contained page; OSError when `path` cannot be written."""
    Path(path).write_text(html(record, verdict, lang, folder), "utf-8")


def write_xlsx(
    record: Record, verdict: Verdict, path: Path, lang: str = "en", folder: Path | None = None
) -> None:
    """Write the workbook; OSError when `path` cannot be written."""
    Path(path).write_bytes(xlsx(record, verdict, lang, folder))


def xlsx(record: Record, verdict: Verdict, lang: str = "en", folder: Path | None = None) -> bytes:
    """The workbook as the bytes of a file."""
    from schedlab.report.workbook import content

    return content(View(record, verdict, Texts(lang), folder))


def markdown(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """The verdict as Markdown."""
    from schedlab.report.exchange import markdown as render

    return render(View(record, verdict, Texts(lang)))


def findings(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """The answer, the first table, why, and the knees, as a part of a Markdown page."""
    from schedlab.report.exchange import findings as render

    return render(View(record, verdict, Texts(lang)))


def changes(record: Record, verdict: Verdict, lang: str = "en") -> list[str]:
    """The lines of a verdict on two results: its headline, then each pair of each workload."""
    from schedlab.report.cells import pair_lines

    return pair_lines(View(record, verdict, Texts(lang)))


def csv(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """Every pair as one line of CSV."""
    from schedlab.report.exchange import csv_text

    return csv_text(View(record, verdict, Texts(lang)))
