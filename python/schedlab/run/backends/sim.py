"""Cells in the simulator: policies are candidates, seeds are blocks.

All candidates of a block get the same seed, and so the same requests. Nothing on the host changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.kinds.resolved import Outcome
from schedlab.run.admitted import Admitted
from schedlab.sim import Simulation
from schedlab.sim.disk import DiskSimulation
from schedlab.spec import METRICS, Candidate, Cell, Experiment, Workload

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
    result = simulation_of(workload, candidate, seed).run()
    rows: dict[int, list[int]] = {}
    for direction in ("read", "write"):
        for low, high, count in result.histogram(direction).tolist():
            rows.setdefault(low, [low, high, 0])[2] += count
    return _outcome(seed, result.metrics, [rows[low] for low in sorted(rows)])


def disk_outcome(workload: Workload, candidate: Candidate, seed: int) -> Outcome:
    """Of a disk with heads: the parameters and settings are the fields of `DiskSimulation`."""
    given: dict[str, Any] = {**workload.parameters, **candidate.settings, "seed": seed}
    run = DiskSimulation(**given).run()
    numbers = {name: float(value) for name, value in run.items() if isinstance(value, int | float)}
    del numbers["seed"]
    return _outcome(seed, numbers, [list(each.values()) for each in run["latency_bins"]])


OUTCOMES: Mapping[str, Callable[[Workload, Candidate, int], Outcome]] = {
    "ssd": ssd_outcome,
    "disk": disk_outcome,
}


def _outcome(seed: int, numbers: Mapping[str, float], bins: list[list[int]]) -> Outcome:
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return Outcome(
        metrics={name: value for name, value in finite.items() if name in METRICS},
        properties={
            "simulation_seed": seed,
            **{name: value for name, value in finite.items() if name not in METRICS},
        },
        histograms={"latency_ns": bins},
    )


def simulation_of(workload: Workload, candidate: Candidate, seed: int) -> Simulation:
    """The simulation of a candidate (`policy`, `alpha`, …) on a workload of kind `ssd`, whose
    parameters are the other fields of `Simulation`; `trace` is a path.
    """
    given: dict[str, Any] = dict(workload.parameters)
    if "trace" in given:
        given["workload"] = Path(given.pop("trace"))
    settings = dict(candidate.settings)
    policy = str(settings.pop("policy"))
    return Simulation(policy=policy, policy_set=settings, seed=seed, **given)


def check(experiment: Experiment) -> None:
    """Simulate the first request of every cell; SpecError for what cannot be simulated."""
    for workload in experiment.workloads:
        for candidate in experiment.candidates:
            first = {**workload.parameters, "requests": 1}
            short = Workload(workload.label, workload.kind, workload.metric, first)
            OUTCOMES[workload.kind](short, candidate, experiment.seed)


@contextmanager
def open_session(
    admitted: Admitted, _control: Control | None, _report: Callable[[str], None]
) -> Iterator[SimSession]:
    """A session; the experiment is checked by simulating every cell's first request."""
    check(admitted.experiment)
    yield SimSession(admitted.experiment.seed)
