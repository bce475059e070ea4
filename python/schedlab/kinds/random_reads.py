"""Several processes with deep queues read small records at random: the scheduler's own cost.

The queue is always full, so a scheduler has much to order and its time per request counts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import RANDOM_ENDLESS
from schedlab.kinds.base import Offer
from schedlab.kinds.file_access import Positive
from schedlab.kinds.readers_together import DECIDING, METRICS, OFFERED, OnlyReads
from schedlab.kinds.resolved import Outcome, ResolvedTarget


class RandomReads(OnlyReads, frozen=True):
    """`readers` processes at `depth` each (0: together twice the driver's tags), direct I/O."""

    kind: ClassVar[str] = "random-reads"
    bypasses_cache: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = METRICS
    offer: ClassVar[Offer | None] = Offer(
        "random-reads", "random reads at depth 32", OFFERED, DECIDING
    )

    readers: Annotated[int, Meta(ge=1, le=1024)] = 8
    record_bytes: Positive = 4096
    depth: Annotated[int, Meta(ge=0, le=32767)] = 32

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Each reads at random."""
        return self.read_equally(target, seed, RANDOM_ENDLESS, self.readers)
