"""The page's figures: the tables of the study, rates over time, latencies, the order of runs."""

from __future__ import annotations

import base64
import math
import re
import statistics
from collections.abc import Sequence
from html import escape, unescape

from schedlab.nouns import RateSeries
from schedlab.nouns.answer import Row
from schedlab.report import charts, markup
from schedlab.report.handin import FURTHER, study_tables
from schedlab.report.heat import heat_maps
from schedlab.report.page_first import over_time
from schedlab.report.shares import share_lines
from schedlab.report.tables import Column, Table, build
from schedlab.report.view import View, percentiles
from schedlab.report.why import group_name

OPEN_MAX = 3
FOLDED = ("runs-", "processes", FURTHER)
# Beyond so many workloads or tables, charts of single ones would make the page heavy.
CHARTS_MAX = 40
# Points of a rate chart; longer series are averaged into so many.
RATE_POINTS = 60
CURVE = tuple(1 - 10 ** (-i / 5) for i in range(31))
QUANTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"))


def tables_section(view: View) -> str:
    """Every table of the study; single runs and further metrics can be opened."""
    parts: list[str] = []
    single: list[str] = []
    for table in study_tables(view):
        chart = charts.of_table(table, view.texts) if len(parts) < CHARTS_MAX else ""
        shown = f'<figure class="study">{markup.drawn_table(table)}{chart}</figure>'
        if table.name.startswith(FOLDED):
            single.append(markup.details(table.title, shown))
        else:
            parts.append(shown)
    figures = "".join(map(embedded, view.record.figures))
    return markup.legend(view) + "".join([*parts, *single]) + figures


def embedded(svg: str) -> str:
    """A figure of the result folder, as a picture: its style and scripts stay inside."""
    title = re.search(r"<title>(.*?)</title>", svg)
    alt = escape(unescape(title[1]), quote=True) if title else ""
    data = base64.b64encode(svg.encode()).decode()
    image = f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'
    return f'<div class="scroll wide" tabindex="0"><figure>{image}</figure></div>'


def workloads_section(view: View) -> str:
    """Figures from inside the runs of each workload."""
    shown = [panel for row in view.primary[:CHARTS_MAX] if (panel := _workload(view, row))]
    if not shown:
        return ""
    parts = [markup.legend(view, arm=True), *shown]
    if (total := len(view.primary)) > CHARTS_MAX:
        limited = view.texts("text.charts_limited", shown=CHARTS_MAX, total=total)
        parts.append(markup.paragraph(limited, "note"))
    return "".join(parts)


def _workload(view: View, row: Row) -> str:
    """A workload: its shares, rates, latency, order of runs."""
    panels = "".join([*_rates(view, row), _latency(view, row), _order(view, row)])
    heats = heat_maps(view, row)
    lines = "".join(markup.paragraph(line) for line in share_lines(view, row.workload))
    if not panels and not lines and not heats:
        return ""
    opened = " open" if len(view.primary) <= OPEN_MAX else ""
    return (
        f'<details class="workload"{opened}><summary><h3>{escape(row.workload)}</h3></summary>'
        f'<div class="inside">{lines}<div class="panels">{panels}</div>{heats}</div></details>'
    )


def _rates(view: View, row: Row) -> list[str]:
    """Rate over time: a chart per group, a line per candidate with the range of its blocks."""
    groups: dict[str, dict[str, list[RateSeries]]] = {}
    for name in view.names:
        for series in view.record.series.get((row.workload, name), ()):
            groups.setdefault(series.group, {}).setdefault(name, []).append(series)
    return [_rate_chart(view, row, group, each) for group, each in groups.items()]


def _rate_chart(view: View, row: Row, group: str, by_candidate: dict[str, list[RateSeries]]) -> str:
    texts = view.texts
    curves = {name: _median_rate(series) for name, series in by_candidate.items()}
    first = next(iter(by_candidate.values()))[0]
    values = [middle for curve in curves.values() for _, middle, _, _ in curve if middle > 0]
    scale = view.texts.scale(values, first.unit)
    lines = [
        charts.ChartLine(
            view.names.index(name),
            [(t, middle / scale.factor) for t, middle, _, _ in curve],
            [(low / scale.factor, high / scale.factor) for _, _, low, high in curve],
        )
        for name, curve in curves.items()
    ]
    ramp = max(series.measured_from_s for each in by_candidate.values() for series in each)
    chart = charts.Chart(
        lines, texts("chart.time_axis"), scale.unit, bands=True, marker_every=6,
        shaded=(0.0, ramp) if ramp > 0 else None,
    )  # fmt: skip
    who = group_name(view, group)
    label = texts("chart.rates", workload=row.workload, group=who)
    svg = charts.line_chart(chart, texts, label)
    beside = over_time(view, lines, label, scale.unit)
    return markup.figure(
        texts("text.rates_title", group=who), texts("text.rates_intro"), svg, beside, texts
    )


def _median_rate(series: Sequence[RateSeries]) -> list[tuple[float, float, float, float]]:
    """(seconds, median, lowest, highest) over the runs, in at most RATE_POINTS steps."""
    bins = max(len(each.values) for each in series)
    step = max(1, math.ceil(bins / RATE_POINTS))
    points = []
    for start in range(0, bins, step):
        means = []
        for each in series:
            part = [v for v in each.values[start : start + step] if math.isfinite(v)]
            if part:
                means.append(sum(part) / len(part))
        if means:
            at = (start + step / 2) * series[0].bin_s
            points.append((at, statistics.median(means), min(means), max(means)))
    return points


def _latency(view: View, row: Row) -> str:
    """The distribution of all requests, and its percentiles; bursts have separate figures."""
    texts = view.texts
    if view.experiment.kind == "cpu":
        return ""
    tails = [
        (i, name, view.record.histograms[row.workload, name])
        for i, name in enumerate(view.names)
        if view.record.histograms.get((row.workload, name))
    ]
    curves = [(i, points) for i, _, h in tails if (points := percentiles(h, CURVE))]
    if not curves:
        return ""
    columns = [Column(texts("column.candidate"), text=True)]
    columns += [Column(name.replace(".", texts.decimal), "ns") for _, name in QUANTILES]
    columns.append(Column(texts("column.count"), decimals=0))
    rows = []
    for _, name, histogram in tails:
        known = dict(percentiles(histogram, [share for share, _ in QUANTILES]))
        count = sum(row[2] for row in histogram)
        rows.append([name, *(known.get(share) for share, _ in QUANTILES), count])
    label = texts("chart.latency", workload=row.workload)
    limited = texts("text.percentiles_limited")
    beside = build(texts, f"latency-{row.workload}", label, columns, rows, [limited])
    svg = charts.latency(curves, texts, label)
    return markup.figure(texts("section.latency"), texts("chart.share_axis"), svg, beside, texts)


def _order(view: View, row: Row) -> str:
    """Every run in the order of running."""
    texts, metric = view.texts, row.metric
    series = {name: i for i, name in enumerate([*view.names, *view.arms])}
    points = [
        (i, series[run.candidate], run.metrics[metric.name])
        for i, run in enumerate(view.runs_by_workload[row.workload])
        if metric and run.candidate in series
        and math.isfinite(run.metrics.get(metric.name, math.nan))
    ]  # fmt: skip
    if len(points) < 2 or metric is None:
        return ""
    scale = texts.scale([value for _, _, value in points], metric.unit)
    svg = charts.run_order(points, scale, texts, texts("chart.order", workload=row.workload))
    name = f"{texts.metric(metric)}, {scale.unit}".rstrip(", ")
    return markup.figure(texts("section.order"), name, svg, None, texts)


def drift_section(view: View) -> str:
    """The block means, which would be on a level line if the machine had stayed the same."""
    texts = view.texts
    if not view.experiment.blocked or len({run.block for run in view.runs}) < 2:
        return ""
    label = texts("chart.drift")
    means = {name: dict(block_means(view, name)) for name in view.names}
    number_of = view.record.number_of
    lines = [
        charts.ChartLine(i, [(float(number_of(b)), v) for b, v in means[name].items()])
        for i, name in enumerate(view.names)
    ]
    blocks = sorted({x for line in lines for x, _ in line.points})
    step = max(1, -(-len(blocks) // 12))
    chart = charts.Chart(
        [line for line in lines if line.points], texts("chart.block_axis"), "", level=1.0,
        ticks_x=[(b, str(int(b))) for b in blocks[::step]], width=720,
    )  # fmt: skip
    svg = charts.line_chart(chart, texts, label)
    beside = _drift_table(view, means, label)
    return (
        markup.paragraph(texts("text.drift_intro"))
        + markup.legend(view)
        + '<div class="scroll wide" tabindex="0">'
        + markup.figure(label, "", svg, beside, texts)
        + "</div>"
    )


def block_means(view: View, name: str) -> list[tuple[int, float]]:
    """(block, ratio) of a candidate: mean log over all workloads, against its own mean."""
    logs: dict[int, list[float]] = {}
    for row in view.primary:
        cell = view.answer.cells[row.name].get(name)
        own = cell.value if cell else None
        for run in view.runs_by_workload[row.workload]:
            value = run.metrics.get(row.metric.name, math.nan) if row.metric else math.nan
            if run.candidate == name and value > 0 and own and own > 0:
                logs.setdefault(run.block, []).append(math.log(value / own))
    return [(block, math.exp(sum(v) / len(v))) for block, v in sorted(logs.items())]


def _drift_table(view: View, means: dict[str, dict[int, float]], title: str) -> Table:
    blocks = sorted({block for by_block in means.values() for block in by_block})
    columns = [Column(view.texts("column.block"), decimals=0)]
    columns += [Column(name, decimals=3) for name in view.names]
    rows = [
        [view.record.number_of(b), *(means[name].get(b) for name in view.names)] for b in blocks
    ]
    return build(view.texts, "drift", title, columns, rows)
