"""Cells in the simulator: policies are candidates, seeds are blocks.

All candidates of a block get the same seed, and so the same requests. Nothing on the host changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.run.outcome import Outcome
from schedlab.sim import Simulation
from schedlab.spec import METRICS, Candidate, Cell, Experiment, Workload

if TYPE_CHECKING:
    from schedlab.host.control import Control


class SimSession:
    """Nothing to make ready: a simulation is fixed by its cell."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One simulation; `properties` holds the numbers that are no metric of schedlab."""
        simulation = simulation_of(workload, candidate, self.seed + cell.block)
        result = simulation.run()
        numbers = result.metrics
        known = {name: value for name, value in numbers.items() if name in METRICS}
        rows: dict[int, list[int]] = {}
        for direction in ("read", "write"):
            for low, high, count in result.histogram(direction).tolist():
                rows.setdefault(low, [low, high, 0])[2] += count
        return Outcome(
            metrics={name: value for name, value in known.items() if math.isfinite(value)},
            properties={
                "simulation_seed": simulation.seed,
                **{n: v for n, v in numbers.items() if n not in METRICS and math.isfinite(v)},
            },
            histograms={"latency_ns": [rows[low] for low in sorted(rows)]},
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


@contextmanager
def open_session(
    experiment: Experiment, _control: Control | None, _report: Callable[[str], None]
) -> Iterator[SimSession]:
    """A session; the experiment is checked by simulating every cell's first request."""
    for workload in experiment.workloads:
        for candidate in experiment.candidates:
            first = {**workload.parameters, "requests": 1}
            short = Workload(workload.label, workload.kind, workload.metric, first)
            simulation_of(short, candidate, experiment.seed).run()
    yield SimSession(experiment.seed)
