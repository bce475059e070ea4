"""CPU schedules as JSON, printed as they are: what is used of crates/sim/src/cpu/result.rs."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

# Times are in ns, or text with a unit; bursts are CPU time and I/O in turn.
Task = TypedDict(
    "Task",
    {
        "name": str, "bursts": list[int | str], "arrival": NotRequired[int | str],
        "priority": NotRequired[int], "nice": NotRequired[int], "weight": NotRequired[int],
        "slice": NotRequired[int | str],
    },
)  # fmt: skip
Figure = Literal[
    "arrival_ns", "finish_ns", "turnaround_ns", "waiting_ns", "response_ns", "longest_wait_ns",
    "cpu_ns", "bursts", "calculations",
]  # fmt: skip
TaskFigures = TypedDict(
    "TaskFigures",
    {
        "name": str, "arrival_ns": int, "finish_ns": int | None, "turnaround_ns": int | None,
        "waiting_ns": int, "response_ns": int | None, "longest_wait_ns": int, "cpu_ns": int,
        "bursts": int, "calculations": int | None, "io": list[tuple[int, int]],
    },
)  # fmt: skip
Segment = TypedDict(
    "Segment",
    {
        "cpu": int, "start_ns": int, "end_ns": int,
        "task": NotRequired[int], "switch": NotRequired[int], "idle": NotRequired[None],
    },
)  # fmt: skip
Mean = Literal["turnaround_ns_mean", "waiting_ns_mean", "response_ns_mean"]


Summary = TypedDict(
    "Summary",
    {
        "makespan_ns": int, "turnaround_ns_mean": float | None, "waiting_ns_mean": float,
        "response_ns_mean": float | None, "utilisation": float, "switch_share": float,
        "switches": int, "fairness_jain": float,
    },
)  # fmt: skip
Schedule = TypedDict(
    "Schedule",
    {
        "policy": str, "quantum_requested": int, "quantum_effective": int, "cpus": int,
        "summary": Summary, "tasks": list[TaskFigures], "segments": list[Segment],
    },
)  # fmt: skip


def occupant(segment: Segment) -> tuple[Literal["task", "switch", "idle"], int | None]:
    """The work of a CPU in a segment, and the index of its task."""
    if "task" in segment:
        return "task", segment["task"]
    return ("switch", segment["switch"]) if "switch" in segment else ("idle", None)
