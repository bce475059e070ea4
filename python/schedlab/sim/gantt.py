"""Who has a CPU or a device when, as SVG without references to anything outside.

`schedule_chart` has a row per CPU and per task. `requests_chart` has a row per process: the wait in
the scheduler is thin, the bar is the time in the device; below it is the place of every dispatch,
joined in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

Window = tuple[int, int]
WIDTH, LEFT, RIGHT = 920, 130, 20
ROW, HEAD, GAP = 22, 110, 46
COLOURS = ("#1f6fb4", "#c8442f", "#2c8a4b", "#7a4fb0", "#b8860b", "#4a4a4a")
STYLE = (
    "text{font:12px sans-serif;fill:currentColor}.t{font-weight:bold}.a{stroke:currentColor;"
    "stroke-width:.5}.h{fill:none;stroke:currentColor;stroke-width:.8;opacity:.6}"
)
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


def time_text(ns: int) -> str:
    """A time in its natural unit."""
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))
    factor, unit = next((one for one in units if ns >= one[0]), (1, ""))
    return f"{ns / factor:.3f}".rstrip("0").rstrip(".") + f" {unit}".rstrip()


def tick_step_ns(span_ns: int) -> int:
    """A step of 1, 2 or 5 times a power of ten that cuts `span_ns` into at most ten."""
    steps = (int(10**power) * factor for power in range(20) for factor in (1, 2, 5))
    return next(step for step in steps if span_ns // step <= 10)


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
        inside = min(max(ns, start), end)
        return self.left + (inside - start) / max(end - start, 1) * (self.right - self.left)

    @property
    def half_pixel_ns(self) -> int:
        """The shortest time that can be seen."""
        start, end = self.window
        return int((end - start) / (self.right - self.left) / 2)

    def bar(self, y: int, height: int, start_ns: int, end_ns: int, style: str, tip: str) -> None:
        """A bar, cut to the window, with a text for the pointer."""
        if max(start_ns, self.window[0]) >= min(end_ns, self.window[1]):
            return
        x = self.x(start_ns)
        times = f"{time_text(start_ns)} to {time_text(end_ns)}"
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y}" width="{self.x(end_ns) - x:.2f}" height="{height}" '
            f"{style}><title>{escape(tip)}: {times}</title></rect>\n"
        )

    def text(self, x: float, y: int, anchor: str, text: str) -> None:
        """A text."""
        shown = escape(text)
        self.parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{shown}</text>\n')


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
    result: Mapping[str, Any], window: Window, width: int, measured: Sequence[Mapping[str, int]]
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
    step_ns = tick_step_ns(window[1] - window[0])
    for at_ns in range(-(-window[0] // step_ns) * step_ns, window[1] + 1, step_ns):
        x = canvas.x(at_ns)
        line = f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
        canvas.parts.append(line)
        canvas.text(x, bottom + 16, "middle", time_text(at_ns))
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
                style = f'{_fill(number)} fill-opacity=".45"'
                canvas.bar(y, 12, start, end, style, "measured")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 26}" '
        f'width="{width}" height="{bottom + 26}" role="img" font-family="sans-serif" '
        f'font-size="12" fill="#111">\n<title>{escape(title)}</title>{HATCHED}'
        f'<rect width="{width}" height="{bottom + 26}" fill="#fff"/>\n'
        f"{''.join(canvas.parts)}</svg>\n"
    )


def _fill(number: int) -> str:
    return f'fill="{COLOURS[number % len(COLOURS)]}"'


def _draw_segment(
    canvas: Canvas, segment: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], y: int
) -> None:
    start, end = segment["start_ns"], segment["end_ns"]
    if "task" in segment:
        task = segment["task"]
        canvas.bar(y, BAR, start, end, _fill(task), tasks[task]["name"])
    elif "switch" in segment and end - start >= canvas.half_pixel_ns:
        tip = f"switch to {tasks[segment['switch']]['name']}"
        canvas.bar(y, BAR, start, end, 'fill="#444"', tip)


def _draw_task(canvas: Canvas, result: Mapping[str, Any], number: int, y: int) -> None:
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
        canvas.bar(y, BAR, start, end, _fill(number), tip)


def requests_chart(
    runs: Sequence[tuple[str, Mapping[str, Any], Any]], window_ms: tuple[float, float] | None = None
) -> str:
    """An SVG document: `runs` holds title, figures and log (`HOST_LOG_DTYPE`) of each scheduler.

    `window_ms` is the time that is shown; otherwise, from the middle, as much as 300
    requests of the fastest run take.
    """
    start_ns, end_ns = _window(max((run[2] for run in runs), key=len), window_ms)
    parts: list[str] = []
    top = 10.0
    for title, run, log in runs:
        names = [process["name"] for process in run["processes"]]
        parts += _chart(title, names, log, (start_ns, end_ns), top)
        top += 20 + ROW * len(names) + HEAD + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" '
        f'width="{WIDTH}" height="{top:.0f}" role="img" aria-label="Requests by scheduler">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _window(log: Any, window_ms: tuple[float, float] | None) -> Window:
    if window_ms is not None:
        return int(window_ms[0] * 1e6), int(window_ms[1] * 1e6)
    if len(log) == 0:
        return 0, 1_000_000
    first = min(len(log) // 2, max(len(log) - SHOWN, 0))
    last = min(first + SHOWN, len(log) - 1)
    return int(log[first]["completed_ns"]), int(log[last]["completed_ns"]) + 1


def _chart(title: str, names: Sequence[str], log: Any, window: Window, top: float) -> list[str]:
    start, end = window
    x = Canvas(window, LEFT, WIDTH - RIGHT).x
    shown = log[(log["completed_ns"] >= start) & (log["inserted_ns"] <= end)][:ROWS_MAX]
    parts = [f'<text class="t" x="{LEFT}" y="{top + 12:.0f}">{escape(title)}</text>']
    for row, name in enumerate(names):
        y = top + 20 + ROW * row
        parts.append(f'<text x="4" y="{y + 14:.0f}">{escape(name)}</text>')
        colour = COLOURS[row % len(COLOURS)]
        for request in shown[shown["process"] == row]:
            parts += _bars(request, x, y, colour)
    y = top + 24 + ROW * len(names)
    parts += _head(log, window, x, y)
    bottom = y + HEAD
    parts.append(f'<path class="a" d="M{LEFT} {bottom:.0f}H{WIDTH - RIGHT}"/>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        place = LEFT + share * (WIDTH - LEFT - RIGHT)
        text = f"{(start + share * max(end - start, 1)) / 1e6:.1f} ms"
        anchor = "end" if share == 1.0 else "middle" if share else "start"
        parts.append(
            f'<text x="{place:.0f}" y="{bottom + 15:.0f}" text-anchor="{anchor}">{text}</text>'
        )
    return parts


def _bars(request: Any, x: Any, y: float, colour: str) -> list[str]:
    queued, sent, end = (
        x(int(request[name])) for name in ("inserted_ns", "dispatched_ns", "completed_ns")
    )
    return [
        f'<path d="M{queued:.1f} {y + 10:.0f}H{sent:.1f}" stroke="{colour}" stroke-width="1"/>',
        f'<rect x="{sent:.1f}" y="{y + 4:.0f}" width="{max(end - sent, 0.6):.1f}" height="12" '
        f'fill="{colour}" fill-opacity=".55"/>',
    ]


def _head(log: Any, window: Window, x: Any, top: float) -> list[str]:
    """Places of the dispatches, in their order; the start of the device is below."""
    import numpy as np

    order = log[np.argsort(log["dispatched_ns"], kind="stable")]
    order = order[(order["dispatched_ns"] >= window[0]) & (order["dispatched_ns"] <= window[1])]
    order = order[:ROWS_MAX]
    if len(order) == 0:
        return []
    most = max(int(log["sector"].max()), 1)

    def y(sector: int) -> float:
        return top + HEAD - 8 - sector / most * (HEAD - 16)

    points = [(x(int(row["dispatched_ns"])), y(int(row["sector"]))) for row in order]
    line = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
    dots = "".join(
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.2" '
        f'fill="{COLOURS[int(row["process"]) % len(COLOURS)]}"/>'
        for (px, py), row in zip(points, order, strict=True)
    )
    label = f'<text x="4" y="{top + HEAD / 2:.0f}">place on the device</text>'
    return [label, f'<path class="h" d="M{line}"/>', dots]
