"""The explanatory run of a CPU workload: how long its tasks waited for a CPU, by BPF.

Tracing costs about 0.1 µs per wake-up and switch, so these runs are never scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import msgspec

from schedlab.nouns.latency import bin_of

if TYPE_CHECKING:
    from schedlab._core import RunQueueCapture


# What is used of crates/trace/src/runqueue.rs: rows of `histogram` are (low, high, count), in ns.
Waits = TypedDict(
    "Waits",
    {"waits": int, "sum_ns": int, "max_ns": int, "histogram": list[tuple[int, int, int]]},
)
ClassWaits = TypedDict("ClassWaits", {"woken": Waits, "preempted": Waits})
RunQueueSeen = TypedDict("RunQueueSeen", {"classes": list[ClassWaits]})


@dataclass(frozen=True)
class Waiting:
    """Waits of one side of a mix: their number, mean, and a quantile's upper bound, in ns."""

    side: str
    after: str
    waits: int
    mean_ns: float
    p99_ns: float
    max_ns: float

    def line(self) -> str:
        """In words."""
        return (
            f"{self.side}, after a {self.after}: {self.waits} waits for a CPU, "
            f"mean {self.mean_ns / 1e3:.3g} µs, p99 at most {self.p99_ns / 1e3:.3g} µs, "
            f"longest {self.max_ns / 1e3:.3g} µs"
        )


class RunQueueWatch:
    """A capture over the tasks of a mix; `problem` is the reason where there is none."""

    def __init__(self, pids: Sequence[tuple[int, int]], is_load: Sequence[bool]) -> None:
        """`pids` are (number of the group, process id); `is_load` is by group."""
        from schedlab import _core

        self.problem = ""
        self._capture: RunQueueCapture | None = None
        try:
            sides = [(int(is_load[group]), pid) for group, pid in pids]
            self._capture = _core.RunQueueCapture(sides)
        except OSError as error:
            self.problem = str(error)

    def finish(self) -> list[Waiting]:
        """End the capture; the waiting times of the work and the load."""
        if self._capture is None:
            return []
        return waiting_of(msgspec.json.decode(self._capture.finish(), type=RunQueueSeen)["classes"])


def waiting_of(classes: Sequence[ClassWaits]) -> list[Waiting]:
    """The waits of each class: the work first, then the load."""
    rows = []
    for side, of in zip(("work", "load"), classes, strict=False):
        for after, waits in (("wake-up", of["woken"]), ("preemption", of["preempted"])):
            if waits["waits"]:
                mean = waits["sum_ns"] / waits["waits"]
                octaves = waits["histogram"]
                total = sum(count for *_, count in octaves)
                p99 = float(bin_of(octaves, 0.99 * total)[1])  # the upper end of its octave
                rows.append(Waiting(side, after, waits["waits"], mean, min(p99, waits["max_ns"]),
                                     waits["max_ns"]))  # fmt: skip
    return rows
