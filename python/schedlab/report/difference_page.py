"""Two results beside each other: what changed, or whether a replay agrees with its live load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from schedlab.nouns import Metric, Record
from schedlab.nouns.answer import Answer
from schedlab.report import frame
from schedlab.report.exchange import escaped, table_text
from schedlab.report.markup import drawn_table
from schedlab.report.replays import doubts
from schedlab.report.screen import candidate_cell, columns_of
from schedlab.report.sentences import change
from schedlab.report.sentences import code as sentence_of
from schedlab.report.tables import Column, Table, TableCell, TableRow
from schedlab.report.terminal import tables as printed
from schedlab.report.texts import Texts
from schedlab.report.view import View

Answers = Mapping[str, Answer]
Names = tuple[str, str]
Machines = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Beside:
    """Two results beside each other: sentences, for whom they hold, and a table of both.

    `notes` are on the page only; `code` is that of an answer.
    """

    texts: Texts
    title: str
    sentences: list[str]
    scope: list[str]
    notes: list[str]
    table: Table
    code: str

    def lines(self, width: int = 80) -> list[str]:
        """As text for a terminal."""
        return [*self.sentences, *self.scope, "", printed([self.table], width)]

    def markdown(self) -> str:
        """The same for a pull request, in GitHub's Markdown."""
        points = "\n".join(f"* {escaped(line)}" for line in self.sentences)
        parts = [f"## {escaped(self.title)}", points, *map(escaped, self.scope)]
        return "\n\n".join([*parts, table_text(self.table)]) + "\n"

    def page(self) -> str:
        """The page."""
        page = frame.Page(
            headline=self.sentences,
            kicker=self.title,
            lead=[*self.scope, *self.notes],
            first=drawn_table(self.table, "verdicts first-table"),
            sections=[],
            code=self.code,
        )
        return frame.render(page, self.texts)


@dataclass(frozen=True)
class BootCounts:
    """The boots of each of two results, of which one has a single one; `needed` of each would
    decide (`None`: not known) where boots differ by the share `differ`.
    """

    of: tuple[int, int]
    needed: int | None
    differ: float


@dataclass(frozen=True)
class Recommended:
    """A result by its name, with its answer on one metric, and what it recommends; where nothing
    is decided, what may yet be the best.
    """

    name: str
    record: Record
    answer: Answer
    labels: tuple[str, ...]
    is_decided: bool

    @property
    def metric(self) -> Metric:
        """The primary metric."""
        metric = self.answer.rows[0].metric
        assert metric is not None
        return metric


@dataclass(frozen=True)
class Case:
    """A test of JUnit: of whom, its name, what is printed of it, and whether it failed."""

    of: str
    name: str
    text: str
    failed: bool


def junit(names: Names, cases: Sequence[Case]) -> bytes:
    """JUnit's XML."""
    suite = ElementTree.Element(
        "testsuite", name=f"{names[0]} to {names[1]}", tests=str(len(cases)),
        failures=str(sum(case.failed for case in cases)),
    )  # fmt: skip
    for each in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=each.of, name=each.name)
        if each.failed:
            ElementTree.SubElement(case, "failure", message=each.text)
        else:
            ElementTree.SubElement(case, "system-out").text = each.text
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written


def cases(record: Record, answers: Answers, worse: Set[tuple[str, str]]) -> list[Case]:
    """A case for each candidate and row, which failed where it is in `worse`."""
    views = _views(record, answers, Texts("en"))
    return [
        Case(label, view.title_of(of), change(view), (label, of.name) in worse)
        for label, view in views.items()
        for of in view.answer.rows
    ]


def changed(
    record: Record,
    answers: Answers,
    names: Names,
    machines: Machines,
    units: str = "sessions",
    boots: BootCounts | None = None,
    lang: str = "en",
) -> Beside:
    """Changes from the first to the second; `answers` by candidate on the two results.

    `machines` are the facts of the hosts that differ, each as it was and as it is. `boots` where
    one of the two has a single one.
    """
    texts = Texts(lang)
    views = _views(record, answers, texts)
    return Beside(
        texts,
        texts("text.diff", first=names[0], second=names[1]),
        [f"{label}: {change(view)}" for label, view in views.items()],
        [_scope(texts, names, units, boots)],
        [
            texts("text.diff_relative", baseline=record.experiment.baseline),
            *_machines(texts, machines),
        ],
        _differences(views, texts),
        next(iter(answers.values())).code if answers else "",
    )


def agreed(
    code: str, live: Recommended, replayed: Recommended, machines: Machines, lang: str = "en"
) -> Beside:
    """Whether a replay agrees with its live load, by the code of `analyse.agreement`."""
    texts = Texts(lang)
    views = {of.name: View(of.record, of.answer, texts) for of in (live, replayed)}
    rows = [
        TableRow((TableCell(label), *(candidate_cell(view, view.answer.rows[0], label)
                            for view in views.values())))
        for label in columns_of(views[live.name])
    ]  # fmt: skip
    columns = (Column(texts("column.candidate"), text=True), *map(Column, views))
    sentence = texts(
        f"answer.replay_{code}",
        metric=texts.metric(live.metric),
        names=texts.listed([name for name in live.labels if name in replayed.labels]),
        undecided=texts.listed([of.name for of in (live, replayed) if not of.is_decided]),
        live=texts.listed([*live.labels]),
        replayed=texts.listed([*replayed.labels]),
    )
    told = [f"{name}: {sentence_of(view)}" for name, view in views.items()]
    return Beside(
        texts,
        texts("text.agreement", live=live.name, replayed=replayed.name),
        [sentence, *doubts(views[replayed.name]), *told],
        [],
        _machines(texts, machines),
        Table("agreement", texts("text.agreement_table"), columns, tuple(rows)),
        live.answer.code,
    )


def _machines(texts: Texts, machines: Machines) -> list[str]:
    facts = [f"{fact}: {was} → {now}" for fact, (was, now) in machines.items()]
    return [texts("text.diff_machines", facts="; ".join(facts))] if facts else []


def _scope(texts: Texts, names: Names, units: str, boots: BootCounts | None) -> str:
    """For which sessions this holds, and how many boots would decide."""
    if boots is None:
        return texts("text.diff_boots" if units == "sessions" else "text.diff_runs")
    counts = [texts.counted("measured.boots", count) for count in boots.of]
    parts = [texts("format.bracket", text=n, inside=c) for n, c in zip(names, counts, strict=True)]
    told = texts("text.diff_one_boot", results=texts.listed(parts))
    if boots.needed is None:
        return told
    needed, differ = texts.counted("measured.boots", boots.needed), texts.margin(boots.differ)
    return f"{told} {texts('text.diff_needed', boots=needed, count=boots.needed, differ=differ)}"


def _views(record: Record, answers: Answers, texts: Texts) -> dict[str, View]:
    return {label: View(record, answer, texts) for label, answer in answers.items()}


def _differences(views: Mapping[str, View], texts: Texts) -> Table:
    """A row for each candidate and workload: the value in both results, and the loss."""
    rows: list[TableRow] = []
    results: tuple[str, ...] = ()
    for label, view in views.items():
        results = results or columns_of(view)
        for of in view.answer.rows:
            title = TableCell(label, note=view.title_of(of))
            rows.append(
                TableRow((title, *(candidate_cell(view, of, name) for name in columns_of(view))))
            )
    columns = (Column(texts("column.candidate"), text=True), *map(Column, results))
    return Table("differences", texts("text.diff_table"), columns, tuple(rows))
