"""A negative control: reads from the page cache, which no scheduler can affect."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from schedlab.kinds.actors import RANDOM_ENDLESS, actor, run_actors
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, Positive, Seconds
from schedlab.kinds.readers_together import METRICS, outcome_of_equals
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import GateFinding


class CachedReads(WorkloadKind, frozen=True):
    """Random reads of `cached_bytes` that were all read once immediately before."""

    kind: ClassVar[str] = "cached-reads"
    metrics: ClassVar[tuple[str, ...]] = METRICS
    offer: ClassVar[Offer | None] = Offer(
        "cached-reads", "reads from the page cache",
        ("throughput_bytes_per_s", "cpu_per_request_ns"), is_control=True,
    )  # fmt: skip

    seconds: Seconds = 0.5
    cached_bytes: Positive = 16 << 20
    record_bytes: Positive = 4096

    def writes(self) -> bool:
        """Only reads."""
        return False

    def used_bytes(self, target_bytes: int) -> int:
        """Bytes used from the start of the target."""
        return min(self.cached_bytes, target_bytes)

    def estimate_s(self) -> float:
        """The window."""
        return self.seconds + 0.1

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput from memory; a gate fails when the device was asked all the same."""
        read = work(RANDOM_ENDLESS, READ, self.record_bytes, seed)
        region = (0, self.used_bytes(target.size_bytes))
        load = actor("readers", target, region, read, engine="psync", direct=False, prime="read")
        actors = run_actors(target, [load], self.seconds)
        outcome = outcome_of_equals(actors, "readers", self.record_bytes)
        gates: tuple[GateFinding, ...] = ()
        seen = actors.result.inflight.reads_mean if actors.result.inflight else 0.0
        if target.counts_alone and seen > 0.1:
            text = f"the page cache did not answer: {seen:.1f} reads were at the device on average"
            gates = (GateFinding("not-cached", text),)
        facts = {**outcome.properties, "claimed_bytes": None}
        return replace(outcome, properties=facts, gates=gates)
