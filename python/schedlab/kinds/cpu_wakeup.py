"""Wake-ups under load: messengers post requests to workers at planned times, beside hogs.

Like schbench, but as an open loop: a request's response time counts from its planned time, so the
figures include the delay of a messenger that itself runs late.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.base import Offer
from schedlab.kinds.cpu_mix import (
    Count,
    CpuMixKind,
    Micros,
    TaskGroup,
    answered,
    quantile_names,
    quantiles,
)
from schedlab.kinds.resolved import Outcome
from schedlab.nouns.load_result import CrewResult


class Wakeup(CpuMixKind, frozen=True):
    """`messengers` with `workers` each, `rate` requests per second of each worker."""

    kind: ClassVar[str] = "wakeup"
    metrics: ClassVar[tuple[str, ...]] = (
        *quantile_names("response", "wakeup"), "requests_per_s", "load_work_per_s", "cpu_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer(
        "wakeup",
        "wakeup",
        (
            metrics[0],
            "response_ns_p50",
            "response_ns_p99_9",
            "wakeup_ns_p99",
            "requests_per_s",
            "load_work_per_s",
        ),
    )

    messengers: Count = 1
    workers: Count = 8
    rate: Annotated[float, Meta(gt=0, le=1e5)] = 200.0
    work_us: Micros = 100.0

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """Messengers and workers."""
        role = {
            "kind": "wakeup",
            "workers": self.workers,
            "rate": self.rate,
            "work_ns": int(self.work_us * 1e3),
        }
        return [TaskGroup("work", role, self.messengers)]

    def outcome(self, mixed: CrewResult) -> Outcome:
        """Response times and wake-up latencies; requests that were not finished are bounds."""
        work = mixed.of("work")
        response, bounds = quantiles(work.response, "response", work.unfinished)
        wakeup, wakeup_bounds = quantiles(work.wakeup, "wakeup")
        metrics = {**response, **wakeup}
        if work.units:
            metrics["requests_per_s"] = work.units / mixed.window_s
        return answered(mixed, metrics, {**bounds, **wakeup_bounds}, wakeup_ns=work.wakeup)
