"""Messages between processes: many senders and receivers, or one pair in turn."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.base import Offer
from schedlab.kinds.cpu_mix import Count, CpuMixKind, RampSeconds, Seconds, TaskGroup, finite
from schedlab.kinds.resolved import Outcome
from schedlab.nouns.load_result import CrewResult


class Messaging(CpuMixKind, frozen=True):
    """`pairs` senders and as many receivers; each sender writes `rounds` messages to each.

    `seconds` is the limit.
    """

    kind: ClassVar[str] = "messaging"
    is_finite: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = ("elapsed_s", "cpu_s", "load_work_per_s")
    offer: ClassVar[Offer | None] = Offer("messaging", "messaging", metrics)

    pairs: Count = 10
    rounds: Annotated[int, Meta(ge=1)] = 200
    message_bytes: Annotated[int, Meta(ge=1, le=4096)] = 100
    sockets: bool = False
    seconds: Seconds = 60.0
    ramp_seconds: RampSeconds = 0.0

    def estimate_s(self) -> float:
        """About 10 µs a message."""
        return self.pairs**2 * self.rounds * 1e-5 + 0.3

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """Senders and receivers."""
        role = {
            "kind": "messaging",
            "rounds": self.rounds,
            "bytes": self.message_bytes,
            "sockets": self.sockets,
        }
        return [TaskGroup("work", role, self.pairs)]

    def outcome(self, mixed: CrewResult) -> Outcome:
        """The time until the last message was read."""
        return finite(mixed, self.seconds, {})


class Pipe(CpuMixKind, frozen=True):
    """Two tasks that pass a byte back and forth `rounds` times; `seconds` is the limit."""

    kind: ClassVar[str] = "pipe"
    is_finite: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (
        "elapsed_s", "rounds_per_s", "cpu_s", "load_work_per_s",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer("pipe", "pipe", metrics)

    rounds: Annotated[int, Meta(ge=1)] = 50_000
    seconds: Seconds = 60.0
    ramp_seconds: RampSeconds = 0.0

    def estimate_s(self) -> float:
        """About 10 µs a round trip."""
        return self.rounds * 1e-5 + 0.3

    def work(self, cpu_count: int) -> list[TaskGroup]:
        """The pair."""
        return [TaskGroup("work", {"kind": "pipe", "rounds": self.rounds}, 1)]

    def outcome(self, mixed: CrewResult) -> Outcome:
        """The time of all round trips."""
        return finite(mixed, self.seconds, {"rounds_per_s": float(self.rounds)})
