"""Simulations of a disk with heads under policies of its queue, as the options ask for them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from schedlab.sim import judge, tables
from schedlab.sim.disk import DiskSimulation
from schedlab.sim.experiments import disk_experiment, judged_by_rate
from schedlab.sim.jobs import Shown, Typed, changes_of, given, replay_from, seeds_of
from schedlab.sim.pool import map_threads
from schedlab.sim.replay import replay_warnings
from schedlab.sim.request_log import check_log_name, write_disk_log
from schedlab.spec import SCHEMA_VERSION, Experiment
from schedlab.spec.quantities import counted


@dataclass(frozen=True)
class DiskJob:
    """`first` under each of the `policies`, with each of the `seeds`, on each workload."""

    first: DiskSimulation
    policies: tuple[str, ...]
    workloads: tuple[str, ...]
    seeds: range
    metric: str | None
    log: Path | None

    @classmethod
    def of(cls, typed: Typed) -> DiskJob:
        """The job of the options; SpecError names a wrong one."""
        is_comparison = "workloads" in typed
        fields = given(typed, "device", "record", "span", "depth", "requests")
        fields["device_set"] = changes_of(typed)
        replay = replay_from(typed)
        named = typed["workloads"] if is_comparison else typed["workload"]
        workloads = tuple(map(str.strip, (named or "random4k").split(",")))
        if replay is not None:
            first = DiskSimulation.of_trace(replay, **fields)
        else:
            first = DiskSimulation(workload=workloads[0], **fields, **given(typed, "rate"))
        usual = "fcfs,sstf,scan,clook,sptf" if is_comparison else "fcfs"
        policies = tuple(map(str.strip, (typed["policies"] or usual).split(",")))
        seeds, log = seeds_of(typed), typed.get("log")
        if log is not None:
            check_log_name(log)
        return cls(first, policies, workloads, seeds, typed.get("metric"), log)

    def experiment(self) -> tuple[Experiment, list[str]]:
        """Policies are candidates, seeds blocks."""
        return judged_by_rate(
            disk_experiment(self.first, self.policies, self.seeds, self.workloads, self.metric)
        )

    def run(self) -> Shown:
        """All runs in threads, and their figures."""
        simulations = [
            dataclasses.replace(self.first, policy=name, seed=number)
            for name in self.policies
            for number in self.seeds
        ]
        is_logged = self.log is not None
        logged = map_threads(lambda one, stop: one.run_logged(stop, log=is_logged), simulations)
        runs = [figures for figures, _ in logged]
        if self.log is not None:
            rows = zip(simulations, logged, strict=True)
            write_disk_log(self.log, [(one.policy, one.seed, table) for one, (_, table) in rows])
        source = self.first.workload
        head = {"schema": SCHEMA_VERSION, "device": self.first.device, "workload": str(source)}
        heading = f"{self.first.device}: disk; {source}"
        if isinstance(source, str):
            head["arrivals"] = arrivals = self.first.arrivals()
            is_open = "rate_per_s" in arrivals
            heading += f", {arrivals['rate_per_s']:g} requests/s" if is_open else ""
            heading += "" if is_open else f", {counted(arrivals['depth'], 'request')} outstanding"
        warnings = replay_warnings(runs[0].get("trace"))
        for one, figures in zip(simulations, runs, strict=True):
            warnings += judge.warnings_of(f"{one.policy}, seed {one.seed},", figures)
        count = len(self.seeds)
        basis = f"note: mean over {counted(count, 'seed')}; ratio: IOPS to the first policy's"
        document = {**head, "set": dict(self.first.device_set), "runs": runs}
        return Shown([heading, *tables.disk_table(runs, count), basis], document, warnings)
