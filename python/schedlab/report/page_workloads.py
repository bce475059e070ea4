"""The page's part on every single workload: a table of all, then each with its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from schedlab.report import drawing, sentences
from schedlab.report.cells import (
    blocks_needed,
    dash,
    difference,
    interval,
    pair_verdict,
    scale_of,
    workload_cells,
)
from schedlab.report.markup import Cell, Line, details, figure, legend, number, paragraph, table
from schedlab.report.texts import Scale
from schedlab.report.view import View, percentiles, summary_of
from schedlab.spec import Pair, Run, WorkloadVerdict

OPEN_MAX = 3
CHARTS_MAX = 100
CURVE = tuple(1 - 10 ** (-i / 5) for i in range(31))
QUANTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"))


def workloads_section(view: View) -> str:
    """All workloads."""
    parts = []
    if len(view.workloads) > 1:
        parts = [
            paragraph(view.texts("text.per_workload_intro")),
            paragraph(sentences.symbol_help(view), "note"),
            _all(view),
        ]
    parts.append(legend(view, arm=True))
    parts += [_one(view, i, w) for i, w in enumerate(view.workloads)]
    if len(view.workloads) > CHARTS_MAX:
        total = len(view.workloads)
        limited = view.texts("text.charts_limited", shown=CHARTS_MAX, total=total)
        parts.append(paragraph(limited, "note"))
    return "".join(parts)


def _all(view: View) -> str:
    """One row per workload."""
    texts, baseline = view.texts, view.verdict.baseline
    others = [name for name in view.names if name != baseline]
    head: Line = [texts("column.workload"), Cell(baseline)]
    head += [*(Cell(name) for name in others), texts("column.best")]
    rows = []
    for verdict in view.workloads:
        cells = workload_cells(view, verdict)
        row: Line = [verdict.workload, number(cells.baseline)]
        for name, text in zip(others, cells.others, strict=True):
            summary = summary_of(verdict.candidates, name)
            kind = summary.verdict if summary and summary.verdict else "baseline"
            row.append(Cell(text, f"v-{kind}"))
        rows.append([*row, cells.best])
    return table(head, rows, texts("section.workloads"))


def _one(view: View, index: int, verdict: WorkloadVerdict) -> str:
    """A workload: its sentence, pairs, candidates, latency, further metrics, order of running."""
    runs = view.runs_by_workload[verdict.workload]
    with_charts = index < CHARTS_MAX
    said = sentences.sentence(view, sentences.answer(view, verdict))
    head = f"<h3>{escape(verdict.workload)}</h3><span>{escape(said)}.</span>"
    panels = [_pairs(view, verdict, with_charts)]
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
        Cell(texts("column.difference", baseline=view.verdict.baseline)),
        Cell(texts("column.interval", confidence=view.confidence)),
        Cell(texts("column.runs")),
    ]
    rows: list[Line] = []
    for row in verdict.candidates:
        rows.append(
            [
                row.candidate,
                number(texts.figure(row.geometric_mean / scale.factor)),
                number(interval(view, row.low, row.high, scale)),
                number(difference(view, row)),
                number(texts.ratio_interval(row.ratio_low, row.ratio_high)),
                number(texts.number(row.runs, 0)),
            ]
        )
    floor = verdict.noise_floor
    caption = texts("chart.higher" if verdict.metric.higher_is_better else "chart.lower")
    if floor is not None:
        words = texts.percent(floor, signed=False)
        caption += f"; {texts('column.noise_floor')}: {words}"
    return table(head, rows, f"{metric}: {caption}")


def _pairs(view: View, verdict: WorkloadVerdict, with_charts: bool) -> str:
    if not verdict.pairs:
        return ""
    texts = view.texts
    label = texts("chart.forest", workload=verdict.workload)
    beside = pair_table(view, verdict.pairs, texts("section.pairs"))
    if not with_charts:
        return beside
    chart = drawing.forest(verdict.pairs, verdict.margin, texts, label)
    note = texts("chart.margin", margin=texts.margin(verdict.margin))
    return figure(texts("section.pairs"), note, chart, beside, texts)


def _segments(view: View, verdict: WorkloadVerdict) -> str:
    """The pairs of each part between changes of the level, by itself."""
    parts = []
    for segment in verdict.segments:
        first, last = (view.record.number_of(b) for b in (segment.first_block, segment.last_block))
        title = view.texts("text.segment", first=first, last=last)
        parts.append(pair_table(view, segment.pairs, title))
    return "".join(parts)


def pair_table(view: View, pairs: Sequence[Pair], caption: str) -> str:
    """Every pair with its interval and verdict."""
    texts = view.texts
    head: Line = [
        texts("column.pair"),
        Cell(texts("column.ratio")),
        Cell(texts("column.interval", confidence=view.confidence)),
        texts("column.verdict"),
        Cell(texts("column.robust")),
        Cell(texts("column.blocks_needed")),
    ]
    rows: list[Line] = []
    for pair in pairs:
        robust = pair.hodges_lehmann
        rows.append(
            [
                texts("text.against", a=pair.a, b=pair.b),
                number(texts.percent(pair.ratio - 1)),
                number(texts.ratio_interval(pair.low, pair.high)),
                Cell(pair_verdict(view, pair), f"t v-{pair.verdict}"),
                number(dash(view) if robust is None else texts.percent(robust - 1)),
                number(blocks_needed(view, pair)),
            ]
        )
    return table(head, rows, caption)


def _latency(view: View, verdict: WorkloadVerdict, with_charts: bool) -> str:
    """The distribution of all requests, and its percentiles; bursts have figures of their own."""
    texts = view.texts
    if view.experiment.kind == "cpu":
        return ""
    found = [
        (i, name, view.record.histograms[verdict.workload, name])
        for i, name in enumerate(view.names)
        if view.record.histograms.get((verdict.workload, name))
    ]
    curves = [(i, points) for i, _, h in found if (points := percentiles(h, CURVE))]
    if not curves:
        return ""
    rows: list[Line] = []
    for _, name, histogram in found:
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
    chart = drawing.latency(curves, texts, label)
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
    beside = _values(view, runs, metric.name, scale, texts("section.order"))
    if not with_charts:
        return beside
    first = {run.block: i for i, run in reversed(list(enumerate(runs)))}
    changes = [
        (first[block], texts("chart.changed", block=view.record.number_of(block) - 1))
        for block in verdict.change_points
        if block in first
    ]
    chart = drawing.run_order(points, scale, changes, texts, label)
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
        + [number(texts.figure(found.get(n, math.nan) / scale.factor)) for n in names]
        for block, found in sorted(values.items())
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
            s = summary_of(of.candidates, name)
            if s is None:
                row.append(number(dash(view)))
                continue
            value = texts.quantity(s.geometric_mean, of.metric.unit)
            if s.ratio is None:
                row.append(number(value))
                continue
            ends = texts.ratio_interval(s.ratio_low, s.ratio_high)
            text = f"{value}; {texts.percent(s.ratio - 1)} ({ends})"
            row.append(Cell(text, f"v-{s.verdict}"))
        rows.append(row)
    head: Line = [texts("column.metric")]
    head += [Cell(name) for name in view.names]
    title = texts("section.secondary")
    return details(title, table(head, rows, title))
