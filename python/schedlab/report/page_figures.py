"""The page's large figures: by record size, by test, over the blocks, CPU bursts."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from html import escape, unescape

from schedlab.report import charts
from schedlab.report.cells import dash, drawn, interval, scale_of
from schedlab.report.markup import Cell, Line, details, figure, legend, number, paragraph, table
from schedlab.report.screen import candidate_cell
from schedlab.report.texts import Scale
from schedlab.report.view import Family, TestMean, View, seen_from, size_text, summary_of

# Beyond these, figures would make the page slow and heavy; the tables continue.
FAMILIES_MAX = 12
ROWS_MAX = 60


def figures_section(view: View) -> str:
    """Everything that shows several workloads in one picture."""
    parts = [legend(view), *_by_test(view)]
    if shown := view.families[:FAMILIES_MAX]:
        panels = "".join(_family(view, family) for family in shown)
        parts.append(f'<div class="panels">{panels}</div>')
    if len(view.families) > FAMILIES_MAX:
        parts.append(_limited(view, FAMILIES_MAX, len(view.families)))
    return "".join([*parts, _bursts(view), *map(embedded, view.record.figures)])


def embedded(svg: str) -> str:
    """A figure of the result folder, as a picture: its style and scripts stay inside."""
    title = re.search(r"<title>(.*?)</title>", svg)
    alt = escape(unescape(title[1]), quote=True) if title else ""
    data = base64.b64encode(svg.encode()).decode()
    image = f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'
    return f'<div class="scroll wide" tabindex="0"><figure>{image}</figure></div>'


def _limited(view: View, shown: int, total: int) -> str:
    return paragraph(view.texts("text.charts_limited", shown=shown, total=total), "note")


def _direction(view: View, higher_is_better: bool) -> str:
    return view.texts("chart.higher" if higher_is_better else "chart.lower")


def _by_test(view: View) -> list[str]:
    """Means with intervals: one figure per metric."""
    texts = view.texts
    # Negative controls, such as cached reads, would make everything else a point beside theirs.
    grouped: dict[tuple[str, bool], list[TestMean]] = {}
    for mean in view.test_means:
        grouped.setdefault((mean.metric.name, view.is_control(mean.title)), []).append(mean)
    panels = []
    for means in grouped.values():
        metric = means[0].metric
        shown = means[: max(1, ROWS_MAX // max(1, len(view.names)))]
        families = {family.title for family in view.families}
        key = "chart.by_test" if means[0].title in families else "chart.by_workload"
        title = texts(key, metric=texts.metric(metric))
        title = title[:1].upper() + title[1:]
        values = [value for mean in shown for _, value, _, _ in mean.rows]
        scale = Scale.fitting(values, metric.unit)
        groups = [(mean.title, _dots(view, mean, scale)) for mean in shown if mean.rows]
        chart = charts.dots(groups, texts, title, scale.unit) if groups else ""
        beside = _table_of_means(view, means, title)
        direction = _direction(view, metric.higher_is_better)
        panels.append(figure(title, direction, chart, beside, texts))
        if len(shown) < len(means):
            panels.append(_limited(view, len(shown), len(means)))
    return [f'<div class="panels">{"".join(panels)}</div>']


def _dots(view: View, mean: TestMean, scale: Scale) -> list[charts.Dot]:
    def scaled(value: float | None) -> float | None:
        return None if value is None else value / scale.factor

    return [
        charts.Dot(view.names.index(name), name, value / scale.factor, scaled(low), scaled(high))
        for name, value, low, high in mean.rows
    ]


def _table_of_means(view: View, means: Sequence[TestMean], caption: str) -> str:
    scale = Scale.fitting([row[1] for mean in means for row in mean.rows], means[0].metric.unit)
    rows: list[Line] = []
    for mean in means:
        values = {name: (value, low, high) for name, value, low, high in mean.rows}
        cells: Line = [mean.title]
        for name in view.names:
            value, low, high = values.get(name, (float("nan"), None, None))
            cells.append(number(view.texts.figure(value / scale.factor)))
            cells.append(number(interval(view, low, high, scale)))
        rows.append(cells)
    head: Line = [view.texts("column.test")]
    for name in view.names:
        head += [
            Cell(f"{name}, {scale.unit}".rstrip(", ")),
            Cell(view.texts("column.interval", confidence=view.confidence)),
        ]
    return table(head, rows, caption)


def _family(view: View, family: Family) -> str:
    """A test over its record sizes: the means, and every candidate against the baseline."""
    texts, metric = view.texts, view.texts.metric(family.metric)
    title = texts("chart.by_record_size", test=family.title, metric=metric)
    direction = _direction(view, family.metric.higher_is_better)
    beside = _table_of_sizes(view, family, title)
    first = figure(title, direction, _size_chart(view, family, title), beside, texts)
    title = texts("chart.by_size_ratio", test=family.title, baseline=view.verdict.baseline)
    chart = _ratio_chart(view, family, title)
    margin = texts("chart.margin", margin=texts.margin(family.members[0].verdict.margin))
    return first + figure(title, margin, chart, _table_of_ratios(view, family, title), texts)


def _size_ticks(family: Family) -> list[tuple[float, str]]:
    return [(float(m.record_bytes), size_text(m.record_bytes)) for m in family.members]


def _size_chart(view: View, family: Family, label: str) -> str:
    """The means with their intervals over the record size."""
    members = [m.verdict for m in family.members]
    values = [row.geometric_mean for m in members for row in m.candidates]
    scale = Scale.fitting(values, family.metric.unit)
    lines = []
    for i, name in enumerate(view.names):
        points, ranges = [], []
        for member in family.members:
            row = summary_of(member.verdict.candidates, name)
            if row is None:
                continue
            middle = row.geometric_mean
            points.append((float(member.record_bytes), middle / scale.factor))
            ends = (row.low or middle, row.high or middle)
            ranges.append((ends[0] / scale.factor, ends[1] / scale.factor))
        lines.append(charts.Line(i, points, ranges))
    chart = charts.Chart(
        lines, view.texts("chart.record_axis"), scale.unit, log_x=True,
        zero=max(values) <= 2 * min(values), ticks_x=_size_ticks(family),
    )  # fmt: skip
    return charts.line_chart(chart, view.texts, label)


def _ratio_chart(view: View, family: Family, label: str) -> str:
    """Every candidate against the baseline, above 1 is better, over the record size."""
    lines = []
    for i, name in enumerate(view.names):
        points, ranges = [], []
        for member in family.members:
            pair = seen_from(member.verdict.pairs, name, view.verdict.baseline)
            if pair is None:
                continue
            of = drawn(pair, family.metric.higher_is_better)
            points.append((float(member.record_bytes), of.ratio))
            ranges.append((of.low or of.ratio, of.high or of.ratio))
        if points:
            lines.append(charts.Line(i, points, ranges))
    chart = charts.Chart(
        lines, view.texts("chart.record_axis"), f"↑ {view.texts('chart.better')}", log_x=True,
        level=1.0, ticks_x=_size_ticks(family),
    )  # fmt: skip
    return charts.line_chart(chart, view.texts, label)


def _table_of_sizes(view: View, family: Family, caption: str) -> str:
    head: Line = [view.texts("column.record_size")]
    head += [Cell(name) for name in view.names]
    rows: list[Line] = []
    for member in family.members:
        scale = scale_of(member.verdict)
        row: Line = [size_text(member.record_bytes)]
        for name in view.names:
            summary = summary_of(member.verdict.candidates, name)
            if summary is None:
                row.append(number(dash(view)))
                continue
            value = view.texts.figure(summary.geometric_mean / scale.factor)
            ends = interval(view, summary.low, summary.high, scale)
            row.append(number(f"{value} {scale.unit} ({ends})"))
        rows.append(row)
    return table(head, rows, caption)


def _table_of_ratios(view: View, family: Family, caption: str) -> str:
    others = [name for name in view.names if name != view.verdict.baseline]
    head: Line = [view.texts("column.record_size"), *others]
    rows: list[Line] = []
    for member in family.members:
        row: Line = [size_text(member.record_bytes)]
        for name in others:
            summary = summary_of(member.verdict.candidates, name)
            cell = candidate_cell(view, member.verdict, name, summary)
            row.append(Cell(f"{cell.text} {cell.mark}".strip(), f"t v-{cell.verdict}"))
        rows.append(row)
    return table(head, rows, caption)


def drift_section(view: View) -> str:
    """The block means, which would be on a level line if the machine had stayed the same."""
    texts = view.texts
    if not view.experiment.blocked or len({run.block for run in view.runs}) < 2:
        return ""
    label = texts("chart.drift")
    lines = [
        charts.Line(i, [(float(view.record.number_of(b)), v) for b, v in block_means(view, name)])
        for i, name in enumerate(view.names)
    ]
    blocks = sorted({x for line in lines for x, _ in line.points})
    step = max(1, -(-len(blocks) // 12))
    chart = charts.Chart(
        [line for line in lines if line.points], texts("chart.block_axis"), "", level=1.0,
        ticks_x=[(b, str(int(b))) for b in blocks[::step]], width=720,
    )  # fmt: skip
    drawn_ = charts.line_chart(chart, texts, label)
    return (
        paragraph(texts("text.drift_intro"))
        + legend(view)
        + '<div class="scroll wide" tabindex="0">'
        + figure(label, "", drawn_, table_of_drift(view, label), texts)
        + "</div>"
    )


def block_means(view: View, name: str) -> list[tuple[int, float]]:
    """(block, ratio) of a candidate: mean log over all workloads, against its own mean."""
    logs: dict[int, list[float]] = {}
    for verdict in view.workloads:
        own = summary_of(verdict.candidates, name)
        for run in view.runs_by_workload[verdict.workload]:
            value = run.metrics.get(verdict.metric.name, math.nan)
            if run.candidate == name and value > 0 and own is not None and own.geometric_mean > 0:
                logs.setdefault(run.block, []).append(math.log(value / own.geometric_mean))
    return [(block, math.exp(sum(v) / len(v))) for block, v in sorted(logs.items())]


def table_of_drift(view: View, caption: str) -> str:
    """The block means that the drift figure shows."""
    means = {name: dict(block_means(view, name)) for name in view.names}
    blocks = sorted({block for by_block in means.values() for block in by_block})
    head: Line = [view.texts("column.block")]
    head += [Cell(name) for name in view.names]
    rows: list[Line] = [
        [
            str(view.record.number_of(block)),
            *(number(view.texts.number(means[n].get(block, float("nan")), 3)) for n in view.names),
        ]
        for block in blocks
    ]
    return table(head, rows, caption)


def _bursts(view: View) -> str:
    """The published tables of the CPU lab: counts and CPU bursts, summed and of every worker."""
    texts = view.texts
    rows: list[Line] = []
    sums: dict[str, tuple[float, float]] = {}
    for run in view.runs:
        for worker in run.properties.get("workers", ()):
            if not isinstance(worker, dict) or "calculations" not in worker:
                continue
            count, burst = float(worker["calculations"]), float(worker.get("cpu_burst_s", 0))
            before = sums.get(run.candidate, (0.0, 0.0))
            sums[run.candidate] = (before[0] + count, before[1] + burst)
            about = (view.record.number_of(run.block), worker.get("worker", ""))
            numbers = [number(str(value)) for value in about]
            rows.append([run.candidate, *numbers, *_burst_cells(view, count, burst)])
    if not rows:
        return ""
    names = ("calculations", "cpu_burst_s", "per_burst_second")
    heads = [Cell(texts(f"text.{name}")) for name in names]
    title = texts("section.bursts")
    candidate = texts("column.candidate")
    total: list[Line] = [[n, *_burst_cells(view, *sums[n])] for n in view.names if n in sums]
    about_heads = [Cell(texts(f"column.{name}")) for name in ("block", "worker")]
    every = table([candidate, *about_heads, *heads], rows, title)
    return (
        f"<h3>{escape(title)}</h3>{paragraph(texts('text.bursts_intro'))}"
        f"{table([candidate, *heads], total, title)}{details(texts('column.worker'), every)}"
    )


def _burst_cells(view: View, count: float, burst: float) -> Line:
    """Calculations, CPU seconds, and the one by the other."""
    texts = view.texts
    rate = texts.number(count / burst, 2) if burst else dash(view)
    return [number(texts.number(count, 0)), number(texts.number(burst, 3)), number(rate)]
