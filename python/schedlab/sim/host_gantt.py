"""Requests under several schedulers, one picture each: who was served when, and where the head was.

A row per process: the wait in the scheduler is thin, the wait in the device is half as high, the
bar ends at the completion. Below it the place of every dispatch, joined in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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


def gantt(
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


def _window(log: Any, window_ms: tuple[float, float] | None) -> tuple[int, int]:
    if window_ms is not None:
        return int(window_ms[0] * 1e6), int(window_ms[1] * 1e6)
    if len(log) == 0:
        return 0, 1_000_000
    first = min(len(log) // 2, max(len(log) - SHOWN, 0))
    last = min(first + SHOWN, len(log) - 1)
    return int(log[first]["completed_ns"]), int(log[last]["completed_ns"]) + 1


def _chart(
    title: str, names: Sequence[str], log: Any, window: tuple[int, int], top: float
) -> list[str]:
    start, end = window
    span = max(end - start, 1)

    def x(ns: float) -> float:
        inside = min(max(ns, start), end)
        return LEFT + (inside - start) / span * (WIDTH - LEFT - RIGHT)

    shown = log[(log["completed_ns"] >= start) & (log["inserted_ns"] <= end)][:ROWS_MAX]
    parts = [f'<text class="t" x="{LEFT}" y="{top + 12:.0f}">{_escaped(title)}</text>']
    for row, name in enumerate(names):
        y = top + 20 + ROW * row
        parts.append(f'<text x="4" y="{y + 14:.0f}">{_escaped(name)}</text>')
        colour = COLOURS[row % len(COLOURS)]
        for request in shown[shown["process"] == row]:
            parts += _bars(request, x, y, colour)
    y = top + 24 + ROW * len(names)
    parts += _head(log, window, x, y)
    bottom = y + HEAD
    parts.append(f'<path class="a" d="M{LEFT} {bottom:.0f}H{WIDTH - RIGHT}"/>')
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        place = LEFT + share * (WIDTH - LEFT - RIGHT)
        text = f"{(start + share * span) / 1e6:.1f} ms"
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


def _head(log: Any, window: tuple[int, int], x: Any, top: float) -> list[str]:
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


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
