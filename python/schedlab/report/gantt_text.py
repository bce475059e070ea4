"""A CPU schedule as text: one line per CPU and per task, at most as wide as requested."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.report.gantt import Window, occupant, tick_step_ns, time_text

# From, to, and the sign of what happens.
Stretch = tuple[int, int, str]
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PER_STEP_MAX = 8
LEGEND = "# runs  + runs partly  . waits  ~ I/O  - idle  x switch"


@dataclass(frozen=True)
class Scale:
    """Where columns begin: column c covers the time from edge c to edge c + 1."""

    from_ns: int
    to_ns: int
    columns: int
    is_exact: bool

    @classmethod
    def of(cls, result: Mapping[str, Any], window: Window, width: int) -> Scale:
        """As many columns as fit; where all changes are on a grid coarse enough, a whole number
        of columns per step of the grid, so that the chart is exact.
        """
        from_ns, to_ns = window
        edges = {segment["start_ns"] for segment in result["segments"]}
        edges |= {task["arrival_ns"] for task in result["tasks"]}
        inside = {edge - from_ns for edge in edges if from_ns <= edge < to_ns}
        steps = (to_ns - from_ns) // math.gcd(to_ns - from_ns, *inside)
        per_step = min(width // steps, PER_STEP_MAX)
        return cls(from_ns, to_ns, steps * per_step if per_step else width, per_step > 0)

    def edge_ns(self, column: int) -> int:
        """When a column begins."""
        return self.from_ns + (self.to_ns - self.from_ns) * column // self.columns

    def column(self, time_ns: int) -> int:
        """The column of a time."""
        return (time_ns - self.from_ns) * self.columns // (self.to_ns - self.from_ns)

    def row(self, stretches: Iterable[Stretch]) -> str:
        """In each column the sign that covers most of it, but + where a task runs for less."""
        cover: list[Counter[str]] = [Counter() for _ in range(self.columns)]
        for start, end, sign in stretches:
            start_ns, end_ns = max(start, self.from_ns), min(end, self.to_ns)
            if start_ns >= end_ns:
                continue
            # Rounded edges can be one column off.
            first = max(self.column(start_ns) - 1, 0)
            last = min(self.column(end_ns - 1) + 1, self.columns - 1)
            for column in range(first, last + 1):
                low, high = self.edge_ns(column), self.edge_ns(column + 1)
                cover[column][sign] += max(min(end_ns, high) - max(start_ns, low), 0)
        return "".join(map(_dominant, cover))


def _dominant(signs: Counter[str]) -> str:
    most = max(reversed(signs), key=lambda sign: signs[sign], default=" ")
    if not signs[most]:
        return " "
    return "+" if most != "#" and signs["#"] else most


def _task_stretches(result: Mapping[str, Any], number: int) -> list[Stretch]:
    """The states of a task over time: arrives, waits, runs, does I/O, ends."""
    task = result["tasks"][number]
    busy = [
        (s["start_ns"], s["end_ns"], "#") for s in result["segments"] if s.get("task") == number
    ]
    stretches: list[Stretch] = []
    reached_ns = task["arrival_ns"]
    for start_ns, end_ns, sign in sorted(busy + [(*io, "~") for io in task["io"]]):
        stretches += [(reached_ns, start_ns, "."), (start_ns, end_ns, sign)]
        reached_ns = end_ns
    end_ns = task["finish_ns"]
    last_ns = result["summary"]["makespan_ns"] if end_ns is None else end_ns
    return [*stretches, (reached_ns, last_ns, ".")]


def _signs(names: Sequence[str]) -> list[str]:
    """First letters where these are distinct, numbers otherwise."""
    letters = [name[:1] for name in names]
    is_clear = all(letter.isalnum() and letter != "x" for letter in letters)
    if is_clear and len(set(letters)) == len(letters):
        return letters
    return [DIGITS[number] if number < 36 else "?" for number in range(1, len(names) + 1)]


def _axis(result: Mapping[str, Any], scale: Scale, indent: int) -> str:
    """The times under the chart, each at its column, as many as fit without touching: those at
    which something changes where the chart is exact, else round ones.
    """
    from_ns, to_ns = scale.from_ns, scale.to_ns
    step_ns = tick_step_ns(to_ns - from_ns)
    times = set(range(-(-from_ns // step_ns) * step_ns, to_ns, step_ns))
    if scale.is_exact:
        times = {segment["start_ns"] for segment in result["segments"]}
    unit, unit_ns = ("s", 1e9) if to_ns >= 10e9 else ("ms", 1e6)

    def label(ns: int) -> str:
        return f"{ns / unit_ns:.3f}".rstrip("0").rstrip(".")

    line, end_at = "", indent + scale.columns
    for ns in sorted(time for time in {from_ns, *times} if from_ns <= time < to_ns):
        at = indent + scale.column(ns)
        is_free = not line or len(line) < at
        if is_free and at + len(label(ns)) < end_at:
            line = f"{line:<{at}}{label(ns)}"
    return f"{line:<{end_at}}{label(to_ns)} {unit}"


def schedule_text(
    result: Mapping[str, Any], window: Window, width: int, measured: Sequence[Mapping[str, int]]
) -> list[str]:
    """Lines of at most `width` columns; `measured` bursts have a line below each task."""
    signs = _signs([task["name"] for task in result["tasks"]])
    labels = [
        (task["name"] if task["name"].startswith(sign) else f"{sign} {task['name']}")[:16]
        for task, sign in zip(result["tasks"], signs, strict=True)
    ]
    label_width = max(6, *map(len, labels))
    # The label, two bars, and room for the last time of the axis.
    scale = Scale.of(result, window, width - label_width - 3 - 12)

    def sign_of(segment: Mapping[str, Any]) -> str:
        what, task = occupant(segment)
        return "-" if task is None else signs[task] if what == "task" else "x"

    rows: list[tuple[str, Iterable[Stretch]]] = []
    for cpu in range(result["cpus"]):
        on_cpu = (s for s in result["segments"] if s["cpu"] == cpu)
        rows.append((f"CPU {cpu}", [(s["start_ns"], s["end_ns"], sign_of(s)) for s in on_cpu]))
    for number, name in enumerate(labels):
        rows.append((name, _task_stretches(result, number)))
        own = [burst for burst in measured if burst["task"] == number]
        bursts = [(b["start_ns"], b["start_ns"] + b["duration_ns"], "=") for b in own]
        rows += [("", bursts)] if measured else []
    column = time_text((window[1] - window[0]) // scale.columns)
    return [
        *(f"{name:<{label_width}} |{scale.row(stretches)}|" for name, stretches in rows),
        _axis(result, scale, label_width + 2),
        f"{LEGEND}  (column: {column})" + ("  = measured" if measured else ""),
    ]
