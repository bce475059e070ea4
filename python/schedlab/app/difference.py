"""What changed between two results: their machines, their work, their candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.spec import (
    CandidateSummary,
    Experiment,
    Metric,
    Overall,
    Pair,
    Population,
    Record,
    Samples,
    StoppingState,
    Verdict,
    WorkloadVerdict,
    to_json,
)

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
    """Two folders compared: the verdicts by candidate, what differs in the machines, the page."""

    record: Record
    verdicts: Mapping[str, Verdict]
    machines: Mapping[str, tuple[Any, Any]]
    page: Path

    def as_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        data = {name: to_json(verdict) for name, verdict in self.verdicts.items()}
        document = {"schema": 1, "differences": self.machines, "candidates": data}
        return {**document, "html": str(self.page)}

    def lines(self) -> list[str]:
        """A headline and the pairs of every candidate, then where the page is."""
        from schedlab import report

        rows = []
        for name, verdict in self.verdicts.items():
            first_line, *pairs = report.changes(self.record, verdict)
            rows += [f"{name}: {first_line}", *pairs]
        return [*rows, f"Report {self.page}"]


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
    verdicts = changes(before, after, names)
    for label in _common(before, after):
        if label not in verdicts:
            report(f"not compared: {label}, which has no value in one of the two")
    page = page or second / "diff.html"
    write_atomic(page, render(before, verdicts, names, machines))
    return Difference(before, verdicts, machines, page)


def _common(first: Record, second: Record) -> list[str]:
    """The candidates of both."""
    theirs = {candidate.label for candidate in second.experiment.candidates}
    return [c.label for c in first.experiment.candidates if c.label in theirs]


def changes(
    first: Record, second: Record, names: tuple[str, str] = ("first", "second")
) -> dict[str, Verdict]:
    """For each candidate with values in both: the verdict on the first folder against the second.

    The two are different sessions, so the units are sessions, never runs: with one session on a
    side there is a difference and no verdict. Where both hold the same baseline, it is the
    difference of the differences to it: what moved all candidates drops out.
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
    shared = first.experiment.baseline == second.experiment.baseline
    about = _About(names, first.experiment, len(common) * len(works))
    return {
        label: about.verdict(
            label, works, first.experiment.baseline if shared and len(common) > 1 else label
        )
        for label in common
    }


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


@dataclass(frozen=True)
class _About:
    """What all differences of two folders share; `comparisons` are made together."""

    names: tuple[str, str]
    experiment: Experiment
    comparisons: int

    def verdict(
        self, label: str, works: Mapping[str, tuple[Metric, Means, Means]], baseline: str
    ) -> Verdict:
        """One candidate on all workloads; beside `baseline` unless it is that itself."""
        overall = {
            workload: self._workload(workload, metric, label, one, other, baseline)
            for workload, (metric, one, other) in works.items()
            if one.get(label) and other.get(label)
        }
        loudest = max(overall.values(), key=_loudness)
        return Verdict(
            headline=loudest.headline,
            baseline=self.names[0],
            design="unblocked",
            stopping=StoppingState(mode="none"),
            population=Population(len(overall), 0, sessions=sum(self._sessions(works, label))),
            workloads=overall,
            overall=Overall(
                candidates=loudest.candidates,
                pairs=loudest.pairs,
                best_set=loudest.best_set,
                headline=loudest.headline,
                workloads=(loudest.workload,),
                metric=loudest.metric,
                higher_is_better=loudest.metric.higher_is_better,
                unit="sessions",
                units=loudest.units,
                margin=self.experiment.margin,
            ),
        )

    @staticmethod
    def _sessions(works: Mapping[str, tuple[Metric, Means, Means]], label: str) -> tuple[int, int]:
        """The most sessions of a candidate on a workload, folder by folder."""
        one = max(len(sides[1].get(label, {})) for sides in works.values())
        return one, max(len(sides[2].get(label, {})) for sides in works.values())

    def _workload(
        self, workload: str, metric: Metric, label: str, one: Means, other: Means, baseline: str
    ) -> WorkloadVerdict:
        from schedlab.analyse.sessions import FEWEST_SESSIONS, diff_sessions, session_headline

        sides = (one, other)
        own = [list(side[label].values()) for side in sides]
        beside = None
        if baseline != label and all(set(s[label]) <= set(s.get(baseline, {})) for s in sides):
            beside = tuple([side[baseline][s] for s in side[label]] for side in sides)
        pairs = diff_sessions(
            own[0],
            own[1],
            margin=self.experiment.margin,
            higher_is_better=metric.higher_is_better,
            baseline=None if beside is None else (beside[0], beside[1]),
            comparisons=self.comparisons,
        )
        known = min(pairs.sessions) >= FEWEST_SESSIONS and math.isfinite(pairs.half_width)
        ends = (pairs.difference - pairs.half_width, pairs.difference + pairs.half_width)
        pair = Pair(
            *self.names,
            math.exp(pairs.difference),
            math.exp(ends[0]) if known else None,
            math.exp(ends[1]) if known else None,
            pairs.verdict,
        )
        means = [math.exp(sum(logs) / len(logs)) for logs in own]
        better = {"better": self.names[:1], "worse": self.names[1:]}.get(pairs.verdict, self.names)
        return WorkloadVerdict(
            workload=workload,
            metric=metric,
            blocks=0,
            candidates=tuple(
                CandidateSummary(name, count, mean, mean, None, None)
                for name, count, mean in zip(self.names, pairs.sessions, means, strict=True)
            ),
            pairs=(pair,),
            best_set=better,
            headline=session_headline(
                self.names, pairs, pair, metric, workload, self.experiment.margin
            ),
            unit="sessions",
            units=min(pairs.sessions),
            margin=self.experiment.margin,
        )


def _loudness(of: WorkloadVerdict) -> tuple[bool, float]:
    """Decided differences before all others, then the largest ratio."""
    pair = of.pairs[0]
    return pair.verdict in ("better", "worse"), abs(math.log(pair.ratio))
