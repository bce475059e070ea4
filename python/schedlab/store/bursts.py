"""Measured CPU bursts: the CSV of `schedlab trace cpu --out`, `sched_switch` events as ftrace,
trace-cmd and perf print them, and other forms for a chart.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schedlab.errors import SpecError
from schedlab.nouns.reading import open_regular, read_text
from schedlab.store.importers.sched import events

EXPECTED = (
    "expected JSON lines {process, start_ns, duration_ns}, the CPU lab's raw file with a timeline, "
    "the CSV of schedlab trace cpu --out, or sched_switch events of perf sched script, trace-cmd "
    "report or ftrace"
)
COLUMNS = ("end_ns", "duration_ns", "task", "preempted")
# What only BPF sees. Files of earlier versions do not have them.
SCHEDULING = ("cpu", "woken_ns", "policy", "nice", "slice_ns")


class Scheduling(NamedTuple):
    """A task as its scheduler saw it at the end of a burst."""

    cpu: int
    woken_ns: int  # when it was woken or forked for this burst; 0 where it had been preempted
    policy: int  # SCHED_* of sched.h
    nice: int
    slice_ns: int  # of EEVDF; 0 before Linux 6.6


class Burst(NamedTuple):
    """A stay of a task on a CPU, ns of the monotonic clock."""

    end_ns: int
    duration_ns: int
    task: int
    is_preempted: bool
    scheduling: Scheduling | None = None


def as_csv(bursts: Sequence[tuple[Any, ...]]) -> str:
    """Bursts as CSV, with what the scheduler knew where the source saw it."""
    has_more = bool(bursts) and all(burst[4] for burst in bursts)
    lines = [",".join(COLUMNS + SCHEDULING * has_more)]
    for end_ns, duration_ns, task, is_preempted, scheduling in bursts:
        row = [end_ns, duration_ns, task, int(is_preempted), *(scheduling if has_more else ())]
        lines.append(",".join(map(str, row)))
    return "\n".join(lines) + "\n"


def from_csv(path: Path, text: str) -> list[Burst]:
    """The bursts of a CSV; SpecError names the file and the line."""
    bursts = []
    for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            end_ns, duration_ns, task, preempted = (int(row[key]) for key in COLUMNS)
            more = [int(row[key]) for key in SCHEDULING if key in row]
            seen = Scheduling(*more) if more else None
            bursts.append(Burst(end_ns, duration_ns, task, preempted == 1, seen))
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{path}:{number}: {row}", EXPECTED) from error
    return bursts


def read(path: Path) -> tuple[list[Burst], dict[int, str]]:
    """The bursts of a CSV or of kernel events, and the names of the tasks where the file has them;
    SpecError names the file and the line.
    """
    if _start(path).startswith(b"end_ns,"):
        return from_csv(path, read_text(path, EXPECTED, limit_bytes=64 << 20)), {}
    rows, names = events(path, EXPECTED)
    bursts = [
        Burst(end_ns, duration_ns, task, is_preempted, scheduling and Scheduling(*scheduling))
        for end_ns, duration_ns, task, is_preempted, scheduling in rows
    ]
    return bursts, names


def labels_of(names: Mapping[int, str]) -> dict[int, str]:
    """A label for each task: its name, with its number where several have that name."""
    shared = Counter(names.values())
    return {task: name if shared[name] == 1 else f"{name}:{task}" for task, name in names.items()}


def _start(path: Path) -> bytes:
    with open_regular(path, EXPECTED) as file:
        return file.read(64).lstrip()


def read_bursts(path: Path, names: Sequence[str]) -> list[dict[str, int]]:
    """Bursts as {task, start_ns, duration_ns}, the first one at time 0.

    A process is the task of that name, or else processes are matched to tasks in ascending order.
    Of a capture of the whole machine, tasks of these names count only, where there are any.
    SpecError names the file and the line.
    """
    bursts = list(_bursts(path, names))
    processes = sorted({process for process, _, _ in bursts}, key=lambda p: (str(type(p)), p))
    if named := [process for process in processes if process in names]:
        processes = named
    if len(processes) > len(names):
        raise SpecError(
            f"{path}: {len(processes)} processes for {len(names)} tasks", "simulate as many tasks"
        )
    rows = {process: row for row, process in enumerate(processes)}
    if named:
        rows = {process: names.index(process) for process in processes}
    bursts = [burst for burst in bursts if burst[0] in rows]
    first_ns = min((start_ns for _, start_ns, _ in bursts), default=0)
    return [
        {"task": rows[process], "start_ns": start_ns - first_ns, "duration_ns": duration_ns}
        for process, start_ns, duration_ns in bursts
    ]


def _bursts(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, int, int]]:
    """(process, start_ns, duration_ns) of each burst. A process is its label where that is one of
    `names`, else its name, or number.
    """
    if not _start(path).startswith(b"{"):
        bursts, own = read(path)
        known = {task: label for task, label in labels_of(own).items() if label in names}
        for each in bursts:
            process = known.get(each.task, own.get(each.task, each.task))
            yield process, each.end_ns - each.duration_ns, each.duration_ns
        return
    for number, line in enumerate(read_text(path, EXPECTED, limit_bytes=64 << 20).splitlines(), 1):
        try:
            row = json.loads(line)
            if "timeline" in row:
                for process, start_ns, duration_ns in row["timeline"]:
                    yield process, int(start_ns), int(duration_ns)
            else:
                yield row["process"], int(row["start_ns"]), int(row["duration_ns"])
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{path}:{number}: {line[:60]!r}", EXPECTED) from error
