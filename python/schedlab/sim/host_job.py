"""Simulations of the kernel's I/O schedulers above a device, as the options ask for them."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim.cpu_schedule import parse_time
from schedlab.sim.experiments import host_experiment
from schedlab.sim.host import HostSimulation, split_schedulers, table
from schedlab.sim.jobs import Shown, Typed, changes_of, given, replay_from, seeds_of
from schedlab.sim.judge import fixed_warm_up
from schedlab.sim.pool import map_threads
from schedlab.sim.request_log import write_host_log
from schedlab.sim.validated import Validity, validity_of
from schedlab.spec import SCHEMA_VERSION, Experiment
from schedlab.store.files import made

GANTT_RUNS = 6


@dataclass(frozen=True)
class HostJob:
    """`first` under each scheduler, on each file of processes, with each seed."""

    first: HostSimulation
    schedulers: tuple[str, ...]
    processes: tuple[str, ...]
    seeds: range
    metric: str | None
    log: Path | None
    gantt: Path | None

    @classmethod
    def of(cls, typed: Typed) -> HostJob:
        """The job of the options; SpecError names a wrong one."""
        fields = given(
            typed, "device", "service", "tags", "nr_requests", "window", "size", "seconds",
            "requests",
        )  # fmt: skip
        replay = replay_from(typed)
        if replay is not None:
            options = replay.options()
            options["volumes"] = typed["volumes"] or "region"
            fields |= {"trace": replay.path, "format": replay.format, "trace_set": options}
        if typed["warm_up"]:
            fields["warm_up_seconds"] = _seconds(typed["warm_up"])
        policy = typed["policies"]
        if policy and ("," in policy or ":" in policy):
            raise SpecError(
                f"--policy {policy}: with --scheduler the device has one policy, without settings",
                "for example --policy fcfs",
            )
        first = HostSimulation(policy=policy, device_set=changes_of(typed), **fields)
        if typed.get("log") is not None and typed["log"].suffix != ".csv":
            hint = "name it FILE.csv"
            raise SpecError(f"--log {typed['log']}: with --scheduler only .csv is written", hint)
        return cls(
            first,
            tuple(split_schedulers(typed["scheduler"])),
            tuple(name.strip() for name in (typed["processes"] or "random32").split(",")),
            seeds_of(typed),
            typed.get("metric"),
            typed.get("log"),
            typed.get("gantt"),
        )

    def experiment(self) -> tuple[Experiment, list[str]]:
        """Schedulers are candidates, seeds blocks."""
        if self.first.trace is not None:
            raise SpecError("a trace has no seeds, and a verdict needs blocks", "omit --out")
        return host_experiment(
            self.first, self.schedulers, self.processes, self.seeds, self.metric
        ), []

    def validity(self, processes: str, scheduler: str) -> Validity:
        """Whether kernel-check has validated such a simulation."""
        return validity_of(dataclasses.replace(self.first, processes=processes), scheduler)

    def run(self) -> Shown:
        """Every simulation; writes the requested log and chart."""
        files = self.processes if self.first.trace is None else (str(self.first.trace),)
        cells = list(itertools.product(files, self.schedulers, self.seeds))

        def simulate(cell: tuple[str, str, int], stop: Any) -> tuple[dict[str, Any], Any]:
            file, name, seed = cell
            one = dataclasses.replace(self.first, processes=file, scheduler=name, seed=seed)
            if self.log is None and self.gantt is None:
                return one.run(stop), None
            return one.run_logged(stop)

        results = map_threads(simulate, cells)
        if self.log is not None:
            write_host_log(self.log, list(zip(cells, results, strict=True)))
        if self.gantt is not None:
            from schedlab.sim.gantt import requests_chart

            drawn = [(run["scheduler"], run, rows) for run, rows in results]
            shown = drawn[:: len(self.seeds)][:GANTT_RUNS]
            made(self.gantt).write_text(requests_chart(shown), encoding="utf-8")
        runs: dict[str, list[dict[str, Any]]] = {}
        for (file, _, _), (figures, _) in zip(cells, results, strict=True):
            runs.setdefault(file, []).append(figures)
        return self._shown(runs)

    def _shown(self, runs: dict[str, list[dict[str, Any]]]) -> Shown:
        lines = [self.first.heading()]
        validated: dict[str, dict[str, Any]] = {}
        for file, same in runs.items():
            of_file = {name: self.validity(file, name) for name in self.schedulers}
            validated[file] = {name: dataclasses.asdict(each) for name, each in of_file.items()}
            lines += ["", f"{file}:", *table(same, of_file)]
        document = {
            "schema": SCHEMA_VERSION,
            "device": self.first.device,
            "model": self.first.facts(),
            "runs": runs,
            "validated": validated,
        }
        return Shown(lines, document, ())


def _seconds(text: str) -> float:
    """The time of `--warm-up`; SpecError for a number of requests, which processes have not."""
    settings = fixed_warm_up(text)
    if "requests" in settings:
        raise SpecError(f"--warm-up {text}: with --scheduler a time is cut", "for example 2s")
    return parse_time(settings.get("time", "0")) / 1e9
