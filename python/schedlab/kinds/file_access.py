"""IOzone's file tests on a device or a file, under IOzone's names.

`write` is the first write of a new file, or of a discarded region. `rewrite` and `re-read` are
second passes: the whole span is written or read once, unmeasured, immediately before. Buffered
reads begin with a cold cache and end with the file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import claimed_bytes, group, run_job, work
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency
from schedlab.nouns.load_result import GroupResult

SEQUENTIAL: dict[str, object] = {"kind": "sequential"}
RANDOM: dict[str, object] = {"kind": "random", "replacement": False}
READ: dict[str, object] = {"kind": "read"}
WRITE: dict[str, object] = {"kind": "write"}
# test -> (order, direction, whether the same is done once before)
TESTS: dict[str, tuple[dict[str, object], dict[str, object], bool]] = {
    "write": (SEQUENTIAL, WRITE, False),
    "rewrite": (SEQUENTIAL, WRITE, True),
    "read": (SEQUENTIAL, READ, False),
    "re-read": (SEQUENTIAL, READ, True),
    "random-read": (RANDOM, READ, False),
    "random-write": (RANDOM, WRITE, False),
    "reverse-read": ({"kind": "reverse"}, READ, False),
    "record-rewrite": ({"kind": "same"}, WRITE, False),
    "stride-read": ({"kind": "stride", "records": 17}, READ, False),
    "mixed": (RANDOM, {"kind": "mixed", "read_percent": 50}, False),
}
IOZONE_SEVEN = (
    "write", "rewrite", "read", "re-read", "reverse-read", "random-read", "random-write",
)  # fmt: skip
# Share of a file system's free space that a new file may use.
FRESH_SHARE = 0.8
# A pass that leaves no part of a region unwritten; not measured.
FILL = {"engine": "psync", "workers": 1, "direct": True, "sync": "none"}
FILL_RECORD_BYTES = 1 << 20
LATENCIES = tuple(f"latency_ns_{q}" for q in latency.QUANTILES)

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class FileTest(WorkloadKind, frozen=True):
    """One test at one record size; `seconds` 0 is one pass over the span."""

    kind: ClassVar[str] = "file-test"
    is_one_stream = True
    metrics: ClassVar[tuple[str, ...]] = (
        "throughput_bytes_per_s", "iops", "cpu_s", "elapsed_s", *LATENCIES,
    )  # fmt: skip

    test: Literal[
        "write",
        "rewrite",
        "read",
        "re-read",
        "random-read",
        "random-write",
        "reverse-read",
        "record-rewrite",
        "stride-read",
        "mixed",
    ]
    record_bytes: Positive = 65536
    span_bytes: Annotated[int, Meta(ge=0, description="0: the whole target")] = 0
    seconds: Seconds = 1.0
    engine: Literal["psync", "io_uring", "mmap"] = "psync"
    depth: Annotated[int, Meta(ge=1, le=32767)] = 1
    workers: Annotated[int, Meta(ge=1, le=1024)] = 1
    direct: bool = True
    sync: Literal["none", "dsync", "sync"] = "none"

    def writes(self) -> bool:
        """Whether the test changes data."""
        return bool(TESTS[self.test][1]["kind"] != "read")

    def check(self, label: str) -> None:
        """A depth needs io_uring."""
        if self.depth > 1 and self.engine != "io_uring":
            raise SpecError(
                f"{label}: engine {self.engine!r} has one request in flight, not {self.depth}",
                'write engine = "io_uring"',
            )

    def estimate_s(self) -> float:
        """The window, and going through the file once before or after where the test needs it."""
        return (self.seconds or 2.0) + (1.0 if TESTS[self.test][2] or self.test == "write" else 0)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput, I/O operations per second, latency percentiles and CPU seconds of one run."""
        if self.test == "write":
            return self._first_write(target, label, seed)
        _, direction, primed = TESTS[self.test]
        cold = not (self.direct or primed) and direction["kind"] != "write"
        options: dict[str, object] = {"cold": True} if cold else {}
        if primed:
            options["prime"] = "write" if direction is WRITE else "read"
        if not self.direct:  # a second pass would be answered by the page cache
            options["at_end"] = "stop"
        job = self._job(target, label, seed, self.used_bytes(target.size_bytes), **options)
        groups = run_job([job], self.seconds or None)
        return outcome_of(groups[label], claimed_bytes(groups), self.direct, cold)

    def _first_write(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Write where nothing is: a new file, or a region of a device that was discarded.

        A device that offers no discard can only be overwritten, and the run records it.
        """
        span = self.used_bytes(target.size_bytes)
        if target.directory is not None:
            free = os.statvfs(target.directory)
            span = min(span, int(free.f_bavail * free.f_frsize * FRESH_SHARE))
            span -= span % self.record_bytes
            file = target.directory / "first-write"
            fresh = {"path": str(file), "file": "fresh", "at_end": "stop"}
            try:
                groups = run_job([self._job(target, label, seed, span, **fresh)], self._limit())
            finally:
                file.unlink(missing_ok=True)
            return outcome_of(groups[label], claimed_bytes(groups), self.direct)
        job = self._job(target, label, seed, span, discard=True, at_end="stop")
        groups = run_job([job], self._limit())
        read, written = claimed_bytes(groups)
        prepared = groups[label].prepared
        if prepared.discarded:
            # Ranges that are not written again would be answered without media from now on.
            fill = {**self._job(target, "fill", seed, span), **FILL}
            if span % FILL_RECORD_BYTES == 0:
                fill["workload"] = {**fill["workload"], "record": FILL_RECORD_BYTES}
            written += claimed_bytes(run_job([fill], None))[1]
        outcome = outcome_of(groups[label], (read, written), self.direct)
        if prepared.discarded:
            return outcome
        facts = {"test_done": "rewrite", "test_done_because": prepared.refused}
        return replace(outcome, properties={**outcome.properties, **facts})

    def _limit(self) -> float | None:
        """The measured window; None: one pass."""
        return self.seconds or None

    def _job(
        self, target: ResolvedTarget, name: str, seed: int, span_bytes: int, **options: Any
    ) -> dict[str, Any]:
        """The engine's group of this test."""
        order, direction, _ = TESTS[self.test]
        requests = work(order, direction, self.record_bytes, seed, self.depth, span=span_bytes)
        usual = {"workers": self.workers, "engine": self.engine, "direct": self.direct}
        return group(name, target, requests, **{**usual, "sync": self.sync, **options})


def outcome_of(
    group: GroupResult, claimed: tuple[int, int], direct: bool, cold: bool = False
) -> Outcome:
    """The metrics of one finished group of the engine; a rate is a bound if nothing completed.

    `claimed` is what the device must have moved if the I/O was direct, and what it must at least
    have read if it was buffered and `cold`.
    """
    primed = group.prepared.primed_bytes
    both_ways = [claimed[0], claimed[1]]
    if primed:
        both_ways[0 if group.reads.operations else 1] += primed
    both = group.sides
    elapsed_s = group.elapsed_ns / 1e9
    rows = latency.merge(side.latency.bins for side in both)
    cpu_s = group.cpu_ns / 1e9
    operations = sum(side.operations for side in both)
    rates, bounds = {}, {}
    if operations:
        rates["throughput_bytes_per_s"] = sum(side.bytes for side in both) / elapsed_s
        rates["iops"] = operations / elapsed_s
    elif elapsed_s and not any(side.errors for side in both):
        rates["iops"], bounds["iops"] = 1 / elapsed_s, "at-most"
    return Outcome(
        metrics={**rates, "cpu_s": cpu_s, "elapsed_s": elapsed_s, **latency.metrics(rows)},
        properties={
            "engine": group.engine,
            "errors": sum(side.errors for side in both),
            "short": sum(side.short for side in both),
            "cpu_share": cpu_s / elapsed_s if elapsed_s else None,
            "claimed_bytes": both_ways if direct else None,
            **({"claimed_cold_bytes": claimed[0]} if cold else {}),
        },
        histograms={"latency_ns": rows},
        bounds=bounds,
        latencies={group.name: group.series.latencies},
    )
