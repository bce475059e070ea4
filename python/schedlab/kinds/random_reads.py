"""Several processes with deep queues read small records at random: the scheduler's own cost.

The queue is always full, so a scheduler has much to order and its time per request counts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import RANDOM_ENDLESS, actor, load_depth, regions, run_actors
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.file_test import READ, Positive, Seconds
from schedlab.kinds.readers_together import DECIDING, METRICS, OFFERED, outcome_of_equals
from schedlab.kinds.resolved import Outcome, ResolvedTarget


class RandomReads(WorkloadKind, frozen=True):
    """`readers` processes at `depth` each (0: together twice the driver's tags), direct I/O."""

    kind: ClassVar[str] = "random-reads"
    bypasses_cache: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = METRICS
    offer: ClassVar[Offer | None] = Offer(
        "random-reads", "random reads at depth 32", OFFERED, DECIDING
    )

    seconds: Seconds = 1.0
    ramp_seconds: Seconds = 0.1
    readers: Annotated[int, Meta(ge=1, le=1024)] = 8
    record_bytes: Positive = 4096
    depth: Annotated[int, Meta(ge=0, le=32767)] = 32
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def writes(self) -> bool:
        """Only reads."""
        return False

    def estimate_s(self) -> float:
        """Ramp and window."""
        return self.seconds + self.ramp_seconds

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Operations per second of all, fairness, latency, CPU time per request."""
        (whole,) = regions(self.used_bytes(target.size_bytes), (1,))
        depth = load_depth(self.depth, target.tags, self.readers)
        read = {
            "pattern": RANDOM_ENDLESS, "direction": READ, "record": self.record_bytes,
            "arrivals": {"kind": "closed", "depth": depth}, "seed": seed,
        }  # fmt: skip
        load = actor("readers", target, whole, read, workers=self.readers)
        actors = run_actors(
            target, [load], self.seconds, self.ramp_seconds, depth=depth * self.readers
        )
        return outcome_of_equals(actors, "readers", self.record_bytes)
