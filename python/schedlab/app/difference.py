"""What changed between two results: their machines, their work, their candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.spec import Metric, Record, Samples, to_json
from schedlab.spec.answer import Answer

# What may differ and is only reported; what must not, unless it is allowed.
REPORTED = ("kernel.release", "versions.schedlab")
MUST_AGREE = ("cpu.model", "cpu.usable", "virtualisation.virtual_machine", "clock.source")


def environment_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """What differs between two host.json, of all that can change a result."""
    return {
        name: (_at(first, name), _at(second, name))
        for name in (*REPORTED, *MUST_AGREE)
        if _at(first, name) != _at(second, name)
    }


def _at(host: Mapping[str, Any], name: str) -> Any:
    value: Any = host
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def require_same_work(first: Record, second: Record) -> None:
    """SpecError naming the first workload or target that differs between the two."""
    a, b = first.experiment, second.experiment
    for key in ("kind", "size_bytes"):
        was, now = getattr(a.target, key), getattr(b.target, key)
        if was != now:
            raise SpecError(f"the targets differ: {key} {was} and {now}", "measure the same target")
    theirs = {work.label: work for work in b.workloads}
    for work in a.workloads:
        other = theirs.get(work.label)
        if other and (other.parameters, other.metric) != (work.parameters, work.metric):
            raise SpecError(
                f"workload {work.label!r} differs between the two", "repeat it: schedlab reproduce"
            )
    if not {work.label for work in a.workloads} & set(theirs):
        raise SpecError("the two have no workload in common", "name results of the same work")


def names_of(first: Path, second: Path) -> tuple[str, str]:
    """What two folders are called: by their own names, if these differ."""
    one, other = first.resolve().name, second.resolve().name
    return (one, other) if one != other else ("first", "second")


@dataclass(frozen=True)
class Difference:
    """Two folders compared: the answers by candidate, what differs in the machines, the page."""

    record: Record
    answers: Mapping[str, Answer]
    machines: Mapping[str, tuple[Any, Any]]
    page: Path

    def as_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        data = {name: to_json(answer) for name, answer in self.answers.items()}
        document = {"schema": 2, "differences": self.machines, "candidates": data}
        return {**document, "html": str(self.page)}

    def lines(self, width: int = 80) -> list[str]:
        """A sentence and the values of every candidate, then where the page is."""
        from schedlab.report.difference_page import lines

        return [*lines(self.record, self.answers, width), "", f"Report {self.page}"]


def difference(
    first: Path, second: Path, despite: bool, page: Path | None, report: Callable[[str], None]
) -> Difference:
    """Compare two folders and write the page; SpecError unless work and machines are the same.

    `despite` allows other machines; `report` gets the differences.
    """
    from schedlab.report.difference_page import render
    from schedlab.result import Result
    from schedlab.store.files import write_atomic

    before, after = Result.load(first).record, Result.load(second).record
    machines = environment_differences(before.host, after.host)
    for name, (was, now) in machines.items():
        report(f"differs: {name}: {was} -> {now}")
    refused = [name for name in machines if name not in REPORTED]
    if refused and not despite:
        raise SpecError(
            f"the two machines differ in {', '.join(refused)}", "add --despite to compare anyway"
        )
    require_same_work(before, after)
    names = names_of(first, second)
    answers = changes(before, after, names)
    for label in _common(before, after):
        if label not in answers:
            report(f"not compared: {label}, which has no value in one of the two")
    page = page or second / "diff.html"
    write_atomic(page, render(before, answers, names, machines))
    return Difference(before, answers, machines, page)


def _common(first: Record, second: Record) -> list[str]:
    """The candidates of both."""
    theirs = {candidate.label for candidate in second.experiment.candidates}
    return [c.label for c in first.experiment.candidates if c.label in theirs]


def changes(
    first: Record, second: Record, names: tuple[str, str] = ("first", "second")
) -> dict[str, Answer]:
    """For each candidate with values in both: the first folder against the second.

    The two are different sessions, so the units are sessions, never runs: with one session on a
    side there is a difference and no bound. Where both hold the same baseline, the change beside
    the baseline is an answer of its own, `CANDIDATE / BASELINE`: what moved all candidates drops
    out of it.
    """
    common = _common(first, second)
    if not common:
        raise SpecError("the two have no candidate in common", "name results that share one")
    works = _means(first, second)
    common = [
        label
        for label in common
        if any(one.get(label) and other.get(label) for _, one, other in works.values())
    ]
    if not common:
        raise SpecError(
            "no candidate has a value in both",
            "`schedlab report DIR` shows why; then measure again: schedlab reproduce DIR",
        )
    margin, baseline = first.experiment.margin, first.experiment.baseline
    answers: dict[str, Answer] = {}
    for label in common:
        own = [_samples(names, w, m, label, "", sides) for w, (m, *sides) in works.items()]
        answers[label] = _answer(names, own, margin)
        if baseline != second.experiment.baseline or label == baseline:
            continue
        beside = [_samples(names, w, m, label, baseline, sides) for w, (m, *sides) in works.items()]
        if any(beside):
            answers[f"{label} / {baseline}"] = _answer(names, beside, margin)
    return answers


def _answer(names: tuple[str, str], samples: Sequence[Samples | None], margin: float) -> Answer:
    """The first result against the second, a workload for each of the samples."""
    from schedlab.analyse.answer import answer

    known = [sample for sample in samples if sample is not None]
    return answer(known, baseline=names[0], candidates=names, margin=margin, blocked=False)


Means = dict[str, dict[str, float]]  # candidate -> session -> mean log


def _means(first: Record, second: Record) -> dict[str, tuple[Metric, Means, Means]]:
    """Per workload of both: its metric, and the session means of every candidate, by folder."""
    from schedlab.analyse.sessions import session_means
    from schedlab.store.table import samples

    def of(sample: Samples) -> Means:
        sessions = sample.sessions or ("",) * len(sample.values)
        means: Means = {}
        for label in dict.fromkeys(sample.candidates):
            rows = [i for i, own in enumerate(sample.candidates) if own == label]
            means[label] = session_means(
                [sample.values[i] for i in rows],
                [sessions[i] for i in rows],
                [sample.blocks[i] for i in rows],
            )
        return means

    theirs = {sample.workload: sample for sample in samples(second)[0]}
    return {
        sample.workload: (sample.metric, of(sample), of(theirs[sample.workload]))
        for sample in samples(first)[0]
        if sample.workload in theirs
    }


def _samples(
    names: tuple[str, str],
    workload: str,
    metric: Metric,
    label: str,
    baseline: str,
    sides: Sequence[Means],
) -> Samples | None:
    """The session means of a candidate in both folders; as ratios to `baseline`, if one is named.

    `None` where one of the two has no value.
    """
    rows: list[tuple[str, int, float]] = []
    for name, side in zip(names, sides, strict=True):
        own, beside = side.get(label, {}), side.get(baseline, {})
        logs = {
            s: log - beside.get(s, 0.0) for s, log in own.items() if not baseline or s in beside
        }
        rows += [(name, i, math.exp(log)) for i, log in enumerate(logs.values())]
    if {name for name, _, _ in rows} != set(names):
        return None
    if baseline:
        title = f"{metric.title or metric.name} relative to {baseline}"
        metric = replace(metric, name=f"{metric.name}_ratio", unit="", title=title)
    candidates, blocks, values = zip(*rows, strict=True)
    return Samples(workload, metric, candidates, blocks, values)
