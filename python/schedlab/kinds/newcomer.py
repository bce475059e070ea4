"""A new process beside writers: how long a program waits in its first second.

The writers are running when a new process begins to read small records one after the other. A
scheduler may favour it because it is new, as bfq does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import (
    RANDOM_ENDLESS,
    Actors,
    Region,
    actor,
    load_depth,
    outcome,
    regions,
    run_actors,
)
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import RANDOM, READ, WRITE, Positive, Seconds
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency

# What one request of the newcomer waits beside writers, for the estimate of a run's time.
USUAL_WAIT_S = 0.01
QUANTILES = ("p50", "p90")
METRICS = ("newcomer_latency_ns_mean", *(f"newcomer_latency_ns_{q}" for q in QUANTILES))


class BesideWriters(WorkloadKind, frozen=True):
    """A process that reads small records beside `writers`, which keep the device busy."""

    record_bytes: Positive = 4096
    writers: Annotated[int, Meta(ge=0, le=1024)] = 2
    writer_record_bytes: Positive = 65536
    writer_depth: Annotated[int, Meta(ge=0, le=32767)] = 0
    shared_region: bool = False
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def regions_and_writers(
        self, target: ResolvedTarget, seed: int
    ) -> tuple[Region, list[dict[str, object]], int]:
        """The region of the process, the group of writers, and their requests in flight."""
        span, parts = self.used_bytes(target.size_bytes), (1, max(1, self.writers))
        own, others = regions(span, parts, self.shared_region)
        depth = load_depth(self.writer_depth, target.tags, self.writers)
        write = work(RANDOM, WRITE, self.writer_record_bytes, seed + 1, depth)
        writers = [actor("writers", target, others, write, workers=self.writers)]
        return own, writers if self.writers else [], depth * self.writers


class Newcomer(BesideWriters, frozen=True):
    """The first `requests` of a new process beside `writers`, which start `lead_seconds` earlier.

    The process has `limit_seconds` for them; `writer_depth` 0 is a load of twice the driver's
    tags. With `shared_region` the process reads where the writers write.
    """

    kind: ClassVar[str] = "newcomer"
    bypasses_cache: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, "write_bytes_per_s")
    offer: ClassVar[Offer | None] = Offer(
        "newcomer", "newcomer beside writers", metrics, {"latency": "newcomer_latency_ns_p90"}
    )
    actors: ClassVar[Mapping[str, str]] = {"write_bytes_per_s": "writers"}

    requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 50
    lead_seconds: Seconds = 0.25
    limit_seconds: Annotated[float, Meta(gt=0, le=3600)] = 2.5

    def estimate_s(self) -> float:
        """The writers' lead, and the time of the requests where each waits its turn."""
        return self.lead_seconds + min(self.requests * USUAL_WAIT_S, self.limit_seconds)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Response times of the first requests, and the writers' throughput until then."""
        own, writers, in_flight = self.regions_and_writers(target, seed)
        read = work(RANDOM_ENDLESS, READ, self.record_bytes, seed)
        newcomer = actor(
            "newcomer", target, own, read, ends_job=True, requests=self.requests,
            start_after_ms=round(self.lead_seconds * 1e3),
        )  # fmt: skip
        longest_s = self.lead_seconds + self.limit_seconds
        actors = run_actors(target, [newcomer, *writers], longest_s, depth=in_flight)
        metrics, bounds = first_requests(actors, self.requests)
        if self.writers:
            metrics["write_bytes_per_s"] = actors.rate(["writers"], "writes")
        rows = actors.groups["newcomer"].reads.latency.bins
        return outcome(actors, metrics, bounds, rows, requests=self.requests)


def first_requests(actors: Actors, wanted: int) -> tuple[dict[str, float], dict[str, str]]:
    """Metrics of the newcomer's first `wanted` requests, and which of them are bounds.

    Where the limit ended before the requests, the values are of those that were served and of the
    one that was waiting, which counts with its age; they are lower bounds then.
    """
    times = [float(response_ns) for _, response_ns in actors.groups["newcomer"].responses]
    del times[wanted:]
    complete = len(times) == wanted
    if not complete:
        waited = actors.waiting_ns("newcomer")
        window_ns = actors.window_s("newcomer") * 1e9
        times.append(waited if times else max(waited, window_ns))
    times.sort()
    metrics = {METRICS[0]: sum(times) / len(times)}
    for q in QUANTILES:
        rank = math.ceil(latency.QUANTILES[q] * len(times))
        metrics[f"newcomer_latency_ns_{q}"] = times[rank - 1]
    return metrics, {} if complete else dict.fromkeys(metrics, "at-least")
