"""Cells in the simulator: policies are candidates, seeds are blocks.

All candidates of a block get the same seed, and so the same requests. Nothing on the host changes.
Cells are simulated on all cores, or by the workers of a Dask cluster, and stored in their order.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager

import msgspec

from schedlab.errors import Interrupted, SpecError
from schedlab.kinds import OVERRIDE, typed
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import METRICS, Candidate, Cell, Experiment, GateFinding, Workload
from schedlab.nouns.latency import merge
from schedlab.nouns.names import is_policy_file
from schedlab.run.admitted import Admitted
from schedlab_sim._simulators import SimStop
from schedlab_sim.experiments import SSD_METRICS, metrics_of_requests, simulation_of
from schedlab_sim.judge import refuse_idle_parameters, verdict_of
from schedlab_sim.over_time import latencies_of
from schedlab_sim.pool import completed, dask_executor, map_threads, processes, threads

Work = tuple[Workload, Candidate]
# For a plan's time: so many cells are simulated, these shares of each, of so many requests (disk).
CALIBRATED = 24
SHARES = (0.01, 0.05)
# A run is a line that is synchronised; then come the verdict, the page and the workbook.
STORED_S, REPORTED_S = 0.03, 3.0
REQUESTS = {False: 20_000, True: 10_000}
OVERLOADED = "response times from arrival grow with the length of the run"


class SimSession:
    """The simulations of all cells that are left, begun in the order of the plan.

    Nothing is to be made ready: a simulation is fixed by its cell.
    """

    def __init__(self, pool: Executor, stop: SimStop | None, seed: int) -> None:
        """`seed` is that of block 0; `stop` goes to every simulation, where it can."""
        self._pool, self._seed = pool, seed
        self._more = (stop,)
        self._begun: dict[tuple[int, str, str], Future[Outcome]] = {}

    def begin(self, cell: Cell, work: Work) -> None:
        """Begin a simulation that `measure` will ask for."""
        # The first block has its requests over time: one map for each candidate is enough.
        seed, is_logged = self._seed + cell.block, cell.block == 0
        self._begun[cell.key] = self._pool.submit(outcome_of, work, seed, *self._more, is_logged)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One simulation; `properties` holds the numbers that are no metric of schedlab."""
        if cell.key not in self._begun:
            self.begin(cell, (workload, candidate))
        (future,) = completed([self._begun.pop(cell.key)])
        try:
            return future.result()
        except CancelledError as error:
            raise Interrupted("the simulations were ended") from error

    def end(self) -> None:
        """Nothing that is waiting begins any more."""
        for future in self._begun.values():
            future.cancel()


def outcome_of(
    work: Work, seed: int, stop: SimStop | None = None, is_logged: bool = False
) -> Outcome:
    """Of one cell, the same wherever it is simulated; with its latencies over time if it
    `is_logged`.
    """
    workload, candidate = _applied(*work)
    simulation = simulation_of(workload, candidate, seed)
    result = dataclasses.replace(simulation, log=is_logged).run(stop)
    process = workload.parameters.get("process") or "total"
    numbers = result.metrics_of(process)
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    verdict = verdict_of(result["steady"]) if "steady" in result else None
    found = [GateFinding("overloaded", OVERLOADED, fatal=False)] if verdict == "overloaded" else []
    return Outcome(
        metrics={name: value for name, value in finite.items() if name in METRICS},
        properties={
            "simulation_seed": seed,
            **({} if verdict is None else {"steady": verdict}),
            **{name: value for name, value in finite.items() if name not in METRICS},
        },
        histograms={"latency_ns": merge(result.histograms(process))},
        gates=tuple(found),
        latencies=latencies_of(result) if is_logged else {},
    )


def _applied(workload: Workload, candidate: Candidate) -> Work:
    """The workload with what the candidate changes of it, and the candidate without that."""
    parameters = msgspec.structs.asdict(typed(workload, candidate))
    own = {k: v for k, v in candidate.settings.items() if not k.startswith(OVERRIDE)}
    return (
        dataclasses.replace(workload, parameters=parameters),
        dataclasses.replace(candidate, settings=own),
    )


def check(experiment: Experiment) -> None:
    """SpecError for what cannot be simulated, found by the first request of every cell, and for
    settings that would change nothing.
    """
    policies: dict[str, list[str]] = {}
    cells = [*itertools.product(experiment.workloads, experiment.candidates)]
    for work, candidate in cells:
        common = (f"policy_set.{key}" for key in work.parameters.get("policy_set", ()))
        for name in (*candidate.settings, *common, *work.parameters):
            policies.setdefault(name, []).append(str(candidate.settings.get("policy", "fcfs")))
    for name, all_of in policies.items():
        refuse_idle_parameters({name: name.rpartition("policy_set.")[2]}, all_of)
    for workload in experiment.workloads:
        if workload.parameters.get("trace") and experiment.stopping.blocks > 1:
            message = f"{workload.label}: a trace is one sample, the same at every seed"
            raise SpecError(message, "stopping = { blocks = 1 }")

    def begin(work: Work, stop: SimStop) -> None:
        workload, candidate = work
        is_timed = workload.kind == "host-queue" and not _applied(*work)[0].parameters["trace"]
        short = {"seconds": 0.001} if is_timed else {"requests": 1}
        first = dataclasses.replace(workload, parameters={**workload.parameters, **short})
        outcome_of((first, candidate), experiment.seed, stop)

    map_threads(begin, cells)
    for work in experiment.workloads:
        if work.kind == "ssd" and work.metric in SSD_METRICS:
            one = simulation_of(*_applied(work, experiment.candidates[0]), experiment.seed)
            if work.metric not in (known := metrics_of_requests(one)):
                message = f"{work.label}: metric {work.metric}: it has no such requests"
                raise SpecError(message, f'for example metric = "{known[0]}"')


def seconds_of(experiment: Experiment, runs: int) -> float:
    """The time of so many simulations on all CPUs, in s, from short ones of some cells; of storing
    them, and of the reports.

    Two lengths of each: what a simulation needs before its first request does not grow with it.
    """
    if not runs:
        return 0.0
    cells = [*itertools.product(experiment.workloads, experiment.candidates)]
    if len(cells) > CALIBRATED:
        cells = random.Random(experiment.seed).sample(cells, CALIBRATED)
    mean_s = statistics.fmean(_run_s(work, experiment.seed) for work in cells)
    return runs * (mean_s / min(os.cpu_count() or 1, runs) + STORED_S) + REPORTED_S


def _run_s(work: Work, seed: int) -> float:
    """The time of one simulation; of a trace without a number of requests, of its beginning."""
    workload, candidate = work
    parameters = msgspec.structs.asdict(typed(workload, candidate))
    name = "requests"
    whole = parameters["requests"] or REQUESTS[workload.kind == "disk"]
    if workload.kind == "host-queue" and not parameters["trace"]:
        name, whole = "seconds", parameters["seconds"]
    is_fixed = parameters.get("warm_up", "none") != "none" or (name == "requests" and whole < 1000)

    def timed_s(share: float) -> float:
        length = whole * share if name == "seconds" else int(whole * share)
        short = dataclasses.replace(workload, parameters={**workload.parameters, name: length})
        start = time.perf_counter()
        outcome_of((short, candidate), seed)
        return time.perf_counter() - start

    if is_fixed:
        return timed_s(1.0)
    least, more = SHARES
    first_s = timed_s(least)
    return first_s + max(0.0, timed_s(more) - first_s) * (1 - least) / (more - least)


def doubts(experiment: Experiment) -> list[str]:
    """How far the kernel's schedulers are from what was checked: a sentence for each load, and for
    each scheduler of whose figures nothing is known.
    """
    from schedlab_sim.checked import expected_of

    said = []
    for workload in experiment.workloads:
        if workload.kind != "host-queue":
            continue
        simulations = [
            simulation_of(*_applied(workload, each), experiment.seed)
            for each in experiment.candidates
        ]
        for one in simulations:
            load = one.trace or one.processes
            named = load.get("name", "processes") if isinstance(load, Mapping) else load
            said += [f"{named}: {line.strip()}" for line in expected_of([one]).lines({})]
    return list(dict.fromkeys(said))


@contextmanager
def open_session(
    admitted: Admitted, cells: Sequence[Cell], dask: str | None
) -> Iterator[SimSession]:
    """A session in which all `cells` are being simulated, by the Dask cluster at `dask` or here;
    leaving it ends what still runs.
    """
    experiment = admitted.experiment
    works = {w.label: w for w in experiment.workloads}
    candidates = {c.label: c for c in experiment.candidates}
    in_python = any(is_policy_file(str(c.settings.get("policy"))) for c in experiment.candidates)
    with ExitStack() as stack:
        # A flag lives in this process: threads can be told to stop, workers elsewhere cannot.
        pool, stop = (
            (stack.enter_context(dask_executor(dask) if dask else processes()), None)
            if dask or in_python
            else stack.enter_context(threads())
        )
        session = SimSession(pool, stop, experiment.seed)
        try:
            for cell in cells:
                if cell.candidate in candidates:
                    session.begin(cell, (works[cell.workload], candidates[cell.candidate]))
            yield session
        finally:
            session.end()
