"""What changed between two results: lines for a terminal, and the page in the one style."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any
from xml.etree import ElementTree

from schedlab.report import frame
from schedlab.report.exchange import escaped, table_text
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
Names = tuple[str, str]


def lines(
    record: Record, answers: Answers, names: Names, is_one_boot: bool,
    width: int = 80, lang: str = "en",
) -> list[str]:  # fmt: skip
    """The sentences on every candidate, for whom they hold, then the table of both results."""
    texts = Texts(lang)
    views = _views(record, answers, texts)
    table = printed([_differences(views, texts)], width)
    told = [f"{label}: {change(view)}" for label, view in views.items()]
    return [*told, _scope(texts, names, is_one_boot), "", table]


def markdown(
    record: Record, answers: Answers, names: Names, is_one_boot: bool, lang: str = "en"
) -> str:
    """The same for a pull request, in GitHub's Markdown."""
    texts = Texts(lang)
    views = _views(record, answers, texts)
    told = "\n".join(f"* {escaped(f'{label}: {change(view)}')}" for label, view in views.items())
    title = escaped(texts("text.diff", first=names[0], second=names[1]))
    scope = escaped(_scope(texts, names, is_one_boot))
    return "\n\n".join([f"## {title}", told, scope, table_text(_differences(views, texts))]) + "\n"


def junit(record: Record, answers: Answers, names: Names, worse: Set[tuple[str, str]]) -> bytes:
    """JUnit's XML: a test case for each candidate and row, which failed where it is in `worse`."""
    views = _views(record, answers, Texts("en"))
    cases = [(label, view, of) for label, view in views.items() for of in view.answer.rows]
    suite = ElementTree.Element(
        "testsuite", name=f"{names[0]} to {names[1]}", tests=str(len(cases)),
        failures=str(len(worse)),
    )  # fmt: skip
    for label, view, of in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=label, name=view.title_of(of))
        told = change(view)
        if (label, of.name) in worse:
            ElementTree.SubElement(case, "failure", message=told)
        else:
            ElementTree.SubElement(case, "system-out").text = told
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written


def _scope(texts: Texts, names: Names, is_one_boot: bool) -> str:
    """For which boots this holds."""
    key = "text.diff_one_boot" if is_one_boot else "text.diff_boots"
    return texts(key, first=names[0], second=names[1])


def render(
    record: Record,
    answers: Answers,
    names: Names,
    machines: Mapping[str, tuple[Any, Any]],
    is_one_boot: bool,
    lang: str = "en",
) -> str:
    """The page; `answers` by candidate on the results `names[0]` and `names[1]`.

    `machines` are the facts of the hosts that differ, each as it was and as it is.
    """
    texts = Texts(lang)
    views = _views(record, answers, texts)
    facts = [f"{fact}: {was} → {now}" for fact, (was, now) in machines.items()]
    relative = texts("text.diff_relative", baseline=record.experiment.baseline)
    scope = _scope(texts, names, is_one_boot)
    machines_differ = [texts("text.diff_machines", facts="; ".join(facts))] if facts else []
    page = frame.Page(
        headline=[f"{label}: {change(view)}" for label, view in views.items()],
        kicker=texts("text.diff", first=names[0], second=names[1]),
        lead=[scope, relative, *machines_differ],
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
