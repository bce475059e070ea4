"""Several processes read at the same time, each its own region in order: throughput and fairness.

A scheduler decides here which process it serves, and for how long. Serving one for a while keeps a
disk's head in place; serving all in turn is fair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import Actors, actor, load_depth, outcome, regions, run_actors
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, SEQUENTIAL, Positive, Seconds
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency

LATENCIES = tuple(f"latency_ns_{q}" for q in latency.QUANTILES)
METRICS = (
    "throughput_bytes_per_s", "iops", "fairness_jain", "cpu_per_request_ns", "latency_ns_mean",
    *LATENCIES,
)  # fmt: skip
# Those that are shown of equal processes, and those that decide for other goals.
OFFERED = ("throughput_bytes_per_s", "fairness_jain", "latency_ns_p99", "cpu_per_request_ns")
DECIDING = {"latency": "latency_ns_p99", "fairness": "fairness_jain"}


class OnlyReads(WorkloadKind, frozen=True):
    """Processes that only read, with `depth` requests of `record_bytes` in flight each."""

    seconds: Seconds = 1.0
    ramp_seconds: Seconds = 0.1
    record_bytes: Positive = 131072
    depth: Annotated[int, Meta(ge=1, le=32767)] = 8
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def writes(self) -> bool:
        """Only reads."""
        return False

    def read_equally(
        self, target: ResolvedTarget, seed: int, pattern: Any, readers: int, **options: Any
    ) -> Outcome:
        """One run of equal readers: throughput, Jain's index, latency, CPU time per request."""
        (whole,) = regions(self.used_bytes(target.size_bytes), (1,))
        depth = load_depth(self.depth, target.tags, readers)
        read = work(pattern, READ, self.record_bytes, seed, depth)
        load = actor("readers", target, whole, read, workers=readers, **options)
        window = (self.seconds, self.ramp_seconds)
        actors = run_actors(target, [load], *window, depth=depth * readers)
        return outcome_of_equals(actors, "readers", self.record_bytes)


class ReadersTogether(OnlyReads, frozen=True):
    """`readers` processes, each with its region, `depth` requests in flight and direct I/O."""

    kind: ClassVar[str] = "readers-together"
    bypasses_cache: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = METRICS
    offer: ClassVar[Offer | None] = Offer(
        "readers", "sequential readers together", OFFERED, DECIDING
    )

    readers: Annotated[int, Meta(ge=1, le=1024)] = 4

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Each reads in order."""
        return self.read_equally(target, seed, SEQUENTIAL, self.readers)


def outcome_of_equals(actors: Actors, name: str, record_bytes: int) -> Outcome:
    """The outcome of one group of equal readers."""
    group = actors.groups[name]
    reads, seconds = group.reads, actors.window_s(name)
    share = [worker.bytes for worker in group.workers]
    metrics = {
        "throughput_bytes_per_s": actors.rate([name], "reads"),
        "iops": actors.rate([name], "reads", operations=True),
        "fairness_jain": jain(share),
    }
    bounds = {}
    if not reads.operations:
        least = {"throughput_bytes_per_s": record_bytes / seconds, "iops": 1 / seconds}
        metrics, bounds = least, dict.fromkeys(least, "at-most")
    else:
        metrics["cpu_per_request_ns"] = group.cpu_ns / reads.operations
    if reads.latency.count:
        metrics["latency_ns_mean"] = reads.latency.mean
        metrics |= latency.metrics(reads.latency.bins)
    else:
        metrics["latency_ns_mean"] = actors.waiting_ns(name)
        bounds = {**bounds, "latency_ns_mean": "at-least"}
    return outcome(
        actors, metrics, bounds, reads.latency.bins, processes=len(share),
        slowest_bytes_per_s=min(share) / seconds,
    )  # fmt: skip


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index (DEC-TR-301, 1984): 1 when all got the same, 1/n when one got all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
