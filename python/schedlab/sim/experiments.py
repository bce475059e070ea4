"""Simulated policies as candidates of an experiment, seeds as blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.disk import DiskSimulation
from schedlab.sim.judge import fixed_warm_up, verdict_of
from schedlab.sim.policy_file import is_policy_file, split_policies
from schedlab.sim.pool import map_threads
from schedlab.sim.runs import Simulation
from schedlab.spec import METRICS, Candidate, Experiment, Stopping, Target, Workload

if TYPE_CHECKING:
    from schedlab._core import SimStop

SSD_SECONDARY = ("mean_write_ms", "max_read_ms", "max_write_ms", "mean_read_ncq_ms", "iops")
# An open loop is compared by its response time, a closed loop by its rate.
DISK_METRICS = ("iops", "latency_ns_mean", "latency_ns_p99", "latency_ns_max")


def ssd_experiment(
    *,
    device: str,
    device_set: Mapping[str, Any],
    service: str | None,
    requests: int | None,
    workloads: Sequence[str],
    candidates: Sequence[Candidate],
    seeds: int,
    seed: int,
    metric: str,
    warm_up: str = "none",
) -> Experiment:
    """Policies of the command queue of an SSD; SpecError names what is impossible."""
    if metric not in METRICS:
        raise SpecError(f"--metric {metric} is not known", f"one of: {', '.join(METRICS)}")
    common: dict[str, Any] = {"device": device, "device_set": dict(device_set)}
    common |= {} if service is None else {"service": service}
    common |= {} if requests is None else {"requests": requests}
    if warm_up != "none":
        fixed_warm_up(warm_up)
        common["warm_up"] = warm_up
    return Experiment(
        title=f"Command-queue policies on the simulated {device}"
        + (f", {service}" if service else ""),
        kind="sim",
        target=Target("none"),
        candidates=tuple(candidates),
        workloads=tuple(
            Workload(
                label=name,
                kind="ssd",
                metric=metric,
                parameters={**common, "workload": name},
                secondary=tuple(each for each in SSD_SECONDARY if each != metric),
            )
            for name in workloads
        ),
        baseline=candidates[0].label,
        seed=seed,
        stopping=Stopping("fixed", seeds),
        aa_arm=False,
    )


def policy_candidates(text: str) -> tuple[Candidate, ...]:
    """`fcfs,tsb:alpha=0.95,aging=every-arrival` as candidates."""
    from schedlab.design.candidates import parse_candidates

    def as_policy(candidate: Candidate) -> Candidate:
        settings = dict(candidate.settings)
        return Candidate(candidate.label, {"policy": settings.pop("scheduler"), **settings})

    # The name of a policy file contains a colon.
    names = split_policies(text)
    if not any(map(is_policy_file, names)):
        return tuple(map(as_policy, parse_candidates(text)))
    plain = ",".join(name for name in names if not is_policy_file(name))
    named = map(as_policy, parse_candidates(plain) if plain else ())
    candidates = []
    for name in names:
        if is_policy_file(name):
            label = name.rpartition(".py:")[2].rstrip(",").replace(",", ":", 1)
            candidates.append(Candidate(label, {"policy": name}))
        elif name and (":" in name or "=" not in name):
            candidates.append(next(named))
    return tuple(candidates)


def disk_experiment(
    simulation: DiskSimulation,
    policies: Sequence[str],
    seeds: int,
    workloads: Sequence[str] = (),
    metric: str | None = None,
) -> Experiment:
    """Policies of a disk's queue; the first is the baseline."""
    if isinstance(simulation.workload, Path):
        raise SpecError(
            "a trace has no seeds, and a verdict needs blocks", "omit --out, or use --workload"
        )
    if seeds < 2 or len(set(policies)) < 2 or len(set(policies)) < len(policies):
        hint = "for example --policy fcfs,sptf --seeds 8"
        raise SpecError("a verdict needs at least two different policies and two seeds", hint)
    parameters = {
        name: value
        for name, value in dataclasses.asdict(simulation).items()
        if name not in {"policy", "seed", "workload"} and value is not None and value != {}
    }
    metric = metric or DISK_METRICS[0 if simulation.rate is None else 1]
    if metric not in METRICS:
        raise SpecError(f"--metric {metric} is not known", f"one of: {', '.join(DISK_METRICS)}")
    return Experiment(
        title=f"Command-queue policies on the simulated {simulation.device}",
        kind="sim",
        target=Target("none"),
        candidates=tuple(Candidate(name, {"policy": name}) for name in policies),
        workloads=tuple(
            Workload(
                label=workload,
                kind="disk",
                metric=metric,
                parameters={**parameters, "workload": workload},
                secondary=tuple(name for name in DISK_METRICS if name != metric),
            )
            for workload in workloads or (simulation.workload,)
        ),
        baseline=policies[0],
        seed=simulation.seed,
        stopping=Stopping("fixed", seeds),
        aa_arm=False,
    )


def ssd_simulation(workload: Workload, candidate: Candidate, seed: int) -> Simulation:
    """The simulation of a candidate (`policy`, `alpha`, …) on a workload of kind `ssd`, whose
    parameters are the other fields of `Simulation`.
    """
    parameters: dict[str, Any] = dict(workload.parameters)
    if "warm_up" in parameters:
        parameters["warm_up"] = fixed_warm_up(str(parameters["warm_up"]))
    settings = dict(candidate.settings)
    policy = str(settings.pop("policy"))
    return Simulation(policy=policy, policy_set=settings, seed=seed, **parameters)


def disk_simulation(workload: Workload, candidate: Candidate, seed: int) -> DiskSimulation:
    """The same of a workload of kind `disk`."""
    return DiskSimulation(**{**workload.parameters, **candidate.settings, "seed": seed})


def judged_by_rate(experiment: Experiment) -> tuple[Experiment, list[str]]:
    """The experiment without metrics of response time where a candidate is overloaded, and a
    sentence about each such workload.

    In an open loop that is overloaded, responses grow with the length of the run: a verdict on
    them would say how long somebody simulated. Every simulation is run once to find out.
    """
    workloads, notes = [], []
    seeds = range(experiment.seed, experiment.seed + experiment.stopping.blocks)
    for workload in experiment.workloads:
        cells = [(candidate, seed) for candidate in experiment.candidates for seed in seeds]
        verdicts = map_threads(
            lambda cell, stop, w=workload: _steady(w, cell[0], cell[1], stop),  # type: ignore[misc]
            cells,
        )
        by_candidate: dict[str, list[str]] = {}
        for (candidate, _), one in zip(cells, verdicts, strict=True):
            by_candidate.setdefault(candidate.label, []).append(one)
        overloaded = [name for name, all_ in by_candidate.items() if "overloaded" in all_]
        if not overloaded:
            workloads.append(workload)
            continue
        stable = [name for name in by_candidate if name not in overloaded]
        notes.append(
            f"{workload.label}: {', '.join(overloaded)} overloaded, "
            f"{', '.join(stable) or 'none'} stable: no verdict on response times, which grow with "
            "the length of the run; compared by iops"
        )
        secondary = tuple(name for name in ("throughput_bytes_per_s",) if name in METRICS)
        workloads.append(dataclasses.replace(workload, metric="iops", secondary=secondary))
    return dataclasses.replace(experiment, workloads=tuple(workloads)), notes


def _steady(workload: Workload, candidate: Candidate, seed: int, stop: SimStop) -> str:
    if workload.kind == "disk":
        return verdict_of(disk_simulation(workload, candidate, seed).run(stop)["steady"])
    return verdict_of(ssd_simulation(workload, candidate, seed).run(stop).report["steady"])
