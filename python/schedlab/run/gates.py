"""Conditions that a run must have held, looked at without knowing its outcome."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from schedlab.spec import GateFinding

SECTOR_BYTES = 512
# Fraction by which device bytes may differ from claimed bytes: requests around the window's
# edges, file system metadata.
BYTES_TOLERANCE = 0.02
BYTES_TOLERANCE_FLOOR = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine and of one device at a moment."""

    at_s: float
    busy_s: float
    own_s: float
    swapped_pages: int
    throttled: int
    read_bytes: int
    written_bytes: int


def snapshot(device: str | None) -> Snapshot:
    """The counters now; `device` is a kernel name under /sys/block, or None."""
    read_bytes, written_bytes = device_bytes(device) if device else (0, 0)
    times = os.times()
    return Snapshot(
        at_s=time.monotonic(),
        busy_s=_busy_s(),
        own_s=times.user + times.system + times.children_user + times.children_system,
        swapped_pages=_swapped_pages(),
        throttled=_throttled(),
        read_bytes=read_bytes,
        written_bytes=written_bytes,
    )


def device_bytes(device: str) -> tuple[int, int]:
    """(read, written) bytes since boot from /sys/block/DEVICE/stat (Documentation/block/stat)."""
    fields = Path(f"/sys/block/{device}/stat").read_text().split()
    return int(fields[2]) * SECTOR_BYTES, int(fields[6]) * SECTOR_BYTES


def findings(
    before: Snapshot,
    after: Snapshot,
    claimed: tuple[int, int] | None,
    cold_bytes: int = 0,
) -> tuple[GateFinding, ...]:
    """What did not hold between two snapshots.

    `claimed` are the (read, written) bytes that the workload says it moved past the page cache,
    or None where the cache may answer (buffered I/O). `cold_bytes` were read through a cold cache:
    the device must have read them, and may have read ahead.
    """
    found = []
    if swapped := after.swapped_pages - before.swapped_pages:
        found.append(GateFinding("swap", f"{swapped} pages were swapped during the run"))
    if throttled := after.throttled - before.throttled:
        found.append(GateFinding("throttled", f"the CPU was throttled {throttled} times"))
    seen = after.read_bytes - before.read_bytes
    if seen < cold_bytes * (1 - BYTES_TOLERANCE) - BYTES_TOLERANCE_FLOOR:
        text = f"{cold_bytes} bytes were read, but only {seen} from the device: its cache was warm"
        found.append(GateFinding("not-cold", text))
    if claimed is not None:
        device = (
            after.read_bytes - before.read_bytes,
            after.written_bytes - before.written_bytes,
        )
        for word, said, seen in zip(("read", "written"), claimed, device, strict=True):
            if abs(said - seen) > max(BYTES_TOLERANCE * said, BYTES_TOLERANCE_FLOOR):
                text = f"the workload {word} {said} bytes, the device counted {seen}"
                found.append(GateFinding("device-bytes", text))
    return tuple(found)


def cpu_facts(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Own and system-wide CPU seconds of the window, for the run's properties."""
    return {
        "window_s": after.at_s - before.at_s,
        "cpu_own_s": after.own_s - before.own_s,
        "cpu_system_wide_s": after.busy_s - before.busy_s,
    }


def _busy_s() -> float:
    """CPU seconds that were not idle and not waiting, over all CPUs, since boot."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _swapped_pages() -> int:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("pswpin", "pswpout")))


def _throttled() -> int:
    files = Path("/sys/devices/system/cpu").glob("cpu*/thermal_throttle/*_throttle_count")
    return sum(int(file.read_text()) for file in files)
