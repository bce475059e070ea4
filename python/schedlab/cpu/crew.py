"""A crew of tasks as a context: settings applied, tasks held ready, everything taken back."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from schedlab.cpu.cpuset import join_file
from schedlab.cpu.policy import RR_KNOB, CpuPolicy
from schedlab.cpu.refusals import explain
from schedlab.cpu.settings import Settings
from schedlab.errors import SIMULATED_CPU, HostError, as_root
from schedlab.spec.load_result import CrewResult

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.host.control import Control

POLL_S = 0.05


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

    def facts(self, policy: CpuPolicy) -> dict[str, Any]:
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
