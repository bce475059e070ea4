"""Pictures over time that stand alone: SVG without a style sheet and without references.

`schedule_chart` has a row per CPU and per task. `requests_chart` has a row per process: the wait in
the scheduler is thin, the bar is the time in the device; below it is the place of every dispatch,
joined in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from schedlab.nouns.schedule import Schedule, Segment, TaskFigures, occupant
from schedlab.report.drawing import COLOURS, linear

Window = tuple[int, int]
WIDTH, LEFT, RIGHT = 920, 130, 20
ROW, HEAD, GAP = 22, 110, 46
ROWS_MAX = 1200
# Requests of the fastest run.
SHOWN = 300
# Of the chart of a schedule: a row of a CPU or a task, a bar in it, and where the rows begin.
TASK_ROW, BAR, TOP = 26, 18, 44
HATCHED = (
    '<defs><pattern id="io" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="5" height="5" fill="#eee"/>'
    '<line x1="0" y1="0" x2="0" y2="5" stroke="#666" stroke-width="2"/></pattern></defs>'
)


def time_text(ns: float) -> str:
    """A time in its natural unit."""
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))
    factor, unit = next((one for one in units if ns >= one[0]), (1, ""))
    return f"{ns / factor:.3f}".rstrip("0").rstrip(".") + f" {unit}".rstrip()


def tick_step_ns(span_ns: int) -> int:
    """A step of 1, 2 or 5 times a power of ten that cuts `span_ns` into at most ten."""
    steps = (int(10**power) * factor for power in range(20) for factor in (1, 2, 5))
    return next(step for step in steps if span_ns // step <= 10)


def fill(number: int) -> str:
    """The colour of a task or a process."""
    return f'fill="{COLOURS[number % len(COLOURS)]}"'


@dataclass
class Canvas:
    """Bars and texts whose places are times of a window."""

    window: Window
    left: float
    right: float
    parts: list[str] = field(default_factory=list)

    def x(self, ns: float) -> float:
        """Where a time is; at an end of the axis if it is outside."""
        start, end = self.window
        return linear(start, end, self.left, self.right)(min(max(ns, start), end))

    @property
    def half_pixel_ns(self) -> int:
        """The shortest time that can be seen."""
        start, end = self.window
        return int((end - start) / (self.right - self.left) / 2)

    def bar(
        self, y: float, height: float, start_ns: float, end_ns: float, style: str, tip: str
    ) -> None:
        """A bar, cut to the window, with a text for the pointer."""
        if max(start_ns, self.window[0]) >= min(end_ns, self.window[1]):
            return
        x = self.x(start_ns)
        times = f"{time_text(start_ns)} to {time_text(end_ns)}"
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y:g}" width="{max(self.x(end_ns) - x, 0.3):.2f}" '
            f'height="{height:g}" {style}><title>{escape(tip)}: {times}</title></rect>\n'
        )

    def dot(self, ns: float, y: float, number: int) -> None:
        """A dot in the colour of a task or a process."""
        self.parts.append(f'<circle cx="{self.x(ns):.1f}" cy="{y:.1f}" r="2.2" {fill(number)}/>\n')

    def text(self, x: float, y: float, anchor: str, text: str) -> None:
        """A text."""
        shown = escape(text)
        self.parts.append(f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}">{shown}</text>\n')

    def axis(self, top: float, bottom: float) -> None:
        """Lines at round times, which stand below them."""
        start, end = self.window
        step_ns = tick_step_ns(end - start)
        for at_ns in range(-(-start // step_ns) * step_ns, end + 1, step_ns):
            line = f'<path d="M{self.x(at_ns):.1f} {top:g}V{bottom:g}" stroke="#ddd"/>'
            self.parts.append(line)
            self.text(self.x(at_ns), bottom + 16, "middle", time_text(at_ns))

    def document(self, title: str, width: int, height: float) -> str:
        """The picture as a file."""
        size = f'width="{width}" height="{height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" {size} '
            f'role="img" font-family="sans-serif" font-size="12" fill="#111">\n'
            f'<title>{escape(title)}</title>{HATCHED}<rect {size} fill="#fff"/>\n'
            f"{''.join(self.parts)}</svg>\n"
        )


def _joined(spans: Iterable[tuple[int, int]], gap_ns: int) -> list[tuple[int, int, int]]:
    """Spans as (start, end, count) in which those closer than `gap_ns` are one: a file stays small
    and looks the same.
    """
    joined: list[tuple[int, int, int]] = []
    for start, end in spans:
        if joined and joined[-1][1] < start < joined[-1][1] + gap_ns:
            joined[-1] = (joined[-1][0], end, joined[-1][2] + 1)
        else:
            joined.append((start, end, 1))
    return joined


def schedule_chart(
    result: Schedule, window: Window, width: int, measured: Sequence[Mapping[str, int]]
) -> str:
    """A CPU schedule, `width` pixels wide; `measured` bursts are below those of their task."""
    tasks, cpus = result["tasks"], result["cpus"]
    longest = max(len(task["name"]) for task in tasks)
    canvas = Canvas(window, left := 20 + 7.5 * min(max(longest, 9), 24), width - 30)
    task_row = 2 * TASK_ROW - 8 if measured else TASK_ROW
    first = TOP + cpus * TASK_ROW + 10
    bottom = first + len(tasks) * task_row
    title = (
        f"{result['policy']}, quantum {time_text(result['quantum_effective'])}, {cpus} CPU(s): "
        f"{time_text(window[0])} to {time_text(window[1])}"
    )
    canvas.text(10, 18, "start", title)
    canvas.text(10, 34, "start", "bar: runs · thin line: waits · hatched: I/O · dark: switch")
    canvas.axis(TOP, bottom)
    for cpu in range(cpus):
        canvas.text(left - 8, TOP + cpu * TASK_ROW + 14, "end", f"CPU {cpu}")
    for segment in result["segments"]:
        _draw_segment(canvas, segment, tasks, TOP + segment["cpu"] * TASK_ROW)
    for number in range(len(tasks)):
        _draw_task(canvas, result, number, first + number * task_row)
        if measured:
            y = first + number * task_row + BAR + 2
            canvas.text(left - 8, y + 10, "end", "measured")
            own = [burst for burst in measured if burst["task"] == number]
            spans = sorted((b["start_ns"], b["start_ns"] + b["duration_ns"]) for b in own)
            for start, end, _ in _joined(spans, canvas.half_pixel_ns):
                style = f'{fill(number)} fill-opacity=".45"'
                canvas.bar(y, 12, start, end, style, "measured")
    return canvas.document(title, width, bottom + 26)


def _draw_segment(canvas: Canvas, segment: Segment, tasks: Sequence[TaskFigures], y: int) -> None:
    start, end = segment["start_ns"], segment["end_ns"]
    what, task = occupant(segment)
    if task is None:
        return
    name = tasks[task]["name"]
    if what == "task":
        canvas.bar(y, BAR, start, end, fill(task), name)
    elif end - start >= canvas.half_pixel_ns:
        canvas.bar(y, BAR, start, end, 'fill="#444"', f"switch to {name}")


def _draw_task(canvas: Canvas, result: Schedule, number: int, y: int) -> None:
    task = result["tasks"][number]
    name, end_ns = task["name"], task["finish_ns"]
    if end_ns is None:
        end_ns = result["summary"]["makespan_ns"]
    canvas.text(canvas.left - 8, y + 14, "end", name)
    canvas.bar(y + 8, 2, task["arrival_ns"], end_ns, 'fill="#999"', f"{name} in the system")
    for start, end, _ in _joined(task["io"], canvas.half_pixel_ns):
        canvas.bar(y + 5, 8, start, end, 'fill="url(#io)"', f"{name} I/O")
    runs = [(s["start_ns"], s["end_ns"]) for s in result["segments"] if s.get("task") == number]
    for start, end, count in _joined(runs, canvas.half_pixel_ns):
        tip = f"{name} runs" if count == 1 else f"{name}, {count} bursts"
        canvas.bar(y, BAR, start, end, fill(number), tip)


def requests_chart(
    runs: Sequence[tuple[str, Mapping[str, Any], Any]], window_ms: tuple[float, float] | None = None
) -> str:
    """An SVG document: `runs` holds title, figures and log (`HOST_LOG_DTYPE`) of each scheduler.

    `window_ms` is the time that is shown; otherwise, from the middle, as much as 300
    requests of the fastest run take.
    """
    window = _window(max((run[2] for run in runs), key=len), window_ms)
    canvas, top = Canvas(window, LEFT, WIDTH - RIGHT), 34
    title = f"Requests by scheduler, {time_text(window[0])} to {time_text(window[1])}"
    canvas.text(4, 18, "start", title)
    for scheduler, run, log in runs:
        names = [process["name"] for process in run["processes"]]
        bottom = top + 20 + ROW * len(names)
        canvas.text(LEFT, top + 12, "start", scheduler)
        canvas.axis(top + 20, bottom + HEAD)
        _draw_requests(canvas, names, log, top + 20)
        _draw_head(canvas, log, bottom)
        top = bottom + HEAD + GAP
    return canvas.document(title, WIDTH, top)


def _window(log: Any, window_ms: tuple[float, float] | None) -> Window:
    if window_ms is not None:
        return int(window_ms[0] * 1e6), int(window_ms[1] * 1e6)
    if len(log) == 0:
        return 0, 1_000_000
    first = min(len(log) // 2, max(len(log) - SHOWN, 0))
    last = min(first + SHOWN, len(log) - 1)
    return int(log[first]["completed_ns"]), int(log[last]["completed_ns"]) + 1


def _draw_requests(canvas: Canvas, names: Sequence[str], log: Any, top: int) -> None:
    """The wait of each request, and its time in the device, in the row of its process."""
    start, end = canvas.window
    shown = log[(log["completed_ns"] >= start) & (log["inserted_ns"] <= end)][:ROWS_MAX]
    for number, name in enumerate(names):
        y = top + ROW * number
        canvas.text(4, y + 14, "start", name)
        for request in shown[shown["process"] == number]:
            queued, sent, done = (
                int(request[f"{event}_ns"]) for event in ("inserted", "dispatched", "completed")
            )
            canvas.bar(y + 9.5, 1, queued, sent, fill(number), "waits")
            canvas.bar(y + 4, 12, sent, done, f'{fill(number)} fill-opacity=".55"', name)


def _draw_head(canvas: Canvas, log: Any, top: int) -> None:
    """Places of the dispatches, in their order; the start of the device is below."""
    import numpy as np

    start, end = canvas.window
    order = log[np.argsort(log["dispatched_ns"], kind="stable")]
    order = order[(order["dispatched_ns"] >= start) & (order["dispatched_ns"] <= end)][:ROWS_MAX]
    if len(order) == 0:
        return
    canvas.text(4, top + HEAD // 2, "start", "place on the device")
    y = linear(0, max(int(log["sector"].max()), 1), top + HEAD - 8, top + 8)
    points = [(int(row["dispatched_ns"]), y(int(row["sector"]))) for row in order]
    line = "L".join(f"{canvas.x(ns):.1f} {at:.1f}" for ns, at in points)
    canvas.parts.append(f'<path d="M{line}" fill="none" stroke="#999" stroke-width=".8"/>')
    for (ns, at), row in zip(points, order, strict=True):
        canvas.dot(ns, at, int(row["process"]))
