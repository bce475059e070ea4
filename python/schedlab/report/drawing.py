"""Small charts drawn directly as SVG: what occurs once per workload.

Vega-Lite takes 80 ms and 30 kB for a chart; with 63 workloads and three charts each that would be
15 s and 6 MB. These take a millisecond and about 2 kB. Colours come from classes of the page's
style sheet (`s0` … `s7`, with a marker and a dash pattern each), so they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from schedlab.report.texts import Scale, Texts
from schedlab.spec import Pair

SERIES = 8
GUTTER_MAX = 210
Point = tuple[float, float]
Projection = Callable[[float], float]
# One outline per series, in a box of 10 × 10 around 0, 0.
MARKERS = (
    '<circle r="3.6"/>',
    '<path d="M-3.3-3.3h6.6v6.6h-6.6z"/>',
    '<path d="M0-4.4 4.2 3.2h-8.4z"/>',
    '<path d="M0-4.6 4.6 0 0 4.6-4.6 0z"/>',
    '<path d="M0 4.4 4.2-3.2h-8.4z"/>',
    '<path d="M-1.4-4h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6v-2.8h2.6z"/>',
    '<path d="M-4-4h8L0 0l4 4h-8L0 0z"/>',
    '<path d="M-4.4-1.5h8.8v3h-8.8z"/>',
)
# The same shapes, smaller, drawn from a point of a path; a dot is a line of no length.
DOT = "h0"
GLYPHS = (
    DOT,
    "m-2-2h4v4h-4z",
    "m0-3 3 5h-6z",
    "m0-3 3 3-3 3-3-3z",
    "m0 3 3-5h-6z",
    "m-.8-2.8h1.6v2h2v1.6h-2v2h-1.6v-2h-2v-1.6h2z",
    "m-2-2h4l-4 4h4z",
    "m-3-1h6v2h-6z",
)


def symbols() -> str:
    """The markers, defined once per page and used as `#m0` … `#m7`."""
    made = "".join(f'<g id="m{i}">{shape}</g>' for i, shape in enumerate(MARKERS))
    return f'<svg class="defs" aria-hidden="true" width="0" height="0"><defs>{made}</defs></svg>'


def key(series: int) -> str:
    """The line and marker of a series, for a legend."""
    return (
        f'<svg class="key s{series % SERIES}" viewBox="0 0 28 12" width="28" height="12" '
        f'aria-hidden="true"><path class="line" d="M0 6H28"/>{_marker(series, 14, 6)}</svg>'
    )


def _marker(series: int, x: float, y: float) -> str:
    return f'<use href="#m{series % SERIES}" x="{_n(x)}" y="{_n(y)}"/>'


def _n(value: float) -> str:
    """A coordinate with one decimal, as short as it can be written."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def linear(low: float, high: float, start: float, end: float) -> Projection:
    """From data to picture."""
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def logarithmic(low: float, high: float, start: float, end: float) -> Projection:
    """From positive data to picture by the logarithm."""
    inner = linear(math.log(low), math.log(high), start, end)
    return lambda value: inner(math.log(max(value, 1e-300)))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values inside [low, high], about so many."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def picture(width: int, height: int, label: str, parts: Sequence[str], kind: str = "") -> str:
    """An SVG of that size with its description."""
    return (
        f'<svg class="{f"chart {kind}".strip()}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{attribute}>{escape(text)}</text>'


def forest(pairs: Sequence[Pair], margin: float, texts: Texts, label: str) -> str:
    """Every pair as a row: its difference in percent and interval beside the margin.

    The axis is logarithmic in the ratio, so a pair and its reverse are mirror images.
    """
    names = [texts("text.against", a=p.a, b=p.b) for p in pairs]
    gutter = max(90, 6.4 * max(map(_cells, names), default=10) + 12)
    width, row, top = 400, 20, 6
    stacked = gutter > GUTTER_MAX  # names too long to stand beside their rows stand above them
    if stacked:
        gutter, row = 10, 36
    height = top + row * len(pairs) + 22
    ends = [e for p in pairs for e in (p.low or p.ratio, p.high or p.ratio, p.ratio) if e > 0]
    reach = max(1.5 * math.log1p(margin), *(1.08 * abs(math.log(e)) for e in ends))
    x = linear(-reach, reach, gutter, width - 10)
    base = top + row * len(pairs)
    half = math.log1p(margin)
    parts = [
        f'<rect class="margin" x="{_n(x(-half))}" y="{top}" '
        f'width="{_n(x(half) - x(-half))}" height="{base - top}"/>',
        f'<path class="zero" d="M{_n(x(0))} {top}V{base}"/>',
    ]
    for tick in _forest_ticks(reach, x):
        at = x(math.log1p(tick))
        parts.append(f'<path class="tick" d="M{_n(at)} {base}v4"/>')
        parts.append(_text(at, base + 16, texts.round_percent(tick), "mid"))
    for i, (pair, name) in enumerate(zip(pairs, names, strict=True)):
        y = top + row * (i + 0.5)
        parts.append(_text(0, y - 4, name) if stacked else _text(gutter - 8, y + 4, name, "end"))
        parts.append(_forest_row(pair, y + 8 if stacked else y, x))
    return picture(width, height, label, parts, "forest")


def _forest_row(pair: Pair, y: float, x: Projection) -> str:
    """A pair's interval and a marker whose shape says the verdict."""
    marks = {
        "better": '<path d="M{x} {a}l5 8.6h-10z"/>',
        "worse": '<path d="M{x} {b}l5-8.6h-10z"/>',
        "equivalent": '<path d="M{l} {t}h8v8h-8z"/>',
        "undecided": '<circle class="open" cx="{x}" cy="{y}" r="4"/>',
    }
    at = x(math.log(pair.ratio))
    parts = []
    if pair.low and pair.high:
        low, high = (_n(x(math.log(end))) for end in (pair.low, pair.high))
        parts.append(f'<path class="whisker" d="M{low} {_n(y)}H{high}"/>')
    places = {"x": at, "y": y, "a": y - 5.2, "b": y + 5.2, "l": at - 4, "t": y - 4}
    parts.append(marks[pair.verdict].format(**{k: _n(v) for k, v in places.items()}))
    return f'<g class="v-{pair.verdict}">{"".join(parts)}</g>'


def _forest_ticks(reach: float, x: Projection) -> list[float]:
    """Fractions for the axis: round percentages, or factors where the range is wide.

    From 0 outwards; one that would touch its neighbour is left out.
    """
    if reach < 0.5:
        return [t for t in ticks(-math.expm1(reach), math.expm1(reach), 4) if t > -1]
    found: list[float] = []
    for tick in (0.0, 1.0, -0.5, 9.0, -0.9, 99.0, -0.99, 0.5, -0.3, 0.2, -0.2):
        at = x(math.log1p(tick))
        if abs(math.log1p(tick)) <= reach and all(abs(at - x(math.log1p(o))) > 44 for o in found):
            found.append(tick)
    return found


def _cells(text: str) -> int:
    """About how many Latin letters wide a text is."""
    return sum(2 if ord(c) > 0x1100 else 1 for c in text)


def interval_bar(
    low: float | None, ratio: float, high: float | None, margin: float, reach: float
) -> str:
    """A small interval for a table cell: ±`reach` in log ratio over 120 pixels."""
    x = linear(-reach, reach, 4, 116)
    half = math.log1p(margin)
    parts = [
        f'<rect class="margin" x="{_n(x(-half))}" y="1" width="{_n(x(half) - x(-half))}" '
        'height="14"/>',
        f'<path class="zero" d="M{_n(x(0))} 0V16"/>',
    ]
    if low and high:
        ends = (_n(x(math.log(low))), _n(x(math.log(high))))
        parts.append(f'<path class="whisker" d="M{ends[0]} 8H{ends[1]}"/>')
    parts.append(f'<circle cx="{_n(x(math.log(ratio)))}" cy="8" r="3.4"/>')
    return (
        '<svg class="bar" viewBox="0 0 120 16" width="120" height="16" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def latency(
    curves: Sequence[tuple[int, Sequence[tuple[float, float]]]], texts: Texts, label: str
) -> str:
    """Share of requests that took longer, against latency; both axes logarithmic.

    `curves` are (series, points) with points (share at or below, latency in ns).
    """
    width, height, left, base = 400, 200, 46, 166
    values = [ns for _, points in curves for _, ns in points if ns > 0]
    tail = min((1 - share for _, points in curves for share, _ in points), default=0.1)
    low, high = min(values) / 1.1, max(values) * 1.1
    x = logarithmic(low, high, left, width - 12)
    y = logarithmic(1.0, max(tail, 1e-6) / 1.3, 10, base)
    parts = []
    for power in range(0, math.ceil(-math.log10(tail) + 0.2)):
        at = y(10.0**-power)
        if at <= base:
            share = texts("format.percent", number=texts.number(100 / 10**power, max(0, power - 2)))
            parts.append(f'<path class="grid" d="M{left} {_n(at)}H{width - 12}"/>')
            parts.append(_text(left - 6, at + 4, share, "end"))
    for tick in log_ticks(low, high):
        scale = Scale.fitting([tick], "ns")
        parts.append(f'<path class="tick" d="M{_n(x(tick))} {base}v4"/>')
        name = f"{texts.number(tick / scale.factor, 0)} {scale.unit}"
        parts.append(_text(x(tick), base + 16, name, "mid"))
    parts.append(_text((left + width) / 2, base + 32, texts("chart.latency_axis"), "mid axis"))
    for series, points in curves:
        places = [(x(ns), y(1 - share)) for share, ns in points if ns > 0]
        parts.append(_line(series, places, every=5))
    return picture(width, height, label, parts)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 in each decade; powers of ten only where that is too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]
        if len(found) <= 6:
            break
    return found


def _line(series: int, places: Sequence[Point], every: int) -> str:
    """A line with its marker at every so many points, staggered between the series."""
    path = " ".join(f"{_n(x)} {_n(y)}" for x, y in places)
    marks = _marks(series, places[series % every :: every])
    return f'<g class="s{series % SERIES}"><path class="line" d="M{path}"/>{marks}</g>'


def _marks(series: int, places: Sequence[Point]) -> str:
    """Many markers of a series as one path: half the size of single elements."""
    glyph = GLYPHS[series % SERIES]
    kind = "dots" if glyph == DOT else "marks"
    path = "".join(f"M{_n(x)} {_n(y)}{glyph}" for x, y in places)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


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
    width, height, left, base = 400, 132, 52, 100
    values = [value / scale.factor for _, _, value in points]
    low, high = min(values), max(values)
    pad = 0.08 * (high - low) or abs(high) * 0.05 or 1.0
    y = linear(low - pad, high + pad, base, 8)
    positions = [position for position, _, _ in points]
    x = linear(min(positions), max(positions), left + 6, width - 8)
    parts = []
    for tick in ticks(low - pad, high + pad, 3):
        parts.append(f'<path class="grid" d="M{left} {_n(y(tick))}H{width}"/>')
        parts.append(_text(left - 6, y(tick) + 4, texts.figure(tick), "end"))
    for position, sentence in changes:
        at = _n(x(position))
        parts.append(
            f'<path class="change" d="M{at} 4V{base}"><title>{escape(sentence)}</title></path>'
        )
    parts.append(_text((left + width) / 2, base + 24, texts("chart.order_axis"), "mid axis"))
    by_series: dict[int, list[Point]] = {}
    for position, series, value in points:
        by_series.setdefault(series, []).append((x(position), y(value / scale.factor)))
    for series, places in sorted(by_series.items()):
        parts.append(f'<g class="s{series % SERIES}">{_marks(series, places)}</g>')
    return picture(width, height, label, parts)
