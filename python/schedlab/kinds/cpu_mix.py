"""Shared by the CPU workloads: tasks in groups, a load of hogs, numbers from bins.

Run by `run/cpu/cpu_policies.py`: candidates set policy, nice value, slice, weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import GateFinding, Kind, latency
from schedlab.nouns.load_result import CrewResult

HOG_WORK_NS = 100_000
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
Count = Annotated[int, Meta(ge=1, le=4096)]
Micros = Annotated[float, Meta(gt=0, le=1e6)]
Period = Annotated[float, Meta(ge=1, le=1e6)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
RampSeconds = Annotated[float, Meta(ge=0, le=60)]


@dataclass(frozen=True)
class TaskGroup:
    """Tasks of one role (crates/load/src/cpu/job.rs); `is_load`: they are the load.

    `weight` above 0 puts them into a separate cpu cgroup with that weight; groups of one
    `cgroup` name share it.
    """

    name: str
    role: Mapping[str, Any]
    tasks: int
    is_load: bool = False
    weight: int = 0
    cgroup: str = ""


class CpuMixKind(WorkloadKind, frozen=True):
    """`load` hogs (None: twice as many as CPUs) run beside the work, on the CPUs `cpus` (all)."""

    family: ClassVar[Kind] = "cpu"
    is_finite: ClassVar[bool] = False
    forks: ClassVar[bool] = False

    load: Annotated[int, Meta(ge=0, le=1000)] | None = None
    cpus: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    seconds: Seconds = 2.0
    ramp_seconds: RampSeconds = 0.3

    def estimate_s(self) -> float:
        """Ramp and window."""
        return self.seconds + self.ramp_seconds + 0.2

    def task_groups(self, cpu_count: int) -> list[TaskGroup]:
        """The work, then the load."""
        hogs = 2 * cpu_count if self.load is None else self.load
        load = TaskGroup("load", {"kind": "hog", "work_ns": HOG_WORK_NS}, hogs, is_load=True)
        return [*self.work(cpu_count), *([load] if hogs else [])]

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """The groups of tasks that are measured."""
        raise NotImplementedError(self.kind)

    def outcome(self, mixed: CrewResult) -> Outcome:
        """Metrics of a mix that has ended."""
        raise NotImplementedError(self.kind)


class PeriodicKind(CpuMixKind, frozen=True):
    """Tasks that want `work_us` of CPU every `period_us`, at planned times."""

    period_us: Period = 10_000.0
    work_us: Micros = 1_000.0

    def periodic(self) -> dict[str, object]:
        """The role of such a task."""
        return {
            "kind": "periodic",
            "period_ns": int(self.period_us * 1e3),
            "work_ns": int(self.work_us * 1e3),
        }


def answered(
    mixed: CrewResult,
    metrics: Mapping[str, float],
    bounds: Mapping[str, str],
    **histograms: latency.Rows,
) -> Outcome:
    """The outcome of tasks that answered requests: these metrics, their CPU time, the load's work,
    and the bins of their response times."""
    work = mixed.of("work")
    return Outcome(
        with_load(mixed, {**metrics, "cpu_s": work.cpu_ns / 1e9}),
        {"unfinished": work.unfinished},
        histograms={"latency_ns": work.response, **histograms},
        bounds=bounds,
    )


def with_load(mixed: CrewResult, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics, and the work of the load meanwhile: pieces of 100 µs per second."""
    units = mixed.of("load").units
    return {**metrics, **({"load_work_per_s": units / mixed.window_s} if units else {})}


def quantiles(
    rows: latency.Rows, name: str, unfinished: int = 0
) -> tuple[dict[str, float], dict[str, str]]:
    """(quantiles and the mean, by metric; those that are only lower bounds).

    A quantile that too few requests support is given as its lower confidence bound.
    `unfinished` values are of requests that were still waiting at the end.
    """
    total = sum(count for _, _, count in rows)
    metrics: dict[str, float] = {}
    bounds: dict[str, str] = {}
    if not total:
        return metrics, bounds
    for word, q in QUANTILES.items():
        value = latency.quantile(rows, q)
        if value is not None:
            metrics[f"{name}_ns_{word}"] = max(value, 1.0)
            if unfinished > total * (1 - q):
                bounds[f"{name}_ns_{word}"] = "at-least"
        elif (least := latency.bound(rows, q)) is not None:
            metrics[f"{name}_ns_{word}"] = max(least, 1.0)
            bounds[f"{name}_ns_{word}"] = "at-least"
    metrics[f"{name}_ns_mean"] = max(1.0, sum((a + b) / 2 * n for a, b, n in rows) / total)
    metrics[f"{name}_ns_max"] = max(1.0, float(rows[-1][1]))
    if unfinished:
        bounds[f"{name}_ns_mean"] = bounds[f"{name}_ns_max"] = "at-least"
    return metrics, bounds


def finite(mixed: CrewResult, limit_s: float, per_s: Mapping[str, float]) -> Outcome:
    """Elapsed time of work that ends by itself, or the limit as a lower bound."""
    elapsed_ns = mixed.of("work").elapsed_ns
    if elapsed_ns is None:
        text = f"it was still running after {limit_s:g} s and counts with that time"
        return Outcome(
            with_load(mixed, {"elapsed_s": limit_s}),
            {"censored": True},
            (GateFinding("limit", text, fatal=False),),
            bounds={"elapsed_s": "at-least"},
        )
    elapsed_s = max(elapsed_ns / 1e9, 1e-9)
    rates = {name: count / elapsed_s for name, count in per_s.items()}
    cpu_s = mixed.of("work").cpu_ns / 1e9
    return Outcome(with_load(mixed, {"elapsed_s": elapsed_s, "cpu_s": cpu_s, **rates}))


def quantile_names(*names: str) -> tuple[str, ...]:
    """The metrics that `quantiles` gives under each name, p99 first."""
    words = ("p99", "p50", "p90", "p99_9", "mean", "max")
    return tuple(f"{name}_ns_{word}" for name in names for word in words)


def shifted(rows: Sequence[Sequence[int]], by_ns: int) -> list[list[int]]:
    """Bins of values that are each less by `by_ns`, at least a microsecond."""
    return [[max(1000, a - by_ns), max(1000, b - by_ns), n] for a, b, n in rows]
