"""The page of two results side by side: what became of each candidate, in the one style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlab.report import frame, words
from schedlab.report.cells import PairText, pair_texts
from schedlab.report.markup import table
from schedlab.report.sentences import change_text, of_workload
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.spec import Record, Verdict, WorkloadVerdict


def render(
    record: Record,
    verdicts: Mapping[str, Verdict],
    names: tuple[str, str],
    machines: Mapping[str, tuple[Any, Any]],
    lang: str = "en",
) -> str:
    """The page; `verdicts` by candidate on folder `names[0]` against `names[1]`.

    `machines` are the facts of the hosts that differ, each as it was and as it is.
    """
    texts = Texts(lang)
    views = {label: View(record, verdict, texts) for label, verdict in verdicts.items()}
    facts = [f"{fact}: {was} → {now}" for fact, (was, now) in machines.items()]
    relative = texts("text.diff_relative", baseline=record.experiment.baseline)
    page = frame.Page(
        headline=[f"{label}: {change_text(view)}" for label, view in views.items()],
        kicker=texts("text.diff", first=names[0], second=names[1]),
        lead=[relative, *([texts("text.diff_machines", facts="; ".join(facts))] if facts else [])],
        first=_differences(views, texts),
        sections=[("workloads", texts("section.workloads"), _sentences(views, texts))],
        code=next(iter(verdicts.values())).code if verdicts else "",
    )
    return frame.render(page, texts)


def _differences(views: Mapping[str, View], texts: Texts) -> str:
    """A row per workload and candidate: the means of both folders, and the difference."""
    rows = []
    for label, view in views.items():
        for of in view.workloads:
            (pair_text,) = pair_texts(view, of, of.pairs)
            means = [texts.quantity(c.geometric_mean, of.metric.unit, 3) for c in of.candidates]
            rows.append([of.workload, label, *means, pair_text.title, _amount(texts, of, pair_text),
                         pair_text.interval, pair_text.verdict])  # fmt: skip
    names = [c.candidate for c in next(iter(views.values())).workloads[0].candidates]
    heads = [texts("column.workload"), texts("column.candidate"), *names, texts("column.pair"),
             texts("column.amount"), texts("column.interval", confidence=texts.margin(0.95)),
             texts("column.verdict")]  # fmt: skip
    return table(list(heads), rows, texts("text.diff_table"), "verdicts first-table")


def _amount(texts: Texts, of: WorkloadVerdict, pair_text: PairText) -> str:
    kind = words.speech(of.metric)
    amount = words.amount(texts, pair_text.drawn.ratio, "better", kind)
    return texts("ratio.words", amount=amount, word=words.word(texts, "better", kind))


def _sentences(views: Mapping[str, View], texts: Texts) -> str:
    """Every candidate on every workload."""
    rows = [
        [of.workload, label, of_workload(view, of)]
        for label, view in views.items()
        for of in view.workloads
    ]
    heads = [texts("column.workload"), texts("column.candidate"), texts("column.verdict")]
    return table(list(heads), rows, texts("section.workloads"))
