"""Sentences about commands: the line, its phases and user, how it was started, what was left
running, and which candidates reached the limit of time."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlab.nouns import Run, Workload
from schedlab.report.view import View

PHASES = {"setup": "--setup", "prepare_run": "--prepare", "conclude_run": "--conclude",
          "cleanup": "--cleanup"}  # fmt: skip


def command_lines(view: View) -> list[str]:
    """Sentences on every workload that is a command; empty where there is none."""
    lines: list[str] = []
    for workload in view.experiment.workloads:
        if line := _line(workload):
            runs = [run for run in view.record.runs if run.workload == workload.label]
            lines += _of(view, workload, line, runs)
    return lines


def _line(workload: Workload) -> str:
    parameters = workload.parameters
    if parameters.get("argv"):
        return shlex.join(map(str, parameters["argv"]))
    if parameters.get("job_file"):
        return f"fio {Path(str(parameters['job_file'])).name}"
    return str(parameters.get("shell", ""))


def _of(view: View, workload: Workload, line: str, runs: list[Run]) -> Iterator[str]:
    texts, parameters = view.texts, workload.parameters
    words = [f"{option} {shlex.quote(str(parameters[key]))}" for key, option in PHASES.items()
             if parameters.get(key)]  # fmt: skip
    user = f"--user {parameters['user']}" if parameters.get("user") else ""
    rest = " ".join(filter(None, (user, *words)))
    yield texts("text.command", label=workload.label, line=f"{rest} -- {line}".strip())
    if rehearsed := _first(runs, "rehearsal"):
        moved = ", ".join(f"{n >> 10} KiB {queue}" for queue, n in rehearsed["bytes"].items())
        share = texts.number(100 * rehearsed["cpu_share"], 0)
        seconds = texts.figure(_first(runs, "rehearsed_s") or 0.0, 3)
        yield texts("text.command_rehearsed", seconds=seconds, share=share, moved=moved or "–")
    confinement = _first(runs, "confinement") or {}
    if confinement.get("held") == "nothing":
        yield texts("text.command_unconfined", reason=confinement.get("reason", "–"))
    if walls := confinement.get("walls"):
        yield texts("text.command_walls", names=", ".join(map(str, walls)))
    cost, cache = _first(runs, "launch_cost_s"), _first(runs, "cache")
    if cost:
        milliseconds = texts.figure(1e3 * cost, 2)
        yield texts("text.command_started", milliseconds=milliseconds, cache=cache or "–")
    left = Counter(name for run in runs for name in run.properties.get("left_behind", ()))
    if left:
        names = ", ".join(f"{name} ({count})" for name, count in left.most_common(8))
        yield texts("text.command_left", names=names)
    late = Counter(run.candidate for run in runs if run.properties.get("censored"))
    if late:
        names = ", ".join(f"{name} ({count})" for name, count in late.items())
        yield texts("text.command_limit", names=names)


def _first(runs: list[Run], name: str) -> Any:
    """A property of the first run that has it."""
    return next((run.properties[name] for run in runs if run.properties.get(name)), None)
