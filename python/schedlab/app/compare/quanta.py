"""Quanta of a CPU policy as an experiment: quanta are candidates, repetitions are blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.app.admit import BLOCKS_MAX
from schedlab.app.compare.comparison import experiment_of
from schedlab.cpu.crew import Settings, held_crew, last_cpu
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import SpecError
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
from schedlab.nouns.quantities import counted
from schedlab.report.bursts import charts
from schedlab.store.files import make_beneath, write_atomic
from schedlab.store.folder import FIGURES

if TYPE_CHECKING:
    from schedlab.result import Result

# What a flip costs beside its slices: the shortest quantum goes round twice, one line is synced.
FLIP_OVERHEAD_S = 0.04


@dataclass(frozen=True)
class Sweep:
    """A request: quanta in ms, the work, and how it is repeated."""

    slices: tuple[float, ...]
    processes: int
    seconds: float
    repeat: int
    policy: str
    priority: int
    cpus: tuple[int, ...]
    calculation: str
    precision: bool
    budget_s: float
    aa: bool
    seed: int | None


def sweep_of(typed: Mapping[str, Any]) -> Sweep:
    """The options of `schedlab cpu sweep`, by the names of `Sweep`; `kernel` is of virtual time."""
    named = {field.name: typed[field.name] for field in fields(Sweep)}
    # A machine in virtual time has one.
    named["cpus"] = typed["cpus"] or ((0,) if typed.get("kernel") else (last_cpu(),))
    named["aa"] = not typed["precision"] if typed["aa"] is None else typed["aa"]
    return Sweep(**named)


def effective_slices(typed: Sweep, report: Callable[[str], None]) -> dict[float, float | None]:
    """The effective quantum of each requested one, asked of a worker that never runs."""
    from schedlab.host.safety.control import Control

    effective: dict[float, float | None] = {}
    with Control(report=report) as control:
        for slice_ms in typed.slices:
            policy = CpuPolicy(typed.policy, typed.priority, slice_ms=slice_ms)
            settings = Settings(1, 1, policy, typed.cpus, kernel=typed.calculation)
            with held_crew(settings, control) as (_, quantum):
                effective[slice_ms] = quantum.effective_ms
    return effective


def quantum_experiment(typed: Sweep, effective: dict[float, float | None]) -> Experiment:
    """Quanta are candidates, repetitions are blocks; equal effective quanta are merged."""
    if typed.precision and typed.processes <= len(typed.cpus):
        raise SpecError("--precision needs a shared CPU", "use more --processes than CPUs")
    candidates, notes = merged_candidates(typed.policy, effective)
    if len(candidates) < 2:
        raise SpecError(
            f"all requested quanta become {_text(candidates[0])} here: nothing to compare",
            "choose quanta that differ by more than a tick, e.g. --slices 1,10,100",
        )
    work = {
        "processes": typed.processes,
        "kernel": typed.calculation,
        "cpus": list(typed.cpus),
        "priority": typed.priority,
        "flip": typed.precision,
    }
    if typed.precision:
        longest_ms = max(float(c.settings["effective_ms"]) for c in candidates)
        arms = len(candidates) + typed.aa
        cell_s = typed.processes * longest_ms / 1e3 + FLIP_OVERHEAD_S
        blocks = min(max(5, int(typed.budget_s / (arms * cell_s))), BLOCKS_MAX)
        secondary: tuple[str, ...] = ("calculations_per_cpu_s_raw",)
        how = f"{blocks} paired segments, quantum flipped inside one run"
    else:
        work["seconds"] = typed.seconds
        blocks, secondary = typed.repeat, ("calculations", "fairness_jain")
        how = f"{typed.seconds:g} s a run"
    label, metric = f"{typed.processes} x {typed.calculation}", "calculations_per_cpu_s"
    return experiment_of(
        "cpu",
        f"Quantum of {typed.policy}, {counted(typed.processes, 'process')}, {how}",
        Target("none"),
        candidates,
        [Workload(label, "calculation", metric, work, secondary)],
        [*notes, *_fairness_note(typed, candidates)],
        seed=typed.seed,
        stopping=Stopping("fixed", blocks),
        margin=0.005 if typed.precision else 0.02,
        aa_arm=typed.aa,
    )


def merged_candidates(
    policy: str, effective: dict[float, float | None]
) -> tuple[tuple[Candidate, ...], list[str]]:
    """A candidate per effective quantum, named by the first request; a note per merged one."""
    by_effective: dict[float | None, Candidate] = {}
    notes = []
    for requested, got in effective.items():
        known = by_effective.get(got)
        if known is not None:
            first = known.settings["slice_ms"]
            notes.append(
                f"{first:g} ms and {requested:g} ms both become {got:g} ms: "
                f"measured once, as {first:g}"
                if got is not None
                else f"{requested:g} ms: this kernel does not report its quantum; measured once"
            )
            continue
        settings: dict[str, str | int | float] = {"policy": policy, "slice_ms": requested}
        settings["effective_ms"] = requested if got is None else got
        label = (
            f"{requested:g} ms" if got in (requested, None) else f"{requested:g} ms (is {got:g} ms)"
        )
        by_effective[got] = Candidate(label, settings)
    return tuple(by_effective.values()), notes


def _fairness_note(typed: Sweep, candidates: Sequence[Candidate]) -> list[str]:
    """Fairness is quantised by the quantum: explain it instead of calling it unfair."""
    longest_s = max(float(c.settings["effective_ms"]) for c in candidates) / 1e3
    share_s = typed.seconds * len(typed.cpus) / typed.processes
    if typed.precision or longest_s / share_s < 0.005:
        return []
    return [
        f"one quantum of {longest_s * 1e3:g} ms is {longest_s / share_s:.1%} of a worker's share: "
        "the counts of the workers can differ by that much although the scheduler is fair"
    ]


def _text(candidate: Candidate) -> str:
    return f"{candidate.settings['effective_ms']:g} ms"


def with_charts(result: Result) -> tuple[Result, list[Path]]:
    """Draw the bursts of every candidate into the folder; the result that shows them, the files."""
    from schedlab.result import Result

    folder, written = result.folder, []
    for name, svg in charts(folder.path, folder.record()).items():
        make_beneath(folder.path, FIGURES)
        path = folder.path / FIGURES / name
        write_atomic(path, svg, within=folder.path)
        written.append(path)
    return Result(folder), written
