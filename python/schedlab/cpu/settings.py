"""Workers that count calculations, and the forms in which times, CPUs and quanta are typed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlab.cpu.policy import CpuPolicy, deadline_share
from schedlab.errors import SpecError

KERNELS = ("elementwise", "matmul")
EPOCH_MS = 100
_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|)")


@dataclass(frozen=True)
class Settings:
    """Workers that count calculations. `duration_ns` None runs until stopped; `cpus` empty leaves
    them unpinned.
    """

    processes: int
    duration_ns: int | None
    policy: CpuPolicy = field(default_factory=CpuPolicy)
    cpus: tuple[int, ...] = ()
    cpuset: bool = False
    kernel: str = "elementwise"
    epoch_grid: bool = False
    tell_slices: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= 1000:
            raise SpecError(f"{self.processes} processes", "use 1 to 1000")

    def job(self, cgroups: Sequence[str] = ()) -> dict[str, Any]:
        """The job of `_core.CpuCrew`; its workers join `cgroups`, files `cgroup.procs`."""
        role = {
            "kind": "calculation",
            "kernel": self.kernel,
            "epoch_ns": EPOCH_MS * 1_000_000,
            "epoch_grid": self.epoch_grid,
            "slices": self.tell_slices,
        }
        group = {
            "name": "work",
            "role": role,
            "tasks": self.processes,
            "scheduling": self._scheduling(),
            "cgroups": list(cgroups),
        }
        cpus = [] if self.cpuset else list(self.cpus)
        return {"groups": [group], "window_ns": self.duration_ns, "cpus": cpus}

    def _scheduling(self) -> dict[str, Any]:
        """What each worker is given; without a nice value it keeps the one of schedlab."""
        cpu_count = len(self.cpus) or len(os.sched_getaffinity(0))
        policy = self.policy
        if policy.policy == "deadline" and policy.period_ms is None:
            # The period follows the run time: they want all the CPU that they may have.
            runtime_ms = policy.slice_ms or 10.0
            period_ms = runtime_ms / deadline_share(self.processes, cpu_count)
            policy = replace(policy, slice_ms=runtime_ms, period_ms=period_ms)
        values = policy.attributes(self.processes, cpu_count)
        return {name: value for name, value in values.items() if name != "nice" or value}


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
