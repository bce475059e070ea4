"""Throughput and latency together: which candidates no other beats on both."""

from __future__ import annotations

from collections.abc import Mapping

from schedlab.nouns import ParetoPoint
from schedlab.nouns.answer import Answer, CellAnswer, Row

LATENCIES = ("reader_latency_ns_p99", "latency_ns_p99")


def pareto(answer: Answer) -> dict[str, tuple[ParetoPoint, ...]]:
    """The candidates of each workload that measures both kinds.

    A candidate is dominated by one that is at least as good on both by the estimates, where it is
    proven behind on the one that the other leads.
    """
    points = {}
    for workload in dict.fromkeys(row.workload for row in answer.rows if row.metric):
        rows = [row for row in answer.rows if row.workload == workload and row.metric]
        speed = next((row for row in rows if _is_speed(row)), None)
        named = {row.metric.name: row for row in rows if row.metric}
        latency = next((named[name] for name in LATENCIES if name in named), None)
        if speed is not None and latency is not None:
            points[workload] = _points(
                speed, latency, answer.cells[speed.name], answer.cells[latency.name]
            )
    return points


def _is_speed(row: Row) -> bool:
    return row.metric is not None and row.metric.higher_is_better and row.metric.unit.endswith("/s")


def _points(
    speed: Row, latency: Row, fast: Mapping[str, CellAnswer], slow: Mapping[str, CellAnswer]
) -> tuple[ParetoPoint, ...]:
    both = [label for label in fast if label in slow]
    return tuple(
        ParetoPoint(
            candidate=label,
            throughput=fast[label].value or 0.0,
            latency=slow[label].value or 0.0,
            throughput_metric=speed.metric.name if speed.metric else "",
            latency_metric=latency.metric.name if latency.metric else "",
            dominated_by=tuple(o for o in both if o != label and _dominates(o, label, fast, slow)),
        )
        for label in both
    )


def _dominates(
    other: str, label: str, fast: Mapping[str, CellAnswer], slow: Mapping[str, CellAnswer]
) -> bool:
    pairs = [(cells[other], cells[label]) for cells in (fast, slow)]
    return all(theirs.loss <= mine.loss for theirs, mine in pairs) and any(
        theirs.loss == 0 and mine.low > 0 for theirs, mine in pairs
    )
