"""Names of our workloads in the language of a report; users' labels are as they wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedlab.nouns import Record
from schedlab.nouns.answer import Answer
from schedlab.report.texts import Texts

# A test at its record size, or an extraction by its decompressor.
_AT = re.compile(r"(?P<name>.+?)(?P<rest> \d+ (?:B|[KMG]iB)|, (?:none|gzip|xz|zstd))")


def name_of(texts: Texts, label: str) -> str:
    """The name of a workload, whose label is English."""
    known = texts.maybe(f"named.{label}", "")
    if not known and (parts := _AT.fullmatch(label)):
        known = texts.maybe(f"named.{parts['name']}", "")
        known += parts["rest"] if known else ""
    return known or label


def translated(record: Record, answer: Answer, texts: Texts) -> tuple[Record, Answer]:
    """Both with the names of workloads in place of their labels; `Row.name` stays the key."""
    labels = [workload.label for workload in record.experiment.workloads]
    labels += record.experiment.omitted
    names = {each: name for each in labels if (name := name_of(texts, each)) != each}
    if not names or len({names.get(each, each) for each in labels}) < len(labels):
        return record, answer
    return _record(record, names), _answer(answer, names)


def _record(record: Record, names: Mapping[str, str]) -> Record:
    experiment, plan, planning = record.experiment, record.plan, record.planning
    works = (replace(w, label=names.get(w.label, w.label)) for w in experiment.workloads)
    cells = (replace(c, workload=names.get(c.workload, c.workload)) for c in plan.cells)
    runs = (replace(run, workload=names.get(run.workload, run.workload)) for run in record.runs)

    def by_cell(values: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
        return {(names.get(work, work), name): each for (work, name), each in values.items()}

    return replace(
        record,
        experiment=replace(
            experiment, workloads=tuple(works), omitted=_renamed(experiment.omitted, names)
        ),
        plan=replace(plan, cells=tuple(cells)),
        runs=tuple(runs),
        histograms=by_cell(record.histograms),
        series=by_cell(record.series),
        latencies=by_cell(record.latencies),
        explanations=by_cell(record.explanations),
        recordings=by_cell(record.recordings),
        planning=planning and replace(planning, omitted=_renamed(planning.omitted, names)),
    )


def _answer(answer: Answer, names: Mapping[str, str]) -> Answer:
    rows = (replace(row, workload=names.get(row.workload, row.workload)) for row in answer.rows)
    flags = (
        replace(f, workload=names.get(f.workload, f.workload), values=_renamed(f.values, names))
        for f in answer.flags
    )
    groups = (
        replace(group, answer=group.answer and _answer(group.answer, names))
        for group in answer.guarantees
    )
    return replace(
        answer,
        rows=tuple(rows),
        flags=tuple(flags),
        guarantees=tuple(groups),
        knees=tuple(replace(k, family=names.get(k.family, k.family)) for k in answer.knees),
        pareto=_renamed(answer.pareto, names),
    )


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Every label in mappings and sequences, also as a key."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {names.get(key, key): _renamed(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_renamed(each, names) for each in value)
    return value
