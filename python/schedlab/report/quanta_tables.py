"""The tables of the published study of quanta, from a result: counts, bursts, rates, ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from schedlab.analyse.pairs import seen_from
from schedlab.spec import Record, Run, Verdict


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
        lines += ["", *_relative(labels, verdict, baseline)]
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


def _relative(labels: Sequence[str], verdict: Verdict, baseline: str) -> list[str]:
    """Calculations per CPU second beside a baseline, as the verdict has them: block by block, the
    A/A runs included, with simultaneous 95 % intervals."""
    pairs = [pair for workload in verdict.workloads.values() for pair in workload.pairs]
    lines = [f"calculations per CPU second, block by block, baseline {baseline}"]
    for label in labels:
        pair = seen_from(pairs, label, baseline)
        ratio, text = 1.0, "baseline" if label == baseline else "not compared"
        if pair is not None:
            ratio, text = pair.ratio, "no interval (too few repetitions)"
            if pair.low is not None and pair.high is not None:
                low, high = (100 * (end - 1) for end in (pair.low, pair.high))
                text = f"95 % interval {low:+.3f} % … {high:+.3f} %"
        lines.append(f"{label:<20} {(ratio - 1) * 100:>+8.3f} %   {text}")
    return lines
