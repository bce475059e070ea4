"""Groups with weights or I/O priorities: the share that each got against the share requested.

bfq's weights, mq-deadline's priorities and iocost exist for this. Two groups of equal readers
always wait; one is favoured. Under a scheduler without weights both get half.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.actors import (
    RANDOM_ENDLESS,
    actor,
    load_depth,
    outcome,
    regions,
    run_actors,
    served,
)
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, Positive, Seconds
from schedlab.kinds.readers_together import OnlyReads
from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget
from schedlab.nouns import latency

NAMES = ("favoured", "other")
# A priority requests no share, only that the favoured group comes first.
PRIORITIES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "rt-be": ({"class": "rt", "level": 4}, {"class": "be", "level": 4}),
    "be0-be7": ({"class": "be", "level": 0}, {"class": "be", "level": 7}),
    "be-idle": ({"class": "be", "level": 4}, {"class": "idle", "level": 0}),
}


class Weights(OnlyReads, frozen=True):
    """Two groups of `readers` processes; `favoured_weight` : `other_weight`, or a `priority`."""

    kind: ClassVar[str] = "weights"
    metrics: ClassVar[tuple[str, ...]] = (
        "share_fulfilment", "favoured_latency_ns_mean",
        *(f"favoured_latency_ns_{q}" for q in latency.QUANTILES), "throughput_bytes_per_s",
    )  # fmt: skip

    seconds: Seconds = 2.0
    ramp_seconds: Seconds = 1.0
    favoured_weight: Annotated[int, Meta(ge=1, le=1000)] = 800
    other_weight: Annotated[int, Meta(ge=1, le=1000)] = 100
    priority: Literal["", "rt-be", "be0-be7", "be-idle"] = ""
    readers: Annotated[int, Meta(ge=1, le=1024)] = 1
    record_bytes: Positive = 65536
    depth: Annotated[int, Meta(ge=0, le=32767)] = 0

    def groups(self) -> tuple[IoGroup, ...]:
        """A control group for each weight; none for priorities."""
        if self.priority:
            return ()
        pairs = zip(NAMES, (self.favoured_weight, self.other_weight), strict=True)
        return tuple(IoGroup(name, weight=weight) for name, weight in pairs)

    def check(self, label: str) -> None:
        """The favoured has the larger weight."""
        if not self.priority and self.favoured_weight <= self.other_weight:
            raise SpecError(
                f"{label}: favoured_weight = {self.favoured_weight} is not above "
                f"other_weight = {self.other_weight}",
                "favoured_weight = 800, other_weight = 100",
            )

    def asked_share(self) -> float:
        """The share of the throughput that the favoured group asks for."""
        if self.priority:
            return 1.0
        return self.favoured_weight / (self.favoured_weight + self.other_weight)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """The favoured group's share against the one asked, and its latency."""
        homes = regions(self.used_bytes(target.size_bytes), (1, 1))
        depth = load_depth(self.depth, target.tags, 2 * self.readers)
        groups = []
        for number, (name, home) in enumerate(zip(NAMES, homes, strict=True)):
            read = work(RANDOM_ENDLESS, READ, self.record_bytes, seed + number, depth)
            settings: dict[str, object] = {"cgroup": target.groups.get(name)}
            if self.priority:
                settings = {"ioprio": PRIORITIES[self.priority][number]}
            groups.append(actor(name, target, home, read, workers=self.readers, **settings))
        actors = run_actors(
            target, groups, self.seconds, self.ramp_seconds, depth=2 * depth * self.readers
        )
        metrics, bounds = served(actors, "favoured", "reads", "favoured_")
        rates = [actors.rate([name], "reads") for name in NAMES]
        reached = rates[0] / sum(rates) if sum(rates) else 0.5
        requested = self.asked_share()
        ratio = max(reached, 1e-6) / requested
        metrics["share_fulfilment"] = min(ratio, 1 / ratio)
        if sum(rates):
            metrics["throughput_bytes_per_s"] = sum(rates)
        rows = actors.groups["favoured"].reads.latency.bins
        return outcome(actors, metrics, bounds, rows, share_asked=requested, share_reached=reached)
