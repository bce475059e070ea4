"""The SVG layer of every page: projections, round ticks, axes, markers, pictures.

A chart takes about a millisecond and 2 kB. Colours come from classes of the page's style sheet
(`s0` … `s7`, with a marker and a dash pattern each), so they follow light and dark. The charts
themselves are in `charts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from schedlab.report.texts import Texts

# The one palette: of the pages in light and dark, of the workbook, and of single pictures.
COLOURS = (
    "#0b62a4", "#c2410c", "#0f7b5a", "#9d3c86", "#806300", "#4b5563", "#b4234a", "#0e7490",
)  # fmt: skip
DARK = ("#6cb6ff", "#ff9a62", "#4fd1a5", "#e39bd3", "#e0bf4a", "#c3cad3", "#ff8aa4", "#5fd3e6")
SERIES = len(COLOURS)
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
# Left of the best, and right of the largest loss, in the cells of tables.
EDGE = 5
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


def palette() -> str:
    """The colours of the series as variables of a style sheet, for light and dark."""
    light, dark = (
        "".join(f"--s{i}:{colour};" for i, colour in enumerate(colours))
        for colours in (COLOURS, DARK)
    )
    return f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def symbols() -> str:
    """The markers, defined once per page and used as `#m0` … `#m7`; the best of a cell: `#zero`."""
    shapes = "".join(f'<g id="m{i}">{shape}</g>' for i, shape in enumerate(MARKERS))
    # A rectangle: a browser draws no `use` of a path that is as wide as nothing.
    shapes += f'<rect id="zero" x="{EDGE - 0.5}" width="1" height="16"/>'
    return f'<svg class="defs" aria-hidden="true" width="0" height="0"><defs>{shapes}</defs></svg>'


def key(series: int) -> str:
    """The line and marker of a series, for a legend."""
    inside = f'<path class="line" d="M0 6H28"/>{marker(series, 14, 6)}'
    kind = f"key s{series % SERIES}"
    return f'<svg class="{kind}" viewBox="0 0 28 12" aria-hidden="true">{inside}</svg>'


def marker(series: int, x: float, y: float) -> str:
    """The marker of a series at a place."""
    return f'<use href="#m{series % SERIES}" x="{n(x)}" y="{n(y)}"/>'


def n(value: float) -> str:
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


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words at a place; `kind` may align them (`mid`, `end`)."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{n(x)}" y="{n(y)}"{attribute}>{escape(words)}</text>'


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 in each decade; powers of ten only where that is too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]
        if len(values) <= 6:
            break
    return values


def marks(series: int, places: Sequence[Point]) -> str:
    """Many markers of a series as one path: half the size of single elements."""
    glyph = GLYPHS[series % SERIES]
    kind = "dots" if glyph == DOT else "marks"
    path = "".join(f"M{n(x)} {n(y)}{glyph}" for x, y in places)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def cells(words: str) -> int:
    """About how many Latin letters wide some words are."""
    return sum(2 if ord(c) > 0x1100 else 1 for c in words)


@dataclass(frozen=True)
class Axis:
    """One axis: its data range, its ticks with labels, and whether it is logarithmic."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def project(self, start: float, end: float) -> Projection:
        """From data to picture."""
        make = logarithmic if self.log else linear
        return make(self.low, self.high, start, end)


def value_axis(values: Sequence[float], texts: Texts, *, zero: bool, about: int = 4) -> Axis:
    """An axis for values: logarithmic with 1-2-5 ticks beyond twofold, else from zero or near.

    Every tick is a round number with no more digits than it needs.
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low > 0 and high > 2 * low and not zero:
        low, high = low / 1.12, high * 1.12
        tick_values = log_ticks(low, high)
        tick_values = (
            tick_values if len(tick_values) > 1 else [t for t in ticks(low, high, about) if t > 0]
        )
        return Axis(low, high, tuple((t, plain(t, texts)) for t in tick_values), log=True)
    start = 0.0 if zero and low >= 0 else low - 0.06 * ((high - low) or abs(high) or 1.0)
    end = high + 0.06 * ((high - start) or 1.0)
    tick_values = [t for t in ticks(start, end, about) if start <= t <= end]
    return Axis(start, end, tuple((t, plain(t, texts)) for t in tick_values))


def plain(value: float, texts: Texts) -> str:
    """A round number as short as it can be written: 2.5, 40, 1,000."""
    for decimals in range(7):
        if abs(value - round(value, decimals)) <= 1e-9 * max(1e-6, abs(value)):
            return texts.number(value, decimals)
    return texts.figure(value, 2)


def frame(
    x: Axis, y: Axis, box: tuple[float, float, float, float], titles: tuple[str, str]
) -> list[str]:
    """Grid, ticks and titles of a chart; `box` is (left, top, right, bottom) in the picture."""
    left, top, right, bottom = box
    across, up = x.project(left, right), y.project(bottom, top)
    parts = []
    for value, label in y.ticks:
        at = up(value)
        parts.append(f'<path class="grid" d="M{n(left)} {n(at)}H{n(right)}"/>')
        parts.append(text(left - 6, at + 4, label, "end"))
    parts.append(f'<path class="tick" d="M{n(left)} {n(bottom)}H{n(right)}"/>')
    last = -math.inf
    for value, label in x.ticks:
        at = across(value)
        parts.append(f'<path class="tick" d="M{n(at)} {n(bottom)}v4"/>')
        if at - last >= 6.2 * cells(label) + 8:
            parts.append(text(at, bottom + 16, label, "mid"))
            last = at
    if titles[0]:
        parts.append(text((left + right) / 2, bottom + 32, titles[0], "mid axis"))
    if titles[1]:
        parts.append(text(left - 6 if left < 30 else 0, top - 8, titles[1], "axis"))
    return parts


def stroke(series: int, places: Sequence[Point], every: int = 1) -> str:
    """A line with its marker at every so many points, staggered between the series."""
    if not places:
        return ""
    path = " ".join(f"{n(x)} {n(y)}" for x, y in places)
    shown = marks(series, places[series % every :: every])
    return f'<g class="s{series % SERIES}"><path class="line" d="M{path}"/>{shown}</g>'


def band(series: int, lower: Sequence[Point], upper: Sequence[Point]) -> str:
    """The range around a line, in its colour."""
    if not lower:
        return ""
    path = " ".join(f"{n(x)} {n(y)}" for x, y in [*upper, *reversed(lower)])
    return f'<path class="band s{series % SERIES}" d="M{path}Z"/>'
