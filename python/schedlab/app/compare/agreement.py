"""Whether a replay recommends what its live load does: both answers on one metric, as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schedlab.analyse.agreement import AgreementCode, agreement, possible, recommended
from schedlab.app.targets import queues_named
from schedlab.errors import SpecError
from schedlab.kinds.live_load import LiveLoad
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.nouns import AA_SUFFIX, Record, Workload, to_json
from schedlab.report.difference_page import Beside, Case, Recommended, agreed, junit


@dataclass(frozen=True)
class ReplayAgreement:
    """The two results, the live one first, and whether they agree; `shown` is it in words."""

    code: AgreementCode
    sides: tuple[Recommended, Recommended]
    machines: Mapping[str, tuple[Any, Any]]
    page: Path
    shown: Beside

    def fails(self, on: str) -> bool:
        """Whether they disagree, unless `on` is `never`."""
        return self.code == "disagree" and on != "never"

    def as_json(self) -> dict[str, object]:
        """As plain JSON types."""
        answers = {of.name: to_json(of.answer) for of in self.sides}
        document = {"schema": 2, "differences": self.machines, "agreement": self.code}
        return {
            **document,
            "metric": self.sides[0].metric.name,
            "answers": answers,
            "html": str(self.page),
        }

    def junit(self, on: str = "worse") -> bytes:
        """One test case, which failed where they disagree."""
        names = (self.sides[0].name, self.sides[1].name)
        case = Case(names[1], self.shown.title, self.shown.sentences[0], self.fails(on))
        return junit(names, [case])


def of_replay(
    records: Mapping[str, Record], machines: Mapping[str, tuple[Any, Any]], page: Path,
    report: Callable[[str], None],
) -> ReplayAgreement | None:  # fmt: skip
    """Whether two results by name agree; None unless one is a live load and one a replay.

    SpecError where they have no metric, or fewer than two candidates, in common.
    """
    live = next((n for n, r in records.items() if _work(r, LiveLoad.kind)), None)
    replayed = next((n for n, r in records.items() if _work(r, TraceReplay.kind)), None)
    if live is None or replayed is None:
        return None
    sides = (records[live], records[replayed])
    metric, labels = _metric(*sides), _labels(*sides)
    for line in _doubts(*sides):
        report(line)
    one = _recommended(live, _narrowed(sides[0], metric, labels))
    other = _recommended(replayed, _narrowed(sides[1], one.metric.name, labels))
    if other.metric.name != one.metric.name:  # too few requests for the quantile
        one = _recommended(live, _narrowed(sides[0], other.metric.name, labels))
    code = agreement(one.answer, other.answer)
    shown = agreed(code, one, other, machines)
    return ReplayAgreement(code, (one, other), machines, page, shown)


def _work(record: Record, *kinds: str) -> Workload | None:
    return next((work for work in record.experiment.workloads if work.kind in kinds), None)


def _metric(*records: Record) -> str:
    """The metric that decides under the live load, if both have it; else that of the replay."""
    wanted = [work.metric for record in records for work in record.experiment.workloads]
    for metric in wanted:
        if all(any(metric in run.metrics for run in record.analysed_runs) for record in records):
            return metric
    raise SpecError(
        f"the two have none of {', '.join(dict.fromkeys(wanted))} in common",
        "compare them by one: schedlab live --deciding METRIC, compare --trace --metric METRIC",
    )


def _labels(first: Record, second: Record) -> tuple[str, ...]:
    """The candidates of both, with the same settings."""
    theirs = second.experiment.candidates
    common = tuple(c.label for c in first.experiment.candidates if c in theirs)
    if len(common) < 2:
        raise SpecError("the two have fewer than two candidates in common", "use the same ones")
    return common


def _narrowed(record: Record, metric: str, labels: tuple[str, ...]) -> Record:
    """The record with that metric and those candidates only."""
    asked = record.experiment
    work = _work(record, LiveLoad.kind, TraceReplay.kind)
    assert work is not None
    experiment = replace(
        asked,
        workloads=(replace(work, metric=metric, secondary=()),),
        candidates=tuple(c for c in asked.candidates if c.label in labels),
        baseline=asked.baseline if asked.baseline in labels else labels[0],
        requires=(), shares="", objective="throughput",
    )  # fmt: skip
    runs = tuple(
        run for run in record.runs
        if run.workload == work.label and run.candidate.removesuffix(AA_SUFFIX) in labels
    )  # fmt: skip
    return replace(record, experiment=experiment, runs=runs)


def _recommended(name: str, record: Record) -> Recommended:
    from schedlab.result import answer_of

    answer = answer_of(record, flags=False)
    return Recommended(name, record, answer, possible(answer), bool(recommended(answer)))


def _doubts(live: Record, replayed: Record) -> list[str]:
    """Where the recording is not, as far as is known, of the device of the live load."""
    target = live.experiment.target
    queues = {Path(target.path).name, *queues_named(target)}
    found = (run.properties.get("fidelity") for run in replayed.runs)
    device = next((each["device"] for each in found if each), None)
    if not device or device in queues:
        return []
    return [f"the load was recorded on {device}; the live one is on {', '.join(sorted(queues))}"]
