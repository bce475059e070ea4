"""The tables of the published study of quanta, from a result: counts, bursts, rates, ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from schedlab.spec import AA_SUFFIX, Record, Run, Verdict


def published_tables(record: Record, verdict: Verdict) -> list[str]:
    """Lines: per process, summed, and calculations per CPU second relative to two baselines."""
    runs = {
        candidate.label: [
            run for run in record.runs if run.status == "ok" and run.candidate == candidate.label
        ]
        for candidate in record.experiment.candidates
    }
    runs = {label: each for label, each in runs.items() if each}
    if not runs:
        return []
    labels = list(runs)
    lines = ["", "Published tables (means over the repetitions)", *_per_process(runs), ""]
    lines += _sums(runs)
    for baseline in dict.fromkeys((labels[0], labels[len(labels) // 2])):
        lines += ["", *_relative(runs, verdict, baseline)]
    return lines


def _workers(run: Run) -> Sequence[Mapping[str, Any]]:
    workers: Sequence[Mapping[str, Any]] = run.properties.get("workers", ())
    return workers


def _per_process(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    lines = [f"{'quantum':<20} process   calculations   CPU burst s"]
    for label, each in runs.items():
        for number in range(len(_workers(each[0]))):
            count = fmean(_workers(run)[number]["calculations"] for run in each)
            burst = fmean(_workers(run)[number]["cpu_burst_s"] for run in each)
            lines.append(f"{label:<20} {number:>7} {count:>14.1f} {burst:>13.6f}")
    return lines


def _sums(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    lines = [f"{'quantum':<20} sum of counts   CPU burst s   calculations per CPU second"]
    for label, each in runs.items():
        count = fmean(sum(w["calculations"] for w in _workers(run)) for run in each)
        burst = fmean(sum(w["cpu_burst_s"] for w in _workers(run)) for run in each)
        rate = fmean(run.metrics["calculations_per_cpu_s"] for run in each)
        lines.append(f"{label:<20} {count:>13.1f} {burst:>13.6f} {rate:>29.2f}")
    return lines


def _relative(runs: Mapping[str, Sequence[Run]], verdict: Verdict, baseline: str) -> list[str]:
    """Calculations per CPU second beside a baseline, with simultaneous 95 % intervals."""
    intervals: dict[str, tuple[float | None, float | None]] = {}
    for workload in verdict.workloads.values():
        for pair in workload.pairs:
            if pair.b == baseline:
                intervals[pair.a] = (pair.low, pair.high)
            elif pair.a == baseline and pair.low and pair.high:
                intervals[pair.b] = (1 / pair.high, 1 / pair.low)
    base = fmean(run.metrics["calculations_per_cpu_s"] for run in runs[baseline])
    lines = [f"calculations per CPU second, baseline {baseline}"]
    for label, each in runs.items():
        ratio = fmean(run.metrics["calculations_per_cpu_s"] for run in each) / base
        low, high = intervals.get(label, (None, None))
        text = "baseline" if label == baseline else "no interval (too few repetitions)"
        if low is not None and high is not None:
            text = f"95 % interval {(low - 1) * 100:+.3f} % … {(high - 1) * 100:+.3f} %"
        lines.append(f"{label.removesuffix(AA_SUFFIX):<20} {(ratio - 1) * 100:>+8.3f} %   {text}")
    return lines
