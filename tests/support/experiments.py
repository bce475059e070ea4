"""A small experiment for tests of what is done with one, and a clock that goes on when asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlab.design.candidates import parse_candidates
from schedlab.spec import Experiment, Stopping, Target, Workload


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


class Clock:
    """Takes the place of `time`: it goes on by so many seconds whenever it is asked."""

    def __init__(self, step_s: float, now_s: float = 0.0) -> None:
        self.step_s, self.now_s = step_s, now_s

    def monotonic(self) -> float:
        """The time after one more step."""
        self.now_s += self.step_s
        return self.now_s
