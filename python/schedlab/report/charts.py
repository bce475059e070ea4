"""The charts of the pages, each drawn from plain numbers on the SVG layer of `drawing`.

On every ratio axis the right side is better, as in the headline, for every metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from schedlab.report.drawing import (
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
    ratio_above,
    ratio_below,
    ratio_ticks,
    stroke,
    text,
    value_axis,
)
from schedlab.report.texts import Scale, Texts

GUTTER_MAX = 210
CELL_WIDTH, CELL_HEIGHT = 120, 16
# An interval beyond this is cut at the end of its axis, unless the estimate is there itself.
REACH_MAX = math.log(100)
# Half-widths of ratio axes in table cells: the ends are round ratios.
REACHES = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 20, 50, 100, 1000, 10_000, 1e6)


@dataclass(frozen=True)
class Interval:
    """better : worse ratio of one thing against another, with its interval and verdict."""

    name: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str = "undecided"


def reach_of(intervals: Sequence[Interval], margin: float) -> float:
    """The natural log of the round ratio that holds all of these."""
    ends = [e for i in intervals for e in (i.ratio, i.low, i.high) if e and e > 0]
    far = max([abs(math.log(e)) for e in ends] + [1.5 * math.log1p(margin)])
    # A useless interval must not shrink everything else to a point.
    middles = max([abs(math.log(i.ratio)) for i in intervals] + [0.0])
    far = min(far, max(REACH_MAX, 1.2 * middles))
    return next((math.log(r) for r in REACHES if math.log(r) >= far), far)


def ratio_cell(of: Interval, margin: float, reach: float) -> str:
    """A small interval for a table cell: 1 in the middle, the margin shaded."""
    x = linear(-reach, reach, 4, CELL_WIDTH - 4)
    parts = [_margin(x(-_half(margin, reach)), x(_half(margin, reach)), 1, 14)]
    parts.append(f'<path class="zero" d="M{n(x(0))} 0V16"/>')
    if of.low and of.high:
        ends = [n(x(_inside(math.log(end), reach))) for end in (of.low, of.high)]
        parts.append(f'<path class="whisker" d="M{ends[0]} 8H{ends[1]}"/>')
    at = x(_inside(math.log(of.ratio), reach))
    parts.append(f'<circle cx="{n(at)}" cy="8" r="3.4"/>')
    return _cell(parts)


def ratio_cell_axis(reach: float) -> str:
    """The axis of the cells of a row: its ends and 1 in the middle."""
    x = linear(-reach, reach, 4, CELL_WIDTH - 4)
    parts = [f'<path class="tick" d="M{n(x(-reach))} 3H{n(x(reach))}M{n(x(0))} 1v4"/>']
    step = math.exp(reach)
    step = float(f"{step:.3g}")
    parts.append(text(x(-reach), 15, ratio_below(step), "small"))
    parts.append(text(x(reach), 15, ratio_above(step), "small end"))
    return _cell(parts)


def _cell(parts: Sequence[str]) -> str:
    return (
        f'<svg class="bar" viewBox="0 0 {CELL_WIDTH} {CELL_HEIGHT}" width="{CELL_WIDTH}" '
        f'height="{CELL_HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'
    )


def _margin(left: float, right: float, top: float, height: float) -> str:
    return (
        f'<rect class="margin" x="{n(left)}" y="{n(top)}" width="{n(max(1, right - left))}" '
        f'height="{n(height)}"/>'
    )


def _half(margin: float, reach: float) -> float:
    return min(math.log1p(margin), reach)


def _inside(value: float, reach: float) -> float:
    return max(-reach, min(reach, value))


def forest(rows: Sequence[Interval], margin: float, label: str, sides: tuple[str, str]) -> str:
    """A row per comparison on a ratio axis; `sides` are the words at its left and right end."""
    gutter = max(90.0, 6.4 * max((cells(r.name) for r in rows), default=10) + 12)
    width, row, top = 400, 20, 6
    stacked = gutter > GUTTER_MAX  # names too long to be beside their rows are above them
    if stacked:
        gutter, row = 10.0, 36
    base = top + row * len(rows)
    reach = reach_of(rows, margin)
    x = linear(-reach, reach, gutter, width - 14)
    half = _half(margin, reach)
    parts = [
        _margin(x(-half), x(half), top, base - top),
        f'<path class="zero" d="M{n(x(0))} {top}V{base}"/>',
    ]
    for value, name in ratio_ticks(reach):
        parts.append(f'<path class="tick" d="M{n(x(value))} {base}v4"/>')
        parts.append(text(x(value), base + 16, name, "mid"))
    parts.append(text(gutter, base + 30, f"← {sides[0]}", "axis"))
    parts.append(text(width, base + 30, f"{sides[1]} →", "axis end"))
    for i, each in enumerate(rows):
        y = top + row * (i + 0.5)
        name = each.name
        parts.append(text(0, y - 4, name) if stacked else text(gutter - 8, y + 4, name, "end"))
        parts.append(_forest_row(each, y + 8 if stacked else y, x, reach))
    return picture(width, base + 36, label, parts, "forest")


def _forest_row(of: Interval, y: float, x: object, reach: float) -> str:
    """An interval with a marker whose shape shows the verdict."""
    shapes = {
        "better": '<path d="M{x} {a}l5 8.6h-10z"/>',
        "worse": '<path d="M{x} {b}l5-8.6h-10z"/>',
        "equivalent": '<path d="M{l} {t}h8v8h-8z"/>',
        "undecided": '<circle class="open" cx="{x}" cy="{y}" r="4"/>',
    }
    assert callable(x)
    at = x(_inside(math.log(of.ratio), reach))
    parts = []
    if of.low and of.high:
        low, high = (n(x(_inside(math.log(end), reach))) for end in (of.low, of.high))
        parts.append(f'<path class="whisker" d="M{low} {n(y)}H{high}"/>')
    places = {"x": at, "y": y, "a": y - 5.2, "b": y + 5.2, "l": at - 4, "t": y - 4}
    parts.append(shapes[of.verdict].format(**{k: n(v) for k, v in places.items()}))
    return f'<g class="v-{of.verdict}">{"".join(parts)}</g>'


@dataclass(frozen=True)
class Line:
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

    lines: Sequence[Line]
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
        parts.append(_ranges(of, line, places, up))
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


def _ranges(of: Chart, line: Line, places: Sequence[Point], up: object) -> str:
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
    unit: Scale,
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
        scale = Scale.fitting([tick], "ns")
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
    scale: Scale,
    changes: Sequence[tuple[int, str]],
    texts: Texts,
    label: str,
) -> str:
    """Every run of a workload as a mark: `points` are (place in the order, series, value).

    `changes` are places where the level changed, with a sentence.
    """
    y = value_axis([value / scale.factor for _, _, value in points], texts, zero=False, about=3)
    positions = [position for position, _, _ in points]
    x = Axis(min(positions) - 0.5, max(positions) + 0.5, ())
    left = 12 + 6.4 * max((cells(name) for _, name in y.ticks), default=2)
    box = (left, 8.0, 394.0, 104.0)
    parts = frame(x, y, box, ("", ""))
    across, up = x.project(box[0], box[2]), y.project(box[3], box[1])
    for position, words in changes:
        at = n(across(position))
        parts.append(
            f'<path class="change" d="M{at} 4V{n(box[3])}"><title>{escape(words)}</title></path>'
        )
    parts.append(text((left + 400) / 2, 122, texts("chart.order_axis"), "mid axis"))
    by_series: dict[int, list[Point]] = {}
    for position, series, value in points:
        by_series.setdefault(series, []).append((across(position), up(value / scale.factor)))
    for series, places in sorted(by_series.items()):
        parts.append(f'<g class="s{series % SERIES}">{marks(series, places)}</g>')
    return picture(400, 130, label, parts)
