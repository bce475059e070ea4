"""The cost of a context switch, and the loss per quantum that it predicts.

Directly: two processes on one CPU pass a token by turns through pipes or futexes; half a round is a
switch with its wake-up. With the caches that it leaves cold: two processes of one real-time class
touch a working set and yield, after every touch or after every eighth; the difference of the two
periods is the cost of a switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypedDict

from schedlab.analyse.quantiles import half_width
from schedlab.cpu.crew import held, ran
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import HostError, SpecError
from schedlab.nouns import Candidate

if TYPE_CHECKING:
    from schedlab.result import Result

# Matrices of the calculation: 3 of 100 x 100 integers of 4 bytes.
KERNEL_BYTES = 120_000
# Touches between two yields where there are few switches.
FEW = 8
LIMIT_NS = 60_000_000_000
WORKING_SETS = (0, 4096, 16384, 32768, 65536, KERNEL_BYTES, 262_144, 524_288, 1_048_576)


def measure(cpu: int, batches: int, switches: int) -> tuple[dict[str | int, list[float]], bool]:
    """ns per switch of every batch: by `pipe`, by `futex`, and by the bytes that are touched; and
    whether yields had real-time priority. HostError for what the kernel refuses."""
    policy, is_real_time = CpuPolicy("fifo"), True
    try:
        _period_ns("futex", {"rounds": 1}, policy, cpu)
    except HostError as error:
        if not (isinstance(error.__cause__, OSError) and error.__cause__.filename == "policy"):
            raise
        policy, is_real_time = CpuPolicy(), False
    rounds = max(switches // 2, 1)
    costs: dict[str | int, list[float]] = {}
    for _ in range(batches):
        for kind in ("pipe", "futex"):
            costs.setdefault(kind, []).append(_period_ns(kind, {"rounds": rounds}, policy, cpu))
        for size in WORKING_SETS:
            work = {"rounds": rounds, "bytes": size}
            many, few = (
                _period_ns("yields", {**work, "touches": touches}, policy, cpu) / touches
                for touches in (1, FEW)
            )
            # A touch with one switch each, and one with a switch for every eighth.
            costs.setdefault(size, []).append((many - few) / (1 - 1 / FEW))
    return costs, is_real_time


def _period_ns(kind: str, work: Mapping[str, int], policy: CpuPolicy, cpu: int) -> float:
    """ns of a turn of two tasks on a CPU, of which a round has two. The first round finds both
    awake and its code in the cache, and is not counted."""
    scheduling = {"policy": policy.policy, "priority": policy.priority}
    role = {"kind": kind, **work, "rounds": work["rounds"] + 1}
    group = {"name": "pair", "role": role, "tasks": 2, "scheduling": scheduling}
    with held({"groups": [group], "window_ns": LIMIT_NS, "cpus": [cpu]}, policy) as crew:
        rows = ran(crew).groups[0].tasks
    if not all(row.completed for row in rows):
        raise HostError(
            f"CPU {cpu}: two tasks that take turns did not end", "is another job pinned there?"
        )
    return (rows[0].elapsed_ns - rows[0].began_ns) / (2 * work["rounds"])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval over the batches."""
    return fmean(values), half_width(values)


def loss(switch_ns: float, slice_ms: float) -> float:
    """Share of the CPU that switches take when every quantum is used up."""
    return switch_ns / (slice_ms * 1e6 + switch_ns)


# A quantum beside the baseline's: shares.
Beside = TypedDict(
    "Beside",
    {
        "candidate": str, "baseline": str, "predicted": float, "predicted_low": float,
        "predicted_high": float, "measured": float,
    },
)  # fmt: skip


def swept(folder: Path) -> Result:
    """The result of a sweep of quanta; SpecError for a folder of anything else."""
    from schedlab.result import Result

    result = Result.load(folder)
    if not all("effective_ms" in c.settings for c in result.record.experiment.candidates):
        raise SpecError(
            f"{folder}: is no result of `schedlab cpu sweep`", "schedlab cpu sweep --out DIR"
        )
    return result


def beside_measured(result: Result, switch_ns: float, half_ns: float) -> list[Beside]:
    """Per quantum of a sweep: calculations per CPU second beside the baseline's, minus one;
    predicted from the cost of a switch (± half_ns), with its ends, and measured.
    """
    candidates = {c.label: c for c in result.record.experiment.candidates}
    baseline = candidates[result.record.experiment.baseline]
    rows: list[Beside] = []
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
    beside: Sequence[Beside]

    def as_json(self) -> dict[str, object]:
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
    ladder = {size: interval(costs[size]) for size in WORKING_SETS}
    switch_ns, half_ns = ladder[KERNEL_BYTES]
    return Costs(
        cpu,
        batches,
        real_time,
        {name: interval(costs[name]) for name in ("pipe", "futex")},
        ladder,
        {ms: loss(switch_ns, ms) for ms in slices_ms},
        beside_measured(result, switch_ns, half_ns) if result else (),
    )


def _beside_line(row: Beside) -> str:
    return (
        f"{row['candidate']} beside {row['baseline']}: predicted {row['predicted'] * 100:+.4f} % "
        f"({row['predicted_low'] * 100:+.4f} to {row['predicted_high'] * 100:+.4f} %), "
        f"measured {row['measured'] * 100:+.4f} %"
    )


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"
