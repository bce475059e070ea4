"""The cost of one call: blocks of one size through one open mode.

The study of block sizes wrote the same bytes with ever larger calls, and the same number of calls
with ever more bytes: `total_bytes` is the first half of it, `calls` the second.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import group, run_job, work
from schedlab.kinds.file_access import SEQUENTIAL, Positive
from schedlab.kinds.resolved import Outcome, ResolvedTarget

# mode -> options of the engine's group; a write is on the device when the call returns only in
# the modes that request it.
MODES: dict[str, dict[str, object]] = {
    "buffered": {"engine": "psync"},
    "buffered+fsync": {"engine": "psync", "fsync_at_end": True},
    "sync": {"engine": "psync", "sync": "sync"},
    "dsync": {"engine": "psync", "sync": "dsync"},
    "direct": {"engine": "psync", "direct": True},
    "direct+dsync": {"engine": "psync", "direct": True, "sync": "dsync"},
    "mmap": {"engine": "mmap"},
    "mmap+msync": {"engine": "mmap", "sync": "sync"},
}


SYNCHRONOUS = [name for name, options in MODES.items() if "sync" in options]


class Calls(WorkloadKind, frozen=True):
    """Sequential calls of `block_bytes`: `calls` of them, or (0) as many as `total_bytes` holds."""

    kind: ClassVar[str] = "calls"
    is_buffered = True
    metrics: ClassVar[tuple[str, ...]] = ("seconds_per_call", "elapsed_s", "cpu_s",
                                          "throughput_bytes_per_s")  # fmt: skip

    block_bytes: Positive
    mode: Literal[
        "buffered",
        "buffered+fsync",
        "sync",
        "dsync",
        "direct",
        "direct+dsync",
        "mmap",
        "mmap+msync",
    ] = "sync"
    direction: Literal["read", "write"] = "write"
    calls: Annotated[int, Meta(ge=0)] = 0
    total_bytes: Annotated[int, Meta(ge=0)] = 0

    def writes(self) -> bool:
        """Whether the calls write."""
        return self.direction == "write"

    def guarantee(self) -> str:
        """The guarantee of the mode, for writes."""
        usual = "device" if self.mode == "direct" else "memory"
        certain = {"buffered+fsync": "end", **dict.fromkeys(SYNCHRONOUS, "call")}
        return certain.get(self.mode, usual) if self.writes() else ""

    def count(self) -> int:
        """Number of calls of one run."""
        return self.calls or self.total_bytes // self.block_bytes

    def used_bytes(self, target_bytes: int) -> int:
        """Bytes used from the start of the target."""
        return self.count() * self.block_bytes

    def check(self, label: str) -> None:
        """There is at least one call."""
        if self.count() < 1 or (self.calls and self.total_bytes):
            raise SpecError(
                f"{label}: needs either calls or total_bytes of at least one block",
                "write calls = 1280, or total_bytes = 5M",
            )

    def estimate_s(self) -> float:
        """About 1 ms a synchronous call, 10 µs any other."""
        return self.count() * (1e-3 if "sync" in self.mode else 1e-5) + 0.05

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Seconds per call and in all."""
        calls = self.count()
        direction, span = {"kind": self.direction}, calls * self.block_bytes
        blocks = work(SEQUENTIAL, direction, self.block_bytes, seed, span=span)
        job = group("calls", target, blocks, **MODES[self.mode])
        result = run_job([job], None)["calls"]
        elapsed_s = result.elapsed_ns / 1e9
        cpu_s = result.cpu_ns / 1e9
        return Outcome(
            metrics={
                "elapsed_s": elapsed_s,
                "cpu_s": cpu_s,
                "seconds_per_call": elapsed_s / calls,
                "throughput_bytes_per_s": calls * self.block_bytes / elapsed_s,
            },
            properties={
                "calls": calls,
                "engine": result.engine,
                "errors": sum(side.errors for side in result.sides),
                "cpu_share": cpu_s / elapsed_s,
            },
            latencies={"calls": result.series.latencies},
        )
