"""The CPU policies of the kernel, and the settings of one that tasks are given."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlab.errors import SpecError

KERNELS = ("elementwise", "matmul")
PRIORITY_DEFAULT = 10
RR_KNOB = "/proc/sys/kernel/sched_rr_timeslice_ms"
# Shortest and longest slice of EEVDF.
SLICE_MS = (0.1, 100.0)


@dataclass(frozen=True)
class Traits:
    """A policy: its number (include/uapi/linux/sched.h), and the settings that it heeds."""

    number: int
    has_priority: bool = False
    has_slice: bool = False
    has_nice: bool = False


# Of a deadline task whose period is not named; the least run time is 1,024 ns.
DEADLINE_PERIOD_MS, DEADLINE_LEAST_MS = 10.0, 0.001024
POLICIES = {
    "other": Traits(0, has_slice=True, has_nice=True),
    "batch": Traits(3, has_slice=True, has_nice=True),
    "idle": Traits(5),
    "fifo": Traits(1, has_priority=True),
    "rr": Traits(2, has_priority=True, has_slice=True),
    "deadline": Traits(6, has_slice=True),
    "ext": Traits(7),
}
REAL_TIME = tuple(name for name, traits in POLICIES.items() if traits.has_priority)


@dataclass(frozen=True)
class CpuPolicy:
    """The settings of tasks; SpecError for those that contradict each other.

    `slice_ms` is the requested quantum, None for the kernel's own. `weight` 0 and `max` "" leave
    the cgroups alone. `autogroup` is `shared` (one session with schedlab), `own` (one each), `off`,
    or empty: a command gets its own session, built-in work stays in the shared one. `ext` is the
    program that loads a sched_ext scheduler, with its arguments in `ext_args`. `knobs` are settings
    of the machine by the names of host/settings/settings.py, such as `knob.base_slice_ns` or
    `governor`.
    """

    policy: str = "other"
    priority: int = PRIORITY_DEFAULT
    nice: int = 0
    slice_ms: float | None = None
    period_ms: float | None = None
    weight: int = 0
    max: str = ""
    group_idle: bool = False
    autogroup: str = ""
    apply_to: str = "work"
    ext: str = ""
    ext_args: str = ""
    knobs: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        traits = POLICIES[self.policy]
        if traits.has_priority and not 1 <= self.priority <= 99:
            raise SpecError(f"priority {self.priority} for {self.policy}", "choose 1 to 99")
        if self.slice_ms is not None:
            self._check_slice(self.slice_ms)
        if self.period_ms is not None:
            self.check_deadline(self.period_ms)
        if self.nice and not traits.has_nice:
            raise SpecError(f"nice has no effect under {self.policy}", "use other or batch")
        if traits.has_priority and self.uses_groups:
            raise SpecError(
                f"{self.policy} tasks are not subject to weights and quotas",
                "omit weight, max and group-idle",
            )
        if self.max and not re.fullmatch(r"\d+/\d+", self.max):
            raise SpecError(f"max {self.max!r} is not QUOTA/PERIOD", "max=50000/100000 (in µs)")
        if self.policy != "ext" and (self.ext or self.ext_args):
            raise SpecError("ext and args belong to policy ext", "ext:scx_lavd,args=--verbose")

    def _check_slice(self, slice_ms: float) -> None:
        if not POLICIES[self.policy].has_slice:
            raise SpecError(
                f"policy {self.policy} has no slice", "use rr, other, batch or deadline"
            )
        if not 0 < slice_ms < math.inf:
            raise SpecError(f"a slice of {slice_ms:g} ms", "choose one above 0")
        # It may already be what the kernel makes of a request: whole ticks, such as 6.67 ms.
        whole_ms = int(slice_ms)
        if self.policy == "rr" and slice_ms not in (whole_ms, effective_slice_ms("rr", whole_ms)):
            raise SpecError("the quantum of rr must be in whole ms", "rr:10ms")

    def check_deadline(self, period_ms: float) -> None:
        """SpecError unless run time ≤ period, from 1 µs on (kernel/sched/deadline.c:
        __checkparam_dl).
        """
        if self.policy != "deadline" or self.slice_ms is None:
            return
        if not DEADLINE_LEAST_MS <= self.slice_ms <= period_ms:
            raise SpecError(
                f"deadline: a run time of {self.slice_ms:g} ms in a period of {period_ms:g} ms",
                f"slice from {DEADLINE_LEAST_MS:g} ms to the period: "
                f"deadline:slice={period_ms / 2:g}ms,period={period_ms:g}ms",
            )

    @property
    def uses_groups(self) -> bool:
        """Whether cpu cgroups are needed."""
        return bool(self.weight or self.max or self.group_idle)

    @property
    def sets_quantum(self) -> bool:
        """Whether its quantum is the knob of the machine."""
        return self.policy == "rr" and self.slice_ms is not None

    @property
    def host_settings(self) -> dict[str, str | int | float]:
        """Settings of the machine, also those that the policy needs: name and value."""
        values = dict(self.knobs)
        if self.policy == "rr" and self.slice_ms is not None:
            values["knob.sched_rr_timeslice_ms"] = int(self.slice_ms)
        if self.autogroup == "off":
            values["knob.sched_autogroup_enabled"] = 0
        return values

    def covers(self, is_load: bool) -> bool:
        """Whether it is given to the load, or to the work."""
        return self.apply_to in ("all", "load" if is_load else "work")

    def attributes(self, tasks: int, cpu_count: int) -> dict[str, object]:
        """`Attributes` of crates/load/src/cpu/attributes.rs for `tasks` tasks on so many CPUs."""
        values: dict[str, object] = {"policy": self.policy, "nice": self.nice}
        if self.policy in REAL_TIME:
            values["priority"] = self.priority
        if self.policy == "deadline":
            period_ns = int((self.period_ms or DEADLINE_PERIOD_MS) * 1e6)
            usual_ns = int(period_ns * deadline_share(tasks, cpu_count))
            runtime_ns = int(self.slice_ms * 1e6) if self.slice_ms else usual_ns
            return {**values, "slice_ns": runtime_ns, "period_ns": period_ns}
        if self.slice_ms is not None and self.policy != "rr":
            values["slice_ns"] = int(self.slice_ms * 1e6)
        return values


def deadline_share(tasks: int, cpu_count: int) -> float:
    """The share of a CPU that a DEADLINE task asks for: together 90 % of those that they may use.

    The kernel keeps 5 % for ordinary tasks, and the servers of the fair class take another 5 %.
    """
    return 0.9 * min(1.0, cpu_count / max(tasks, 1))


def effective_slice_ms(policy: str, slice_ms: float) -> float:
    """The slice that the kernel applies: rr rounds up to jiffies, EEVDF clamps to 0.1–100 ms."""
    if policy == "rr":
        from schedlab.host.settings.knobs import ticks_per_second

        hz = ticks_per_second()
        return math.ceil(slice_ms * hz / 1000) * 1000 / hz
    if policy in ("other", "batch"):
        return min(max(slice_ms, SLICE_MS[0]), SLICE_MS[1])
    return slice_ms
