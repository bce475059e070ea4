"""Step 5: a verdict that somebody can read: text, HTML, a workbook, Markdown, CSV.

Every function takes a `Record` (what was measured) and its `Verdict` (what that says); `lang` is
one of `LANGUAGES`, SpecError otherwise. Altair and XlsxWriter are imported when they are needed.
"""

from __future__ import annotations

from pathlib import Path

from schedlab.report.reproduce import script as reproduce_script
from schedlab.report.texts import LANGUAGES, Texts
from schedlab.report.view import View
from schedlab.spec import Record, Verdict

__all__ = [
    "LANGUAGES",
    "csv",
    "html",
    "markdown",
    "reproduce_script",
    "text",
    "write_html",
    "write_xlsx",
]


def text(
    record: Record, verdict: Verdict, width: int = 80, colour: bool = False, lang: str = "en"
) -> str:
    """The verdict for a terminal of `width` columns."""
    from schedlab.report.terminal import render

    return render(View(record, verdict, Texts(lang)), width, colour)


def html(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """The whole report as one self-contained page."""
    from schedlab.report.page import render

    return render(View(record, verdict, Texts(lang)))


def write_html(record: Record, verdict: Verdict, path: Path, lang: str = "en") -> None:
    """Write the report as one self-contained page; OSError when `path` cannot be written."""
    Path(path).write_text(html(record, verdict, lang), "utf-8")


def write_xlsx(record: Record, verdict: Verdict, path: Path, lang: str = "en") -> None:
    """Write the workbook; OSError when `path` cannot be written."""
    from schedlab.report.workbook import write

    write(View(record, verdict, Texts(lang)), Path(path))


def markdown(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """The verdict as Markdown."""
    from schedlab.report.exchange import markdown as render

    return render(View(record, verdict, Texts(lang)))


def csv(record: Record, verdict: Verdict, lang: str = "en") -> str:
    """Every pair as one line of CSV."""
    from schedlab.report.exchange import csv_text

    return csv_text(View(record, verdict, Texts(lang)))
