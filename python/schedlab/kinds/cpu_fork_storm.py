"""Many short processes: slots that fork one child after the other."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.base import Offer
from schedlab.kinds.cpu_mix import (
    Count,
    CpuMixKind,
    Micros,
    RampSeconds,
    Seconds,
    TaskGroup,
    finite,
)
from schedlab.kinds.resolved import Outcome
from schedlab.nouns.load_result import CrewResult


class ForkStorm(CpuMixKind, frozen=True):
    """`slots` fork `children` children each, which work and, with `exec`, execute /bin/true.

    `seconds` is the limit.
    """

    kind: ClassVar[str] = "fork-storm"
    is_finite: ClassVar[bool] = True
    forks: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (
        "elapsed_s", "children_per_s", "cpu_s", "load_work_per_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer("fork-storm", "fork-storm", metrics)

    slots: Count = 4
    children: Annotated[int, Meta(ge=1)] = 100
    work_us: Micros = 200.0
    exec: bool = False
    seconds: Seconds = 60.0
    ramp_seconds: RampSeconds = 0.0

    def estimate_s(self) -> float:
        """About 0.5 ms a child beside its work."""
        return self.slots * self.children * (self.work_us * 1e-6 + 5e-4) + 0.3

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """The slots."""
        role = {
            "kind": "fork-storm",
            "children": self.children,
            "work_ns": int(self.work_us * 1e3),
            "program": "/bin/true" if self.exec else None,
        }
        return [TaskGroup("work", role, self.slots)]

    def outcome(self, mixed: CrewResult) -> Outcome:
        """The time until the last child ended."""
        return finite(mixed, self.seconds, {"children_per_s": float(self.slots * self.children)})
