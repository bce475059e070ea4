"""An interactive task, which wants a little CPU at fixed times, beside hogs that want all."""

from __future__ import annotations

from typing import ClassVar

from schedlab.kinds.base import Offer
from schedlab.kinds.cpu_mix import (
    Count,
    PeriodicKind,
    Seconds,
    TaskGroup,
    answered,
    quantile_names,
    quantiles,
    shifted,
)
from schedlab.kinds.resolved import Outcome
from schedlab.nouns.load_result import CrewResult


class MixedWork(PeriodicKind, frozen=True):
    """`tasks` periodic tasks; lateness is the response time beyond the work itself."""

    kind: ClassVar[str] = "mixed"
    metrics: ClassVar[tuple[str, ...]] = (
        *quantile_names("lateness", "response"), "load_work_per_s", "cpu_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer(
        "mixed",
        "mixed",
        (
            metrics[0],
            "lateness_ns_p50",
            "response_ns_p99",
            "load_work_per_s",
        ),
    )

    tasks: Count = 1
    seconds: Seconds = 12.0

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """The interactive tasks."""
        return [TaskGroup("work", self.periodic(), self.tasks)]

    def outcome(self, mixed: CrewResult) -> Outcome:
        """Lateness and response time."""
        rows, unfinished = mixed.of("work").response, mixed.of("work").unfinished
        late_rows = shifted(rows, int(self.work_us * 1e3))
        late, late_bounds = quantiles(late_rows, "lateness", unfinished)
        response, bounds = quantiles(rows, "response", unfinished)
        return answered(mixed, {**late, **response}, {**late_bounds, **bounds})
