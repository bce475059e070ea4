"""The sheet of means: grand means with charts, then tests × repetitions per record size.

Arithmetic means in the layout of the published IOzone study, so that its readers find their
tables again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.report.texts import Scale
from schedlab.report.view import View, record_bytes, size_text
from schedlab.report.workbook import (
    SERIES_COLOURS,
    Sheet,
    axis_for,
    dot_series,
    dress,
    error_bars,
)
from schedlab.spec import Metric

CHART_ROWS = 16


@dataclass(frozen=True)
class Column:
    """A workload in the tables: its test, its record size where it has one, its values."""

    test: str
    record_bytes: int | None
    metric: Metric
    values: dict[str, dict[int, float]]  # candidate -> block -> value


@dataclass(frozen=True)
class Grand:
    """A mean over several workloads with the half-width of its 95 % interval."""

    mean: float
    half: float


def means(view: View, sheet: Sheet) -> None:
    """Write the sheet, one part per metric, negative controls apart."""
    parts: dict[tuple[str, bool], list[Column]] = {}
    for column in _columns(view):
        parts.setdefault((column.metric.name, view.is_control(column.test)), []).append(column)
    for part in parts.values():
        _part(view, sheet, part)
    sheet.page.freeze_panes(0, 1)


def _columns(view: View) -> list[Column]:
    """The primary metric of every workload."""
    parameters = {w.label: w.parameters for w in view.experiment.workloads}
    columns = []
    for verdict in view.workloads:
        values: dict[str, dict[int, float]] = {name: {} for name in view.names}
        for run in view.runs_by_workload[verdict.workload]:
            value = run.metrics.get(verdict.metric.name, math.nan)
            if run.candidate in values and math.isfinite(value):
                values[run.candidate][run.block] = value
        own = parameters.get(verdict.workload, {})
        size = record_bytes(own)
        test = str(own.get("test", verdict.workload)) if size else verdict.workload
        columns.append(Column(test, size, verdict.metric, values))
    return columns


def _part(view: View, sheet: Sheet, columns: Sequence[Column]) -> None:
    """All tables of one metric."""
    texts, metric = view.texts, columns[0].metric
    everything = [v for c in columns for by in c.values.values() for v in by.values()]
    scale = Scale.fitting(everything, metric.unit)
    title = f"{texts.metric(metric)}, {scale.unit}".rstrip(", ")
    sheet.line(title[:1].upper() + title[1:], "title")
    sheet.skip()
    tests = list(dict.fromkeys(column.test for column in columns))
    by_test = {test: [c for c in columns if c.test == test] for test in tests}
    heading = texts("sheet.grand_by_test")
    _grand(view, sheet, heading, texts("column.test"), by_test, scale)
    sizes = sorted({c.record_bytes for c in columns if c.record_bytes})
    if sizes:
        by_size = {size_text(s): [c for c in columns if c.record_bytes == s] for s in sizes}
        heading = texts("sheet.grand_by_size")
        _grand(view, sheet, heading, texts("column.record_size"), by_size, scale)
    for size in [*sizes, None]:
        _repetitions(view, sheet, [c for c in columns if c.record_bytes == size], size, scale)


def grand(columns: Sequence[Column], candidate: str) -> Grand | None:
    """The mean of all values, with a Student interval over the means of the blocks."""
    values = [v for column in columns for v in column.values[candidate].values()]
    if not values:
        return None
    blocks = set.intersection(*(set(column.values[candidate]) for column in columns))
    mean = sum(values) / len(values)
    if len(blocks) < 2:
        return Grand(mean, 0.0)
    from scipy.special import stdtrit

    each = [sum(c.values[candidate][b] for c in columns) / len(columns) for b in blocks]
    middle = sum(each) / len(each)
    variance = sum((value - middle) ** 2 for value in each) / (len(each) - 1)
    quantile = float(stdtrit(len(each) - 1, 0.975))
    return Grand(mean, quantile * math.sqrt(variance / len(each)))


def _grand(
    view: View,
    sheet: Sheet,
    heading: str,
    label: str,
    groups: dict[str, list[Column]],
    scale: Scale,
) -> None:
    """A table of grand means, the half-widths beside it, and a chart of both."""
    names, texts = view.names, view.texts
    sheet.line(heading, "heading")
    first = sheet.row + 1
    halves = [f"{name} ± {scale.unit}".rstrip() for name in names]
    sheet.cells([label, *names, *halves], ["head", *["head-right"] * (2 * len(names))])
    every: list[Grand] = []
    for title, columns in groups.items():
        means = [grand(columns, name) for name in names]
        every += [g for g in means if g is not None]
        means_ = [None if g is None else g.mean / scale.factor for g in means]
        half = [None if g is None else g.half / scale.factor for g in means]
        formats = ["name", *["mean"] * len(names), *["value"] * len(names)]
        sheet.cells([title, *means_, *half], formats)
    last = sheet.row - 1
    ends = [e / scale.factor for g in every for e in (g.mean - g.half, g.mean, g.mean + g.half)]
    axis = axis_for(ends if min(ends) > 0 else [g.mean / scale.factor for g in every])
    chart = sheet.book.add_chart({"type": "line" if axis.log_base else "column"})
    for i, name in enumerate(names):
        error = sheet.range(first, last, 1 + len(names) + i)
        places = {
            "categories": [sheet.title, first, 0, last, 0],
            "values": [sheet.title, first, 1 + i, last, 1 + i],
        }
        if axis.log_base:
            chart.add_series(dot_series(name, i, {**places, "plus": error, "minus": error}))
            continue
        fill = {"color": SERIES_COLOURS[i % len(SERIES_COLOURS)], "transparency": 30}
        bars = error_bars(error, error)
        chart.add_series({"name": name, **places, "fill": fill, "y_error_bars": bars})
    heading = f"{heading} ({texts.margin(0.95)})"
    dress(chart, heading, label, scale.unit, axis)
    sheet.page.insert_chart(sheet.row + 1, 0, chart)
    sheet.skip(CHART_ROWS + 1)


def _repetitions(
    view: View, sheet: Sheet, columns: Sequence[Column], size: int | None, scale: Scale
) -> None:
    """Tests × repetitions with their mean: a table for every candidate."""
    if not columns:
        return
    texts = view.texts
    for name in view.names:
        blocks = sorted({block for column in columns for block in column.values[name]})
        if not blocks:
            continue
        title = f"{name}, {size_text(size)}" if size else name
        sheet.line(f"{title} ({scale.unit})" if scale.unit else title, "heading")
        first = texts("column.test" if size else "column.workload")
        head = [first, *(view.record.number_of(block) for block in blocks), texts("column.mean")]
        sheet.cells(head, ["head", *["head-right"] * (len(blocks) + 1)])
        for column in columns:
            values = [column.values[name].get(block) for block in blocks]
            known = [value / scale.factor for value in values if value is not None]
            shown = [None if value is None else value / scale.factor for value in values]
            mean = sum(known) / len(known) if known else None
            formats = ["name", *["value"] * len(blocks), "mean"]
            sheet.cells([column.test, *shown, mean], formats)
        sheet.skip()
