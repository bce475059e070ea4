"""Simulations of an SSD under policies of its command queue, as the options ask for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim import judge, tables
from schedlab.sim.experiments import judged_by_rate, policy_candidates, ssd_experiment
from schedlab.sim.jobs import Shown, Typed, changes_of, given, replay_from, seeds_of
from schedlab.sim.policy_file import is_policy_file
from schedlab.sim.replay import Replay, replay_warnings
from schedlab.sim.request_log import check_log_name, write_log
from schedlab.sim.runs import Simulation
from schedlab.sim.settings import parse_change
from schedlab.spec import Experiment
from schedlab.spec.quantities import counted

WORKLOADS = ("A", "B", "C", "D")
AGING = {"alpha": 0.9, "aging": "dispatch-overtake"}


@dataclass(frozen=True)
class SsdJob:
    """`first` under each of the `policies`, with each of the `seeds`, on each workload."""

    first: Simulation
    policies: str
    workloads: tuple[str, ...]
    replay: Replay | None
    seeds: range
    warm_up: str
    metric: str | None
    log: Path | None

    @classmethod
    def of(cls, typed: Typed) -> SsdJob:
        """The job of the options; SpecError names a wrong one."""
        is_comparison = "workloads" in typed
        replay = replay_from(typed)
        policies = typed["policies"] or ("fcfs,s,ts,tsb" if is_comparison else "fcfs")
        named = typed["workloads"] if is_comparison else typed["workload"]
        usual = WORKLOADS if is_comparison else WORKLOADS[:1]
        workloads = tuple(map(str.strip, named.split(","))) if named else usual
        aged = given(typed, "alpha", "aging")
        first = Simulation(
            workload=replay.path if replay else workloads[0],
            workload_set=replay.settings() if replay else {},
            log=typed.get("log") is not None,
            device_set=changes_of(typed),
            policy_set=AGING | aged if not is_comparison else {},
            **given(typed, "device", "service", "requests"),
        )
        job = cls(
            first, policies, workloads, replay, seeds_of(typed),
            typed["warm_up"] or "none", typed.get("metric"), typed.get("log"),
        )  # fmt: skip
        if job.log is not None:
            check_log_name(job.log)
        candidates = [each.settings for each in job.candidates()]
        policies = [str(settings["policy"]) for settings in candidates]
        judge.refuse_idle_parameters({f"--{name}": name for name in aged}, policies)
        for policy, settings in zip(policies, candidates, strict=True):
            judge.refuse_idle_parameters({f"{policy}:{name}": name for name in settings}, [policy])
        return job

    def candidates(self) -> Any:
        """The policies with their settings."""
        return policy_candidates(self.policies)

    def experiment(self) -> tuple[Experiment, list[str]]:
        """Policies are candidates, seeds blocks; SpecError for a trace, which is one sample."""
        if self.replay is not None:
            raise SpecError(
                "a trace is one sample, the same at every seed, and a verdict needs blocks",
                "schedlab sim run --trace FILE prints the figures of each policy",
            )
        aged = {k: v for k, v in self.first.policy_set.items() if v != AGING[k]}
        candidates = [
            dataclasses.replace(each, settings={**aged, **each.settings})
            for each in self.candidates()
        ]
        return judged_by_rate(
            ssd_experiment(
                self.first, candidates, self.workloads, self.seeds, self.metric, self.warm_up
            )
        )

    def run(self) -> Shown:
        """Every policy with every seed, after the warm-up."""
        labelled = [
            (label, dataclasses.replace(each, seed=number))
            for label, each in self._under_policies()
            for number in self.seeds
        ]
        labels, simulations = [label for label, _ in labelled], [each for _, each in labelled]
        results = judge.run_warm(simulations, self.warm_up)
        runs = list(zip(labels, simulations, results, strict=True))
        if self.log is not None:
            write_log(self.log, ((label, run.seed, result.log) for label, run, result in runs))
        warnings = replay_warnings(results[0].report.get("trace"))
        for label, run, result in runs:
            warnings += judge.warnings_of(f"{label}, seed {run.seed},", result.report)
        source = str(self.replay.path) if self.replay else self.workloads[0]
        document = tables.ssd_document(simulations, results, source)
        heading = f"{self.first.device}: SSD, {document['service']} service; {source}"
        basis = f"note: mean over {counted(len(self.seeds), 'seed')}; ratio: to the first policy"
        lines = [heading, *tables.ssd_table(labels, results), basis]
        return Shown(lines, document, warnings)

    def _under_policies(self) -> Iterator[tuple[str, Simulation]]:
        """The simulation under each policy, whose own parameters replace the common ones."""
        for candidate in self.candidates():
            own = {k: parse_change(f"{k}={v}")[1] for k, v in candidate.settings.items()}
            policy = str(own.pop("policy"))
            label = policy if is_policy_file(policy) else candidate.label
            policy_set = {**self.first.policy_set, **own}
            yield label, dataclasses.replace(self.first, policy=policy, policy_set=policy_set)
