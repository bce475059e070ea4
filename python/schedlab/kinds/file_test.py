"""IOzone's file tests on a device or a file, under IOzone's names.

`rewrite` and `re-read` repeat what was just done: the same records are written or read once
unmeasured, directly before.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds import latency
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import claimed_bytes, group, run_job
from schedlab.kinds.resolved import Outcome, ResolvedTarget

SEQUENTIAL: dict[str, Any] = {"kind": "sequential"}
RANDOM: dict[str, Any] = {"kind": "random", "replacement": False}
READ: dict[str, Any] = {"kind": "read"}
WRITE: dict[str, Any] = {"kind": "write"}
# test -> (order, direction, whether the same is done once before)
TESTS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
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
LATENCIES = tuple(f"latency_ns_{q}" for q in latency.QUANTILES)

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class FileTest(WorkloadKind, frozen=True):
    """One test at one record size; `seconds` 0 is one pass over the span."""

    kind: ClassVar[str] = "file-test"
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

    def used_bytes(self, target_bytes: int) -> int:
        """Bytes used from the start of the target."""
        return min(self.span_bytes or target_bytes, target_bytes)

    def check(self, label: str) -> None:
        """A depth needs io_uring."""
        if self.depth > 1 and self.engine != "io_uring":
            raise SpecError(
                f"{label}: engine {self.engine!r} has one request in flight, not {self.depth}",
                'write engine = "io_uring"',
            )

    def estimate_s(self) -> float:
        """The window, twice where the test is primed."""
        return (self.seconds or 2.0) * (2 if TESTS[self.test][2] else 1)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput, I/O operations per second, latency percentiles and CPU seconds of one run."""
        order, direction, primed = TESTS[self.test]
        job = group(
            label,
            target,
            {
                "pattern": order,
                "direction": direction,
                "record": self.record_bytes,
                "span": self.used_bytes(target.size_bytes),
                "arrivals": {"kind": "closed", "depth": self.depth},
                "seed": seed,
            },
            workers=self.workers,
            engine=self.engine,
            direct=self.direct,
            sync=self.sync,
        )
        limit = self.seconds or None
        before = claimed_bytes(run_job([job], limit)) if primed else (0, 0)
        groups = run_job([job], limit)
        claimed = claimed_bytes(groups)
        both = (claimed[0] + before[0], claimed[1] + before[1])
        return outcome_of(groups[label], both, self.direct)


def outcome_of(done: dict[str, Any], claimed: tuple[int, int], direct: bool) -> Outcome:
    """The metrics of one finished group of the engine; no rates where nothing completed."""
    both = (done["reads"], done["writes"])
    elapsed_s = done["elapsed_ns"] / 1e9
    rows = latency.merge(side["latency"]["bins"] for side in both)
    cpu_s = (done["cpu_user_ns"] + done["cpu_system_ns"]) / 1e9
    operations = sum(side["operations"] for side in both)
    rates, bounds = {}, {}
    if operations:
        rates["throughput_bytes_per_s"] = sum(side["bytes"] for side in both) / elapsed_s
        rates["iops"] = operations / elapsed_s
    elif elapsed_s and not any(side["errors"] for side in both):
        rates["iops"], bounds["iops"] = 1 / elapsed_s, "at-most"
    return Outcome(
        metrics={**rates, "cpu_s": cpu_s, "elapsed_s": elapsed_s, **latency.metrics(rows)},
        properties={
            "engine": done["engine"],
            "errors": sum(side["errors"] for side in both),
            "short": sum(side["short"] for side in both),
            "cpu_share": cpu_s / elapsed_s if elapsed_s else None,
            "claimed_bytes": list(claimed) if direct else None,
        },
        histograms={"latency_ns": rows},
        bounds=bounds,
    )
