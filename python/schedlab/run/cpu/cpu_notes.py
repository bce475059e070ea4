"""Effects of the kernel's own settings on a comparison of CPU policies: autogroup, throttling.

Reported only where they affect a candidate or a workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedlab.cpu.policy import REAL_TIME, CpuPolicy
from schedlab.host import facts as machine
from schedlab.host.devices import text_of
from schedlab.host.settings.settings import DEBUG, SYSCTL
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.cpu_command import CpuCommand

PROC = SYSCTL / "kernel"
AUTOGROUP_KNOB = PROC / "sched_autogroup_enabled"
FACTS = ("sched_rt_runtime_us", "sched_rt_period_us", "sched_rr_timeslice_ms",
         "sched_autogroup_enabled")  # fmt: skip
FAIR_SERVER = DEBUG / "fair_server" / "cpu0"


def host_facts() -> dict[str, str]:
    """Kernel settings that decide how policies act, as they are now; absent where not visible."""
    paths = {name: PROC / name for name in FACTS}
    paths |= {f"fair_server_{name}_ns": FAIR_SERVER / name for name in ("runtime", "period")}
    facts = {name: text_of(path) for name, path in paths.items()}
    return {name: value for name, value in facts.items() if value}


def notes_of(policies: Sequence[CpuPolicy], kinds: Iterable[WorkloadKind]) -> list[str]:
    """Sentences for readers of the result."""
    commands = [kind for kind in kinds if isinstance(kind, CpuCommand)]
    return [*_autogroup(policies, commands), *_real_time(policies)]


def _autogroup(policies: Sequence[CpuPolicy], commands: Sequence[CpuCommand]) -> list[str]:
    """A nice value acts inside a session; sessions share the CPUs equally (sched(7))."""
    if text_of(AUTOGROUP_KNOB) != "1":
        return []
    grouped = [each for each in policies if each.autogroup != "off" and not each.uses_groups]
    apart = any(kind.load for kind in commands)
    notes = []
    if apart and any(each.autogroup != "shared" for each in grouped):
        notes.append(
            "autogroup is on: the command has a session of its own, and that gets as much of the "
            "CPUs as the session of the load, whatever the number of tasks and nice values "
            "(autogroup=shared or autogroup=off changes that)"
        )
    elif any(each.nice for each in grouped):
        notes.append(
            "autogroup is on: a nice value acts only among the tasks of one session, not against "
            "other programs (autogroup=off changes that)"
        )
    return notes


def _real_time(policies: Sequence[CpuPolicy]) -> list[str]:
    """RT throttling, and the fair server of Linux 6.12 and newer."""
    names = sorted({each.policy for each in policies} & {*REAL_TIME, "deadline"})
    if not names:
        return []
    facts = host_facts()
    reserved = []
    runtime, period = facts.get("sched_rt_runtime_us", "-1"), facts.get("sched_rt_period_us", "")
    if runtime != "-1" and period and machine.has_rt_throttling():
        left = 1 - int(runtime) / int(period)
        reserved.append(f"{left:.0%} by RT throttling (sched_rt_runtime_us = {runtime})")
    runtime, period = (facts.get(f"fair_server_{name}_ns", "0") for name in ("runtime", "period"))
    if int(period) and int(runtime):
        reserved.append(f"{int(runtime) / int(period):.0%} by the fair server while they wait")
    if not reserved:
        return []
    return [f"{', '.join(names)}: ordinary tasks keep a share of each CPU: {', '.join(reserved)}"]
