"""The cost of a context switch, and its prediction for a quantum."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedlab.cpu.policy import PRIORITY_DEFAULT, CpuPolicy
from schedlab.errors import SpecError
from schedlab.spec import Candidate
from schedlab.spec.intervals import half_width

if TYPE_CHECKING:
    from schedlab.result import Result

# Matrices of the calculation: 3 of 100 x 100 integers of 4 bytes.
KERNEL_BYTES = 120_000
WORKING_SETS = (0, 4096, 16384, 32768, 65536, KERNEL_BYTES, 262_144, 524_288, 1_048_576)


def measure(cpu: int, batches: int, switches: int) -> tuple[Mapping[str, Any], bool]:
    """The costs as `schedlab_load::cpu::Costs`, and whether yields had real-time priority."""
    from schedlab._core import measure_cpu_costs
    from schedlab.cpu.refusals import explain

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
            raise explain(error, CpuPolicy("fifo"), (cpu,), 2) from error
    return json.loads(measure_cpu_costs(json.dumps(job | {"priority": 0}))), False


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval over the batches."""
    return fmean(values), half_width(values)


def loss(switch_ns: float, slice_ms: float) -> float:
    """Share of the CPU that switches take when every quantum is used up."""
    return switch_ns / (slice_ms * 1e6 + switch_ns)


def swept(folder: Path) -> Result:
    """The result of a sweep of quanta; SpecError for a folder of anything else."""
    from schedlab.result import Result

    result = Result.load(folder)
    if not all("effective_ms" in c.settings for c in result.record.experiment.candidates):
        raise SpecError(
            f"{folder}: is no result of `schedlab cpu sweep`", "schedlab cpu sweep --out DIR"
        )
    return result


def beside_measured(result: Result, switch_ns: float, half_ns: float) -> list[dict[str, Any]]:
    """Per quantum of a sweep: calculations per CPU second beside the baseline's, minus one;
    predicted from the cost of a switch (± half_ns), with its ends, and measured.
    """
    candidates = {c.label: c for c in result.record.experiment.candidates}
    baseline = candidates[result.record.experiment.baseline]
    rows = []
    answer = result.answer
    for row in (row for row in answer.rows if row.role in ("primary", "part")):
        cells = answer.cells[row.name]
        own = cells.get(baseline.label)
        for label, cell in cells.items():
            candidate = candidates.get(label)
            if candidate is None or candidate == baseline or not (own and own.value and cell.value):
                continue
            predicted, *ends = (
                _kept(ns, candidate) / _kept(ns, baseline) - 1
                for ns in (switch_ns, switch_ns - half_ns, switch_ns + half_ns)
            )
            rows.append(
                {
                    "candidate": label,
                    "baseline": baseline.label,
                    "predicted": predicted,
                    "predicted_low": min(ends),
                    "predicted_high": max(ends),
                    "measured": cell.value / own.value - 1,
                }
            )
    return rows


def _kept(switch_ns: float, candidate: Candidate) -> float:
    return 1 - loss(switch_ns, float(candidate.settings["effective_ms"]))


@dataclass(frozen=True)
class Costs:
    """Costs of a switch on one CPU, each a mean with its half width, in ns, and what follows.

    `ladder` is per size of the memory that is touched, `losses` the share of the CPU per quantum in
    ms; `real_time`: a yield was sure to switch.
    """

    cpu: int
    batches: int
    real_time: bool
    direct: Mapping[str, tuple[float, float]]
    ladder: Mapping[int, tuple[float, float]]
    losses: Mapping[float, float]
    beside: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain JSON types."""
        switch_ns, half_ns = self.ladder[KERNEL_BYTES]
        return {
            "schema": 1,
            "cpu": self.cpu,
            "real_time": self.real_time,
            "direct_ns": {k: {"mean": m, "half_width": h} for k, (m, h) in self.direct.items()},
            "ladder": [
                {"bytes": size, "mean_ns": mean, "half_width_ns": half}
                for size, (mean, half) in self.ladder.items()
            ],
            "switch_ns": switch_ns,
            "switch_half_width_ns": half_ns,
            "predicted_loss": dict(self.losses),
            "beside_measured": list(self.beside),
        }

    def lines(self) -> list[str]:
        """The costs and what they predict, as text."""
        lines = [f"context switches on CPU {self.cpu}, mean of {self.batches} batches and 95 % "
                 "interval"]  # fmt: skip
        named = {f"{name} ping-pong": costs for name, costs in self.direct.items()}
        named |= {f"yield, {_kib(size)} touched": costs for size, costs in self.ladder.items()}
        for name, (mean, half) in named.items():
            lines.append(f"  {name:<28} {mean / 1e3:7.3f} ± {half / 1e3:.3f} µs")
        if not self.real_time:
            lines.append(
                "  without real-time priority a yield may not switch: too low; run as root"
            )
        switch_ns, half_ns = self.ladder[KERNEL_BYTES]
        what = f"switches of {switch_ns / 1e3:.3f} µs ({_kib(KERNEL_BYTES)})"
        lines.append(f"predicted loss by {what}:")
        for ms, share in self.losses.items():
            half = loss(switch_ns + half_ns, ms) - share
            lines.append(f"  quantum {ms:>6g} ms: {share * 100:.4f} ± {half * 100:.4f} %")
        return lines + [_beside_line(row) for row in self.beside]


def costs_of(
    cpu: int, batches: int, switches: int, slices_ms: Sequence[float], folder: Path | None
) -> Costs:
    """Measure, predict the loss per quantum, and add the measured quanta of a sweep's `folder`."""
    result = swept(folder) if folder else None
    costs, real_time = measure(cpu, batches, switches)
    ladder = {size: interval(values) for size, values in costs["ladder"]}
    switch_ns, half_ns = ladder[KERNEL_BYTES]
    return Costs(
        cpu,
        batches,
        real_time,
        {name: interval(costs[f"{name}_ns"]) for name in ("pipe", "futex")},
        ladder,
        {ms: loss(switch_ns, ms) for ms in slices_ms},
        beside_measured(result, switch_ns, half_ns) if result else (),
    )


def _beside_line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['candidate']} beside {row['baseline']}: predicted {row['predicted'] * 100:+.4f} % "
        f"({row['predicted_low'] * 100:+.4f} to {row['predicted_high'] * 100:+.4f} %), "
        f"measured {row['measured'] * 100:+.4f} %"
    )


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"
