"""Putting a CPU candidate's settings onto the host: knobs and cpu cgroups, all journalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.cpu.policy import CpuPolicy
from schedlab.host.control_groups import cpu_hierarchy
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.spec import Candidate

if TYPE_CHECKING:
    from schedlab.host.control import Control

DEFAULT_WEIGHT = 100
SHARES_PER_WEIGHT = 1024 / DEFAULT_WEIGHT
PERIOD_US = 100_000


class CpuSettings:
    """The settings of the machine that any candidate has, and cpu cgroups of ours."""

    def __init__(self, control: Control, policies: Iterable[CpuPolicy]) -> None:
        self.control = control
        self._settings = CandidateSettings(control, (), map(_of_host, policies))
        self._groups: dict[str, Path] = {}

    def apply(self, policy: CpuPolicy) -> Mapping[str, str]:
        """Set the candidate's settings, and all others as they were found; what they read now."""
        return self._settings.apply(_of_host(policy))[0]

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


def _of_host(policy: CpuPolicy) -> Candidate:
    """The settings of the whole machine among the candidate's."""
    return Candidate(policy.policy, policy.host_settings)
