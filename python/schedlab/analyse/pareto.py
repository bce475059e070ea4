"""Throughput and latency together: which candidates no other beats on both."""

from __future__ import annotations

from collections.abc import Sequence

from schedlab.analyse.pairs import seen_from
from schedlab.spec import CandidateSummary, ParetoPoint, WorkloadVerdict

LATENCIES = ("reader_latency_ns_p99", "latency_ns_p99")


def pareto(verdicts: Sequence[WorkloadVerdict]) -> tuple[ParetoPoint, ...]:
    """The table of one workload from the verdicts on its metrics; empty without both kinds.

    A candidate is dominated by one that is better on one of the two and not worse on the other,
    by the verdicts on the pairs.
    """
    speed = next((v for v in verdicts if _is_speed(v)), None)
    latency = next((v for name in LATENCIES for v in verdicts if v.metric.name == name), None)
    if speed is None or latency is None:
        return ()
    slow = {summary.candidate: summary for summary in latency.candidates}
    return tuple(
        _point(summary, slow[summary.candidate], speed, latency)
        for summary in speed.candidates
        if summary.candidate in slow
    )


def _is_speed(verdict: WorkloadVerdict) -> bool:
    return verdict.metric.higher_is_better and verdict.metric.unit.endswith("/s")


def _point(
    fast: CandidateSummary, slow: CandidateSummary, speed: WorkloadVerdict, latency: WorkloadVerdict
) -> ParetoPoint:
    label = fast.candidate
    dominated = tuple(
        other.candidate
        for other in speed.candidates
        if other.candidate != label and _dominates(other.candidate, label, speed, latency)
    )
    return ParetoPoint(
        candidate=label,
        throughput=fast.geometric_mean,
        throughput_low=fast.low,
        throughput_high=fast.high,
        latency=slow.geometric_mean,
        latency_low=slow.low,
        latency_high=slow.high,
        throughput_metric=speed.metric.name,
        latency_metric=latency.metric.name,
        dominated_by=dominated,
    )


def _dominates(other: str, label: str, speed: WorkloadVerdict, latency: WorkloadVerdict) -> bool:
    """Whether `other` is better on one metric and equivalent or better on the other."""
    pairs = [seen_from(verdict.pairs, other, label) for verdict in (speed, latency)]
    words = [pair.verdict if pair else "undecided" for pair in pairs]
    return "better" in words and all(word in ("better", "equivalent") for word in words)
