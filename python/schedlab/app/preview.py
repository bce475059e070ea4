"""A preview of an experiment: its plan, its writes and programs, every setting, and the time."""

from __future__ import annotations

import os
from dataclasses import dataclass

from schedlab.app.setting_checks import places_of, planned_writes
from schedlab.cpu.policy import RR_KNOB
from schedlab.design.plan import arms, blocks_of, make_plan
from schedlab.host.settings.settings import SettingScope, resolve
from schedlab.kinds import OVERRIDE
from schedlab.nouns import Candidate, Plan, to_json
from schedlab.nouns.quantities import duration_text
from schedlab.package import offered
from schedlab.run.admitted import Admitted
from schedlab.run.cpu.cpu_policy import COMMANDS, is_of_machine
from schedlab.run.io.io import has_cache, is_bare


@dataclass(frozen=True)
class Preview:
    """`settings` are (candidate, [(path, value)]); `seconds` is the estimated time in all;
    `is_rest`: only the remaining cells of a folder are shown."""

    admitted: Admitted
    plan: Plan
    settings: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    seconds: float
    is_rest: bool = False

    def lines(self) -> list[str]:
        """The preview as text."""
        admitted, experiment = self.admitted, self.admitted.experiment
        stopping = experiment.stopping
        if stopping.budget_s and not self.is_rest:
            size = f"a pilot block of {len(self.plan.cells)} runs, then as many runs as fit"
            time = f"about {duration_text(stopping.budget_s)}"
        else:
            count = len({cell.block for cell in self.plan.cells})
            size = f"{len(self.plan.cells)} runs in {count} blocks"
            word = "about" if admitted.knows_its_time() else "at least"
            time = f"{word} {duration_text(self.seconds)}"
        lines = [experiment.title, f"{size}, {time}", "", "candidates and their settings:"]
        for label, settings in self.settings:
            lines.append(f"  {label}")
            lines += [f"    {path} = {value}" for path, value in settings]
        if cached := _cached(admitted):
            which = "" if len(cached) == len(experiment.workloads) else f" of {', '.join(cached)}"
            lines.append(f"  before every run{which}: /proc/sys/vm/drop_caches = 3")
        lines += ["", "workloads (primary metric):"]
        lines += [f"  {w.label}: {experiment.metric(w).title}" for w in experiment.workloads]
        lines += ["", "writes:", *(f"  {text}" for text in admitted.writes or ("nothing",))]
        if admitted.programs:
            lines += ["", "runs:", *(f"  {text}" for text in admitted.programs)]
        lines += ["", "first block, in its order:"]
        lines += [
            f"  {cell.position + 1:3d}. {cell.workload} under {cell.candidate}"
            for block in blocks_of(self.plan)[:1]
            for cell in block
        ]
        lines += [f"note: {note}" for note in (*experiment.notes, *admitted.notes)]
        return lines

    def as_json(self) -> dict[str, object]:
        """The preview as plain JSON types."""
        return {
            "schema": 1,
            "experiment": to_json(self.admitted.experiment),
            "plan": to_json(self.plan)["cells"],
            "settings": [{"candidate": c, "writes": list(map(list, w))} for c, w in self.settings],
            "writes": self.admitted.writes,
            "programs": self.admitted.programs,
            "seconds": self.seconds,
        }


def preview(admitted: Admitted, plan: Plan | None = None) -> Preview:
    """Of `plan`, by default the whole experiment. Nothing is touched."""
    experiment, is_rest = admitted.experiment, plan is not None
    if plan is None:
        plan = make_plan(experiment, blocks=1 if experiment.stopping.budget_s else None)
    settings = tuple((arm.label, settings_of(admitted, arm)) for arm in arms(experiment))
    if experiment.kind == "sim":
        simulated = offered("backends", "sim", "a simulation")
        seconds = simulated.seconds_of(experiment, len(plan.cells))
    else:
        seconds = sum(admitted.estimate_s(cell.workload) for cell in plan.cells)
    return Preview(admitted, plan, settings, seconds, is_rest)


def settings_of(admitted: Admitted, candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """(path or name, value) of everything that a candidate sets."""
    experiment = admitted.experiment
    if experiment.kind != "io":
        settings = candidate.settings.items()
        if experiment.kind != "cpu":
            return tuple((key, str(value)) for key, value in settings)
        return tuple(pair for k, v in settings for pair in _cpu_settings(candidate, k, v))
    changed = tuple((k, str(v)) for k, v in candidate.settings.items() if k.startswith(OVERRIDE))
    places = places_of(admitted.queues, admitted.kinds.values())
    return (*planned_writes(candidate, places), *changed)


def _cached(admitted: Admitted) -> list[str]:
    """The workloads before whose runs the page cache is dropped; without root it never is."""
    target = admitted.experiment.target
    if admitted.experiment.kind != "io" or os.geteuid() != 0:
        return []
    device = None
    if target.kind == "device" and admitted.queues:
        device = admitted.queues[0]
    elif target.kind == "scratch" and is_bare(target, admitted.kinds.values()):
        device = "loopN"  # made with direct I/O, where the file system below it takes that
    cached = {
        label
        for (label, _), kind in admitted.kinds.items()
        if not kind.brings_files and has_cache(kind, device)
    }
    return [work.label for work in admitted.experiment.workloads if work.label in cached]


def _cpu_settings(candidate: Candidate, key: str, value: object) -> list[tuple[str, str]]:
    """A setting by the files that it is written to, where it is one of the host."""
    if key == "slice_ms" and candidate.settings.get("policy") == "rr":
        return [(RR_KNOB, f"{float(str(value)):g} ms")]
    if is_of_machine(key) and key not in COMMANDS:
        return [(str(path), text) for path, text in resolve(key, value, SettingScope())]
    return [(key, str(value))]
