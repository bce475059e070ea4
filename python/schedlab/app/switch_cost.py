"""What a context switch costs, and what that predicts for a quantum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from schedlab.cpu.settings import PRIORITY_DEFAULT
from schedlab.spec import Candidate

# Matrices of the calculation: 3 of 100 x 100 integers of 4 bytes.
KERNEL_BYTES = 120_000
WORKING_SETS = (0, 4096, 16384, 32768, 65536, KERNEL_BYTES, 262_144, 524_288, 1_048_576)


def measure(cpu: int, batches: int, switches: int) -> tuple[Mapping[str, Any], bool]:
    """The costs as `schedlab_load::cpu::Costs`, and whether yields had real-time priority."""
    from schedlab._core import measure_cpu_costs
    from schedlab.cpu.refusals import explain
    from schedlab.cpu.settings import Settings

    job = {
        "cpu": cpu,
        "priority": PRIORITY_DEFAULT,
        "batches": batches,
        "switches": switches,
        "working_sets": WORKING_SETS,
    }
    try:
        return json.loads(measure_cpu_costs(json.dumps(job))), True
    except OSError as error:
        if error.filename != "policy":
            raise explain(error, Settings(2, None, cpus=(cpu,))) from error
    return json.loads(measure_cpu_costs(json.dumps(job | {"priority": 0}))), False


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval (Student's t over the batches)."""
    from scipy.stats import t

    n = len(values)
    return fmean(values), float(t.ppf(0.975, n - 1)) * stdev(values) / math.sqrt(n)


def loss(switch_ns: float, slice_ms: float) -> float:
    """Share of the CPU that switches take when every quantum is used up."""
    return switch_ns / (slice_ms * 1e6 + switch_ns)


def beside_measured(folder: Path, switch_ns: float, half_ns: float) -> list[dict[str, Any]]:
    """Per quantum of a sweep: calculations per CPU second beside the baseline's, minus one;
    predicted from the cost of a switch (± half_ns), and measured, each with its interval.
    """
    from schedlab.result import Result

    result = Result.load(folder)
    candidates = {c.label: c for c in result.record.experiment.candidates}
    baseline = candidates[result.record.experiment.baseline]
    rows = []
    for workload in result.verdict.workloads.values():
        for summary in workload.candidates:
            candidate = candidates.get(summary.candidate)
            if candidate is None or summary.ratio is None:
                continue
            predicted, *ends = (
                _kept(ns, candidate) / _kept(ns, baseline) - 1
                for ns in (switch_ns, switch_ns - half_ns, switch_ns + half_ns)
            )
            low, high = summary.ratio_low, summary.ratio_high
            rows.append(
                {
                    "candidate": summary.candidate,
                    "baseline": baseline.label,
                    "predicted": predicted,
                    "predicted_low": min(ends),
                    "predicted_high": max(ends),
                    "measured": summary.ratio - 1,
                    "low": None if low is None else low - 1,
                    "high": None if high is None else high - 1,
                }
            )
    return rows


def _kept(switch_ns: float, candidate: Candidate) -> float:
    return 1 - loss(switch_ns, float(candidate.settings["effective_ms"]))
