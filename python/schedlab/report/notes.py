"""Limits of a result and how it was measured: flags, omissions, design, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from schedlab.nouns import Flag
from schedlab.nouns.quantities import size_text
from schedlab.report import sentences, words
from schedlab.report.commands import command_lines
from schedlab.report.replays import replay_lines
from schedlab.report.screen import device_facts
from schedlab.report.view import View

# Values of a flag that are shares, by name, and whether they carry a sign.
SHARES = {
    "change": True, "difference": True, "cpu_share": False, "margin": False, "explained": False,
    "far": False, "reach": False, "share_low": False, "share_high": False, "error": False,
}  # fmt: skip
# Values that are printed as multiples.
MULTIPLES = ("factor", "widening", "ratio")
COUNTS = ("rows", "cells", "of", "runs", "block", "most", "first_blocks")


def flag_title(view: View, flag: Flag) -> str:
    """The kind of a flag in words."""
    return view.texts.maybe(f"flag.{flag.kind}", flag.kind.replace("-", " "))


def flag_text(view: View, flag: Flag) -> str:
    """The sentence of a flag, from its kind and values."""
    texts = view.texts
    variant = next((f"-{name}" for name in ("rowless", "apart") if flag.values.get(name)), "")
    if flag.kind == "starved" and _were_ended(view, flag.workload):
        variant = "-ended"
    key = f"flag_text.{flag.kind}{variant}"
    if key not in texts.entries:
        return texts("flag_text.other", names=texts.listed(list(flag.candidates)))
    values = {"names": texts.listed(list(flag.candidates)), "works": ""}
    for name, value in flag.values.items():
        values[name] = _shown(view, name, value)
    if special := _SPECIAL.get(flag.kind):
        values |= special(view, flag)
    return texts(key, **values)


def _were_ended(view: View, workload: str) -> bool:
    """Whether all runs of a workload that are bounds were ended at their time limit."""
    bounds = [run for run in view.runs if run.workload == workload and run.bounds]
    return bool(bounds) and all(any(g.gate == "limit" for g in run.gates) for run in bounds)


def grouped_flags(view: View) -> dict[str, list[str]]:
    """Title of each kind of flag, and its sentences with their workloads."""
    grouped: dict[str, list[str]] = {}
    for flag in view.answer.flags:
        where = f"{flag.workload}: " if flag.workload else ""
        grouped.setdefault(flag_title(view, flag), []).append(where + flag_text(view, flag))
    return grouped


def _shown(view: View, name: str, value: Any) -> str:
    """A value of a flag as text, by its name."""
    texts = view.texts
    if isinstance(value, bool) or value is None:
        return str(value or "")
    if isinstance(value, int | float):
        if name in SHARES:
            return texts.percent(value) if SHARES[name] else words.share(texts, value)
        if name in MULTIPLES:
            return words.amount(texts, abs(math.log(value)))
        return texts.number(value, 0) if name in COUNTS else texts.figure(value)
    if name in ("metric", "frozen_metric"):
        known = view.metric(str(value))
        return texts.metric(known) if known else str(value)
    if name == "goal":
        return texts.maybe(f"goal.{value}", str(value))
    if name in ("early", "late") and isinstance(value, Mapping):
        return _fact_text(view, value)
    if isinstance(value, Mapping):
        return texts.listed([f"{key} {_shown(view, '', item)}" for key, item in value.items()])
    if isinstance(value, list | tuple):
        return texts.listed([str(item) for item in value])
    return str(value)


def _fact_text(view: View, fact: Mapping[str, Any]) -> str:
    """`bfq, 12 % shorter`: the better one, and by how much."""
    how = words.way(view.metric(fact["metric"]), gain=True)
    amount = words.said(view.texts, how, abs(math.log(fact["ratio"])))
    return view.texts("row.of", workload=fact["better"], metric=amount)


def _counts(view: View, values: Mapping[str, Any]) -> str:
    shown = [f"{name} {view.texts.number(n, 0)}" for name, n in values.items() if n]
    return view.texts.listed(shown)


def _unbalanced(view: View, flag: Flag) -> dict[str, str]:
    runs = {name: flag.values["runs"][name] for name in flag.candidates}
    return {"counts": _counts(view, runs)}


def _cold(view: View, flag: Flag) -> dict[str, str]:
    differences = list(flag.values["difference"].values())
    scale = view.texts.scale(differences, flag.values["unit"])
    low, high = (
        view.texts.figure(end / scale.factor, 2) for end in (min(differences), max(differences))
    )
    shown = low if low == high else view.texts("format.interval", low=low, high=high)
    return {"range": f"{shown} {scale.unit}".rstrip()}


def _wrong_mean(view: View, flag: Flag) -> dict[str, str]:
    unit = flag.values["unit"]
    known = {name for name in ("published", "mean") if name in flag.values}
    # What differs by a last digit must not look the same.
    return {k: f"{view.texts.figure(flag.values[k], 6)} {unit}".rstrip() for k in known}


def _call_cost(view: View, flag: Flag) -> dict[str, str]:
    return {
        "per_call": view.texts.quantity(flag.values["seconds_per_call"], "s"),
        "constant": view.texts.quantity(flag.values["constant_s"], "s"),
    }


def _two_modes(view: View, flag: Flag) -> dict[str, str]:
    of = next((r for r in view.primary if r.workload == flag.workload), None)
    unit = of.metric.unit if of and of.metric else ""
    return {k: view.texts.quantity(flag.values[k], unit, 2) for k in ("low", "high")}


def _carry_over(view: View, flag: Flag) -> dict[str, str]:
    effects = flag.values["effects"].items()
    shown = [f"{name} {view.texts.percent(2.718281828459045**log - 1)}" for name, log in effects]
    return {"effects": view.texts.listed(shown)}


def _open_control(view: View, flag: Flag) -> dict[str, str]:
    reach = words.share(view.texts, flag.values["reach"])
    if flag.values.get("unbounded"):
        reach = view.texts("cell.at_least", value=reach)
    return {"reach": reach}


_SPECIAL: Mapping[str, Callable[[View, Flag], dict[str, str]]] = {
    "unbalanced": _unbalanced,
    "cold-first-run": _cold,
    "wrong-mean": _wrong_mean,
    "call-cost": _call_cost,
    "two-modes": _two_modes,
    "two-levels": lambda view, flag: {
        end: view.texts.quantity(flag.values[end], "1/s", 2) for end in ("low", "high")
    },
    "carry-over": _carry_over,
    "control-open": _open_control,
    "missing-cells": lambda view, flag: {"counts": _counts(view, flag.values["filled"])},
    "starved": lambda view, flag: {"counts": _counts(view, flag.values["counts"])},
    "gates-unbalanced": lambda view, flag: {"counts": _counts(view, flag.values["counts"])},
    "lacks-workload": lambda view, flag: {
        "works": view.texts.listed(list(flag.values.get("workloads", ())))
    },
    "steady-assumed": lambda view, flag: {
        "blocks": view.texts.counted("scope.blocks", flag.values["blocks"])
    },
}


def scope(view: View) -> str:
    """The basis of the verdict: `21 workloads × 4 schedulers in 8 blocks: …`."""
    texts = view.texts
    unit = "blocks" if view.experiment.blocked else "repetitions"
    return texts(
        "scope.summary",
        workloads=texts.counted("scope.workloads", len(view.primary)),
        candidates=texts.counted(f"noun.{_noun(view)}", len(view.names)),
        blocks=texts.counted(f"scope.{unit}", view.answer.blocks or view.answer.units),
        runs=texts.counted("scope.runs", len(view.runs)),
        discarded=texts.number(len(view.discarded), 0),
    )


def _noun(view: View) -> str:
    """The key of what the candidates are: schedulers, quanta, or just candidates.

    Two sets of tunables of one scheduler are not two schedulers.
    """
    kind = view.experiment.kind
    setting = {"io": "scheduler", "cpu": "slice_ms"}.get(kind)
    if setting is None:
        return kind
    known = [dict(c.settings) for c in view.experiment.candidates if c.label in view.names]
    values = {settings.get(setting) for settings in known}
    return kind if None not in values and len(values) == len(known) else "import"


def confidence(view: View) -> str:
    """The meaning of the intervals and the margin."""
    margin = words.amount(view.texts, view.answer.margin, "up")
    return view.texts("scope.confidence", confidence=view.confidence, margin=margin)


def stopping(view: View) -> str:
    """The stopping rule that was fixed before the first run."""
    mode = view.experiment.stopping.mode.replace("-", "_")
    return view.texts("text.decided_after", rule=view.texts(f"text.rule_{mode}"))


def method(view: View) -> dict[str, list[str]]:
    """How the runs were arranged and what was omitted, by the name of the section."""
    return {"design": [confidence(view), *design(view)], "omitted": omitted(view)}


def omitted(view: View) -> list[str]:
    """Omissions from the figures, with reasons. Runs that were never started do not count."""
    texts = view.texts
    lines = sentences.about_folder(view)
    if view.discarded:
        runs = texts.counted("scope.runs", len(view.discarded))
        lines.append(texts("text.gates_some", count=runs))
    if failed := view.record.missing_cells:
        lines.append(texts("text.failed_cells", count=texts.number(len(failed), 0)))
    return lines or [texts("text.omitted_none")]


def _fills_reported_pages(view: View) -> bool:
    """Whether a workload fills the page cache with memory that a hypervisor takes back."""
    memory: Mapping[str, Any] = view.record.host.get("memory") or {}
    return bool(memory.get("free_pages_reported") and view.record.buffered)


def design(view: View) -> list[str]:
    """How the runs were arranged, in sentences."""
    texts, experiment = view.texts, view.experiment
    lines = [scope(view)]
    if experiment.blocked:
        cells = len({(c.workload, c.candidate) for c in view.record.plan.cells})
        lines.append(texts("text.design_order", cells=cells, seed=experiment.seed))
    else:
        nouns = texts.nouns(_noun(view))
        lines.append(texts("text.design_unblocked"))
        lines.append(texts("scope.unblocked", noun=nouns))
    if experiment.aa_arm:
        lines.append(texts("text.design_aa"))
    lines += sentences.switches(view)
    target, kind = experiment.target, str(experiment.target.kind)
    key = kind if f"kind.{kind}" in texts.entries else "none"
    where = texts(f"kind.{key}", size=size_text(target.size_bytes, 6), path=target.path)
    is_one = key != "none" and view.answer.used != "hosts"
    if is_one and (facts := [*filter(None, device_facts(view))]):
        where = texts("format.bracket", text=where, inside=", ".join(facts))
    lines.append(texts("text.design_target", target=where))
    if _fills_reported_pages(view):
        lines.append(texts("text.design_free_pages"))
    if experiment.blocked:
        lines.append(stopping(view))
    return [*lines, *command_lines(view), *replay_lines(view), *experiment.notes]
