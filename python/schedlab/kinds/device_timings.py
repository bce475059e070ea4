"""hdparm's two timings of a disk, by its definitions.

`cached`: 2 MiB at the start of the device, again and again for 2 s: the page cache answers, so no
scheduler takes part. `buffered`: sequential 2 MiB reads of a cold device through the page cache for
3 s, or to the end of the device, because a second pass would read from memory.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import claimed_bytes, group, run_job, work
from schedlab.kinds.file_access import LATENCIES, READ, SEQUENTIAL, Seconds, outcome_of
from schedlab.kinds.resolved import Outcome, ResolvedTarget

RECORD_BYTES = 2 << 20
# timing -> (order of the records, seconds)
SAME: dict[str, object] = {"kind": "same"}
TIMINGS = {"cached": (SAME, 2.0), "buffered": (SEQUENTIAL, 3.0)}


class DeviceTimings(WorkloadKind, frozen=True):
    """One timing; `direct` reads with O_DIRECT instead; `seconds` 0 is hdparm's own window."""

    kind: ClassVar[str] = "device-timings"
    is_buffered = True
    is_one_stream = True
    metrics: ClassVar[tuple[str, ...]] = (
        "throughput_bytes_per_s", "iops", "cpu_s", "elapsed_s", *LATENCIES,
    )  # fmt: skip

    timing: Literal["cached", "buffered"]
    direct: bool = False
    seconds: Seconds = 0.0

    def writes(self) -> bool:
        """Only reads."""
        return False

    def estimate_s(self) -> float:
        """The window."""
        return self.seconds or TIMINGS[self.timing][1]

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Throughput of one timing; `cached` is a negative control."""
        order, span = TIMINGS[self.timing][0], target.raw_size_bytes
        reads = work(order, READ, RECORD_BYTES, seed, span=span)
        more = {"at_end": "stop", "cold": not self.direct} if self.timing == "buffered" else {}
        job = group(label, target, reads, engine="psync", direct=self.direct, **more)
        job["path"] = str(target.raw_path)
        groups = run_job([job], self.estimate_s())
        cold = self.timing == "buffered" and not self.direct
        return outcome_of(groups[label], claimed_bytes(groups), self.direct, cold)
