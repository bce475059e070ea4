"""The page's large figures: by record size, by test, throughput beside latency, CPU bursts."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape, unescape

from schedlab.report import figures
from schedlab.report.cells import dash, interval, scale_of
from schedlab.report.markup import Cell, Line, details, figure, legend, number, paragraph, table
from schedlab.report.texts import Scale
from schedlab.report.view import Family, TestMean, View, size_text, summary_of

# Beyond these, figures would make the page slow and heavy; the tables go on.
FAMILIES_MAX = 12
BARS_MAX = 60


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
    """Grouped bars: one figure per metric."""
    texts = view.texts
    # Negative controls, such as cached reads, would make every other bar a stub beside theirs.
    grouped: dict[tuple[str, bool], list[TestMean]] = {}
    for mean in view.test_means:
        grouped.setdefault((mean.metric.name, view.is_control(mean.title)), []).append(mean)
    panels = []
    for means in grouped.values():
        metric = means[0].metric
        shown = means[: max(1, BARS_MAX // max(1, len(view.names)))]
        families = {family.title for family in view.families}
        key = "chart.by_test" if means[0].title in families else "chart.by_workload"
        title = texts(key, metric=texts.metric(metric))
        title = title[:1].upper() + title[1:]
        chart = figures.bars(view, shown, title)
        beside = _table_of_means(view, means, title)
        direction = _direction(view, metric.higher_is_better)
        panels.append(figure(title, direction, chart, beside, texts))
        if len(shown) < len(means):
            panels.append(_limited(view, len(shown), len(means)))
    return [f'<div class="panels">{"".join(panels)}</div>']


def _table_of_means(view: View, means: Sequence[TestMean], caption: str) -> str:
    scale = Scale.fitting([row[1] for mean in means for row in mean.rows], means[0].metric.unit)
    rows: list[Line] = []
    for mean in means:
        found = {name: (value, low, high) for name, value, low, high in mean.rows}
        cells: Line = [mean.title]
        for name in view.names:
            value, low, high = found.get(name, (float("nan"), None, None))
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
    """A test over its record sizes: the means, and the differences to the baseline."""
    texts, metric = view.texts, view.texts.metric(family.metric)
    baseline = view.verdict.baseline
    title = texts("chart.by_record_size", test=family.title, metric=metric)
    chart = figures.by_record_size(view, family, title)
    direction = _direction(view, family.metric.higher_is_better)
    first = figure(title, direction, chart, _table_of_sizes(view, family, title), texts)
    title = texts("chart.by_record_size_difference", test=family.title, baseline=baseline)
    chart = figures.by_record_size_difference(view, family, title)
    margin = texts("chart.margin", margin=texts.margin(family.members[0].verdict.margin))
    beside = _table_of_differences(view, family, title)
    return first + figure(title, margin, chart, beside, texts)


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


def _table_of_differences(view: View, family: Family, caption: str) -> str:
    others = [name for name in view.names if name != view.verdict.baseline]
    head: Line = [view.texts("column.record_size")]
    head += [Cell(name) for name in others]
    rows: list[Line] = []
    for member in family.members:
        row: Line = [size_text(member.record_bytes)]
        for name in others:
            s = summary_of(member.verdict.candidates, name)
            if s is None or s.ratio is None:
                row.append(number(dash(view)))
                continue
            ends = view.texts.ratio_interval(s.ratio_low, s.ratio_high)
            text = f"{view.texts.percent(s.ratio - 1)} ({ends})"
            row.append(Cell(text, f"v-{s.verdict}"))
        rows.append(row)
    return table(head, rows, caption)


def table_of_drift(view: View, caption: str) -> str:
    """The block means that the drift figure shows."""
    means = {name: dict(figures.block_means(view, name)) for name in view.names}
    blocks = sorted({block for found in means.values() for block in found})
    head: Line = [view.texts("column.block")]
    head += [Cell(f"{name}, %") for name in view.names]
    rows: list[Line] = [
        [
            str(view.record.number_of(block)),
            *(number(view.texts.number(means[n].get(block, float("nan")), 1)) for n in view.names),
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
