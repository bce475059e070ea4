"""CPU bursts of processes: captured by the best source there is, and checked.

Three things must hold for every source: the bursts add up to the CPU time that the kernel
charged, there are as many as context switches, and every burst was either kept or counted as lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import msgspec

from schedlab.errors import HostError

RING_BYTES = 8 << 20
RECORDS_MAX = 1_000_000


@dataclass(frozen=True)
class Check:
    """One invariant: the actual and the expected value."""

    name: str
    found: float
    expected: float
    unit: str

    @property
    def deviation(self) -> float:
        """(found - expected) / expected, 0 when both are 0."""
        if self.expected == 0:
            return 0.0 if self.found == 0 else float("inf")
        return (self.found - self.expected) / self.expected

    def sentence(self) -> str:
        """Found, expected and deviation in words."""
        return (
            f"{self.name}: {self.found:.12g} {self.unit} found, {self.expected:.12g} expected "
            f"({self.deviation:+.3%})"
        )


TaskBursts = TypedDict(
    "TaskBursts",
    {
        "task": int, "bursts": int, "total_ns": int, "preempted": int,
        "untraced_starts": NotRequired[int], "histogram": list[tuple[int, int, int]],
    },
)  # fmt: skip


class Bursts(msgspec.Struct, frozen=True):
    """A capture: totals per task, and records (end_ns, duration_ns, task, preempted, scheduling),
    the last one (cpu, woken_ns, policy, nice, slice_ns) or None: crates/trace/src/collector.rs.
    """

    method: str
    passed_over: tuple[str, ...]
    tasks: tuple[TaskBursts, ...]
    records: tuple[tuple[int, int, int, bool, tuple[int, int, int, int, int] | None], ...] = ()
    lost: int = 0
    lost_tasks: int = 0

    @property
    def has_bursts(self) -> bool:
        """False for the floor: totals of /proc, no burst."""
        return self.method != "schedstat"

    @property
    def untraced_starts(self) -> int:
        """Bursts whose beginning the kernel did not trace."""
        return sum(task["untraced_starts"] for task in self.tasks)

    def of(self, task: int) -> TaskBursts:
        """The totals of one task; zeros when it never ran."""
        nothing: TaskBursts = {
            "task": task, "bursts": 0, "total_ns": 0, "preempted": 0, "histogram": [],
        }  # fmt: skip
        return next((t for t in self.tasks if t["task"] == task), nothing)


class Capture:
    """A capture in progress; start it before the processes run, finish it when they are gone."""

    def __init__(
        self,
        pids: Sequence[int],
        method: str | None = None,
        ring_bytes: int = RING_BYTES,
        records_max: int = RECORDS_MAX,
    ) -> None:
        """`method` bpf, perf or schedstat; None takes the best that works. HostError if none."""
        from schedlab._core import BurstCapture

        options = {"method": method, "ring_bytes": ring_bytes, "records_max": records_max}
        try:
            self._capture = BurstCapture(list(pids), json.dumps(options))
        except OSError as error:
            raise HostError(
                str(error), "omit --method to get the best source that works"
            ) from error

    def finish(self) -> Bursts:
        """End the capture and add up."""
        text, records = self._capture.finish()
        found = msgspec.json.decode(text, type=Bursts)
        return msgspec.structs.replace(found, records=tuple(records))


def check(bursts: Bursts, cpu_ns: int, switches: int) -> tuple[Check, ...]:
    """The three invariants over all tasks; none for the floor, which has no bursts.

    `cpu_ns` is the CPU time charged to the tasks, `switches` their voluntary and involuntary ones.
    Under a hypervisor that steals time, bursts are longer than the CPU time by the stolen time.
    """
    if not bursts.has_bursts:
        return ()
    count = sum(task["bursts"] for task in bursts.tasks)
    total_ms = sum(task["total_ns"] for task in bursts.tasks) / 1e6
    # perf loses records of single switches, two of which make a burst: no closer check is possible.
    kept = len(bursts.records) + (bursts.lost if bursts.method == "bpf" else 0)
    return (
        Check("sum of bursts and CPU time", round(total_ms, 3), round(cpu_ns / 1e6, 3), "ms"),
        Check("bursts and context switches", count, switches, "bursts"),
        Check("bursts kept or counted as lost, and bursts", kept, count, "bursts"),
    )
