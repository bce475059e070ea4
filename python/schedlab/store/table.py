"""From stored runs to the arrays that `analyse/` takes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from schedlab.nouns import Bound, Record, Run, Samples, Workload

# A quantile of latencies, or of response times: what it is of, and which.
QUANTILE = re.compile(r"(.+_ns)_(p\d+(?:_\d+)?)")
# (workload, metric) -> whose figure it is, where not that of the workload itself: "writers".
Actors = Mapping[tuple[str, str], str]


def samples(record: Record, actors: Actors | None = None) -> tuple[list[Samples], list[Samples]]:
    """(primary, secondary) samples: one per workload, and one per workload and further metric.

    A further metric that some run did not give, such as a percentile without enough requests, is
    omitted: the runs that have it are not like those that lack it. Workloads that a budget's pilot
    omitted are not in either.
    """
    whose = actors or {}
    works = [w for w in record.experiment.workloads if w.label not in record.omitted]
    deciding = {work.label: _deciding(record, work) for work in works}
    primary = [_of(record, work, deciding[work.label]) for work in works]
    secondary = [
        _of(record, work, name, whose.get((work.label, name), ""))
        for work in works
        for name in dict.fromkeys((work.metric, *work.secondary))
        if name != deciding[work.label]
    ]
    complete = Counter(run.workload for run in record.analysed_runs)
    return (
        [each for each in primary if each.values],
        [each for each in secondary if len(each.values) == complete[each.workload] > 0],
    )


def _deciding(record: Record, workload: Workload) -> str:
    """The metric that decides: the mean where runs had too few requests for the quantile.

    Of a process that was not served the mean is a bound, too; runs of that kind alone leave the
    quantile, but one of them does not bring it back for all others.
    """
    quantile = QUANTILE.fullmatch(workload.metric)
    if quantile is None:
        return workload.metric
    mean, runs = f"{quantile[1]}_mean", [r for r in record.analysed_runs if
                                         r.workload == workload.label]  # fmt: skip
    bounds = {name: sum(bool(run.bounds.get(name)) for run in runs)
              for name in (mean, workload.metric)}  # fmt: skip
    reported = all(mean in run.metrics for run in runs)
    return mean if reported and bounds[mean] < bounds[workload.metric] else workload.metric


def _of(record: Record, workload: Workload, metric: str, actor: str = "") -> Samples:
    """One metric of the runs of a workload that passed their gates."""
    runs = [run for run in record.analysed_runs if run.workload == workload.label]
    mine = [run for run in runs if math.isfinite(run.metrics.get(metric, math.nan))]
    tried = [run for run in record.runs if run.workload == workload.label]
    return Samples(
        workload=workload.label,
        metric=record.experiment.metric_named(metric),
        candidates=tuple(run.candidate for run in mine),
        blocks=tuple(run.block for run in mine),
        values=tuple(run.metrics[metric] for run in mine),
        cpu_share=tuple(run.number("cpu_share", math.nan) for run in mine),
        weight=workload.weight,
        negative_control=workload.negative_control,
        of_parameter=not workload.is_chosen,
        before=tuple(record.before[run.key] for run in mine),
        bounds=tuple(_bound(run, metric) for run in mine),
        sessions=tuple(run.session for run in mine),
        hosts=tuple(run.host for run in mine) if any(run.host for run in mine) else (),
        step=_step(mine, metric),
        actor=actor,
        nothing_to_order=workload.label in record.unordered,
        repeated=Counter(run.candidate for run in tried if run.status == "discarded"),
        kept=Counter(run.candidate for run in runs),
    )


def _step(runs: Sequence[Run], metric: str) -> float:
    """The resolution of a metric: the finest of its runs, where each has one; else 0."""
    steps = [float(run.properties.get("steps", {}).get(metric, 0.0)) for run in runs]
    return min(steps) if steps and all(steps) else 0.0


def _bound(run: Run, metric: str) -> Bound:
    """Which side the truth is on, where the value is only a bound."""
    side = run.bounds.get(metric, "")
    return side if side in ("at-most", "at-least") else ""  # type: ignore[return-value]
