"""Simulated policies and schedulers as candidates of an experiment, seeds as blocks."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from schedlab.errors import SpecError
from schedlab.nouns import METRICS, Candidate, Experiment, Stopping, Target, Workload
from schedlab.nouns.names import is_policy_file
from schedlab_sim.judge import fixed_warm_up, verdict_of
from schedlab_sim.policy_file import split_policies
from schedlab_sim.pool import map_threads
from schedlab_sim.simulation import Simulation

if TYPE_CHECKING:
    from schedlab_sim._simulators import SimStop
    from schedlab_sim.simulation_set import SimulationSet

# The first one is compared, unless another is asked for.
SSD_METRICS = (
    "mean_read_ms", "mean_write_ms", "max_read_ms", "max_write_ms", "mean_read_ncq_ms", "iops",
)  # fmt: skip
HOST_METRICS = ("throughput_bytes_per_s", "iops", "latency_ns_mean", "latency_ns_p99")
# An open loop is compared by its response time, a closed loop by its rate.
DISK_METRICS = ("iops", "latency_ns_mean", "latency_ns_p99", "latency_ns_max")
# So many requests of a workload show which directions it has.
TRIED = 2000
# What ages a waiting command of an SSD's queue where nothing is said.
AGING = {"alpha": 0.9, "aging": "dispatch-overtake"}
METRICS_OF = {"ssd": SSD_METRICS, "disk": DISK_METRICS, "host-queue": HOST_METRICS}


# The fields of a simulation that are parameters of its workload, by kind.
PARAMETERS = {
    "ssd": ("device", "service", "requests", "device_set", "workload_set"),
    "disk": ("device", "record", "span", "depth", "rate", "requests", "device_set"),
    "host-queue": (
        "device", "tags", "nr_requests", "window", "policy", "service", "size", "seconds",
        "warm_up_seconds", "device_set", "settings",
    ),
}  # fmt: skip


def experiment_of(asked: SimulationSet) -> Experiment:
    """The candidates of a set, the first one the baseline, on its sources; seeds are blocks.
    SpecError for a metric that is none, and where there is nothing to compare.

    Schedulers of the kernel are judged for each process, and for all of them together.
    """
    first, kind = asked.first, asked.kind
    is_host = kind == "host-queue"
    labels = [candidate.label for candidate in asked.candidates]
    blocks_min = 2 if kind == "disk" else 1
    if kind != "ssd" and (
        len(labels) < 2 or len(set(labels)) < len(labels) or len(asked.seeds) < blocks_min
    ):
        what = "schedulers" if is_host else "policies and two seeds"
        hint = "'none;mq-deadline;bfq:slice_idle=0'" if is_host else "fcfs,sptf --seeds 8"
        option = "--schedulers" if is_host else "--policy"
        message = f"a verdict needs at least two different {what}"
        raise SpecError(message, f"for example {option} {hint}")
    values = ((name, getattr(first, name)) for name in PARAMETERS[kind])
    common = {name: value for name, value in values if value is not None and value != {}}
    candidates = asked.candidates
    if kind == "ssd":
        common.setdefault("device_set", {})
        if asked.warm_up != "none":
            fixed_warm_up(asked.warm_up)
            common["warm_up"] = asked.warm_up
        aged = {k: v for k, v in first.policy_set.items() if v != AGING[k]}
        candidates = tuple(
            dataclasses.replace(each, settings={**aged, **each.settings}) for each in candidates
        )
    named = []
    for source in asked.sources:
        if not is_host:
            named.append((source, {**common, "workload": source}))
            continue
        everybody = process_names(source, first)
        for process in (*everybody, "") if len(everybody) > 1 else ("",):
            parameters = {**common, "processes": source, "process": process}
            named.append((f"{source} {process}".strip(), parameters))
    if asked.metric is not None and asked.metric not in METRICS:
        message = f"--metric {asked.metric} is not known"
        raise SpecError(message, f"one of: {', '.join(METRICS_OF[kind])}")
    workloads = []
    for label, own in named:
        metric, *secondary = _metrics_of(asked, str(own.get("workload", label)))
        workloads.append(Workload(label, kind, metric, own, tuple(secondary)))
    title = f"I/O schedulers above the simulated {first.device}"
    if not is_host:
        title = f"Command-queue policies on the simulated {first.device}"
        title += f", {first.service}" if first.service else ""
    return Experiment(
        title=title,
        kind="sim",
        target=Target("none"),
        candidates=candidates,
        workloads=tuple(workloads),
        baseline=labels[0],
        seed=asked.seeds.start,
        stopping=Stopping("fixed", len(asked.seeds)),
        aa_arm=False,
    )


def _metrics_of(asked: SimulationSet, source: str) -> list[str]:
    """The metrics of a source, the primary one first; of an SSD those that its requests have.

    SpecError where --metric is none of them: a load that only writes has no time of a read.
    """
    first, metrics = asked.first, list(METRICS_OF[asked.kind])
    if asked.kind == "ssd":
        metrics = metrics_of_requests(dataclasses.replace(first, workload=source))
        if asked.metric in SSD_METRICS and asked.metric not in metrics:
            raise SpecError(
                f"--metric {asked.metric}: {source} has no such requests",
                f"for example --metric {metrics[0]}",
            )
    elif asked.kind == "disk" and first.rate is not None:
        metrics.insert(0, metrics.pop(1))
    primary = asked.metric or metrics[0]
    return [primary, *(name for name in metrics if name != primary)]


def metrics_of_requests(first: Simulation) -> list[str]:
    """The metrics that the requests of a simulated SSD have: no time of a read where all write."""
    requests = min(first.requests or TRIED, TRIED)
    measured = dataclasses.replace(first, requests=requests, log=False).run().metrics_of("total")
    return [name for name in SSD_METRICS if math.isfinite(measured.get(name, math.nan))]


def policy_candidates(text: str) -> tuple[Candidate, ...]:
    """`fcfs,tsb:alpha=0.95,aging=every-arrival` as candidates."""
    from schedlab.design.candidates import parse_candidates, unique_labels

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
    return unique_labels(candidates)


def process_names(file: str, first: Simulation | None = None) -> list[str]:
    """Names of the processes of a preset or file, from a result: the first nanosecond of a
    simulation. SpecError for a file that is none of processes.
    """
    first = first or Simulation(device="disk7200", scheduler="none")
    moment = dataclasses.replace(first, processes=file, seconds=1e-9, warm_up_seconds=0.0)
    return [process["name"] for process in moment.run()["processes"]]


def simulation_of(workload: Workload, candidate: Candidate, seed: int) -> Simulation:
    """The simulation of a candidate on a workload, whose parameters are fields of `Simulation`.
    SpecError for a setting that would change nothing.
    """
    parameters = {key: value for key, value in workload.parameters.items() if key != "process"}
    if "warm_up" in parameters:
        parameters["warm_up"] = fixed_warm_up(str(parameters["warm_up"]))
    if buffer_bytes := parameters.pop("buffer_bytes", None):
        changes = parameters.get("device_set", {})
        parameters["device_set"] = {**changes, "buffer.size": buffer_bytes}
    if parameters.get("trace"):
        parameters.pop("workload", None)
    settings = dict(candidate.settings)
    name, usual = ("scheduler", "none") if workload.kind == "host-queue" else ("policy", "fcfs")
    parameters[name] = str(settings.pop(name, usual))
    if workload.kind == "ssd":
        parameters["policy_set"] = {**parameters.get("policy_set", {}), **settings}
    elif settings:
        raise SpecError(
            f"candidate {candidate.label!r}: {min(settings)!r} would change nothing, only {name} "
            "does",
            f"a parameter of the workload is workload.{min(settings)}",
        )
    return Simulation(**parameters, seed=seed)


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
        secondary = ("throughput_bytes_per_s",)
        workloads.append(dataclasses.replace(workload, metric="iops", secondary=secondary))
    return dataclasses.replace(experiment, workloads=tuple(workloads)), notes


def _steady(workload: Workload, candidate: Candidate, seed: int, stop: SimStop) -> str:
    return verdict_of(simulation_of(workload, candidate, seed).run(stop)["steady"])
