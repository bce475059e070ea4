"""Simulated runs as the bars of a timeline: requests by process, bursts by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlab.nouns.schedule import Schedule
from schedlab.report.bars import OPERATIONS, Bars, Scene, bars_of, log_bars

if TYPE_CHECKING:
    from schedlab_sim.results import SimResult
    from schedlab_sim.simulation_set import SimulationCell


def schedule_bars(name: str, result: Schedule) -> Bars:
    """The stays of tasks on CPUs, each with the wait before it and why it ended."""
    import numpy as np

    rows: list[tuple[int, int, int, int, str]] = []
    for number, task in enumerate(result["tasks"]):
        mine = [s for s in result["segments"] if s.get("task") == number]
        pauses = sorted(task["io"])
        ready, at = task["arrival_ns"], 0
        for segment in mine:
            while at < len(pauses) and pauses[at][1] <= segment["start_ns"]:
                ready = max(ready, pauses[at][1])
                at += 1
            is_whole = segment["end_ns"] - segment["start_ns"] >= result["quantum_effective"]
            kind = 4 if task["finish_ns"] == segment["end_ns"] else 2 + is_whole
            if at < len(pauses) and pauses[at][0] == segment["end_ns"]:
                kind = 1
            rows.append((min(ready, segment["start_ns"]), segment["start_ns"], segment["end_ns"],
                         kind, task["name"]))  # fmt: skip
            ready = segment["end_ns"]
    times = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    return bars_of(name, [r[4] for r in rows], times, kind=np.array([r[3] for r in rows]))


def scenes(runs: Sequence[tuple[SimulationCell, SimResult]]) -> tuple[Scene, ...]:
    """The logs of simulations, those of one source as one scene."""
    by_source: dict[str, list[tuple[tuple[str, ...], Bars]]] = {}
    for cell, result in runs:
        log = result.log
        columns = {name: log[name] for name in log.dtype.names or ()}
        if "process" in columns:
            names = [each["name"] for each in result["processes"]]
            labels = [names[place] for place in log["process"].tolist()]
        else:
            labels = [OPERATIONS[place] for place in log["operation"].tolist()]
        one = log_bars(cell.candidate.label, columns, labels)
        by_source.setdefault(cell.source, []).append(one)
    return tuple(
        Scene(source, found[0][0], tuple(bars for _, bars in found))
        for source, found in by_source.items()
    )
