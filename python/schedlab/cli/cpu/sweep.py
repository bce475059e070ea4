"""`schedlab cpu sweep`: the same work under several quanta, as one experiment."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cpu.settings import (
    KERNELS,
    PRIORITY_DEFAULT,
    Settings,
    parse_cpus,
    parse_slices,
    parse_time_ns,
)
from schedlab.errors import SpecError
from schedlab.spec import Candidate, Experiment, Stopping, Target, Workload

if TYPE_CHECKING:
    from schedlab.result import Result

POLICIES = ("rr", "other", "batch")
# What a flip costs beside its slices: the shortest quantum goes round twice, one line is synced.
FLIP_OVERHEAD_S = 0.04


@dataclass(frozen=True)
class Sweep:
    """What was typed."""

    slices: tuple[float, ...]
    processes: int
    seconds: float
    repeat: int
    policy: str
    priority: int
    cpus: tuple[int, ...]
    kernel: str
    precision: bool
    budget_s: float
    aa: bool
    seed: int


@click.command()
@click.option("--slices", default="1,10,100", show_default=True, help="Quanta in ms.")
@click.option("--processes", type=click.IntRange(1, 1000), default=2, show_default=True)
@click.option("--time", "time", default="30s", show_default=True, help="Length of one run.")
@click.option(
    "--repeat", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Blocks."
)
@click.option("--policy", type=click.Choice(POLICIES), default="rr", show_default=True)
@click.option("--priority", type=int, default=PRIORITY_DEFAULT, show_default=True)
@click.option("--cpu", "cpus", help="CPU of the workers (default: the last one).")
@click.option("--kernel", type=click.Choice(KERNELS), default="elementwise", show_default=True)
@click.option(
    "--precision",
    is_flag=True,
    help="Flip the quantum inside one run: small differences, about 100 times sooner.",
)
@click.option("--budget", default="60s", show_default=True, help="Time that --precision may take.")
@click.option("--aa/--no-aa", default=None, help="Measure the first quantum under a second name.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Fixes the orders.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.")
@click.option("--dry-run", is_flag=True, help="Print the plan, the setting and the time.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Go on with an interrupted folder.",
)
def sweep(
    slices: str,
    processes: int,
    time: str,
    repeat: int,
    policy: str,
    priority: int,
    cpus: str | None,
    kernel: str,
    precision: bool,
    budget: str,
    aa: bool | None,
    seed: int | None,
    out: Path | None,
    dry_run: bool,
    as_json: bool,
    resume: Path | None,
) -> None:
    """Compare quanta: calculations per CPU second of the same processes under each.

    Each request is measured under the quantum that the kernel makes of it; requests that become
    the same quantum are measured once. The host's setting is put back at the end.
    """
    from schedlab.cpu.crew import last_cpu

    if resume:
        _go_on(resume, as_json)
        return
    typed = Sweep(
        slices=parse_slices(slices),
        processes=processes,
        seconds=parse_time_ns(time) / 1e9,
        repeat=repeat,
        policy=policy,
        priority=priority,
        cpus=parse_cpus(cpus) if cpus else (last_cpu(),),
        kernel=kernel,
        precision=precision,
        budget_s=parse_time_ns(budget) / 1e9,
        aa=not precision if aa is None else aa,
        seed=secrets.randbits(32) if seed is None else seed,
    )
    if precision and processes <= len(typed.cpus):
        raise SpecError("--precision needs a shared CPU", "ask for more --processes than CPUs")
    experiment = experiment_of(typed, effective_slices(typed))
    if dry_run:
        _show(experiment, as_json)
        return
    _carry_out(experiment, out, as_json)


def _carry_out(experiment: Experiment, out: Path | None, as_json: bool) -> None:
    from schedlab.cli.compare import create_folder, default_folder
    from schedlab.cli.conduct import conduct

    for note in experiment.notes:
        click.echo(f"warning: {note}", err=True)
    folder = create_folder(experiment, out or default_folder("cpu-sweep"))
    _present(conduct(folder), as_json)


def _go_on(path: Path, as_json: bool) -> None:
    from schedlab.cli.compare import check_resumable
    from schedlab.cli.conduct import conduct
    from schedlab.store.folder import Folder

    folder = Folder.open(path)
    if folder.experiment.kind != "cpu":
        raise SpecError(
            f"{path}: does not compare quanta", f"go on with: schedlab compare --resume {path}"
        )
    check_resumable(folder)
    _present(conduct(folder, resumed=True), as_json)


def _present(result: Result, as_json: bool) -> None:
    """Verdict, reports, charts (drawn before the record that shows them is read), tables."""
    from schedlab.cli.conduct import present
    from schedlab.cli.cpu.tables import published_tables
    from schedlab.cpu.charts import write_charts
    from schedlab.result import Result
    from schedlab.store.folder import FIGURES

    folder = result.folder
    charts = write_charts(folder.path, folder.record(), folder.path / FIGURES)
    result = Result(folder)
    present(result, as_json)
    if as_json:
        return
    click.echo("\n".join(published_tables(result.record, result.verdict)))
    for path in charts:
        click.echo(f"chart:    {path}")


def effective_slices(typed: Sweep) -> dict[float, float | None]:
    """What the kernel makes of each requested quantum, asked of a worker that never runs."""
    from schedlab.cpu.crew import held_crew
    from schedlab.host.control import Control

    found: dict[float, float | None] = {}
    with Control(report=lambda line: click.echo(line, err=True)) as control:
        for slice_ms in typed.slices:
            settings = Settings(
                1, 1, typed.policy, typed.priority, slice_ms, typed.cpus, kernel=typed.kernel
            )
            with held_crew(settings, control) as (_, quantum):
                found[slice_ms] = quantum.effective_ms
    return found


def experiment_of(typed: Sweep, effective: dict[float, float | None]) -> Experiment:
    """Quanta are candidates, repetitions are blocks; equal effective quanta are merged."""
    candidates, notes = merged_candidates(typed.policy, effective)
    if len(candidates) < 2:
        raise SpecError(
            f"all requested quanta become {_text(candidates[0])} here: nothing to compare",
            "choose quanta that differ by more than a tick, e.g. --slices 1,10,100",
        )
    work = {
        "processes": typed.processes,
        "kernel": typed.kernel,
        "cpus": list(typed.cpus),
        "priority": typed.priority,
        "flip": typed.precision,
    }
    if typed.precision:
        longest_ms = max(float(c.settings["effective_ms"]) for c in candidates)
        arms = len(candidates) + typed.aa
        cell_s = typed.processes * longest_ms / 1e3 + FLIP_OVERHEAD_S
        blocks = max(5, int(typed.budget_s / (arms * cell_s)))
        secondary: tuple[str, ...] = ("calculations_per_cpu_s_raw",)
        how = f"{blocks} paired segments, quantum flipped inside one run"
    else:
        work["seconds"] = typed.seconds
        blocks, secondary = typed.repeat, ("calculations", "fairness_jain")
        how = f"{typed.seconds:g} s a run"
    return Experiment(
        title=f"Quantum of {typed.policy}, {typed.processes} processes, {how}",
        kind="cpu",
        target=Target("none"),
        candidates=candidates,
        workloads=(
            Workload(
                label=f"{typed.processes} x {typed.kernel}",
                kind="calculation",
                metric="calculations_per_cpu_s",
                parameters=work,
                secondary=secondary,
            ),
        ),
        baseline=candidates[0].label,
        seed=typed.seed,
        stopping=Stopping("fixed", blocks),
        margin=0.005 if typed.precision else 0.02,
        aa_arm=typed.aa,
        notes=(*notes, *_fairness_note(typed, candidates)),
    )


def merged_candidates(
    policy: str, effective: dict[float, float | None]
) -> tuple[tuple[Candidate, ...], list[str]]:
    """A candidate per effective quantum, named by the first request; a note per merged one."""
    by_effective: dict[float | None, Candidate] = {}
    notes = []
    for asked, got in effective.items():
        known = by_effective.get(got)
        if known is not None:
            first = known.settings["slice_ms"]
            notes.append(
                f"{first:g} ms and {asked:g} ms both become {got:g} ms: measured once, as {first:g}"
                if got is not None
                else f"{asked:g} ms: this kernel does not tell its quantum, measured once"
            )
            continue
        settings: dict[str, str | int | float] = {"policy": policy, "slice_ms": asked}
        settings["effective_ms"] = asked if got is None else got
        label = f"{asked:g} ms" if got in (asked, None) else f"{asked:g} ms (is {got:g} ms)"
        by_effective[got] = Candidate(label, settings)
    return tuple(by_effective.values()), notes


def _fairness_note(typed: Sweep, candidates: Sequence[Candidate]) -> list[str]:
    """Fairness is quantised by the quantum: say so instead of calling it unfair."""
    longest_s = max(float(c.settings["effective_ms"]) for c in candidates) / 1e3
    share_s = typed.seconds * len(typed.cpus) / typed.processes
    if typed.precision or longest_s / share_s < 0.005:
        return []
    return [
        f"one quantum of {longest_s * 1e3:g} ms is {longest_s / share_s:.1%} of a worker's share: "
        "counts of the workers differ by that much without any unfairness"
    ]


def _text(candidate: Candidate) -> str:
    return f"{candidate.settings['effective_ms']:g} ms"


def _show(experiment: Experiment, as_json: bool) -> None:
    import json

    from schedlab.cpu.settings import RR_KNOB
    from schedlab.design.plan import make_plan
    from schedlab.spec import to_json

    plan = make_plan(experiment)
    if as_json:
        data = {"experiment": to_json(experiment), "plan": to_json(plan)["cells"]}
        click.echo(json.dumps(data))
        return
    click.echo(f"{experiment.title}: {len(plan.cells)} runs")
    for candidate in experiment.candidates:
        settings = candidate.settings
        where = RR_KNOB if settings["policy"] == "rr" else "sched_setattr sched_runtime"
        click.echo(f"  {candidate.label}: {where} = {settings['slice_ms']:g} ms")
    for note in experiment.notes:
        click.echo(f"note: {note}")
