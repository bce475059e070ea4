"""Putting a CPU candidate's settings onto the host: knobs and cpu cgroups, all journalled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import HostError
from schedlab.host import knobs, owned
from schedlab.run.backends.cpu_policy import (
    AUTOGROUP_KNOB,
    DEBUG,
    KNOBS,
    PROC,
    RR_KNOB,
    CpuPolicy,
)

if TYPE_CHECKING:
    from schedlab.host.control import Control

DEFAULT_WEIGHT = 100
SHARES_PER_WEIGHT = 1024 / DEFAULT_WEIGHT
PERIOD_US = 100_000


class CpuSettings:
    """The knobs that any candidate sets, with the values found; and cpu cgroups of ours."""

    def __init__(self, control: Control, policies: Iterable[CpuPolicy]) -> None:
        self.control = control
        wanted = [knobs_of(policy) for policy in policies]
        self._found = {path: _read(path) for each in wanted for path in each}
        self._groups: dict[str, Path] = {}

    def apply(self, policy: CpuPolicy) -> dict[str, str]:
        """Set every knob to the candidate's value, or to the one found; what they read now."""
        values = {**self._found, **knobs_of(policy)}
        return {path.name: self.control.write_knob(path, text) for path, text in values.items()}

    def group(self, name: str, weight: int, limit: str = "", idle: bool = False) -> Sequence[str]:
        """A cpu cgroup of ours with these settings; the file through which tasks join."""
        path = self._groups.get(name)
        if path is None:
            path = self._groups[name] = self.control.cgroup(f"cpu-{name}", root=cpu_hierarchy())
        quota, _, period = limit.partition("/")
        if (path / "cpu.shares").exists():
            values = {"cpu.shares": str(max(2, round(weight * SHARES_PER_WEIGHT)))}
            values["cpu.cfs_period_us"] = period or str(PERIOD_US)
            values["cpu.cfs_quota_us"] = quota or "-1"
        else:
            values = {"cpu.weight": str(weight)}
            values["cpu.max"] = f"{quota or 'max'} {period or PERIOD_US}"
        if idle:  # an idle group takes no weight
            values = {k: v for k, v in values.items() if k not in ("cpu.shares", "cpu.weight")}
        self.control.write_knob(path / "cpu.idle", str(int(idle)))
        for file, text in values.items():
            self.control.write_knob(path / file, text)
        return [str(path / "cgroup.procs")]


def knobs_of(policy: CpuPolicy) -> dict[Path, str]:
    """Kernel knobs of a candidate: path and value."""
    wanted = {(PROC if name in KNOBS else DEBUG) / name: v for name, v in policy.knobs.items()}
    if policy.policy == "rr" and policy.slice_ms is not None:
        wanted[RR_KNOB] = str(int(policy.slice_ms))
    if policy.autogroup == "off":
        wanted[AUTOGROUP_KNOB] = "0"
    return wanted


def cpu_hierarchy() -> Path:
    """Where cpu cgroups are made: v1's cpu hierarchy, else v2 with the cpu controller."""
    for name in ("cpu", "cpu,cpuacct"):
        root = Path("/sys/fs/cgroup") / name
        if (root / "cpu.shares").exists():
            return root
    root = owned.cgroup_root()
    if "cpu" not in (root / "cgroup.subtree_control").read_text().split():
        raise HostError(
            f"the cpu controller is not enabled in {root}",
            f"echo +cpu > {root}/cgroup.subtree_control",
        )
    return root


def _read(path: Path) -> str:
    try:
        return knobs.read_value(path)
    except PermissionError as error:
        raise HostError(
            f"{path} may not be read, even by root: {lockdown()}",
            "boot with lockdown=none, or use slice=… per task instead",
        ) from error
    except OSError as error:
        raise HostError(
            f"cannot read {path}: {error.strerror}",
            "mount -t debugfs none /sys/kernel/debug, or omit this knob",
        ) from error


def lockdown() -> str:
    """The kernel's lockdown mode, in words."""
    try:
        mode = knobs.read_value("/sys/kernel/security/lockdown")
    except OSError:
        return "its lockdown mode is not known"
    return f"kernel lockdown is {mode!r}"
