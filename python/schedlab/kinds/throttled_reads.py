"""A positive control: readers that the kernel limits to a known rate.

A candidate with a lower limit must be slower by exactly that ratio; a procedure that misses this
misses real differences too. The limit acts before the scheduler sees a request.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import RANDOM_ENDLESS
from schedlab.kinds.file_access import Positive, Seconds
from schedlab.kinds.readers_together import METRICS, OnlyReads
from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget


class ThrottledReads(OnlyReads, frozen=True):
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

    def groups(self) -> tuple[IoGroup, ...]:
        """The group that is limited."""
        return (IoGroup("limited", read_bytes_per_s=self.limit_bytes_per_s),)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput of the limited readers."""
        return self.read_equally(target, seed, RANDOM_ENDLESS, 1, cgroup=target.groups["limited"])
