"""Clients of a database: each transaction is small random reads and a commit to a shared log.

A commit is an append and `fdatasync`. On a bare device the log is a region that is written in a
circle, and every commit is flushed.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds.actors import (
    RANDOM_ENDLESS,
    actor,
    outcome,
    regions,
    run_actors,
    served,
)
from schedlab.kinds.base import Offer, WorkloadKind
from schedlab.kinds.engine import work
from schedlab.kinds.file_access import READ, Positive, Seconds
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency

LOG_NAME = "log"


class Database(WorkloadKind, frozen=True):
    """`clients` processes; a transaction is `reads` reads of a page and one commit."""

    kind: ClassVar[str] = "database"
    metrics: ClassVar[tuple[str, ...]] = (
        "transactions_per_s", "commit_latency_ns_mean",
        *(f"commit_latency_ns_{q}" for q in latency.QUANTILES), "latency_ns_mean",
    )  # fmt: skip
    offer: ClassVar[Offer | None] = Offer(
        "database", "database",
        ("transactions_per_s", "commit_latency_ns_mean", "commit_latency_ns_p99",
         "latency_ns_mean"),
        dict.fromkeys(("latency", "responsiveness"), "commit_latency_ns_mean"),
    )  # fmt: skip

    seconds: Seconds = 1.0
    ramp_seconds: Seconds = 0.3
    clients: Annotated[int, Meta(ge=1, le=1024)] = 4
    reads: Annotated[int, Meta(ge=1, le=10_000)] = 4
    page_bytes: Positive = 8192
    log_record_bytes: Positive = 4096
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Transactions per second, latency of commits and of reads."""
        span = self.used_bytes(target.size_bytes)
        pages, (log_offset, log_span) = regions(span, (7, 1))
        log: dict[str, object] = {"record": self.log_record_bytes, "reads": self.reads}
        if target.directory is None:
            log |= {"path": str(target.path), "offset": log_offset, "span": log_span}
        else:
            log["path"] = str(target.directory / LOG_NAME)
        read = work(RANDOM_ENDLESS, READ, self.page_bytes, seed)
        clients = actor(
            "clients", target, pages, read, workers=self.clients, engine="psync", layout="shared",
            log=log,
        )  # fmt: skip
        actors = run_actors(target, [clients], self.seconds, self.ramp_seconds)
        if target.directory is not None:
            (target.directory / LOG_NAME).unlink(missing_ok=True)
        done = actors.groups["clients"]
        metrics, bounds = served(actors, "clients", "writes", "commit_")
        if done.transactions and done.transactions.count:
            metrics["transactions_per_s"] = done.transactions.per_s
        else:
            metrics["transactions_per_s"] = 1 / actors.window_s("clients")
            bounds["transactions_per_s"] = "at-most"
        if done.reads.latency.count:
            metrics["latency_ns_mean"] = done.reads.latency.mean
        facts = {"log": "a file" if target.directory else "a region of the device"}
        # Flushes and journal writes of a file system are not the clients' bytes.
        claimed = {"claimed_bytes": None} if target.directory else {}
        return outcome(actors, metrics, bounds, done.writes.latency.bins, **facts, **claimed)
