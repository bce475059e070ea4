"""The large charts, which occur once per page or family: Altair specifications drawn by vl-convert.

The SVG that comes back is made smaller and its colours are replaced by variables of the page's
style sheet, so that it can be read in the dark; text stays text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from schedlab.report.drawing import log_ticks, ticks
from schedlab.report.texts import Scale
from schedlab.report.view import Family, TestMean, View, size_text, summary_of

if TYPE_CHECKING:
    import altair as alt

# Stand-ins that the drawing is made with, replaced by the page's variables afterwards.
SERIES_COLOURS = [f"#0000{i:02x}" for i in range(16, 24)]
INK, GRID, BAND = "#000001", "#000002", "#000003"
SHAPES = [
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross",
    "M-1-1L1-1L-1 1L1 1Z", "stroke",
]  # fmt: skip
DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 3], [1, 3], [6, 2, 1, 2]]
PANEL = {"width": 350, "height": 210}
BAR_STEP = 15


def by_record_size(view: View, family: Family, label: str) -> str:
    """The means of a family's candidates with intervals; both axes logarithmic or from zero."""
    members = [m.verdict for m in family.members]
    values = [row.geometric_mean for m in members for row in m.candidates]
    scale = Scale.fitting(values, family.metric.unit)
    rows = []
    for member in family.members:
        for row in member.verdict.candidates:
            low, high = row.low or row.geometric_mean, row.high or row.geometric_mean
            numbers = [v / scale.factor for v in (row.geometric_mean, low, high)]
            rows.append(_row(member.record_bytes, row.candidate, numbers))
    kind = "log" if max(values) > 20 * min(values) else "linear"
    return _panel(view, family, rows, scale.unit, kind, label)


def by_record_size_difference(view: View, family: Family, label: str) -> str:
    """The differences to the baseline in percent with intervals, on the margin's band."""
    rows = []
    for member in family.members:
        for row in member.verdict.candidates:
            if row.ratio is None:
                continue
            ends = (row.ratio, row.ratio_low or row.ratio, row.ratio_high or row.ratio)
            rows.append(_row(member.record_bytes, row.candidate, [100 * (e - 1) for e in ends]))
    margin = 100 * max(m.verdict.margin for m in family.members)
    return _panel(view, family, rows, "%", "difference", label, margin)


def _row(size: int, candidate: str, numbers: Sequence[float]) -> dict[str, Any]:
    middle, low, high = numbers
    return {"x": size, "c": candidate, "y": middle, "low": low, "high": high}


def _panel(
    view: View,
    family: Family,
    rows: list[dict[str, Any]],
    unit: str,
    kind: str,
    label: str,
    margin: float = 0.0,
) -> str:
    """Lines with intervals over the record size, with a marker and a dash per candidate."""
    import altair as alt

    sizes = [member.record_bytes for member in family.members]
    # Candidates stand a little beside each other, so that their intervals do not cover.
    shift = {name: 1.045 ** (i - (len(view.names) - 1) / 2) for i, name in enumerate(view.names)}
    for row in rows:
        row["at"] = row["x"] * shift.get(row["c"], 1.0)
    labels = {str(size): size_text(size) for size in sizes}
    axis = alt.Axis(
        values=_thinned(sizes),
        labelExpr=f"{labels!r}[datum.value]",
        title=view.texts("chart.record_axis"),
        grid=False,
    )
    domain = [sizes[0] / 1.25, sizes[-1] * 1.25]
    x = alt.X("at:Q", axis=axis, scale=alt.Scale(type="log", base=2, domain=domain, nice=False))
    scale = alt.Scale(type="log", nice=False) if kind == "log" else alt.Scale(zero=True)
    ends = [row[end] for row in rows for end in ("low", "high")]
    steps = {"values": log_ticks(min(ends), max(ends))} if kind == "log" else {"tickCount": 5}
    y = alt.Y("y:Q", title=unit, scale=scale, axis=alt.Axis(**steps))
    base = _chart(rows).encode(x=x, color=_colour(view))
    layers = [
        base.mark_rule(strokeWidth=1.4).encode(y=alt.Y("low:Q", title=unit), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=_dash(view)),
        base.mark_point(size=38, filled=True, opacity=1).encode(y=y, shape=_shape(view)),
    ]
    if kind == "difference":
        layers = [*_band(margin, domain), *layers]
    return _svg(view, alt.layer(*layers).properties(**PANEL), label)


def _band(margin: float, domain: list[float]) -> list[alt.Chart]:
    """The margin of equivalence and the line of no difference."""
    import altair as alt

    chart = _chart([{"a": -margin, "b": margin, "l": domain[0], "r": domain[1]}])
    return [
        chart.mark_rect(color=BAND, opacity=1).encode(y="a:Q", y2="b:Q", x="l:Q", x2="r:Q"),
        chart.mark_rule(color=INK, strokeWidth=1).encode(y=alt.datum(0)),
    ]


def bars(view: View, means: Sequence[TestMean], label: str) -> str:
    """Grouped bars, one per test and candidate, named at their ends, with intervals."""
    import altair as alt

    values = [value for mean in means for _, value, _, _ in mean.rows]
    scale = Scale.fitting(values, means[0].metric.unit)
    rows: list[dict[str, Any]] = []
    for mean in means:
        for name, value, low, high in mean.rows:
            text = view.texts.figure(value / scale.factor)
            ends = {"low": (low or value) / scale.factor, "high": (high or value) / scale.factor}
            named = {"t": mean.title, "c": name, "y": value / scale.factor, **ends}
            rows.append({**named, "text": f"{name}  {text}"})
    names = alt.Axis(domain=False, ticks=False, labelLimit=130)
    y = alt.Y("t:N", sort=None, title=None, axis=names)
    offset = alt.YOffset("c:N", sort=list(view.names))
    longest = max(row["high"] for row in rows)
    limits = alt.Scale(domain=[0, longest * 1.45], nice=False)
    axis = alt.Axis(values=ticks(0, longest, 4), grid=True)
    x = alt.X("y:Q", title=scale.unit, scale=limits, axis=axis)
    base = _chart(rows).encode(y=y, yOffset=offset)
    layers = [
        base.mark_bar(opacity=0.55, height={"band": 0.86}).encode(x=x, color=_colour(view)),
        base.mark_rule(color=INK, strokeWidth=1.3).encode(x="low:Q", x2="high:Q"),
        base.mark_text(align="left", dx=6, fontSize=10.5, color=INK).encode(
            x="high:Q", text="text:N"
        ),
    ]
    step = alt.Step(BAR_STEP, **{"for": "offset"})
    return _svg(view, alt.layer(*layers).properties(width=330, height=step), label)


def drift(view: View, label: str) -> str:
    """The mean of each block and candidate against the candidate's mean of all blocks, in %."""
    import altair as alt

    rows = [
        {"x": view.record.number_of(block), "c": name, "y": value}
        for name in view.names
        for block, value in block_means(view, name)
    ]
    if not rows:
        return ""
    axis = alt.Axis(tickMinStep=1, format="d", grid=False)
    x = alt.X("x:Q", title=view.texts("chart.block_axis"), axis=axis, scale=alt.Scale(nice=False))
    y = alt.Y("y:Q", title=view.texts("chart.difference_axis"), axis=alt.Axis(tickCount=5))
    base = _chart(rows).encode(x=x, y=y, color=_colour(view))
    layers = [
        _chart([{}]).mark_rule(color=INK, strokeWidth=1).encode(y=alt.datum(0)),
        base.mark_line(strokeWidth=1.6).encode(strokeDash=_dash(view)),
        base.mark_point(size=34, filled=True, opacity=1).encode(shape=_shape(view)),
    ]
    return _svg(view, alt.layer(*layers).properties(width=720, height=210), label)


def block_means(view: View, name: str) -> list[tuple[int, float]]:
    """(block, deviation in %) of a candidate: mean log over all workloads, against its own mean."""
    logs: dict[int, list[float]] = {}
    for verdict in view.workloads:
        own = summary_of(verdict.candidates, name)
        for run in view.runs_by_workload[verdict.workload]:
            value = run.metrics.get(verdict.metric.name, math.nan)
            if run.candidate == name and value > 0 and own is not None:
                logs.setdefault(run.block, []).append(math.log(value / own.geometric_mean))
    return [(block, 100 * math.expm1(sum(v) / len(v))) for block, v in sorted(logs.items())]


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    """A chart of these rows, to be given marks."""
    import altair as alt

    return alt.Chart({"values": rows})


def _colour(view: View) -> alt.Color:
    import altair as alt

    cycle = [SERIES_COLOURS[i % 8] for i in range(len(view.names))]
    return alt.Color("c:N", legend=None, scale=alt.Scale(domain=list(view.names), range=cycle))


def _dash(view: View) -> alt.StrokeDash:
    import altair as alt

    cycle = [DASHES[i % 8] for i in range(len(view.names))]
    scale = alt.Scale(domain=list(view.names), range=cycle)
    return alt.StrokeDash("c:N", legend=None, scale=scale)


def _shape(view: View) -> alt.Shape:
    import altair as alt

    cycle = [SHAPES[i % 8] for i in range(len(view.names))]
    return alt.Shape("c:N", legend=None, scale=alt.Scale(domain=list(view.names), range=cycle))


def _thinned(values: Sequence[int], most: int = 6) -> list[int]:
    """Every so many of the values, so that their labels do not touch."""
    return list(values[:: math.ceil(len(values) / most)])


def _svg(view: View, chart: Any, label: str) -> str:
    """The chart as an SVG element for the page."""
    import vl_convert

    config = {
        "background": None,
        "view": {"stroke": None},
        "axis": {
            "domainColor": INK, "tickColor": INK, "labelColor": INK, "titleColor": INK,
            "gridColor": GRID, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": 400,
            "labelFont": "DejaVu Sans, sans-serif", "titleFont": "DejaVu Sans, sans-serif",
        },
        "axisY": {"domain": False, "ticks": False, "titleAngle": 0, "titleAlign": "left",
                  "titleAnchor": "end", "titleY": -10, "titleX": -24},
        "axisX": {"labelFlush": False},
    }  # fmt: skip
    spec = {**chart.to_dict(validate=False), "config": config, "padding": {
        "left": 2, "right": 6, "top": 4, "bottom": 2}}  # fmt: skip
    locale = {
        "decimal": view.texts.decimal,
        "thousands": view.texts.thousands,
        "grouping": [3],
        "currency": ["", ""],
    }
    svg = vl_convert.vegalite_to_svg(spec, format_locale=locale)
    return themed(svg, label)


REMOVED = re.compile(
    r" (?:class|role|aria-[a-z]+|pointer-events|version|xmlns(?::xlink)?|font-family|"
    r'stroke-miterlimit)="[^"]*"| (?:opacity|stroke-width)="1"'
)
EMPTY = re.compile(
    r'<path[^>]* d="(?:|M0,0h0v0h0Z)"[^>]*(?:/>|></path>)|<g[^>]*(?:/>|></g>)|'
    r"<text[^>]*(?:/>|></text>)|<path[^>]*display=\"none\"[^>]*/>"
)
TAG = re.compile(r"<[^>]*>")
NUMBER = re.compile(r"-?\d+\.\d{2,}")


def themed(svg: str, label: str) -> str:
    """Vega's SVG with the page's colours, one accessible name, and no more than it needs."""
    svg = TAG.sub(lambda tag: NUMBER.sub(_rounded, REMOVED.sub("", tag[0])), svg)
    svg = svg.replace(f' fill="{INK}"', "")
    while (smaller := EMPTY.sub("", svg)) != svg:
        svg = smaller
    colours = {INK: "var(--ink)", GRID: "var(--grid)", BAND: "var(--band)"}
    colours |= {colour: f"var(--s{i})" for i, colour in enumerate(SERIES_COLOURS)}
    for colour, variable in colours.items():
        svg = svg.replace(colour, variable)
    return svg.replace("<svg", f'<svg class="chart" role="img" aria-label="{escape(label)}"', 1)


def _rounded(match: re.Match[str]) -> str:
    """A coordinate with one decimal."""
    return f"{float(match[0]):.1f}".removesuffix(".0")
