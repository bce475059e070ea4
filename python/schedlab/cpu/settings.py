"""Workers that count calculations: how many, for how long, under which policy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlab.cpu.policy import CpuPolicy, deadline_share
from schedlab.errors import SpecError

KERNELS = ("elementwise", "matmul")
EPOCH_MS = 100


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
        """The settings of each worker; without a nice value it keeps the one of schedlab."""
        cpu_count = len(self.cpus) or len(os.sched_getaffinity(0))
        policy = self.policy
        if policy.policy == "deadline" and policy.period_ms is None:
            # The period follows the run time: they want all the CPU that they may have.
            runtime_ms = policy.slice_ms or 10.0
            period_ms = runtime_ms / deadline_share(self.processes, cpu_count)
            policy = replace(policy, slice_ms=runtime_ms, period_ms=period_ms)
        values = policy.attributes(self.processes, cpu_count)
        return {name: value for name, value in values.items() if name != "nice" or value}
