"""Cells in the simulator: policies are candidates, seeds are blocks.

All candidates of a block get the same seed, and so the same requests. Nothing on the host changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from schedlab.kinds.resolved import Outcome
from schedlab.run.admitted import Admitted
from schedlab.sim.experiments import disk_simulation, host_run, ssd_simulation
from schedlab.sim.judge import verdict_of
from schedlab.sim.results import DIRECTIONS
from schedlab.spec import METRICS, Candidate, Cell, Experiment, Workload
from schedlab.spec.latency import merge

if TYPE_CHECKING:
    from schedlab.host.control import Control


class SimSession:
    """Nothing to make ready: a simulation is fixed by its cell."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One simulation; `properties` holds the numbers that are no metric of schedlab."""
        return OUTCOMES[workload.kind](workload, candidate, self.seed + cell.block)


def ssd_outcome(workload: Workload, candidate: Candidate, seed: int) -> Outcome:
    """Of an SSD."""
    result = ssd_simulation(workload, candidate, seed).run()
    bins = merge(result.histogram(direction).tolist() for direction in DIRECTIONS)
    return _outcome(seed, result.metrics, bins, result.report["steady"])


def disk_outcome(workload: Workload, candidate: Candidate, seed: int) -> Outcome:
    """Of a disk with heads: the parameters and settings are the fields of `DiskSimulation`."""
    run = disk_simulation(workload, candidate, seed).run()
    numbers = {name: float(value) for name, value in run.items() if isinstance(value, int | float)}
    del numbers["seed"]
    bins = [list(each.values()) for each in run["latency_bins"]]
    return _outcome(seed, numbers, bins, run["steady"])


def host_outcome(workload: Workload, candidate: Candidate, seed: int) -> Outcome:
    """Of one process, or of all, above a device."""
    run, process = host_run(workload, candidate, seed)
    numbers = {name: float(value) for name, value in process.items() if is_number(value)}
    order = {name: float(value) for name, value in run["order"].items()}
    bins = [list(each.values()) for each in process["latency_bins"]]
    return _outcome(seed, {**numbers, **order}, bins, None)


def is_number(value: object) -> bool:
    """Whether a figure of a run is one."""
    return isinstance(value, int | float)


OUTCOMES: Mapping[str, Callable[[Workload, Candidate, int], Outcome]] = {
    "ssd": ssd_outcome,
    "disk": disk_outcome,
    "host-queue": host_outcome,
}


def _outcome(
    seed: int, numbers: Mapping[str, float], bins: list[list[int]], steady: Mapping[str, Any] | None
) -> Outcome:
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return Outcome(
        metrics={name: value for name, value in finite.items() if name in METRICS},
        properties={
            "simulation_seed": seed,
            **({} if steady is None else {"steady": verdict_of(steady)}),
            **{name: value for name, value in finite.items() if name not in METRICS},
        },
        histograms={"latency_ns": bins},
    )


def check(experiment: Experiment) -> None:
    """Simulate the first request of every cell; SpecError for what cannot be simulated."""
    for workload in experiment.workloads:
        for candidate in experiment.candidates:
            one = {"seconds": 0.001} if workload.kind == "host-queue" else {"requests": 1}
            first = {**workload.parameters, **one}
            short = Workload(workload.label, workload.kind, workload.metric, first)
            OUTCOMES[workload.kind](short, candidate, experiment.seed)


@contextmanager
def open_session(
    admitted: Admitted, _control: Control | None, _report: Callable[[str], None]
) -> Iterator[SimSession]:
    """A session; the experiment is checked by simulating every cell's first request."""
    check(admitted.experiment)
    yield SimSession(admitted.experiment.seed)
