"""What changed between two results: lines for a terminal, and the page in the one style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlab.report import frame
from schedlab.report.markup import drawn_table
from schedlab.report.screen import candidate_cell, columns_of
from schedlab.report.sentences import change
from schedlab.report.tables import Cell, Column, Row, Table
from schedlab.report.terminal import tables as printed
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.spec import Record
from schedlab.spec.answer import Answer

Answers = Mapping[str, Answer]


def lines(record: Record, answers: Answers, width: int = 80, lang: str = "en") -> list[str]:
    """The sentences on every candidate, then the table of both results."""
    texts = Texts(lang)
    views = _views(record, answers, texts)
    table = printed([_differences(views, texts)], width)
    return [*(f"{label}: {change(view)}" for label, view in views.items()), "", table]


def render(
    record: Record,
    answers: Answers,
    names: tuple[str, str],
    machines: Mapping[str, tuple[Any, Any]],
    lang: str = "en",
) -> str:
    """The page; `answers` by candidate on the results `names[0]` and `names[1]`.

    `machines` are the facts of the hosts that differ, each as it was and as it is.
    """
    texts = Texts(lang)
    views = _views(record, answers, texts)
    facts = [f"{fact}: {was} → {now}" for fact, (was, now) in machines.items()]
    relative = texts("text.diff_relative", baseline=record.experiment.baseline)
    page = frame.Page(
        headline=[f"{label}: {change(view)}" for label, view in views.items()],
        kicker=texts("text.diff", first=names[0], second=names[1]),
        lead=[relative, *([texts("text.diff_machines", facts="; ".join(facts))] if facts else [])],
        first=drawn_table(_differences(views, texts), "verdicts first-table"),
        sections=[],
        code=next(iter(answers.values())).code if answers else "",
    )
    return frame.render(page, texts)


def _views(record: Record, answers: Answers, texts: Texts) -> dict[str, View]:
    return {label: View(record, answer, texts) for label, answer in answers.items()}


def _differences(views: Mapping[str, View], texts: Texts) -> Table:
    """A row for each candidate and workload: the value in both results, and the loss."""
    rows: list[Row] = []
    results: tuple[str, ...] = ()
    for label, view in views.items():
        results = results or columns_of(view)
        for of in view.answer.rows:
            title = Cell(label, note=view.title_of(of))
            rows.append(
                Row((title, *(candidate_cell(view, of, name) for name in columns_of(view))))
            )
    columns = (Column(texts("column.candidate"), text=True), *map(Column, results))
    return Table("differences", texts("text.diff_table"), columns, tuple(rows))
