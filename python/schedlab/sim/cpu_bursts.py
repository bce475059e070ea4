"""Reads measured CPU bursts, in the three forms in which they are written, for a chart."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.spec.reading import read_text

EXPECTED = (
    "expected JSON lines {process, start_ns, duration_ns}, the CPU lab's raw file with a timeline, "
    "or the CSV of schedlab trace cpu --out"
)
Burst = tuple[Any, int, int]


def read_bursts(path: Path, names: Sequence[str]) -> list[dict[str, int]]:
    """Bursts as {task, start_ns, duration_ns}, the first one at time 0.

    A process is the task of that name, or else processes are matched to tasks in ascending order.
    SpecError names the file and the line.
    """
    text = read_text(path, EXPECTED, limit_bytes=64 << 20)
    bursts = list(_bursts(path, text))
    processes = sorted({process for process, _, _ in bursts}, key=lambda p: (str(type(p)), p))
    if len(processes) > len(names):
        raise SpecError(
            f"{path}: {len(processes)} processes for {len(names)} tasks", "simulate as many tasks"
        )
    rows = {process: row for row, process in enumerate(processes)}
    if all(process in names for process in processes):
        rows = {process: names.index(process) for process in processes}
    first_ns = min((start_ns for _, start_ns, _ in bursts), default=0)
    return [
        {"task": rows[process], "start_ns": start_ns - first_ns, "duration_ns": duration_ns}
        for process, start_ns, duration_ns in bursts
    ]


def _bursts(path: Path, text: str) -> Iterator[Burst]:
    """(process, start_ns, duration_ns) of each burst."""
    if text.startswith("end_ns,"):
        yield from _csv(path, text)
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
            if "timeline" in row:
                for process, start_ns, duration_ns in row["timeline"]:
                    yield process, int(start_ns), int(duration_ns)
            else:
                yield row["process"], int(row["start_ns"]), int(row["duration_ns"])
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{path}:{number}: {line[:60]!r}", EXPECTED) from error


def _csv(path: Path, text: str) -> Iterator[Burst]:
    for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            end_ns, duration_ns = int(row["end_ns"]), int(row["duration_ns"])
            yield int(row["task"]), end_ns - duration_ns, duration_ns
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{path}:{number}: {row}", EXPECTED) from error
