"""A crew of tasks as a context: settings applied, tasks held ready, everything taken back.

A cpuset of the workers is of v1 where the controller is mounted there, else of v2: hybrid hosts
mount both. DEADLINE tasks need the whole of a root domain, so for them the cpuset is made one:
exclusive with load balancing off above it (v1), or a partition root (v2).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from schedlab.cpu.policy import RR_KNOB, CpuPolicy, deadline_share
from schedlab.cpu.refusals import explain
from schedlab.errors import SIMULATED_CPU, HostError, SpecError, as_root
from schedlab.host import kernel_paths
from schedlab.nouns.load_result import CrewResult

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.host.safety.control import Control

POLL_S = 0.05
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

    def job(self, cgroups: Sequence[str] = ()) -> dict[str, object]:
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

    def _scheduling(self) -> dict[str, object]:
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


@dataclass(frozen=True)
class Quantum:
    """The requested quantum and the one that the kernel uses; None where there is none."""

    requested_ms: float | None
    effective_ms: float | None

    @classmethod
    def of(cls, crew: CpuCrew, policy: CpuPolicy) -> Quantum:
        """That of a crew under `policy`."""
        effective_ns = crew.effective_slice_ns()
        return cls(policy.slice_ms, None if effective_ns is None else effective_ns / 1e6)

    def facts(self, policy: CpuPolicy) -> dict[str, object]:
        """Both as properties of a run."""
        return {
            "policy": policy.policy,
            "requested_slice_ms": self.requested_ms,
            "effective_slice_ms": self.effective_ms,
        }

    def sentence(self) -> str:
        """Both in words."""
        requested = "the kernel's own" if self.requested_ms is None else f"{self.requested_ms:g} ms"
        got = "none" if self.effective_ms is None else f"{self.effective_ms:g} ms"
        return f"quantum: {requested} requested, {got} effective"


@contextlib.contextmanager
def held(job: Mapping[str, Any], policy: CpuPolicy) -> Iterator[CpuCrew]:
    """Tasks that all sleep at the gate; killed at the end.

    HostError with cause and hint for everything that the kernel refuses of `policy`, which some of
    the tasks are given.
    """
    from schedlab import _core

    try:
        crew = _core.CpuCrew(json.dumps(job))
    except OSError as error:
        tasks = sum(group["tasks"] for group in job["groups"])
        raise explain(error, policy, job["cpus"], tasks) from error
    try:
        yield crew
    finally:
        crew.kill()


@contextlib.contextmanager
def held_crew(settings: Settings, control: Control | None) -> Iterator[tuple[CpuCrew, Quantum]]:
    """Workers that sleep at the gate, under their policy and quantum; HostError as of `held`.

    `control` is needed where a setting of the host changes (a quantum of rr, a cpuset).
    """
    set_quantum(settings.policy, control)
    cgroups = [join_file(_needed(control, "a cpuset"), settings)] if settings.cpuset else []
    with held(settings.job(cgroups), settings.policy) as crew:
        yield crew, Quantum.of(crew, settings.policy)


def needs_control(settings: Settings) -> bool:
    """Whether a setting of the host changes, so that a `Control` must be open."""
    return settings.cpuset or settings.policy.sets_quantum


def set_quantum(policy: CpuPolicy, control: Control | None) -> None:
    """Write the quantum of rr to its (global, journalled) knob; others are set per worker."""
    if policy.sets_quantum:
        quantum_ms = policy.host_settings["knob.sched_rr_timeslice_ms"]
        _needed(control, "a quantum of rr").write_knob(RR_KNOB, quantum_ms)


def _needed(control: Control | None, name: str) -> Control:
    if control is None:
        raise HostError(f"{name} needs root", as_root(SIMULATED_CPU))
    return control


def pids_of(crew: CpuCrew) -> list[int]:
    """Process ids in the order of the workers' numbers."""
    return [pid for _, pid in crew.pids()]


def ended(crew: CpuCrew) -> CrewResult:
    """End the crew; the account of every group."""
    return msgspec.json.decode(crew.finish(), type=CrewResult)


def ran(crew: CpuCrew) -> CrewResult:
    """The same of a crew that is let go now and ends by itself."""
    crew.start()
    while not crew.wait(POLL_S):
        pass
    return ended(crew)


def last_cpu() -> int:
    """The CPU that measured workers are pinned to unless another is named: the last allowed."""
    return max(os.sched_getaffinity(0))


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
