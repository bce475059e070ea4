"""A big copy beside a desktop: how long a new process waits while files are copied.

The copy is two processes, like `tar | tar`: one reads in order, one writes in order, both
through the page cache, so that the kernel reads ahead and writes back. The newcomer reads from a
cold cache.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import RANDOM_ENDLESS, actor, outcome, regions, run_actors
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, SEQUENTIAL, WRITE, Positive, Seconds
from schedlab.kinds.newcomer import METRICS, first_requests
from schedlab.kinds.resolved import Outcome, ResolvedTarget


class CopyBesideDesktop(WorkloadKind, frozen=True):
    """The first `requests` of a new process, `lead_seconds` after a copy began.

    After each eighth of the span the copy waits until its data is written back. The kernel makes it
    wait in the same way when memory is small compared with the copy.
    """

    kind: ClassVar[str] = "copy-beside-desktop"
    is_buffered = True
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, "copy_bytes_per_s")
    offer: ClassVar[Offer | None] = Offer(
        "copy", "newcomer beside a copy", metrics, {"latency": "newcomer_latency_ns_p90"}
    )
    actors = MappingProxyType({"copy_bytes_per_s": "copy"})

    requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    record_bytes: Positive = 4096
    copy_record_bytes: Positive = 1 << 20
    lead_seconds: Seconds = 1.0
    limit_seconds: Annotated[float, Meta(gt=0, le=3600)] = 3.0
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def estimate_s(self) -> float:
        """The copy's lead, and about half of the limit."""
        return self.lead_seconds + self.limit_seconds / 2

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Response times of the first requests, and the copy's throughput until then."""
        own, source, copy = regions(self.used_bytes(target.size_bytes), (2, 5, 1))
        desktop = work(RANDOM_ENDLESS, READ, self.record_bytes, seed)
        copied = work(SEQUENTIAL, READ, self.copy_record_bytes, seed + 1)
        buffered = {"engine": "psync", "direct": False}
        groups = [
            actor(
                "newcomer", target, own, desktop, ends_job=True, requests=self.requests,
                start_after_ms=round(self.lead_seconds * 1e3),
            ),
            actor("source", target, source, copied, at_end="drop", cold=True, **buffered),
            actor("copy", target, copy, {**copied, "direction": WRITE}, at_end="drop", **buffered),
        ]  # fmt: skip
        actors = run_actors(target, groups, self.lead_seconds + self.limit_seconds)
        metrics, bounds = first_requests(actors, self.requests)
        metrics["copy_bytes_per_s"] = actors.rate(["copy"], "writes")
        rows = actors.groups["newcomer"].reads.latency.bins
        # The page cache is between the copy and the device.
        return outcome(actors, metrics, bounds, rows, requests=self.requests, claimed_bytes=None)
