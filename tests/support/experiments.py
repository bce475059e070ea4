"""A small experiment for tests of what is done with one, and a clock that goes on when asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from schedlab.design.candidates import parse_candidates
from schedlab.nouns import Cell, Experiment, Run, Stopping, Target, Workload


def experiment(**changes: Any) -> Experiment:
    """Two schedulers on one workload, in three blocks."""
    usual = Experiment(
        title="t",
        kind="io",
        target=Target("scratch", size_bytes=1 << 20),
        candidates=parse_candidates("none,bfq"),
        workloads=(Workload("w", "file-test", "iops"),),
        baseline="none",
        seed=1,
        stopping=Stopping(blocks=3),
    )
    return replace(usual, **changes)


def run_of(cell: Cell, metrics: Mapping[str, float], **changes: Any) -> Run:
    """A finished run of this cell that took a tenth of a second."""
    usual = Run(
        cell.block, cell.position, cell.workload, cell.candidate, cell.seed, 1, "ok",
        "2026-01-02T03:04:05Z", 0.1, metrics,
    )  # fmt: skip
    return replace(usual, **changes)


class Clock:
    """Takes the place of `time`: it goes on by so many seconds whenever it is asked."""

    def __init__(self, step_s: float, now_s: float = 0.0) -> None:
        self.step_s, self.now_s = step_s, now_s

    def monotonic(self) -> float:
        """The time after one more step."""
        self.now_s += self.step_s
        return self.now_s
