"""A steady reader beside writers: how long a program waits that has been running for some time.

It is an open loop: requests come at random times at a stated rate, whether or not earlier ones have
completed, and their latency counts from the time at which they were due. Immediately before the run
the reader reads its own region once, so that no scheduler treats it as a new process. The workload
`newcomer` measures a new process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import (
    RANDOM_ENDLESS,
    actor,
    outcome,
    rate_bound,
    run_actors,
    served,
)
from schedlab.kinds.base import Offer
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, Seconds
from schedlab.kinds.newcomer import BesideWriters
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency

# A primed reader works on so many bytes at most: enough to be new to no scheduler (bfq lets a
# process be new for some 60 MB), and read in a moment.
PRIMED_BYTES_MOST = 128 << 20


class ReaderBesideWriters(BesideWriters, frozen=True):
    """A reader at `rate_per_s` beside `writers`; the window begins after `ramp_seconds` of both.

    `writer_depth` 0 is a load of twice the driver's tags. With `shared_region` the reader reads
    where the writers write; without `primed` it is a new process when the ramp begins.
    """

    kind: ClassVar[str] = "reader-beside-writers"
    bypasses_cache: ClassVar[bool] = True
    # 160 requests: in fewer, one that a scheduler keeps waiting now and then is seen by chance.
    shortest_s: ClassVar[float] = 0.8
    metrics: ClassVar[tuple[str, ...]] = (
        "reader_latency_ns_mean", *(f"reader_latency_ns_{q}" for q in latency.QUANTILES),
        "read_bytes_per_s", "write_bytes_per_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer(
        "steady-reader", "reader beside writers",
        tuple(name for name in metrics if not name.endswith(("_p99_9", "_p99_99"))),
        {"latency": "reader_latency_ns_p90", "fairness": "read_bytes_per_s"},
    )  # fmt: skip
    actors: ClassVar[Mapping[str, str]] = {"write_bytes_per_s": "writers"}

    seconds: Seconds = 1.5
    # Under bfq new writers may have the weight of soft real-time for some 0.6 s, and the reader
    # then waits behind them: with 0.3 s, 2 of 7 runs took 80 and 200 ms, the others 6 to 7.
    ramp_seconds: Seconds = 1.0
    rate_per_s: Annotated[float, Meta(gt=0, le=1e7)] = 200.0
    primed: bool = True

    def estimate_s(self) -> float:
        """Ramp and window, and reading the region once."""
        return self.seconds + self.ramp_seconds + (0.1 if self.primed else 0.0)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """The reader's latency from the planned arrivals, and the writers' throughput."""
        own, writers, in_flight = self.regions_and_writers(target, seed)
        if self.primed:
            own = (own[0], min(own[1], PRIMED_BYTES_MOST))
        arrivals = {"kind": "poisson", "rate_per_s": self.rate_per_s}
        read = work(RANDOM_ENDLESS, READ, self.record_bytes, seed, arrivals=arrivals)
        reader = actor("reader", target, own, read, prime="read" if self.primed else "none")
        groups = [reader, *writers]
        actors = run_actors(target, groups, self.seconds, self.ramp_seconds, in_flight)
        metrics, bounds = served(actors, "reader", "reads", "reader_")
        operations = actors.groups["reader"].reads.operations
        rate, rate_bounds = rate_bound(
            "read_bytes_per_s", operations, actors.rate(["reader"], "reads"), self.record_bytes,
            actors.window_s("reader"),
        )  # fmt: skip
        metrics |= rate
        if self.writers:
            metrics["write_bytes_per_s"] = actors.rate(["writers"], "writes")
        rows = actors.groups["reader"].reads.latency.bins
        return outcome(
            actors, metrics, {**bounds, **rate_bounds}, rows, arrivals="open loop, Poisson",
            rate_per_s=self.rate_per_s, unissued=actors.groups["reader"].unissued,
        )  # fmt: skip
