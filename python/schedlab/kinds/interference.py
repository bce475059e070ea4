"""A latency-sensitive reader beside writers: where I/O schedulers really differ.

The reader works on the first half of the span, at depth 1, the writers on all of it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from schedlab.kinds import latency
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import claimed_bytes, group, run_job
from schedlab.kinds.file_test import RANDOM, READ, WRITE, Positive, Seconds
from schedlab.kinds.resolved import Outcome, ResolvedTarget


class Interference(WorkloadKind, frozen=True):
    """A reader at depth 1 beside `writers` at `writer_depth`."""

    kind: ClassVar[str] = "interference"
    metrics: ClassVar[tuple[str, ...]] = (
        "reader_latency_ns_mean", *(f"reader_latency_ns_{q}" for q in latency.QUANTILES),
        "read_bytes_per_s", "write_bytes_per_s",
    )  # fmt: skip

    seconds: Seconds = 1.0
    ramp_seconds: Seconds = 0.0
    reader_record_bytes: Positive = 4096
    writers: Annotated[int, Meta(ge=0, le=1024)] = 2
    writer_record_bytes: Positive = 65536
    writer_depth: Annotated[int, Meta(ge=1, le=32767)] = 64
    span_bytes: Annotated[int, Meta(ge=0)] = 0

    def used_bytes(self, target_bytes: int) -> int:
        """Bytes used from the start of the target."""
        return min(self.span_bytes or target_bytes, target_bytes)

    def estimate_s(self) -> float:
        """Ramp and window."""
        return self.seconds + self.ramp_seconds

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """The reader's latency and rate, the writers' throughput, in the same window."""
        span = self.used_bytes(target.size_bytes)
        reader = {
            "pattern": {"kind": "random", "replacement": True},
            "direction": READ,
            "record": self.reader_record_bytes,
            "span": span,
            "arrivals": {"kind": "closed", "depth": 1},
            "seed": seed,
        }
        writer = {
            "pattern": RANDOM,
            "direction": WRITE,
            "record": self.writer_record_bytes,
            "span": span,
            "arrivals": {"kind": "closed", "depth": self.writer_depth},
            "seed": seed + 1,
        }
        options = {"engine": "io_uring", "direct": True, "allow_fallback": False}
        groups = run_job(
            [
                group("reader", target, reader, workers=1, **options),
                group("writers", target, writer, workers=self.writers, **options),
            ],
            self.seconds,
            self.ramp_seconds,
        )
        reads, written = groups["reader"]["reads"], groups["writers"]["writes"]
        metrics = latency.metrics(reads["latency"]["bins"], "reader_")
        # A group that got nothing done in the window has a rate of zero: that is an outcome.
        # Requests that began in the window are awaited, so a starved reader has a latency too.
        if reads["latency"]["count"]:
            metrics["reader_latency_ns_mean"] = float(reads["latency"]["mean"])
        for name, side, done in (("read", reads, "reader"), ("write", written, "writers")):
            elapsed_s = groups[done]["elapsed_ns"] / 1e9
            metrics[f"{name}_bytes_per_s"] = side["bytes"] / elapsed_s if elapsed_s else 0.0
        return Outcome(
            metrics=metrics,
            properties={
                "engine": groups["reader"]["engine"],
                "errors": reads["errors"] + written["errors"],
                "short": reads["short"] + written["short"],
                "claimed_bytes": list(claimed_bytes(groups)),
            },
            histograms={"latency_ns": reads["latency"]["bins"]},
        )
