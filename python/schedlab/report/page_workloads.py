"""The page's part on every single workload: pairs, rates over time, distribution, order."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from html import escape

from schedlab.report import charts
from schedlab.report.cells import dash, interval, scale_of
from schedlab.report.markup import Cell, Line, details, figure, legend, number, paragraph, table
from schedlab.report.page_tables import pair_table
from schedlab.report.screen import candidate_cell, measured
from schedlab.report.sentences import of_workload
from schedlab.report.texts import Scale
from schedlab.report.view import View, percentiles, summary_of
from schedlab.report.why import group_name
from schedlab.spec import RateSeries, Run, WorkloadVerdict

OPEN_MAX = 3
# Beyond so many workloads or runs, charts of single ones would make the page heavy.
CHARTS_MAX = 80
VALUES_MAX = 3000
# Points of a rate chart; longer series are averaged into so many.
RATE_POINTS = 60
CURVE = tuple(1 - 10 ** (-i / 5) for i in range(31))
QUANTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"))


def workloads_section(view: View) -> str:
    """All workloads."""
    parts = [legend(view, arm=True)]
    parts += [_one(view, i, w) for i, w in enumerate(view.workloads)]
    if len(view.workloads) > CHARTS_MAX:
        total = len(view.workloads)
        limited = view.texts("text.charts_limited", shown=CHARTS_MAX, total=total)
        parts.append(paragraph(limited, "note"))
    return "".join(parts)


def _one(view: View, index: int, verdict: WorkloadVerdict) -> str:
    """A workload: its sentence, pairs, candidates, rates, latency, order of runs."""
    runs = view.runs_by_workload[verdict.workload]
    with_charts = index < CHARTS_MAX
    if view.nothing_to_order(verdict):
        sentence = view.texts("cell.nothing_to_order")
    else:
        sentence = of_workload(view, verdict)
    head = f"<h3>{escape(verdict.workload)}</h3><span>{escape(sentence)}</span>"
    panels = [_pairs(view, verdict, with_charts), *_rates(view, verdict)]
    panels.append(_latency(view, verdict, with_charts))
    panels.append(_order(view, verdict, runs, with_charts))
    opened = " open" if len(view.workloads) <= OPEN_MAX else ""
    return (
        f'<details class="workload"{opened}><summary>{head}</summary><div class="inside">'
        f"{_means(view, verdict)}"
        f'<div class="panels">{"".join(panels)}</div>{_segments(view, verdict)}'
        f"{_secondary(view, verdict)}</div></details>"
    )


def _means(view: View, verdict: WorkloadVerdict) -> str:
    """The candidates of one workload."""
    texts, scale = view.texts, scale_of(verdict)
    metric = texts.metric(verdict.metric)
    unit = f"{metric}, {scale.unit}".rstrip(", ")
    head: Line = [
        texts("column.candidate"),
        Cell(unit),
        Cell(texts("column.interval", confidence=view.confidence)),
        texts("column.difference", baseline=view.verdict.baseline),
        Cell(texts("column.runs")),
    ]
    rows: list[Line] = []
    for row in verdict.candidates:
        if row.candidate == view.verdict.baseline:
            against = Cell(dash(view), "t")
        else:
            cell = candidate_cell(view, verdict, row.candidate, row)
            against = Cell(f"{cell.text} {cell.mark}".strip(), f"t v-{cell.verdict}")
        rows.append(
            [
                row.candidate,
                number(texts.figure(row.geometric_mean / scale.factor)),
                number(interval(view, row.low, row.high, scale)),
                against,
                number(texts.number(row.runs, 0)),
            ]
        )
    caption = texts("chart.higher" if verdict.metric.higher_is_better else "chart.lower")
    return table(head, rows, f"{metric}: {caption}")


def _pairs(view: View, verdict: WorkloadVerdict, with_charts: bool) -> str:
    if not verdict.pairs:
        return ""
    texts = view.texts
    title = texts("section.pairs")
    beside, rows = pair_table(view, verdict, verdict.pairs, title)
    if not with_charts:
        return beside
    label = texts("chart.forest", workload=verdict.workload)
    sides = (texts("chart.first_worse"), texts("chart.first_better"))
    chart = charts.forest(rows, verdict.margin, label, sides)
    note = texts("chart.margin", margin=texts.margin(verdict.margin))
    return figure(title, note, chart, beside, texts)


def _segments(view: View, verdict: WorkloadVerdict) -> str:
    """The pairs of each part between changes of the level, by itself."""
    parts = []
    for segment in verdict.segments:
        first, last = (view.record.number_of(b) for b in (segment.first_block, segment.last_block))
        title = view.texts("text.segment", first=first, last=last)
        parts.append(pair_table(view, verdict, segment.pairs, title)[0])
    return "".join(parts)


def _rates(view: View, verdict: WorkloadVerdict) -> list[str]:
    """Rate over time: a chart per group, a line per candidate with the range of its blocks."""
    groups: dict[str, dict[str, list[RateSeries]]] = {}
    for name in view.names:
        for series in view.record.series.get((verdict.workload, name), ()):
            groups.setdefault(series.group, {}).setdefault(name, []).append(series)
    return [
        _rate_chart(view, verdict, group, by_candidate) for group, by_candidate in groups.items()
    ]


def _rate_chart(
    view: View, verdict: WorkloadVerdict, group: str, by_candidate: dict[str, list[RateSeries]]
) -> str:
    texts = view.texts
    curves = {name: _median_rate(series) for name, series in by_candidate.items()}
    first = next(iter(by_candidate.values()))[0]
    values = [middle for curve in curves.values() for _, middle, _, _ in curve if middle > 0]
    scale = Scale.fitting(values, first.unit)
    lines = [
        charts.Line(
            view.names.index(name),
            [(t, middle / scale.factor) for t, middle, _, _ in curve],
            [(low / scale.factor, high / scale.factor) for _, _, low, high in curve],
        )
        for name, curve in curves.items()
    ]
    ramp = max(series.measured_from_s for each in by_candidate.values() for series in each)
    unit = scale.unit
    chart = charts.Chart(
        lines, texts("chart.time_axis"), unit, bands=True, marker_every=6,
        shaded=(0.0, ramp) if ramp > 0 else None,
    )  # fmt: skip
    label = texts("chart.rates", workload=verdict.workload, group=group_name(view, group))
    beside = _rate_table(view, curves, scale, label)
    drawn = charts.line_chart(chart, texts, label)
    title = texts("text.rates_title", group=group_name(view, group))
    return figure(title, texts("text.rates_intro"), drawn, beside, texts)


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


def _rate_table(
    view: View,
    curves: dict[str, list[tuple[float, float, float, float]]],
    scale: Scale,
    caption: str,
) -> str:
    """About ten moments of every candidate: the median."""
    texts = view.texts
    times = sorted({t for curve in curves.values() for t, *_ in curve})
    shown = times[:: max(1, math.ceil(len(times) / 10))]
    head: Line = [f"{texts('column.time')}, s"]
    head += [Cell(f"{name}, {scale.unit}".rstrip(", ")) for name in curves]
    rows: list[Line] = []
    for t in shown:
        row: Line = [texts.figure(t, 2)]
        for curve in curves.values():
            value = next((m for at, m, _, _ in curve if at == t), math.nan)
            row.append(number(texts.figure(value / scale.factor)))
        rows.append(row)
    return table(head, rows, caption)


def _latency(view: View, verdict: WorkloadVerdict, with_charts: bool) -> str:
    """The distribution of all requests, and its percentiles; bursts have separate figures."""
    texts = view.texts
    if view.experiment.kind == "cpu":
        return ""
    tails = [
        (i, name, view.record.histograms[verdict.workload, name])
        for i, name in enumerate(view.names)
        if view.record.histograms.get((verdict.workload, name))
    ]
    curves = [(i, points) for i, _, h in tails if (points := percentiles(h, CURVE))]
    if not curves:
        return ""
    rows: list[Line] = []
    for _, name, histogram in tails:
        known = dict(percentiles(histogram, [share for share, _ in QUANTILES]))
        cells: Line = [name]
        for share, _ in QUANTILES:
            value = texts.quantity(known[share], "ns") if share in known else dash(view)
            cells.append(number(value))
        count = sum(row[2] for row in histogram)
        rows.append([*cells, number(texts.number(count, 0))])
    head: Line = [texts("column.candidate")]
    head += [Cell(title.replace(".", texts.decimal)) for _, title in QUANTILES]
    head.append(Cell(texts("column.count")))
    label = texts("chart.latency", workload=verdict.workload)
    beside = table(head, rows, texts("text.percentiles_limited"))
    if not with_charts:
        return beside
    chart = charts.latency(curves, texts, label)
    return figure(texts("section.latency"), texts("chart.share_axis"), chart, beside, texts)


def _order(view: View, verdict: WorkloadVerdict, runs: Sequence[Run], with_charts: bool) -> str:
    """Every run in the order of running, and its values."""
    texts, metric = view.texts, verdict.metric
    series = {name: i for i, name in enumerate([*view.names, *view.arms])}
    points = [
        (i, series[run.candidate], run.metrics[metric.name])
        for i, run in enumerate(runs)
        if run.candidate in series and math.isfinite(run.metrics.get(metric.name, math.nan))
    ]
    if len(points) < 2:
        return ""
    scale = scale_of(verdict)
    label = texts("chart.order", workload=verdict.workload)
    beside = ""
    if len(view.runs) <= VALUES_MAX:  # else the workbook has them
        beside = _values(view, runs, metric.name, scale, texts("section.order"))
    if not with_charts:
        return beside
    first = {run.block: i for i, run in reversed(list(enumerate(runs)))}
    changes = [
        (first[block], texts("chart.changed", block=view.record.number_of(block) - 1))
        for block in verdict.change_points
        if block in first
    ]
    chart = charts.run_order(points, scale, changes, texts, label)
    name = f"{texts.metric(metric)}, {scale.unit}".rstrip(", ")
    note = "; ".join([name, *(sentence for _, sentence in changes)])
    return figure(texts("section.order"), note, chart, beside, texts)


def _values(view: View, runs: Sequence[Run], metric: str, scale: Scale, caption: str) -> str:
    """Blocks × candidates: every analysed value."""
    texts = view.texts
    names = [*view.names, *view.arms]
    values: dict[int, dict[str, float]] = {}
    for run in runs:
        values.setdefault(run.block, {})[run.candidate] = run.metrics.get(metric, math.nan)
    head: Line = [texts("column.block")]
    head += [Cell(f"{name}, {scale.unit}".rstrip(", ")) for name in names]
    rows: list[Line] = [
        [str(view.record.number_of(block))]
        + [number(texts.figure(row.get(n, math.nan) / scale.factor)) for n in names]
        for block, row in sorted(values.items())
    ]
    return table(head, rows, caption)


def _secondary(view: View, verdict: WorkloadVerdict) -> str:
    """The further metrics, each candidate beside the baseline."""
    texts = view.texts
    further = view.verdict.secondary.get(verdict.workload, ())
    if not further:
        return ""
    rows: list[Line] = []
    for of in further:
        row: Line = [texts.metric(of.metric)]
        for name in view.names:
            summary = summary_of(of.candidates, name)
            value = measured(view, of, summary)
            if summary is None or name == view.verdict.baseline:
                row.append(number(value))
                continue
            cell = candidate_cell(view, of, name, summary)
            shown = f"{value}; {cell.text} {cell.mark}".strip()
            row.append(Cell(shown, f"v-{cell.verdict}"))
        rows.append(row)
    head: Line = [texts("column.metric")]
    head += [Cell(name) for name in view.names]
    title = texts("section.secondary")
    return details(title, table(head, rows, title))
