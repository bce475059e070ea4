"""What `--scheduler` asks for: schedulers × files of processes × seeds, run, logged and drawn."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.host import HostSimulation, split_schedulers, table
from schedlab.sim.host_compare import host_experiment
from schedlab.sim.pool import map_threads
from schedlab.sim.settings import device_changes
from schedlab.spec import SCHEMA_VERSION

if TYPE_CHECKING:
    from schedlab.spec import Experiment

LOG_HEAD = (
    "scheduler,processes,seed,pid,operation,sector,sectors,bios,arrival_ns,inserted_ns,"
    "dispatched_ns,completed_ns"
)
OPERATIONS = ("read", "write", "discard")


@dataclass(frozen=True)
class Wish:
    """Simulations to run, each scheduler on each file of processes with each seed."""

    first: HostSimulation
    schedulers: str
    processes: tuple[str, ...]
    seeds: int
    log: Path | None = None
    gantt: Path | None = None

    def experiment(self) -> Experiment:
        """The same as an experiment with a verdict."""
        if self.first.trace is not None:
            raise SpecError("a trace has no seeds, and a verdict needs blocks", "omit --out")
        return host_experiment(self.first, self.schedulers, self.processes, self.seeds)

    def run(self) -> dict[str, list[dict[str, Any]]]:
        """The figures by file of processes; writes the requested log and chart."""
        names = split_schedulers(self.schedulers)
        files = self.processes if self.first.trace is None else (str(self.first.trace),)
        seeds = range(self.first.seed, self.first.seed + self.seeds)
        cells = list(itertools.product(files, names, seeds))

        def simulate(cell: tuple[str, str, int], stop: Any) -> tuple[dict[str, Any], Any]:
            file, name, seed = cell
            one = dataclasses.replace(self.first, processes=file, scheduler=name, seed=seed)
            if self.log is None and self.gantt is None:
                return one.run(stop), None
            return one.run_logged(stop)

        results = map_threads(simulate, cells)
        if self.log is not None:
            self.log.write_text("\n".join([LOG_HEAD, *_rows(cells, results)]) + "\n")
        if self.gantt is not None:
            from schedlab.sim.host_gantt import gantt

            drawn = [(run["scheduler"], run, rows) for run, rows in results]
            self.gantt.write_text(gantt(drawn[:: self.seeds][:6]), encoding="utf-8")
        runs: dict[str, list[dict[str, Any]]] = {}
        for (file, _, _), (figures, _) in zip(cells, results, strict=True):
            runs.setdefault(file, []).append(figures)
        return runs

    def text(self, as_json: bool) -> str:
        """The figures as tables, or as one JSON document."""
        runs = self.run()
        if as_json:
            return json.dumps({"schema": SCHEMA_VERSION, "runs": runs})
        return "\n".join(line for file, same in runs.items() for line in (f"{file}:", *table(same)))


def _rows(cells: list[tuple[str, str, int]], runs: list[tuple[dict[str, Any], Any]]) -> list[str]:
    return [
        f"{name},{file},{seed},{run['processes'][row['process']]['name']},"
        f"{OPERATIONS[row['operation']]},{row['sector']},{row['sectors']},{row['bios']},"
        f"{row['arrival_ns']},{row['inserted_ns']},{row['dispatched_ns']},{row['completed_ns']}"
        for (file, name, seed), (run, table) in zip(cells, runs, strict=True)
        for row in table
    ]


def wish_of(own: Mapping[str, Any], typed: Mapping[str, Any]) -> Wish:
    """What the options of a command mean; those of its own policies are not asked."""
    trace = typed.get("trace")
    log = typed.get("log")
    if log is not None and log.suffix != ".csv":
        raise SpecError(f"--log {log}: with --scheduler only .csv is written", "name it FILE.csv")
    path, _, format_ = (trace or "").partition(":")
    first = HostSimulation(
        device=typed["device"],
        tags=own["--tags"] or 32,
        nr_requests=own["--nr-requests"],
        window=own["--window"],
        policy=typed["policy"] if typed.get("policy") not in (None, "fcfs") else None,
        size=own["--size"],
        seconds=own["--seconds"] or 20.0,
        seed=typed["seed"] or 1,
        trace=Path(f"{path}::{format_}" if format_ else path) if trace else None,
        trace_set={"fit": typed["fit"]} if trace else {},
        device_set=device_changes(typed["changes"]),
    )
    processes = tuple(name.strip() for name in (own["--processes"] or "random32").split(","))
    seeds = 1 if trace else typed["seeds"]
    return Wish(first, own["--scheduler"], processes, seeds, log, own["--gantt"])
