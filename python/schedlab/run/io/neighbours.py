"""Other traffic on the device of a command: reads that were not its own, and dirty pages that
reached the limit at which the kernel writes them out by itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from schedlab.nouns import GateFinding
from schedlab.run.gates import vmstat

# Of what the command itself read; the floor covers file system metadata and read-ahead of others.
FOREIGN_SHARE, FOREIGN_FLOOR_BYTES = 0.05, 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def read_bytes_of(pids: Iterable[int]) -> int:
    """Bytes that these processes had read from block devices (/proc/PID/io)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
            fields = dict(line.split(": ") for line in lines)
            total += int(fields.get("read_bytes", 0))
    return total


def foreign_reads(
    queue_bytes: Mapping[str, int], own_bytes: float, is_complete: bool
) -> tuple[GateFinding, ...]:
    """A finding when the queues read more than the command and its servers did.

    Reads are charged to the process that submits them. Writes are ignored: the kernel's
    flusher and journal threads write for everybody. Nor is a run that is not `is_complete`: some
    of its processes were not awaited, and the kernel keeps no account of those.
    """
    seen = sum(queue_bytes.values())
    limit = max(FOREIGN_SHARE * own_bytes, FOREIGN_FLOOR_BYTES)
    if not is_complete or seen - own_bytes <= limit:
        return ()
    text = (
        f"{', '.join(queue_bytes)} read {seen >> 10} KiB, of which the command read "
        f"{int(own_bytes) >> 10} KiB"
    )
    return (GateFinding("foreign-io", text),)


class DirtyPeak:
    """The highest amount of dirty pages and writeback while a command ran, sampled."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.limit_bytes = 0

    def look(self) -> None:
        """Read the counters (Documentation/admin-guide/sysctl/vm.rst: dirty_background_*)."""
        counts = vmstat()
        pages = counts.get("nr_dirty", 0) + counts.get("nr_writeback", 0)
        self.peak_bytes = max(self.peak_bytes, pages * _PAGE_BYTES)
        self.limit_bytes = counts.get("nr_dirty_background_threshold", 0) * _PAGE_BYTES

    def findings(self) -> tuple[GateFinding, ...]:
        """A note when the kernel began to write by itself: memory size is measured then, too."""
        if not self.limit_bytes or self.peak_bytes <= self.limit_bytes:
            return ()
        text = (
            f"{self.peak_bytes >> 20} MiB were dirty, more than the {self.limit_bytes >> 20} MiB "
            "above which the kernel writes back in the background"
        )
        return (GateFinding("dirty-limit", text, fatal=False),)
