"""Comparisons of CPU policies: candidates, built-in workloads or a command, and the load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from schedlab.app.admit import admit
from schedlab.app.compare.comparison import Design, experiment_of
from schedlab.app.compare.own_work import OwnWork, workload_of
from schedlab.app.measure.measure import SILENT, Observer, opened
from schedlab.errors import SpecError, nearest
from schedlab.kinds import KINDS, typed
from schedlab.kinds.cpu_mix import CpuMixKind
from schedlab.nouns import Candidate, Experiment, Target, Workload
from schedlab.run.admitted import Permission
from schedlab.run.cpu.cpu_notes import notes_of
from schedlab.run.cpu.cpu_policy import parse_policies, parse_policy, policy_of
from schedlab.store.files import write_atomic

if TYPE_CHECKING:
    from schedlab.result import Result

WORKLOADS = {
    cls.offer.word: cls for cls in KINDS.values() if issubclass(cls, CpuMixKind) and cls.offer
}
USUAL_POLICIES = "other,batch,fifo"
USUAL_WORKLOADS = ("wakeup",)


@dataclass(frozen=True)
class CpuLoad:
    """The work: names of built-in workloads or a command; hogs beside it; CPUs; seconds."""

    workloads: Sequence[str] = ()
    work: OwnWork | None = None
    load: int | None = None
    cpus: tuple[int, ...] = ()
    seconds: float | None = None
    directory: str = ""


def policy_comparison(
    load: CpuLoad,
    *,
    policies: str | None = None,
    candidates: Sequence[str] = (),
    switch: tuple[str, ...] = (),
    apply_to: str = "work",
    **design: Unpack[Design],
) -> Experiment:
    """The experiment; SpecError naming what cannot be."""
    policies = policies or ("" if candidates else USUAL_POLICIES)
    named = (*(parse_policies(policies) if policies else ()), *map(parse_policy, candidates))
    arms = tuple(_applied(each, apply_to) for each in named)
    works = _workloads(load)
    requested_count = policies.count(",") + 1
    merged = (
        policies
        and len(named) - len(candidates) < requested_count
        and not any("=" in word for word in policies.split(","))
    )
    notes = ["policies with the same effective quantum are measured once"] if merged else []
    typed_works = [typed(work) for work in works]
    notes += notes_of([policy_of(each) for each in arms], typed_works)
    title = f"CPU policies: {', '.join(each.label for each in works)}"
    design = {"objective": "latency", **design}
    return experiment_of("cpu", title, Target("none", switch=switch), arms, works, notes, **design)


def explain(result: Result, observer: Observer = SILENT) -> list[str]:
    """One more run per candidate and built-in workload, traced and never scored: what the tasks
    waited for a CPU, in words; stored in the result folder as `raw/run-queue.json`."""
    from schedlab.run.cpu.cpu_policies import PolicySession

    experiment = result.folder.experiment
    admitted = admit(experiment, Permission())
    lines, rows = [], []
    with opened(admitted, observer) as session:
        assert isinstance(session, PolicySession)
        for workload in experiment.workloads:
            for candidate in experiment.candidates:
                waits, problem = session.explain(workload, candidate)
                if problem:
                    return [f"the waiting times are unknown: {problem}"]
                for each in waits:
                    lines.append(f"{workload.label} under {candidate.label}: {each.line()}")
                    rows.append({"workload": workload.label, "candidate": candidate.label,
                                 **asdict(each)})  # fmt: skip
    path = result.folder.path
    write_atomic(path / "raw" / "run-queue.json", json.dumps(rows, indent=1), within=path)
    return lines


def _applied(candidate: Candidate, apply_to: str) -> Candidate:
    """The candidate with the side that gets it, unless it names one itself."""
    if apply_to == "work" or "apply_to" in candidate.settings:
        return candidate
    return replace(candidate, settings={**candidate.settings, "apply_to": apply_to})


def _workloads(load: CpuLoad) -> tuple[Workload, ...]:
    shared: dict[str, object] = {"cpus": list(load.cpus)} if load.cpus else {}
    if load.load is not None:
        shared["load"] = load.load
    if load.work is not None:
        if load.workloads:
            raise SpecError(
                "--workloads cannot be used with a COMMAND", "write both into an experiment file"
            )
        parameters: Mapping[str, Any] = {**load.work.parameters, **shared}
        if load.directory:
            parameters = {**parameters, "directory": load.directory}
        return (workload_of(replace(load.work, parameters=parameters), "cpu-command"),)
    return tuple(_built_in(name, load, shared) for name in load.workloads or USUAL_WORKLOADS)


def _built_in(name: str, load: CpuLoad, shared: Mapping[str, Any]) -> Workload:
    if name not in WORKLOADS:
        raise SpecError(f"workload {name!r} is not known", nearest(name, WORKLOADS))
    kind = WORKLOADS[name]
    assert kind.offer is not None
    parameters = dict(shared)
    if load.seconds and not kind.is_finite:
        parameters["seconds"] = load.seconds
    metric, *others = kind.offer.metrics
    return Workload(kind.offer.label, kind.kind, metric, parameters, tuple(others))
