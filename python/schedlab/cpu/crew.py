"""A crew of workers as a context: settings applied, workers held ready, everything taken back."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlab.cpu.refusals import explain
from schedlab.cpu.settings import RR_KNOB, Settings
from schedlab.errors import HostError

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.host.control import Control

PATIENCE_S = 10.0


@dataclass(frozen=True)
class Quantum:
    """The requested quantum and the one that the kernel uses; None where there is none."""

    requested_ms: float | None
    effective_ms: float | None

    def sentence(self) -> str:
        """Both in words."""
        requested = "the kernel's own" if self.requested_ms is None else f"{self.requested_ms:g} ms"
        got = "none" if self.effective_ms is None else f"{self.effective_ms:g} ms"
        return f"quantum: {requested} requested, {got} effective"


@contextlib.contextmanager
def held_crew(settings: Settings, control: Control | None) -> Iterator[tuple[CpuCrew, Quantum]]:
    """Workers that sleep at the barrier, under their policy and quantum; killed at the end.

    `control` is needed where a setting of the host changes (a quantum of rr, a cpuset).
    HostError with cause and hint for everything that the kernel refuses.
    """
    from schedlab._core import CpuCrew

    set_quantum(settings, control)
    try:
        crew = CpuCrew(json.dumps(settings.job()))
    except OSError as error:
        raise explain(error, settings) from error
    try:
        if settings.cpuset:
            _join_cpuset(crew, settings, control)
        try:
            crew.prepare(PATIENCE_S)
        except OSError as error:
            raise explain(error, settings) from error
        effective = crew.effective_slice_ns()
        yield crew, Quantum(settings.slice_ms, None if effective is None else effective / 1e6)
    finally:
        crew.kill()
        crew.wait(PATIENCE_S)


def needs_control(settings: Settings) -> bool:
    """Whether a setting of the host changes, so that a `Control` must be open."""
    return settings.cpuset or (settings.policy == "rr" and settings.slice_ms is not None)


def set_quantum(settings: Settings, control: Control | None) -> None:
    """Write the quantum of rr to its (global, journalled) knob; others are set per worker."""
    if settings.policy != "rr" or settings.slice_ms is None:
        return
    if control is None:
        raise HostError(f"{RR_KNOB} is not under schedlab's control", "run as root")
    control.write_knob(RR_KNOB, int(settings.slice_ms))


def _join_cpuset(crew: CpuCrew, settings: Settings, control: Control | None) -> None:
    if control is None:
        raise HostError("a cpuset needs root", "run as root")
    from schedlab.cpu.cpuset import join_cpuset

    join_cpuset(control, crew.pids(), settings)


def totals(crew: CpuCrew) -> list[Mapping[str, Any]]:
    """The account of every worker, as `schedlab_load::cpu::Totals`."""
    rows: list[Mapping[str, Any]] = json.loads(crew.totals())
    return rows


def last_cpu() -> int:
    """The CPU that measured workers are pinned to unless another is named: the last allowed."""
    return max(os.sched_getaffinity(0))
