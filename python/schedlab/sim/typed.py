"""From the options of `schedlab sim run|compare|disk` to simulations, and what they show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim import judge, tables
from schedlab.sim.disk import DiskSimulation
from schedlab.sim.experiments import policy_candidates, ssd_experiment
from schedlab.sim.policy_file import is_policy_file
from schedlab.sim.pool import map_threads
from schedlab.sim.replay import Replay, replay_of, replay_warnings
from schedlab.sim.request_log import check_log_name, write_disk_log, write_log
from schedlab.sim.runs import Simulation
from schedlab.sim.settings import device_changes, parse_change
from schedlab.spec import SCHEMA_VERSION, Experiment
from schedlab.spec.quantities import counted

Typed = Mapping[str, Any]
REPLAYING = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines")


@dataclass(frozen=True)
class Shown:
    """What a command shows: a table, the same as JSON, and what the reader is warned of."""

    lines: Sequence[str]
    document: Mapping[str, Any]
    warnings: Sequence[str]


def ssd_experiment_of(typed: Typed) -> Experiment:
    """The experiment of `sim compare`."""
    same = ("device", "service", "requests", "policies", "seeds", "seed", "metric", "warm_up")
    return ssd_experiment(
        workloads=typed["workloads"].split(","),
        trace=_replay(typed),
        device_set=device_changes(typed["changes"], typed["buffer"]),
        **{name: typed[name] for name in same},
    )


def run_ssd(typed: Typed) -> Shown:
    """Every policy of `sim run` with every seed, after the warm-up."""
    log, trace = typed["log"], typed["trace"]
    if log is not None:
        check_log_name(log)
    replay = _replay(typed, rate=typed["rate"])
    first = Simulation(
        workload=replay.path if replay else typed["workload"],
        workload_set=replay.settings() if replay else {},
        log=log is not None,
        device_set=device_changes(typed["changes"], typed["buffer"]),
        policy_set={name: typed[name] for name in ("alpha", "aging")},
        **{name: typed[name] for name in ("device", "service", "requests")},
    )
    seeds = 1 if trace else typed["seeds"]  # a trace is the same whatever the seed
    labelled = [
        (label, dataclasses.replace(each, seed=number))
        for label, each in _under_policies(first, typed["policies"])
        for number in range(typed["seed"], typed["seed"] + seeds)
    ]
    labels, simulations = [label for label, _ in labelled], [each for _, each in labelled]
    results = judge.run_warm(simulations, typed["warm_up"])
    runs = list(zip(labels, simulations, results, strict=True))
    if log is not None:
        write_log(log, ((label, run.seed, result.log) for label, run, result in runs))
    warnings = replay_warnings(results[0].report.get("trace"))
    for label, run, result in runs:
        warnings += judge.warnings_of(f"{label}, seed {run.seed},", result.report)
    document = tables.ssd_document(simulations, results, trace or typed["workload"])
    basis = f"note: mean over {counted(seeds, 'seed')}; ratio: to the first policy"
    return Shown([*tables.ssd_table(labels, results), basis], document, warnings)


def _under_policies(first: Simulation, policies: str) -> Iterator[tuple[str, Simulation]]:
    """The simulation under each policy, whose own parameters take the place of the common ones."""
    for candidate in policy_candidates(policies):
        own = {k: parse_change(f"{k}={v}")[1] for k, v in candidate.settings.items()}
        policy = str(own.pop("policy"))
        label = policy if is_policy_file(policy) else candidate.label
        policy_set = {**first.policy_set, **own}
        yield label, dataclasses.replace(first, policy=policy, policy_set=policy_set)


def disk_simulation_of(typed: Typed) -> DiskSimulation:
    """The simulation of `sim disk` under its first policy; SpecError where options contradict."""
    same = ("device", "record", "span", "depth", "requests", "seed")
    fields = {name: typed[name] for name in same} | {"device_set": device_changes(typed["changes"])}
    if typed["trace"] is None:
        return DiskSimulation(workload=typed["workload"], rate=typed["rate"], **fields)
    replay = _replay(typed, rate=typed["rate"])
    assert replay is not None
    if typed["seed"] != 1:
        raise SpecError("a trace has no seeds", "omit --seed")
    return DiskSimulation.of_trace(replay, **fields)


def run_disk(first: DiskSimulation, policies: Sequence[str], seeds: int, log: Path | None) -> Shown:
    """All runs in threads, and their figures."""
    if log is not None:
        check_log_name(log)
    seeds = 1 if isinstance(first.workload, Path) else seeds
    simulations = [
        dataclasses.replace(first, policy=name, seed=number)
        for name in policies
        for number in range(first.seed, first.seed + seeds)
    ]
    logged = map_threads(lambda one, stop: one.run_logged(stop, log=log is not None), simulations)
    runs = [figures for figures, _ in logged]
    if log is not None:
        rows = zip(simulations, logged, strict=True)
        write_disk_log(log, [(one.policy, one.seed, table) for one, (_, table) in rows])
    head = {"schema": SCHEMA_VERSION, "device": first.device, "workload": str(first.workload)}
    if isinstance(first.workload, str):
        head["arrivals"] = first.arrivals()
    warnings = replay_warnings(runs[0].get("trace"))
    for one, figures in zip(simulations, runs, strict=True):
        warnings += judge.warnings_of(f"{one.policy}, seed {one.seed},", figures)
    basis = f"note: mean over {counted(seeds, 'seed')}; ratio: IOPS to the first policy's"
    document = {**head, "set": dict(first.device_set), "runs": runs}
    return Shown([*tables.disk_table(runs, seeds), basis], document, warnings)


def _replay(typed: Typed, **more: Any) -> Replay | None:
    if typed["trace"] is None:
        return None
    return replay_of(typed["trace"], **{name: typed[name] for name in REPLAYING}, **more)
