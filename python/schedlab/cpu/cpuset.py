"""A cpuset cgroup for the workers: v1 where the controller is mounted there, else v2.

Hybrid hosts mount both; a controller belongs to one of them only. DEADLINE tasks need the whole
of a root domain, so for them the cpuset is made a separate domain: exclusive with load balancing
off above it (v1), or a partition root (v2).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.cpu.settings import Settings
from schedlab.errors import HostError
from schedlab.host import kernel_paths

if TYPE_CHECKING:
    from schedlab.host.control import Control


def _listed(cpus: Iterable[int]) -> str:
    """CPUs as the kernel lists them, such as `0-1,4`: what is read back is compared with it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)


def join_file(control: Control, settings: Settings) -> str:
    """The file through which workers join a new cpuset of theirs; removed when `control` ends."""
    cpus = _listed(settings.cpus)
    root, is_v2 = _cpuset_root()
    group = control.cgroup("cpuset", root)
    own_domain = settings.policy.policy == "deadline"
    if is_v2:
        control.write_knob(group / "cpuset.cpus", cpus)
        if own_domain:
            control.write_knob(group / "cpuset.cpus.partition", "root")
    else:
        control.write_knob(group / "cpuset.cpus", cpus)
        control.write_knob(group / "cpuset.mems", (root / "cpuset.mems").read_text().strip())
        if own_domain:
            control.write_knob(group / "cpuset.cpu_exclusive", 1)
            control.write_knob(root / "cpuset.sched_load_balance", 0)
    return str(group / "cgroup.procs")


def _cpuset_root() -> tuple[Path, bool]:
    """Where the cpuset controller is, and whether that is cgroup v2."""
    for each in kernel_paths.hierarchies():
        if "cpuset" in each.controllers:
            return each.root, each.is_v2
    raise HostError("no cpuset controller is mounted", "pin with --cpu instead of --cpuset")
