"""Why the kernel refused a policy, a pinning or a process, and what helps.

An errno alone is ambiguous: EPERM for a real-time policy is a missing privilege, a resource limit
or a cgroup without real-time bandwidth (sched(7), kernel/sched/syscalls.c). This finds out which.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from schedlab.cpu.policy import REAL_TIME, CpuPolicy
from schedlab.errors import SIMULATED_CPU, HostError, as_root
from schedlab.host import kernel_paths

SCHED_EXT = Path("/sys/kernel/sched_ext")


def explain(
    error: OSError, policy: CpuPolicy, cpus: Sequence[int] = (), tasks: int = 1
) -> HostError:
    """A HostError for what `_core.CpuCrew` raised; `error.filename` is the step that failed."""
    step = str(error.filename)
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    actions = {
        "policy": f"policy {policy.policy}",
        "deadline": f"policy {policy.policy}",
        "slice": f"a slice of {policy.slice_ms} ms for policy {policy.policy}",
        "affinity": f"pinning to CPU {','.join(map(str, cpus))}",
        "fork": f"{tasks} worker processes",
        "memory": "shared memory for the workers",
        "cgroup": "moving the workers into their cgroup",
    }
    reason, hint = _reason(step, code, policy, cpus)
    action = actions.get(step, f"step {step!r}")
    return HostError(f"the kernel refused {action} ({name}): {reason}", hint)


def _reason(step: str, code: int, policy: CpuPolicy, cpus: Sequence[int]) -> tuple[str, str]:
    if step == "policy" and policy.policy == "ext":
        return _no_ext(code)
    if step == "policy" and code == errno.EPERM:
        return _no_real_time(policy)
    if step == "deadline":
        return _no_deadline(code, bool(cpus))
    if step == "slice" and code in (errno.EINVAL, errno.EPERM):
        return "this kernel accepts no slice here", "Linux 6.12 or newer is needed; omit --slice"
    if step == "affinity":
        allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        return "no such CPU, or it is not allowed here", f"choose from CPU {allowed} with --cpu"
    if step == "fork" and code == errno.EAGAIN:
        return _no_process()
    if step == "worker":
        return (
            "the workers did not start in time",
            "a task with a higher priority holds their CPU: see top, or choose another --cpu",
        )
    if step == "cgroup":
        return os.strerror(code), "real-time tasks need cpu.rt_runtime_us in a v1 cpu cgroup"
    return os.strerror(code), "run as root, or use --policy other"


def _no_ext(code: int) -> tuple[str, str]:
    if not SCHED_EXT.exists():
        return (
            "this kernel was built without CONFIG_SCHED_CLASS_EXT",
            "boot a kernel (Linux 6.12 or newer) with CONFIG_SCHED_CLASS_EXT=y",
        )
    return os.strerror(code), "load a sched_ext scheduler first"


def _no_real_time(policy: CpuPolicy) -> tuple[str, str]:
    group = _cpu_cgroup_without_bandwidth()
    if group:
        return (
            f"the cpu cgroup {group} has cpu.rt_runtime_us = 0 (CONFIG_RT_GROUP_SCHED)",
            f"echo 100000 > {group}/cpu.rt_runtime_us, or run from the root cpu cgroup",
        )
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    if os.geteuid() != 0 and policy.policy in REAL_TIME:
        return (
            f"it needs CAP_SYS_NICE, or a limit of real-time priority (now {limit}) "
            f"of at least {policy.priority}",
            as_root(SIMULATED_CPU, f"run as root, or ulimit -r {policy.priority}"),
        )
    return (
        "the capability CAP_SYS_NICE is missing",
        as_root(SIMULATED_CPU, "run as root, in a container with --cap-add SYS_NICE"),
    )


def _cpu_cgroup_without_bandwidth() -> Path | None:
    """The v1 cpu cgroup of this process when it has no real-time bandwidth."""
    with contextlib.suppress(OSError):
        for root, path in kernel_paths.groups_of().items():
            group = Path(f"{root}{path}")
            with contextlib.suppress(OSError, ValueError):
                if int((group / "cpu.rt_runtime_us").read_text()) == 0:
                    return group
    return None


def _no_deadline(code: int, is_pinned: bool) -> tuple[str, str]:
    if code == errno.EBUSY:
        return (
            "the admission test failed: the workers together need more than the CPUs have left",
            "use fewer processes, or a shorter --slice",
        )
    if code == errno.EPERM and is_pinned:
        return (
            "a DEADLINE task may not be pinned to a part of its root domain",
            "omit --cpu, or use --cpuset, which makes an exclusive cpuset",
        )
    if code == errno.EPERM:
        return (
            "it needs CAP_SYS_NICE, and all CPUs of the root domain",
            as_root(SIMULATED_CPU, "run as root and outside of a cpuset that excludes CPUs"),
        )
    if code == errno.EINVAL:
        return (
            "the kernel accepts a run time from 1 µs and a period within its limits",
            "choose another --slice; see sysctl kernel.sched_deadline_period_max_us",
        )
    return os.strerror(code), "use --policy rr or other"


def _no_process() -> tuple[str, str]:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    shown = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
    return (
        f"a limit of processes is reached (ulimit -u: {shown}; or pids.max of the cgroup)",
        "use fewer processes, or raise the limit",
    )
