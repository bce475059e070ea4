"""The options of `schedlab sim run|compare` as one set of simulations, whatever they are of.

A set has a device, the kernel's schedulers above it or none, a source of requests (workloads,
processes, a trace) and policies of the device's queue. Every option changes it or is refused.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schedlab.errors import SpecError
from schedlab.nouns import SCHEMA_VERSION, Candidate, Experiment
from schedlab.nouns.quantities import counted
from schedlab_sim import decisions, judge, tables
from schedlab_sim.cpu_schedule import parse_time
from schedlab_sim.device import device_changes, parse_change
from schedlab_sim.experiments import AGING, experiment_of, judged_by_rate, policy_candidates
from schedlab_sim.pool import run_threads
from schedlab_sim.replay import Replay, replay_of, replay_warnings
from schedlab_sim.simulation import (
    NEEDS,
    Simulation,
    conditions,
    model_of,
    refuse_idle,
    split_schedulers,
)

if TYPE_CHECKING:
    from schedlab.report.play import Play
    from schedlab_sim.results import DiskReport, HostReport, SimResult

Typed = Mapping[str, Any]
SEEDS = 8
GANTT_RUNS = 6
REPLAYING = ("volumes", "fit", "time_scale", "closed", "skip_bad_lines", "rate")
# Sources and policies of `run` and of `compare` where nothing is named.
SOURCES = {"ssd": ("A", "A,B,C,D"), "disk": ("random4k",) * 2, "host-queue": ("random32",) * 2}
POLICIES = {"ssd": ("fcfs", "fcfs,s,ts,tsb"), "disk": ("fcfs", "fcfs,sstf,scan,clook,sptf")}


@dataclass(frozen=True)
class Shown:
    """The output of a command: a table, the same as JSON, and what the reader is warned of."""

    lines: Sequence[str]
    document: Mapping[str, object]
    warnings: Sequence[str]


@dataclass(frozen=True)
class SimulationCell:
    """One simulation of a set: where its requests come from, under which candidate."""

    source: str
    candidate: Candidate
    simulation: Simulation


@dataclass(frozen=True)
class SimulationSet:
    """`first` with each of the sources, under each of the candidates, with each of the seeds.

    `kind` is that of the workloads of its experiment: `ssd`, `disk` or `host-queue`.
    """

    kind: str
    first: Simulation
    candidates: tuple[Candidate, ...]
    sources: tuple[str, ...]
    seeds: range
    warm_up: str = "none"
    metric: str | None = None
    log: Path | None = None
    gantt: Path | None = None
    #: Language of its page; that of LANG.
    lang: str | None = None

    def cells(self) -> list[SimulationCell]:
        """All simulations, in their order; of a comparison's sources as well."""
        name = "processes" if self.kind == "host-queue" else "workload"
        cells = []
        for source, candidate, seed in itertools.product(self.sources, self.candidates, self.seeds):
            own: dict[str, Any] = {} if self.first.trace is not None else {name: source}
            one = dataclasses.replace(under(self.first, candidate), seed=seed, **own)
            cells.append(SimulationCell(source, candidate, one))
        return cells

    def run(self) -> Shown:
        """Every simulation; writes the requested log and chart."""
        cells = self.cells()
        simulations = [cell.simulation for cell in cells]
        if self.kind == "ssd":
            results = judge.run_warm(simulations, self.warm_up)
        else:
            results = run_threads(simulations)
        if self.log is not None:
            from schedlab_sim.request_log import write_log

            write_log(self.log, zip(cells, results, strict=True))
        if self.gantt is not None:
            self._draw(self.gantt, cells, results)
        warnings = replay_warnings(results[0].report.get("trace"))
        simulated = (cell.simulation.scheduler or "" for cell in cells)
        warnings += decisions.warnings(name.partition(":")[0] for name in simulated)
        for cell, result in zip(cells, results, strict=True):
            if "steady" in result:
                name = f"{cell.candidate.label}, seed {cell.simulation.seed},"
                warnings += judge.warnings_of(name, cast("judge.SsdReport", result.report))
        show = {"ssd": self._ssd, "disk": self._disk, "host-queue": self._host}[self.kind]
        lines, document = show(cells, results)
        head = {"schema": SCHEMA_VERSION, "device": self.first.device}
        return Shown(lines, {**head, **document}, warnings)

    def _draw(
        self, path: Path, cells: Sequence[SimulationCell], results: Sequence[SimResult]
    ) -> None:
        """The requests of the first seed: a page to explore, or a picture of a few."""
        from schedlab.store.files import made

        first = list(zip(cells, results, strict=True))[:: len(self.seeds)]
        if path.suffix == ".html":
            from schedlab.report.texts import Texts
            from schedlab.report.timeline import Timeline
            from schedlab_sim.bars import scenes

            page = Timeline(scenes(first), Texts(self.lang)).render()
            made(path).write_text(page, encoding="utf-8")
            return
        from schedlab.report.gantt import requests_chart

        shown = [(run["scheduler"], run.report, run.log) for _, run in first[:GANTT_RUNS]]
        made(path).write_text(requests_chart(shown), encoding="utf-8")

    def _ssd(
        self, cells: Sequence[SimulationCell], results: Sequence[SimResult]
    ) -> tuple[list[str], dict[str, object]]:
        source, service = self.sources[0], results[0]["service"]
        basis = f"note: mean over {counted(len(self.seeds), 'seed')}; ratio: to the first policy"
        heading = f"{self.first.device}: SSD, {service} service; {source}"
        table = tables.ssd_table([cell.candidate.label for cell in cells], results)
        document = tables.ssd_document([cell.simulation for cell in cells], results, source)
        return [heading, *table, basis], document

    def _disk(
        self, _cells: Sequence[SimulationCell], results: Sequence[SimResult]
    ) -> tuple[list[str], dict[str, object]]:
        first, count = self.first, len(self.seeds)
        head: dict[str, object] = {"workload": self.sources[0]}
        heading = f"{first.device}: disk; {self.sources[0]}"
        if first.rate is not None:
            head["arrivals"] = {"kind": "poisson", "rate_per_s": first.rate}
            heading += f", {first.rate:g} requests/s"
        elif first.trace is None:
            head["arrivals"] = {"kind": "closed", "depth": first.depth or 1}
            heading += f", {counted(first.depth or 1, 'request')} outstanding"
        runs = [cast("DiskReport", result.report) for result in results]
        basis = f"note: mean over {counted(count, 'seed')}; ratio: IOPS to the first policy's"
        document = {**head, "set": dict(first.device_set), "runs": runs}
        return [heading, *tables.disk_table(runs, count), basis], document

    def _host(
        self, cells: Sequence[SimulationCell], results: Sequence[SimResult]
    ) -> tuple[list[str], dict[str, object]]:
        from schedlab_sim.checked import expected_of

        facts = self.first.facts()
        kind = "SSD" if facts["kind"] == "ssd" else facts["kind"]
        service = f", {facts['service']} service" if facts["service"] else ""
        lines = [
            f"{self.first.device}: {kind}{service}, window {facts['queue_depth']}, "
            f"{facts['policy']}; {self.first.tags} tags"
        ]
        runs: dict[str, list[HostReport]] = {}
        first: dict[str, dict[str, Simulation]] = {}
        for cell, result in zip(cells, results, strict=True):
            runs.setdefault(cell.source, []).append(result.host)
            first.setdefault(cell.source, {}).setdefault(cell.candidate.label, cell.simulation)
        checked: dict[str, dict[str, object]] = {}
        for source, same in runs.items():
            expected = expected_of(list(first[source].values()))
            rates = expected.rates(same)
            lines += ["", f"{source}:", *tables.host_table(same), *expected.lines(rates)]
            checked[source] = expected.document(rates)
        return lines, {"model": facts, "runs": runs, "checked": checked}

    def experiment(self) -> tuple[Experiment, list[str]]:
        """Policies or schedulers are candidates, seeds blocks, and warnings; SpecError for a trace,
        which is one sample.
        """
        if self.first.trace is not None:
            raise SpecError(
                "a trace is one sample, the same at every seed, and a verdict needs blocks",
                "omit --out: `schedlab sim run --trace FILE` prints the figures of each policy",
            )
        experiment = experiment_of(self)
        return judged_by_rate(experiment) if self.kind != "host-queue" else (experiment, [])


def under(simulation: Simulation, candidate: Candidate) -> Simulation:
    """The simulation under a candidate, whose own parameters replace the common ones."""
    own = {key: parse_change(f"{key}={value}")[1] for key, value in candidate.settings.items()}
    if simulation.scheduler is not None:
        return dataclasses.replace(simulation, scheduler=candidate.label)
    policy = str(own.pop("policy"))
    policy_set = {**simulation.policy_set, **own}
    return dataclasses.replace(simulation, policy=policy, policy_set=policy_set)


def simulations_of(typed: Typed) -> SimulationSet:
    """The simulations that the options of a command mean; SpecError names an option that is wrong
    or would do nothing.
    """
    model = model_of(typed["device"])
    is_given = [
        name
        for name, value in typed.items()
        if value is not None and value is not False and value != ()
    ]
    here = conditions(model, typed["scheduler"] is not None, typed["trace"] is not None)
    options = {f"--{name.replace('_', '-')}": name for name in sorted({*is_given} & {*NEEDS})}
    refuse_idle(options, here)
    kind = "ssd" if model == "ssd" else "disk"
    if typed["scheduler"] is not None:
        kind = "host-queue"
    is_comparison = "workloads" in typed
    replay = _replay(typed)
    named = typed["workloads" if is_comparison else "workload"]
    named = typed["processes"] if kind == "host-queue" else named
    several = named or SOURCES[kind][is_comparison]
    sources = several.split(",") if is_comparison or kind == "host-queue" else [several]
    sources = [str(replay.path)] if replay else sources
    first, candidates = _simulation(typed, kind, replay)
    if typed.get("log") is not None:
        from schedlab_sim.request_log import check_log_name

        check_log_name(typed["log"])
    seed = 1 if typed["seed"] is None else typed["seed"]
    return SimulationSet(
        kind,
        first,
        candidates,
        tuple(map(str.strip, sources)),
        range(seed, seed + (1 if replay else typed["seeds"] or SEEDS)),
        typed["warm_up"] or "none",
        **{name: typed.get(name) for name in ("metric", "log", "gantt", "lang")},
    )


# Requests of a play, unless more are asked for.
PLAYED = 200
# Options that would change nothing beside --play.
NOT_PLAYED = {
    "out": "--out", "dry_run": "--dry-run", "as_json": "--json", "log": "--log",
    "gantt": "--gantt", "seeds": "--seeds", "warm_up": "--warm-up",
}  # fmt: skip


def plays_of(typed: Typed) -> list[Play]:
    """The decisions of each policy, with one seed; SpecError where none had a choice."""
    from schedlab_sim.play import play_of, refuse_unplayed

    if typed["scheduler"] is not None:
        raise SpecError("--play shows the queue of the device", "omit --scheduler")
    refuse_unplayed(typed, NOT_PLAYED)
    usual = {} if typed["trace"] else {"seeds": 1}
    requests = PLAYED if typed["requests"] is None else typed["requests"]
    cells = simulations_of({**typed, **usual, "requests": requests}).cells()
    plays = [play_of(cell.simulation, cell.candidate.label) for cell in cells]
    if not any(play.choices() for play in plays):
        hint = "name a busier --workload, or add --depth 8 where the device is a disk"
        raise SpecError("never more than one request waited: there was no choice", hint)
    return plays


def _simulation(
    typed: Typed, kind: str, replay: Replay | None
) -> tuple[Simulation, tuple[Candidate, ...]]:
    """The first simulation, and the candidates."""
    names = [
        "device", "service", "requests", "record", "span", "depth", "tags", "nr_requests", "window",
        "size", "seconds",
    ]  # fmt: skip
    fields = {name: typed[name] for name in names if typed[name] is not None}
    if replay is not None:
        fields |= replay.fields()
    elif typed["rate"] is not None:
        fields["rate"] = typed["rate"]
    fields["device_set"] = device_changes(typed["changes"], typed["buffer"])
    fields["log"] = bool(typed.get("log") or typed.get("gantt"))
    if kind == "host-queue":
        policy = typed["policies"]
        if policy and ("," in policy or ":" in policy):
            raise SpecError(
                f"--policy {policy}: with --scheduler the device has one policy, without settings",
                "for example --policy fcfs",
            )
        if typed["warm_up"]:
            fields["warm_up_seconds"] = _seconds(typed["warm_up"])
        schedulers = split_schedulers(typed["scheduler"])
        first = Simulation(policy=policy, scheduler=schedulers[0], **fields)
        return first, tuple(Candidate(name, {"scheduler": name}) for name in schedulers)
    is_comparison = "workloads" in typed
    candidates = policy_candidates(typed["policies"] or POLICIES[kind][is_comparison])
    aged = {k: typed[k] for k in AGING if typed.get(k) is not None}
    if kind == "ssd":
        policies = [str(each.settings["policy"]) for each in candidates]
        judge.refuse_idle_parameters({f"--{name}": name for name in aged}, policies)
        for policy, each in zip(policies, candidates, strict=True):
            judge.refuse_idle_parameters({f"{policy}:{k}": k for k in each.settings}, [policy])
        fields["policy_set"] = {} if is_comparison else AGING | aged
    return Simulation(**fields), candidates


def _replay(typed: Typed) -> Replay | None:
    """The trace, with what is done to its requests."""
    if typed["trace"] is None:
        return None
    changes = {name: typed[name] for name in REPLAYING if typed[name] is not None}
    return replay_of(typed["trace"], **changes)


def _seconds(text: str) -> float:
    """The time of `--warm-up`; SpecError for a number of requests, which processes have not."""
    settings = judge.fixed_warm_up(text)
    if "requests" in settings:
        raise SpecError(f"--warm-up {text}: with --scheduler a time is cut", "for example 2s")
    return parse_time(str(settings.get("time", "0"))) / 1e9
