"""The charts of the pages, each drawn from plain numbers on the SVG layer of `drawing`.

On every ratio axis the right side is better, as in the headline, for every metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from schedlab.report.drawing import (
    EDGE,
    SERIES,
    Axis,
    Point,
    band,
    cells,
    frame,
    linear,
    marker,
    marks,
    n,
    picture,
    plain,
    stroke,
    text,
    value_axis,
)
from schedlab.report.tables import LossRange, Table, TableRow
from schedlab.report.texts import Texts, UnitScale

GUTTER_MAX = 210
CELL_WIDTH, CELL_HEIGHT = 120, 18
# An interval beyond this is cut at the end of its axis, unless the estimate is there itself.
REACH_MAX = math.log(100)
# Ends of the axes of losses in table cells.
REACHES = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 20, 50, 100, 1000, 10_000, 1e6)


def loss_reach(losses: Sequence[LossRange]) -> float:
    """The natural log of the round ratio that holds the losses of a row."""
    ends = [end for of in losses for end in (of.point, of.low, of.up) if end is not None]
    # A useless interval must not shrink everything else to a point.
    points = max([of.point for of in losses] + [0.0])
    far = min(max([*ends, math.log(REACHES[0])]), max(REACH_MAX, 1.2 * points))
    return next((math.log(r) for r in REACHES if math.log(r) >= far), far)


def loss_cell(of: LossRange, reach: float) -> str:
    """The interval of a loss for a table cell: the best at the left, further behind to the right.

    An interval without an upper end runs to the edge.
    """
    x = linear(0, reach, EDGE, CELL_WIDTH - EDGE)
    low, up = (x(min(end, reach)) for end in (of.low, reach if of.up is None else of.up))
    edge = "" if of.up is not None and of.up <= reach else "l-4-3m4 3l-4 3"
    parts = ['<use href="#zero"/>']
    if up > low:
        parts.append(f'<path class="whisker" d="M{n(low)} 8H{n(up)}{edge}"/>')
    parts.append(f'<circle cx="{n(x(min(of.point, reach)))}"/>')
    return _cell(parts)


def loss_axis(reach: float) -> str:
    """The axis of the cells of a row: the best, and the round loss at its end."""
    x = linear(0, reach, EDGE, CELL_WIDTH - EDGE)
    parts = [f'<path class="tick" d="M{n(x(0))} 3H{n(x(reach))}M{n(x(0))} 1v4M{n(x(reach))} 1v4"/>']
    ratio = float(f"{math.exp(reach):.3g}")
    end = f"{100 * (ratio - 1):.0f} %" if ratio < 2 else f"{ratio:,.0f}×"
    parts += [text(x(0), 15, "0", "small"), text(x(reach), 15, end, "small end")]
    return _cell(parts)


def _cell(parts: Sequence[str]) -> str:
    size = f"0 0 {CELL_WIDTH} {CELL_HEIGHT}"
    return f'<svg class="bar" viewBox="{size}" aria-hidden="true">{"".join(parts)}</svg>'


def _margin(left: float, right: float, top: float, height: float) -> str:
    return (
        f'<rect class="margin" x="{n(left)}" y="{n(top)}" width="{n(max(1, right - left))}" '
        f'height="{n(height)}"/>'
    )


@dataclass(frozen=True)
class ChartLine:
    """One line of a chart: its series, its points, and a range (low, high) at each of them."""

    series: int
    points: Sequence[Point]
    ranges: Sequence[tuple[float, float]] = ()
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """A line chart: its lines, axes and titles; `bands` draws ranges as areas, else as bars.

    `marker_every` thins the markers of long lines; `level` is a horizontal line to compare with,
    `shaded` a range of x that does not count; `ticks_x` are sizes that the x axis names.
    """

    lines: Sequence[ChartLine]
    x_title: str = ""
    y_title: str = ""
    log_x: bool = False
    zero: bool = False
    bands: bool = False
    marker_every: int = 1
    level: float | None = None
    shaded: tuple[float, float] | None = None
    ticks_x: Sequence[tuple[float, str]] = field(default_factory=tuple)
    width: int = 400
    height: int = 220


def line_chart(of: Chart, texts: Texts, label: str) -> str:
    """Lines with intervals; the value axis is logarithmic where values differ more than twofold."""
    points = [p for line in of.lines for p in line.points]
    if not points:
        return ""
    values = [y for _, y in points]
    values += [e for line in of.lines for pair in line.ranges for e in pair if e > 0 or of.zero]
    if of.level is not None:
        values.append(of.level)
    y = value_axis(values, texts, zero=of.zero)
    widest = max((cells(name) for _, name in y.ticks), default=2)
    # Names at the ends of the lines, where there is a name at all.
    names = max((cells(line.name) for line in of.lines), default=0)
    left, right = 12 + 6.4 * widest, of.width - 10 - 6.6 * names
    box = (left, 22.0 if of.y_title else 10.0, right, of.height - 40.0)
    x = _x_axis(of, [x for x, _ in points], texts)
    parts = []
    across, up = x.project(left, right), y.project(box[3], box[1])
    if of.shaded:
        start, end = (across(max(x.low, min(x.high, v))) for v in of.shaded)
        parts.append(_margin(start, end, box[1], box[3] - box[1]))
    parts += frame(x, y, box, (of.x_title, of.y_title))
    if of.level is not None:
        parts.append(f'<path class="zero" d="M{n(left)} {n(up(of.level))}H{n(right)}"/>')
    shift = _shifts(of, x, across)
    for i, line in enumerate(of.lines):
        places = [(across(px) + shift[i], up(py)) for px, py in line.points]
        parts.append(_ranges(of, line, places, lambda v: min(max(up(v), box[1]), box[3])))
        parts.append(stroke(line.series, places, of.marker_every))
    parts += _end_names(of, [up(line.points[-1][1]) for line in of.lines if line.points], right)
    return picture(of.width, of.height, label, parts)


def _x_axis(of: Chart, values: Sequence[float], texts: Texts) -> Axis:
    low, high = min(values), max(values)
    if of.log_x:
        low, high = low / 1.12, high * 1.12
    else:
        pad = 0.03 * ((high - low) or 1.0)
        low, high = low - pad, high + pad
    if of.ticks_x:
        return Axis(low, high, tuple(of.ticks_x), of.log_x)
    axis_ticks = value_axis(values, texts, zero=False, about=6)
    if not of.log_x and axis_ticks.log:
        from schedlab.report.drawing import ticks

        shown = tuple((t, plain(t, texts)) for t in ticks(low, high, 6) if low <= t <= high)
        return Axis(low, high, shown)
    return Axis(low, high, axis_ticks.ticks, of.log_x)


def _shifts(of: Chart, x: Axis, across: object) -> list[float]:
    """Lines with interval bars are a little beside each other, so that the bars do not cover."""
    if of.bands or not any(line.ranges for line in of.lines):
        return [0.0] * len(of.lines)
    middle = (len(of.lines) - 1) / 2
    return [3.2 * (i - middle) for i in range(len(of.lines))]


def _ranges(of: Chart, line: ChartLine, places: Sequence[Point], up: object) -> str:
    assert callable(up)
    if not line.ranges:
        return ""
    ends = [(up(low), up(high)) for low, high in line.ranges]
    if of.bands:
        lower = [(px, low) for (px, _), (low, _) in zip(places, ends, strict=True)]
        upper = [(px, high) for (px, _), (_, high) in zip(places, ends, strict=True)]
        return band(line.series, lower, upper)
    path = "".join(
        f"M{n(px)} {n(low)}V{n(high)}" for (px, _), (low, high) in zip(places, ends, strict=True)
    )
    return f'<g class="s{line.series % SERIES}"><path class="whisker" d="{path}"/></g>'


def _end_names(of: Chart, heights: Sequence[float], right: float) -> list[str]:
    """The names of the lines at their ends, pushed apart so that they do not cover."""
    drawn = zip(heights, [line for line in of.lines if line.points], strict=True)
    named = sorted(((at, line) for at, line in drawn if line.name), key=lambda each: each[0])
    parts, last = [], -math.inf
    for height, line in named:
        at = max(height, last + 12)
        last = at
        words = text(right + 5, at + 4, line.name)
        parts.append(f'<g class="s{line.series % SERIES} named">{words}</g>')
    return parts


@dataclass(frozen=True)
class Dot:
    """A value with its interval in a group of rows."""

    series: int
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    reference: float | None = None


def dots(groups: Sequence[tuple[str, Sequence[Dot]]], texts: Texts, label: str, title: str) -> str:
    """Values with intervals in rows, grouped under headings; a cross marks a reference value."""
    every = [dot for _, rows in groups for dot in rows]
    values = [e for d in every for e in (d.value, d.low, d.high, d.reference) if e is not None]
    if not values:
        return ""  # of a workload that a budget omitted after its first block
    axis = value_axis(values, texts, zero=not (min(values) > 0 and max(values) > 2 * min(values)))
    gutter = min(GUTTER_MAX, max(60.0, 6.4 * max((cells(d.name) for d in every), default=8) + 14))
    width, row = 400, 15
    height = sum(row * len(rows) + 20 for _, rows in groups)
    x = axis.project(gutter, width - 14)
    parts = []
    for value, name in axis.ticks:
        parts.append(f'<path class="grid" d="M{n(x(value))} 4V{height}"/>')
        parts.append(text(x(value), height + 14, name, "mid"))
    parts.append(text((gutter + width) / 2, height + 30, title, "mid axis"))
    y = 4.0
    for heading, rows in groups:
        parts.append(text(0, y + 10, heading, "group"))
        y += 16
        for dot in rows:
            parts.append(_dot(dot, gutter, y + row / 2, x))
            y += row
        y += 4
    return picture(width, height + 36, label, parts)


def _dot(dot: Dot, gutter: float, y: float, x: object) -> str:
    assert callable(x)
    parts = [text(gutter - 8, y + 4, dot.name, "end")]
    inner = []
    if dot.low is not None and dot.high is not None:
        inner.append(f'<path class="whisker" d="M{n(x(dot.low))} {n(y)}H{n(x(dot.high))}"/>')
    inner.append(marker(dot.series, x(dot.value), y))
    parts.append(f'<g class="s{dot.series % SERIES}">{"".join(inner)}</g>')
    if dot.reference is not None:
        at = n(x(dot.reference))
        parts.append(f'<path class="reference" d="M{at} {n(y - 6)}v12"/>')
    return "".join(parts)


def stacked(
    rows: Sequence[tuple[str, Sequence[float]]],
    parts: Sequence[tuple[str, str]],
    unit: UnitScale,
    texts: Texts,
    label: str,
) -> str:
    """One bar per row, made of `parts` (class, name); the total is printed at its end."""
    totals = [sum(values) for _, values in rows]
    longest = max(totals) or 1.0
    gutter = min(GUTTER_MAX, max(60.0, 6.6 * max(cells(name) for name, _ in rows) + 14))
    width, row = 420, 24
    x = linear(0, longest, gutter, width - 60)
    out = []
    for i, (name, values) in enumerate(rows):
        y = 4 + row * i
        out.append(text(gutter - 8, y + 14, name, "end"))
        start = 0.0
        for part, value in enumerate(values):
            if value > 0:
                left, right = x(start), x(start + value)
                out.append(
                    f'<rect class="part {parts[part][0]}" x="{n(left)}" y="{y}" '
                    f'width="{n(max(0.8, right - left))}" height="18">'
                    f"<title>{escape(parts[part][1])}</title></rect>"
                )
            start += value
        total = texts.figure(totals[i] / unit.factor, 2)
        out.append(text(x(start) + 6, y + 14, f"{total} {unit.unit}"))
    return picture(width, 10 + row * len(rows), label, out, "stacked")


def latency(
    curves: Sequence[tuple[int, Sequence[tuple[float, float]]]], texts: Texts, label: str
) -> str:
    """Share of requests that took longer, against latency; both axes logarithmic.

    `curves` are (series, points) with points (share at or below, latency in ns).
    """
    values = [ns for _, points in curves for _, ns in points if ns > 0]
    tail = min((1 - share for _, points in curves for share, _ in points), default=0.1)
    from schedlab.report.drawing import log_ticks

    low, high = min(values) / 1.1, max(values) * 1.1
    named = []
    for tick in log_ticks(low, high):
        scale = texts.scale([tick], "ns")
        named.append((tick, f"{texts.number(tick / scale.factor, 0)} {scale.unit}"))
    x = Axis(low, high, tuple(named), log=True)
    shares = []
    for power in range(0, math.ceil(-math.log10(tail) + 0.2)):
        words = texts.number(100 / 10**power, max(0, power - 2))
        shares.append((10.0**-power, texts("format.percent", number=words)))
    y = Axis(max(tail, 1e-6) / 1.3, 1.0, tuple(shares), log=True)
    box = (52.0, 10.0, 388.0, 166.0)
    parts = frame(x, y, box, (texts("chart.latency_axis"), ""))
    across, up = x.project(box[0], box[2]), y.project(box[3], box[1])
    for series, points in curves:
        places = [(across(ns), up(1 - share)) for share, ns in points if ns > 0]
        parts.append(stroke(series, places, every=5))
    return picture(400, 204, label, parts)


def run_order(
    points: Sequence[tuple[int, int, float]],
    scale: UnitScale,
    texts: Texts,
    label: str,
) -> str:
    """Every run of a workload as a mark: `points` are (place in the order, series, value)."""
    y = value_axis([value / scale.factor for _, _, value in points], texts, zero=False, about=3)
    positions = [position for position, _, _ in points]
    x = Axis(min(positions) - 0.5, max(positions) + 0.5, ())
    left = 12 + 6.4 * max((cells(name) for _, name in y.ticks), default=2)
    box = (left, 8.0, 394.0, 104.0)
    parts = frame(x, y, box, ("", ""))
    across, up = x.project(box[0], box[2]), y.project(box[3], box[1])
    parts.append(text((left + 400) / 2, 122, texts("chart.order_axis"), "mid axis"))
    by_series: dict[int, list[Point]] = {}
    for position, series, value in points:
        by_series.setdefault(series, []).append((across(position), up(value / scale.factor)))
    for series, places in sorted(by_series.items()):
        parts.append(f'<g class="s{series % SERIES}">{marks(series, places)}</g>')
    return picture(400, 130, label, parts)


def of_table(of: Table, texts: Texts) -> str:
    """The picture of a table that asks for one: its columns of numbers over its first column."""
    series = of.drawn
    if not of.chart or not of.rows or not series:
        return ""
    return _dots_of(of, series, texts) if of.chart == "dots" else _lines_of(of, series, texts)


def _dots_of(of: Table, series: Sequence[int], texts: Texts) -> str:
    """A group for each row."""
    groups: list[tuple[str, list[Dot]]] = []
    unit = of.columns[series[0]].scale
    for row in of.rows:
        inside = []
        for at, i in enumerate(series):
            if (middle := _ends(of, row, i)) is not None:
                value, low, high = middle
                inside.append(Dot(at, of.columns[i].title, value, low, high))
        groups.append((row.cells[0].text, inside))
    return dots(groups, texts, of.title, unit.unit)


def _lines_of(of: Table, series: Sequence[int], texts: Texts) -> str:
    """A line for each column over the sizes of the first one."""
    lines = []
    for at, i in enumerate(series):
        points, ranges = [], []
        for row in of.rows:
            size, middle = row.cells[0].number, _ends(of, row, i)
            if size is not None and middle is not None:
                value, low, high = middle
                points.append((size, value))
                ranges.append((value if low is None else low, value if high is None else high))
        lines.append(ChartLine(at, points, ranges))
    sizes = [(row.cells[0].number or 0.0, row.cells[0].text) for row in of.rows]
    unit = of.columns[series[0]].scale.unit
    chart = Chart(lines, of.columns[0].title, unit, log_x=True, ticks_x=sizes)
    return line_chart(chart, texts, of.title)


def _ends(of: Table, row: TableRow, column: int) -> tuple[float, float | None, float | None] | None:
    """A value and the ends of its interval, on the scale of the column."""
    factor, value = of.columns[column].scale.factor, row.cells[column].number
    if value is None:
        return None
    at = of.half_of(column)
    half = None if at is None else row.cells[at].number
    if half is None:
        return value / factor, None, None
    low = value - half
    return value / factor, (0.0 if low < 0 <= value else low) / factor, (value + half) / factor
