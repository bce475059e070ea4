"""Cells of a quantum experiment inside one run: one group of workers, its quantum flipped.

The kernel grants a worker's slice when its last one expires, with the current quantum. So a cell
sets its quantum and waits until every worker has a slice of it. It holds the quantum as long as
the longest one of the experiment would take for one round, and returns to the shortest. The
slices granted meanwhile are the cell. No part of the time between is discarded.

Resources shared with others (a core's other thread, caches, the clock) make a machine faster and
slower by tens of per cent within a tenth of a second. Cells of that length cannot separate this
from the quantum. Calculations in the middle of a tick's period can: no switch is near them under
any quantum, so their speed is the machine's. Each cell's rate is stated at one speed of the
machine, that of the first cell. This assumes that the effect of a switch is over 1.5 ms (of a
tick of 4) after it, which holds where the working sets fit the caches. The rate as counted is
stored as well.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from schedlab.cpu.crew import Quantum, Settings, held_crew, set_quantum
from schedlab.cpu.policy import CpuPolicy
from schedlab.cpu.refusals import explain
from schedlab.errors import GateError
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Cell, Workload
from schedlab.run.admitted import Admitted
from schedlab.run.cpu.cpu_calculations import settings_of

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.host.safety.control import Control

POLL_S = 0.002
PATIENCE_S = 5.0
# A preemption comes some part of a calculation after its mark: it must be this long before a flip.
BEFORE_FLIP_NS = 1_000_000
# A slice may last to the next tick and a half; a longer one was granted before the flip.
SLICE_SLACK_NS = 6_000_000


# (at_ns, calculations, cpu_ns, plain calculations, cpu_ns of these), all since the start
Mark = Sequence[int]


@dataclass
class WorkerSlices:
    """The preemptions of one worker since a flip."""

    marks: list[Mark] = field(default_factory=list)

    def between(self, from_ns: int, to_ns: int, slice_ns: float) -> list[int]:
        """The four sums over the slices granted in the interval, as far as they are complete."""
        sums = [0, 0, 0, 0]
        for this, following in itertools.pairwise(self.marks):
            granted = this[0]
            differences = [
                after - before for after, before in zip(following[1:], this[1:], strict=True)
            ]
            in_force = from_ns <= granted < to_ns - BEFORE_FLIP_NS
            if in_force and differences[1] <= slice_ns + SLICE_SLACK_NS:
                sums = [a + b for a, b in zip(sums, differences, strict=True)]
        return sums

    def has_one_after(self, at_ns: int) -> bool:
        """Whether a preemption after that moment is known."""
        return bool(self.marks) and self.marks[-1][0] >= at_ns


@contextlib.contextmanager
def flips(admitted: Admitted, control: Control) -> Iterator[FlipSession]:
    """One crew for all cells of an experiment."""
    experiment = admitted.experiment
    first = _settings_in(admitted, experiment.workloads[0], experiment.candidates[0])
    with held_crew(replace(first, tell_slices=True), control) as (crew, _):
        crew.start()
        yield FlipSession(admitted, control, crew)


def _settings_in(admitted: Admitted, workload: Workload, candidate: Candidate) -> Settings:
    """The workers of a cell."""
    kind = admitted.kind(workload, candidate)
    assert isinstance(kind, Calculation)
    return settings_of(kind, candidate)


class FlipSession:
    """One crew; each cell is the slices granted while its quantum was in force."""

    def __init__(self, admitted: Admitted, control: Control, crew: CpuCrew) -> None:
        experiment = admitted.experiment
        quanta = {float(c.settings["effective_ms"]): c for c in experiment.candidates}
        self.admitted = admitted
        self.control = control
        self.crew = crew
        self.longest_ms = max(quanta)
        self.neutral = _settings_in(admitted, experiment.workloads[0], quanta[min(quanta)])
        self.reference_speed: float | None = None
        self.worker_slices = [WorkerSlices() for _ in range(self.neutral.processes)]

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """Set the quantum, hold it for a round of the longest, take it back, add up its slices."""
        settings = _settings_in(self.admitted, workload, candidate)
        for worker in self.worker_slices:
            del worker.marks[:-1]
        began = self._flip(settings.policy)
        quantum = Quantum.of(self.crew, settings.policy)
        slice_ms = quantum.effective_ms or quantum.requested_ms or 0.0
        # With equal priorities the first to come round again is the last to have been granted.
        self._wait(lambda: any(one.has_one_after(began) for one in self.worker_slices))
        round_s = settings.processes * (self.longest_ms - slice_ms) / 1e3
        self._sleep(max(2 * BEFORE_FLIP_NS / 1e9, round_s))
        ended = self._flip(self.neutral.policy, before=True)
        self._wait(lambda: all(one.has_one_after(ended) for one in self.worker_slices))
        parts = [one.between(began, ended, slice_ms * 1e6) for one in self.worker_slices]
        if any(0 in part for part in parts):
            raise GateError(
                "no-slice",
                "no slice of a worker was completely inside its cell",
                "if this repeats: does another task of this priority use the CPU?",
            )
        metrics, facts = at_one_speed(parts, self.reference_speed)
        self.reference_speed = self.reference_speed or facts["speed_per_cpu_s"]
        properties = {**quantum.facts(settings.policy), **facts}
        return Outcome(metrics, properties, self.control.check())

    def _flip(self, policy: CpuPolicy, *, before: bool = False) -> int:
        """Set a quantum; monotonic time just after, or just before, in ns."""
        at_ns = time.monotonic_ns()
        set_quantum(policy, self.control)
        if policy.policy != "rr" and policy.slice_ms is not None:
            try:
                self.crew.set_slice(int(policy.slice_ms * 1e6))
            except OSError as error:
                raise explain(error, policy) from error
        return at_ns if before else time.monotonic_ns()

    def _collect(self) -> None:
        for process, mark in self.crew.take_preemptions():
            self.worker_slices[process].marks.append(mark)

    def _sleep(self, seconds: float) -> None:
        if self.crew.wait(seconds):
            raise GateError("workers-ended", "the workers ended before the experiment")
        self._collect()

    def _wait(self, reached: Any) -> None:
        """Until `reached`; GateError after seconds in which a worker got no CPU."""
        deadline = time.monotonic() + PATIENCE_S
        self._collect()
        while not reached():
            if time.monotonic() > deadline:
                raise GateError(
                    "no-cpu", "a worker got no CPU for seconds", "is another job pinned there?"
                )
            self._sleep(POLL_S)


def at_one_speed(
    parts: Sequence[Sequence[int]], reference_speed: float | None
) -> tuple[dict[str, float], dict[str, Any]]:
    """(metrics, facts) of a cell from the four sums of each worker (`WorkerSlices.between`), its
    rate as if the machine had `reference_speed`; None: the speed of this cell.
    """
    # Each worker has its own speed (page placement): equal weights keep that out.
    rate = geometric_mean(count / cpu_ns * 1e9 for count, cpu_ns, _, _ in parts)
    speed = geometric_mean(count / cpu_ns * 1e9 for _, _, count, cpu_ns in parts)
    workers = [
        {"worker": number, "calculations": calculations, "cpu_burst_s": cpu_ns / 1e9}
        for number, (calculations, cpu_ns, _, _) in enumerate(parts)
    ]
    stated = rate / speed * (reference_speed or speed)
    return (
        {"calculations_per_cpu_s": stated, "calculations_per_cpu_s_raw": rate},
        {"workers": workers, "speed_per_cpu_s": speed},
    )
