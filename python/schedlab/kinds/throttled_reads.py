"""A positive control: readers that the kernel limits to a known rate.

A candidate with a lower limit must be slower by exactly that ratio; a procedure that misses this
misses real differences too. The limit acts before the scheduler sees a request.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import RANDOM_ENDLESS, actor, regions, run_actors
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.file_test import READ, Positive, Seconds
from schedlab.kinds.readers_together import METRICS, outcome_of_equals
from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget


class ThrottledReads(WorkloadKind, frozen=True):
    """Random reads in a control group with `limit_bytes_per_s`.

    A candidate changes the limit with `workload.limit_bytes_per_s`.
    """

    kind: ClassVar[str] = "throttled-reads"
    metrics: ClassVar[tuple[str, ...]] = METRICS

    limit_bytes_per_s: Positive = 64 << 20
    seconds: Seconds = 2.0
    ramp_seconds: Seconds = 0.5
    record_bytes: Positive = 65536
    depth: Annotated[int, Meta(ge=1, le=32767)] = 16
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def writes(self) -> bool:
        """Only reads."""
        return False

    def groups(self) -> tuple[IoGroup, ...]:
        """The group that is limited."""
        return (IoGroup("limited", read_bytes_per_s=self.limit_bytes_per_s),)

    def estimate_s(self) -> float:
        """Ramp and window."""
        return self.seconds + self.ramp_seconds

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput of the limited readers."""
        (whole,) = regions(self.used_bytes(target.size_bytes), (1,))
        read = {
            "pattern": RANDOM_ENDLESS, "direction": READ, "record": self.record_bytes,
            "arrivals": {"kind": "closed", "depth": self.depth}, "seed": seed,
        }  # fmt: skip
        load = actor("readers", target, whole, read, cgroup=target.groups["limited"])
        actors = run_actors(target, [load], self.seconds, self.ramp_seconds, depth=self.depth)
        return outcome_of_equals(actors, "readers", self.record_bytes)
