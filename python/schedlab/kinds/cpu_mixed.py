"""An interactive task, which wants a little CPU at fixed times, beside hogs that want all."""

from __future__ import annotations

from typing import ClassVar

from schedlab.kinds.cpu_mix import (
    Count,
    CpuMixKind,
    Micros,
    Mixed,
    TaskGroup,
    quantile_names,
    quantiles,
    shifted,
    with_load,
)
from schedlab.kinds.resolved import Outcome


class MixedWork(CpuMixKind, frozen=True):
    """`tasks` periodic tasks; lateness is the response time beyond the work itself."""

    kind: ClassVar[str] = "mixed"
    metrics: ClassVar[tuple[str, ...]] = (
        *quantile_names("lateness", "response"), "load_work_per_s", "cpu_s",
    )  # fmt: skip

    tasks: Count = 1
    period_us: Micros = 10_000.0
    work_us: Micros = 1_000.0
    seconds: float = 12.0

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """The interactive tasks."""
        times = {"period_ns": int(self.period_us * 1e3), "work_ns": int(self.work_us * 1e3)}
        return [TaskGroup("work", {"kind": "periodic", **times}, self.tasks)]

    def outcome(self, mixed: Mixed) -> Outcome:
        """Lateness and response time."""
        work = mixed.groups["work"]
        late, _ = quantiles(shifted(work["response"], int(self.work_us * 1e3)), "lateness")
        response, _ = quantiles(work["response"], "response")
        metrics = {**late, **response, "cpu_s": work["cpu_ns"] / 1e9}
        return Outcome(with_load(mixed, metrics), {}, histograms={"latency_ns": work["response"]})
