"""The goal of a search: the metric that decides, and constraints such as `latency_ns_p99<5ms`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlab.errors import SpecError
from schedlab.nouns import Experiment, Run, Workload
from schedlab.nouns.quantities import parse_limit
from schedlab.tune.search import Match, Observation

# Gates that speak against the setting; all others say that the machine disturbed the run.
FAILURES = frozenset(
    {"io-errors", "device-alive", "command-failed", "exit-status", "limit", "no-value"}
)
# A miss counts up to this much (log of the ratio to the limit).
VIOLATION_MAX = 3.0


@dataclass(frozen=True)
class Constraint:
    """`metric` must stay below (`is_upper`) or above `limit`, in the metric's unit."""

    metric: str
    limit: float
    is_upper: bool
    text: str

    def violation(self, value: float) -> float:
        """log of the ratio to the limit: above 0 where it is missed."""
        if value <= 0:
            return -VIOLATION_MAX if self.is_upper else VIOLATION_MAX
        ratio = math.log(value / self.limit)
        return max(-VIOLATION_MAX, min(VIOLATION_MAX, ratio if self.is_upper else -ratio))


def parse_constraint(text: str, experiment: Experiment) -> Constraint:
    """`METRIC<VALUE` or `METRIC>VALUE`, the value as in `parse_limit`. SpecError."""
    match = re.fullmatch(r"\s*([^<>]+?)\s*([<>])=?\s*(\S.*?)\s*", text)
    if not match:
        raise SpecError(
            f"--subject-to {text!r} is not understood", "write --subject-to 'latency_ns_p99<5ms'"
        )
    name, sign, value = match.groups()
    metric = experiment.metric_named(name)
    try:
        limit = parse_limit(value, metric.unit)
    except SpecError as error:
        raise SpecError(f"--subject-to {text!r}: {error}", error.hint) from error
    return Constraint(name, limit, sign == "<", text.strip())


def with_objective(
    experiment: Experiment,
    offered: Mapping[str, Sequence[str]],
    objective: str,
    higher: bool,
    constraints: Iterable[Constraint],
) -> Experiment:
    """The experiment whose workloads are decided by `objective`, and report what is constrained.

    `offered` are the metrics that each workload can give. Workloads that do not give the objective
    are omitted, with a note. SpecError where none gives it.
    """
    works, notes = list(experiment.workloads), list(experiment.notes)
    if objective:
        if experiment.metric_named(objective).higher_is_better != higher:
            other = "--minimise" if higher else "--maximise"
            raise SpecError(f"of {objective}, {'less' if higher else 'more'} is better", other)
        works = [_decided_by(w, objective) for w in works if objective in offered[w.label]]
        if omitted := [w.label for w in experiment.workloads if objective not in offered[w.label]]:
            notes.append(f"omitted, as they do not measure {objective}: {', '.join(omitted)}")
    known = sorted({name for names in offered.values() for name in names})
    if not works:
        raise SpecError(f"no workload measures {objective}", f"their metrics: {', '.join(known)}")
    for each in constraints:
        if not any(each.metric in offered[w.label] for w in works):
            raise SpecError(
                f"--subject-to {each.text}: no workload measures {each.metric}",
                f"their metrics: {', '.join(known)}",
            )
        works = [_reporting(w, each.metric) if each.metric in offered[w.label] else w
                 for w in works]  # fmt: skip
    return replace(experiment, workloads=tuple(works), notes=tuple(notes))


def _decided_by(work: Workload, metric: str) -> Workload:
    others = dict.fromkeys((work.metric, *work.secondary))
    return replace(work, metric=metric, secondary=tuple(n for n in others if n != metric))


def _reporting(work: Workload, metric: str) -> Workload:
    if metric in (work.metric, *work.secondary):
        return work
    return replace(work, secondary=(*work.secondary, metric))


def score(experiment: Experiment, runs: Mapping[str, Run]) -> float | None:
    """Weighted mean over the workloads of the log of their metric, above is better; by workload.

    None where a run is missing or has no value.
    """
    total = weights = 0.0
    for work in experiment.workloads:
        if work.negative_control:
            continue
        run = runs.get(work.label)
        value = run.metrics.get(work.metric, 0.0) if run else 0.0
        if value <= 0:
            return None
        sign = 1.0 if experiment.metric(work).higher_is_better else -1.0
        total += work.weight * sign * math.log(value)
        weights += work.weight
    return total / weights if weights else None


def violation(constraints: Iterable[Constraint], runs: Iterable[Run]) -> float:
    """The largest miss of all constraints in these runs; 0 where there are none."""
    runs = list(runs)
    misses = [c.violation(r.metrics[c.metric]) for c in constraints for r in runs
              if c.metric in r.metrics]  # fmt: skip
    return max(misses, default=0.0)


def observed(
    ask: Match,
    labels: tuple[str, str, str],
    experiment: Experiment,
    constraints: Sequence[Constraint],
    runs: Iterable[Run],
) -> Observation | None:
    """The outcome of a block's finished runs; `labels`: challenger, incumbent, its A/A arm.

    None where the block says nothing: the incumbent has no value, or the challenger has none for
    a reason that is not its own.
    """
    mine: dict[str, dict[str, Run]] = {label: {} for label in labels}
    has_failed = False
    for run in (each for each in runs if each.block == ask.block):
        if run.status == "ok" and run.candidate in mine:
            mine[run.candidate][run.workload] = run
        elif run.candidate == labels[0]:
            has_failed |= any(g.fatal and g.gate in FAILURES for g in run.gates)
    challenger, incumbent, again = (mine[label] for label in labels)
    base = score(experiment, incumbent)
    if base is None:
        return None
    again_score = score(experiment, again) if ask.has_aa else None
    value = score(experiment, challenger)
    if value is None and not has_failed:
        return None
    return Observation(
        difference=None
        if value is None
        else value - (base if again_score is None else (base + again_score) / 2),
        violation=violation(constraints, challenger.values()),
        incumbent_violation=violation(constraints, incumbent.values()),
        aa=None if again_score is None else again_score - base,
    )
