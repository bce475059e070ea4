"""From stored runs to the arrays that `analyse/` takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from schedlab.spec import Experiment, Record, Run, Samples, Workload


def samples(record: Record) -> tuple[list[Samples], list[Samples]]:
    """(primary, secondary) samples: one per workload, and one per workload and further metric.

    A further metric that some run did not give, such as a percentile without enough requests, is
    left out: the runs that have it are not like those that lack it.
    """
    runs = record.analysed_runs
    asked = record.experiment
    primary = [_of(asked, w, w.metric, runs) for w in asked.workloads]
    secondary = [_of(asked, w, name, runs) for w in asked.workloads for name in w.secondary]
    complete = Counter(run.workload for run in runs)
    return (
        [each for each in primary if each.values],
        [each for each in secondary if len(each.values) == complete[each.workload] > 0],
    )


def _share(run: Run) -> float:
    share = run.properties.get("cpu_share")
    return math.nan if share is None else float(share)


def _of(asked: Experiment, workload: Workload, metric: str, runs: Sequence[Run]) -> Samples:
    mine = [run for run in runs if run.workload == workload.label and metric in run.metrics]
    mine = [run for run in mine if math.isfinite(run.metrics[metric])]
    return Samples(
        workload=workload.label,
        metric=asked.metric_named(metric),
        candidates=tuple(run.candidate for run in mine),
        blocks=tuple(run.block for run in mine),
        values=tuple(run.metrics[metric] for run in mine),
        cpu_share=tuple(_share(run) for run in mine),
        weight=workload.weight,
        negative_control=workload.negative_control,
    )
