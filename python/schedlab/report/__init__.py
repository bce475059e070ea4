"""Step 5: an answer that people can read: text, HTML, a workbook, Markdown, CSV, JSON.

Every function takes a `Record` (the measurements) and its `Answer` (codes and numbers); `lang` is
one of `LANGUAGES`, SpecError otherwise. XlsxWriter is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlab.report.texts import LANGUAGES as LANGUAGES, Texts
from schedlab.report.view import View
from schedlab.nouns import Experiment, Record
from schedlab.nouns.answer import Answer


def text(
    record: Record,
    answer: Answer,
    width: int = 80,
    colour: bool = False,
    lang: str | None = "en",
    folder: Path | None = None,
    reports: Sequence[tuple[str, str]] = (),
) -> str:
    """The first screen for a terminal of `width` columns.

    `folder` is named in the commands of the next step, `reports` are (name, path) of the files.
    """
    from schedlab.report.terminal import render

    return render(View(record, answer, Texts(lang), folder), width, colour, reports)


def headline(record: Record, answer: Answer, lang: str | None = "en") -> str:
    """The headline with its price: the same in every form of the report."""
    from schedlab.report.sentences import headline_text

    return headline_text(View(record, answer, Texts(lang)))


def first_sentence(record: Record, answer: Answer, lang: str | None = "en") -> str:
    """The candidate to take, with its gain and its risk: the first sentence of every report."""
    from schedlab.report.sentences import first

    return first(View(record, answer, Texts(lang)))


def reach(record: Record, answer: Answer, lang: str | None = "en") -> str:
    """The reach of an answer: its bound in the next boot and on another layout, if it is known."""
    from schedlab.report.screen import reach as words

    return words(View(record, answer, Texts(lang)))


def setting_of(experiment: Experiment, label: str) -> str:
    """A candidate as `apply` takes it; empty where it is no setting of a device."""
    from schedlab.report.steps import setting_of as setting

    return setting(experiment, label)


def opposed(record: Record, answer: Answer) -> frozenset[str]:
    """The hosts of a fleet on which the baseline is proven better than what is taken."""
    from schedlab.report.fleet_table import opposed as hosts

    return hosts(View(record, answer, Texts("en")))


def html(
    record: Record, answer: Answer, lang: str | None = "en", folder: Path | None = None
) -> str:
    """The whole report as one self-contained page; `folder` is named in its commands."""
    from schedlab.report.page import render

    return render(View(record, answer, Texts(lang), folder))


def pages(
    record: Record, answer: Answer, lang: str | None, folder: Path | None, beside: str
) -> tuple[str, str]:
    """The page, and the one beside it with every recorded request, to which it has links under
    the name `beside`; empty where none was recorded.
    """
    from schedlab.report.page import render

    view = View(record, answer, Texts(lang), folder, beside)
    line = view.timeline
    return render(view), line.render() if line else ""


def xlsx(
    record: Record, answer: Answer, lang: str | None = "en", folder: Path | None = None
) -> bytes:
    """The workbook as the bytes of a file."""
    from schedlab.report.workbook import content

    return content(View(record, answer, Texts(lang), folder))


def figures(record: Record, answer: Answer, lang: str | None = "en") -> dict[str, str]:
    """Every figure of the page as an SVG document that stands alone, by its file name."""
    from schedlab.report.standalone import figures as alone

    return alone(html(record, answer, lang), record.figures)


def pdf(svg: str) -> bytes:
    """A figure as a PDF document; SpecError where CairoSVG is missing."""
    from schedlab.report.standalone import pdf as converted

    return converted(svg)


def markdown(record: Record, answer: Answer, lang: str | None = "en") -> str:
    """The answer, the tables of the study, limits and method as Markdown."""
    from schedlab.report.exchange import markdown as render

    return render(View(record, answer, Texts(lang)))


def tables_text(record: Record, answer: Answer, lang: str | None = "en", width: int = 80) -> str:
    """The tables of the study as text, for a terminal of `width` columns."""
    from schedlab.report.handin import study_tables
    from schedlab.report.terminal import tables as render

    return render(study_tables(View(record, answer, Texts(lang))), width)


def one_table(
    record: Record, answer: Answer, name: str, form: str, lang: str | None = "en", width: int = 80
) -> str:
    """The table of that name as `text`, `markdown`, `csv` or `json`; SpecError for another name."""
    from schedlab.report.exchange import one_table as render

    return render(View(record, answer, Texts(lang)), name, form, width)


def printed(record: Record, answer: Answer, lang: str | None = "en") -> dict[str, object]:
    """The sentences and all tables as plain JSON types; numbers in the unit of their column."""
    from schedlab.report.exchange import printed as render

    return render(View(record, answer, Texts(lang)))


def csv(record: Record, answer: Answer) -> str:
    """Every cell of the answer as one line of CSV, the same in every language."""
    from schedlab.report.exchange import csv_text

    return csv_text(View(record, answer, Texts("en")))
