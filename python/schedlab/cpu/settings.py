"""What workers shall do and how they are scheduled, and the forms in which a time is typed."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import Any

from schedlab.errors import SpecError

# Policies and their numbers (include/uapi/linux/sched.h).
POLICIES = {"other": 0, "batch": 3, "idle": 5, "fifo": 1, "rr": 2, "deadline": 6, "ext": 7}
REAL_TIME = ("fifo", "rr")
KERNELS = ("elementwise", "matmul")
PRIORITY_DEFAULT = 10
EPOCH_MS = 100
RR_KNOB = "/proc/sys/kernel/sched_rr_timeslice_ms"
_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|)")


@dataclass(frozen=True)
class Settings:
    """A group of workers. `slice_ms` is the requested quantum, None for the kernel's own;
    `duration_ns` None runs until stopped; `cpus` empty leaves the workers unpinned.
    """

    processes: int
    duration_ns: int | None
    policy: str = "other"
    priority: int = PRIORITY_DEFAULT
    slice_ms: float | None = None
    cpus: tuple[int, ...] = ()
    cpuset: bool = False
    kernel: str = "elementwise"
    epoch_grid: bool = field(default=False)
    tell_slices: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= 1000:
            raise SpecError(f"{self.processes} processes", "use 1 to 1000")
        if self.policy in REAL_TIME and not 1 <= self.priority <= 99:
            raise SpecError(f"priority {self.priority} for {self.policy}", "choose 1 to 99")
        if self.slice_ms is not None:
            self._check_slice(self.slice_ms)

    def _check_slice(self, slice_ms: float) -> None:
        if self.policy in ("fifo", "idle", "ext"):
            raise SpecError(
                f"a slice for policy {self.policy}: that policy has none",
                "use --policy rr, other, batch or deadline",
            )
        if self.policy == "rr" and not (slice_ms >= 1 and slice_ms % 1 == 0):
            raise SpecError(
                f"a slice of {slice_ms:g} ms for rr", "the sysctl accepts whole milliseconds from 1"
            )
        if not 0 < slice_ms < math.inf:
            raise SpecError(f"a slice of {slice_ms:g} ms", "choose one above 0")

    def job(self) -> dict[str, Any]:
        """The job of `_core.CpuCrew`."""
        scheduling: dict[str, Any] = {"policy": self.policy}
        if self.policy in REAL_TIME:
            scheduling["priority"] = self.priority
        if self.slice_ms is not None and self.policy != "rr":
            scheduling["slice_ns"] = int(self.slice_ms * 1e6)
        if self.policy == "deadline":
            runtime = scheduling.setdefault("slice_ns", 10_000_000)
            cpus = len(self.cpus) or len(os.sched_getaffinity(0))
            scheduling["period_ns"] = int(runtime / deadline_share(self.processes, cpus))
        return {
            "processes": self.processes,
            "duration_ns": self.duration_ns,
            "kernel": self.kernel,
            "scheduling": scheduling,
            "cpus": [] if self.cpuset else list(self.cpus),
            "epoch_ns": EPOCH_MS * 1_000_000,
            "epoch_grid": self.epoch_grid,
            "slices": self.tell_slices,
        }


def deadline_share(tasks: int, cpu_count: int) -> float:
    """The share of a CPU that a DEADLINE task asks for: together 90 % of those that they may use.

    The kernel keeps 5 % for ordinary tasks, and the servers of the fair class take another 5 %.
    """
    return 0.9 * min(1.0, cpu_count / max(tasks, 1))


def parse_time_ns(text: str, bare_unit: str = "s") -> int:
    """Nanoseconds of `30s`, `3000ms`, or a bare number of `bare_unit`; SpecError otherwise."""
    match = _TIME.fullmatch(text.strip().lower())
    if not match:
        raise SpecError(f"time {text!r} is not understood", "write 30s, 3000ms or a number")
    time_ns = round(float(match[1]) * _UNITS_NS[match[2] or bare_unit])
    if not 0 < time_ns < 2**62:
        raise SpecError(f"time {text!r} is out of range", "choose more than 0 and less than a year")
    return time_ns


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of `0`, `0,2` or `0-3`; SpecError otherwise."""
    cpus: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers:
            raise SpecError(f"CPU list {text!r} is not understood", "write 0, 0,2 or 0-3")
        cpus += numbers
    return tuple(dict.fromkeys(cpus))


def parse_slices(text: str) -> tuple[float, ...]:
    """Quanta in ms of `1,10,100`; SpecError otherwise."""
    try:
        slices = tuple(float(part.strip().removesuffix("ms")) for part in text.split(","))
    except ValueError:
        slices = ()
    if not slices or any(not 0 < value <= 1e6 for value in slices):
        raise SpecError(f"slices {text!r} are not understood", "write milliseconds: 1,10,100")
    return tuple(dict.fromkeys(slices))
