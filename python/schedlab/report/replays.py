"""Sentences about replays: how a replay differs from the recording, and where to prove it."""

from __future__ import annotations

from collections.abc import Iterator

from schedlab.nouns.results import FidelityRow, ReplayFidelity
from schedlab.report.view import View


def _fidelities(view: View) -> Iterator[tuple[str, ReplayFidelity]]:
    """(workload, its `fidelity`) of every replay with runs."""
    for label, runs in view.runs_by_workload.items():
        found = (run.properties["fidelity"] for run in runs if "fidelity" in run.properties)
        if fidelity := next(found, None):
            yield label, fidelity


def doubts(view: View) -> list[str]:
    """A sentence for each replay that is not, or not known to be, like its recording."""
    texts, lines = view.texts, []
    for label, fidelity in _fidelities(view):
        under = fidelity.get("scheduler") or texts("verdict.none")
        if not fidelity["rows"]:
            lines.append(texts("answer.replay_unknown", label=label, scheduler=under))
        elif off := [row for row in fidelity["rows"] if not row["is_like"]]:
            parts = texts.listed([_change(view, row) for row in off])
            lines.append(texts("answer.replay_off", label=label, scheduler=under, parts=parts))
    return lines


def replay_lines(view: View) -> list[str]:
    """The figures of each replay's rehearsal beside the recorded ones."""
    texts, lines = view.texts, []
    for label, fidelity in _fidelities(view):
        rows = [
            texts(
                "text.replay_row", change=_change(view, row),
                recorded=texts.quantity(row["recorded"], view.metric(row["metric"]).unit),
                replayed=texts.quantity(row["replayed"], view.metric(row["metric"]).unit),
            )
            for row in fidelity["rows"]
        ]  # fmt: skip
        if rows:
            under = fidelity["scheduler"]
            lines.append(texts("text.replay", label=label, scheduler=under, rows="; ".join(rows)))
    return lines


def _change(view: View, row: FidelityRow) -> str:
    change = view.texts.percent(row["replayed"] / row["recorded"] - 1)
    return f"{view.texts.metric(view.metric(row['metric']))} {change}"


def recorded_device(view: View) -> str:
    """The device of this machine on which the only workload was recorded; "" for others."""
    known = view.record.host.get("devices") or {}
    devices = [fidelity.get("device") for _, fidelity in _fidelities(view)]
    is_only = len(devices) == len(view.experiment.workloads) == 1
    return f"/dev/{devices[0]}" if is_only and devices[0] in known else ""
