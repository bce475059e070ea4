"""Simulated policies and schedulers as candidates of an experiment, seeds as blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.disk import DiskSimulation
from schedlab.sim.host import HostSimulation
from schedlab.sim.judge import fixed_warm_up, verdict_of
from schedlab.sim.policy_file import is_policy_file, split_policies
from schedlab.sim.pool import map_threads
from schedlab.sim.runs import Simulation
from schedlab.spec import METRICS, Candidate, Experiment, Stopping, Target, Workload

if TYPE_CHECKING:
    from schedlab._core import SimStop

# The first one is compared, unless another is asked for.
SSD_METRICS = (
    "mean_read_ms", "mean_write_ms", "max_read_ms", "max_write_ms", "mean_read_ncq_ms", "iops",
)  # fmt: skip
HOST_METRICS = ("throughput_bytes_per_s", "iops", "latency_ns_mean", "latency_ns_p99")
# An open loop is compared by its response time, a closed loop by its rate.
DISK_METRICS = ("iops", "latency_ns_mean", "latency_ns_p99", "latency_ns_max")
POLICIES_OF = "Command-queue policies on the simulated"


def simulated(
    kind: str,
    title: str,
    candidates: Sequence[Candidate],
    workloads: Iterable[tuple[str, Mapping[str, Any]]],
    metrics: tuple[str, ...],
    metric: str,
    seeds: range,
) -> Experiment:
    """Candidates, the first one the baseline, on workloads of a simulated `kind`, by label and
    parameters; seeds are blocks. SpecError for a metric that is none.
    """
    if metric not in METRICS:
        raise SpecError(f"--metric {metric} is not known", f"one of: {', '.join(metrics)}")
    secondary = tuple(name for name in metrics if name != metric)
    return Experiment(
        title=title,
        kind="sim",
        target=Target("none"),
        candidates=tuple(candidates),
        workloads=tuple(
            Workload(label, kind, metric, parameters, secondary) for label, parameters in workloads
        ),
        baseline=candidates[0].label,
        seed=seeds.start,
        stopping=Stopping("fixed", len(seeds)),
        aa_arm=False,
    )


def parameters_of(simulation: Any, *omitted: str) -> dict[str, Any]:
    """The fields of a simulation that are set, but those `omitted`."""
    return {
        name: value
        for name, value in dataclasses.asdict(simulation).items()
        if name not in omitted and value is not None and value != {}
    }


def ssd_experiment(
    first: Simulation,
    candidates: Sequence[Candidate],
    workloads: Sequence[str],
    seeds: range,
    metric: str | None = None,
    warm_up: str = "none",
) -> Experiment:
    """Policies of the command queue of an SSD; SpecError names what is impossible."""
    common = parameters_of(first, "policy", "policy_set", "workload", "seed", "log", "warm_up")
    common.setdefault("device_set", {})
    if warm_up != "none":
        fixed_warm_up(warm_up)
        common["warm_up"] = warm_up
    title = f"{POLICIES_OF} {first.device}" + (f", {first.service}" if first.service else "")
    named = ((name, {**common, "workload": name}) for name in workloads)
    metric = metric or SSD_METRICS[0]
    return simulated("ssd", title, candidates, named, SSD_METRICS, metric, seeds)


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
    first: DiskSimulation,
    policies: Sequence[str],
    seeds: range,
    workloads: Sequence[str] = (),
    metric: str | None = None,
) -> Experiment:
    """Policies of a disk's queue; the first is the baseline."""
    if isinstance(first.workload, Path):
        raise SpecError(
            "a trace has no seeds, and a verdict needs blocks", "omit --out, or use --workload"
        )
    if len(seeds) < 2 or len(set(policies)) < 2 or len(set(policies)) < len(policies):
        hint = "for example --policy fcfs,sptf --seeds 8"
        raise SpecError("a verdict needs at least two different policies and two seeds", hint)
    common = parameters_of(first, "policy", "seed", "workload")
    named = ((name, {**common, "workload": name}) for name in workloads or (first.workload,))
    candidates = [Candidate(name, {"policy": name}) for name in policies]
    metric = metric or DISK_METRICS[0 if first.rate is None else 1]
    title = f"{POLICIES_OF} {first.device}"
    return simulated("disk", title, candidates, named, DISK_METRICS, metric, seeds)


def host_experiment(
    first: HostSimulation,
    names: Sequence[str],
    processes: Sequence[str],
    seeds: range,
    metric: str | None = None,
) -> Experiment:
    """The kernel's schedulers on one or several files of processes: a workload for each process and
    one for all of them together. The first scheduler is the baseline.
    """
    if len(names) < 2 or len(set(names)) < len(names):
        hint = "for example --schedulers 'none;mq-deadline;bfq:slice_idle=0'"
        raise SpecError("a verdict needs at least two different schedulers", hint)
    common = parameters_of(
        first, "scheduler", "processes", "seed", "trace", "format", "requests", "trace_set",
        "dilate",
    )  # fmt: skip
    named = []
    for file in processes:
        everybody = process_names(file, first)
        for process in (*everybody, "") if len(everybody) > 1 else ("",):
            parameters = {**common, "processes": file, "process": process}
            named.append((f"{file} {process}".strip(), parameters))
    candidates = [Candidate(name, {"scheduler": name}) for name in names]
    title = f"I/O schedulers above the simulated {first.device}"
    metric = metric or HOST_METRICS[0]
    return simulated("host-queue", title, candidates, named, HOST_METRICS, metric, seeds)


def process_names(file: str, first: HostSimulation | None = None) -> list[str]:
    """Names of the processes of a preset or file, from a result: the first nanosecond of a
    simulation. SpecError for a file that is none of processes.
    """
    moment = dataclasses.replace(
        first or HostSimulation(), processes=file, seconds=1e-9, warm_up_seconds=0.0
    )
    return [process["name"] for process in moment.run()["processes"]]


def ssd_simulation(workload: Workload, candidate: Candidate, seed: int) -> Simulation:
    """The simulation of a candidate (`policy`, `alpha`, …) on a workload of kind `ssd`, whose
    parameters are the other fields of `Simulation`.
    """
    parameters: dict[str, Any] = dict(workload.parameters)
    if "warm_up" in parameters:
        parameters["warm_up"] = fixed_warm_up(str(parameters["warm_up"]))
    if buffer_bytes := parameters.pop("buffer_bytes", None):
        changes = parameters.get("device_set", {})
        parameters["device_set"] = {**changes, "buffer.size": buffer_bytes}
    if trace := parameters.pop("trace", None):
        parameters["workload"] = Path(trace)
    settings = {**parameters.pop("policy_set", {}), **candidate.settings}
    policy = str(settings.pop("policy", "fcfs"))
    return Simulation(policy=policy, policy_set=settings, seed=seed, **parameters)


def disk_simulation(workload: Workload, candidate: Candidate, seed: int) -> DiskSimulation:
    """The same of a workload of kind `disk`."""
    policy = only_setting(candidate, "policy", "fcfs")
    return DiskSimulation(**workload.parameters, policy=policy, seed=seed)


def only_setting(candidate: Candidate, name: str, usual: str) -> str:
    """The one setting that a candidate can have; SpecError for another one."""
    if others := sorted(set(candidate.settings) - {name}):
        raise SpecError(
            f"candidate {candidate.label!r}: {others[0]!r} would change nothing, only {name} does",
            f"a parameter of the workload is workload.{others[0]}",
        )
    return str(candidate.settings.get(name, usual))


def host_simulation(workload: Workload, candidate: Candidate, seed: int) -> HostSimulation:
    """The same of a workload of kind `host-queue`."""
    parameters = {key: value for key, value in workload.parameters.items() if key != "process"}
    if trace := parameters.pop("trace", None):
        parameters["trace"] = Path(trace)
    scheduler = only_setting(candidate, "scheduler", "none")
    return HostSimulation(**parameters, scheduler=scheduler, seed=seed)


def host_run(
    workload: Workload, candidate: Candidate, seed: int, stop: SimStop | None = None
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A run of it, and the figures of the process that it names."""
    wanted = workload.parameters.get("process", "")
    run = host_simulation(workload, candidate, seed).run(stop)
    for process in (run["total"], *run["processes"]):
        if process["name"] == (wanted or "total"):
            return run, process
    known = ", ".join(process["name"] for process in run["processes"])
    raise SpecError(
        f"process {wanted!r} is not in {workload.parameters['processes']}", f"one of: {known}"
    )


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
