"""The first sheet of the workbook: the first screen, and the ratios of its table as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlab.report.cells import drawn
from schedlab.report.screen import Row, all_rows, screen
from schedlab.report.steps import next_steps
from schedlab.report.view import View
from schedlab.report.why import explained
from schedlab.report.workbook import Sheet, dot_series, dress, heads, ratio_axis, tables_below

COLUMNS_MIN = 6
WIDTH_CHARACTERS = 110
CHART_ROWS = 18
CHART_WORKLOADS_MAX = 24


def first(view: View, sheet: Sheet) -> None:
    """Headline, population line, table, why, next step; then the ratios with their chart."""
    texts, of = view.texts, screen(view)
    columns = max(COLUMNS_MIN, len(of.names) + 1)
    headline, lead = " ".join(of.headline), " ".join(of.population)
    sheet.paragraph(headline, columns, "wrapped-title", 22.0 * _lines(headline, 80))
    sheet.paragraph(lead, columns, "wrapped", 16.0 * _lines(lead, WIDTH_CHARACTERS))
    sheet.skip()
    sheet.cells([texts("column.workload"), *of.names], "head")
    sheet.page.freeze_panes(sheet.row, 1)
    rows = all_rows(view)
    for row in rows:
        _table_row(sheet, row)
    sheet.skip()
    for why in explained(view):
        for line in why.sentences:
            sheet.paragraph(line, columns, "wrapped", 16.0 * _lines(line, WIDTH_CHARACTERS))
    for i, step in enumerate(next_steps(view)):
        title = texts("next.title") if i == 0 else ""
        sheet.cells([title, step.command or step.remark], ["name", "prose"])
        if step.command:
            sheet.cells(["", step.remark], ["", "prose"])
    sheet.skip()
    _ratios(view, sheet, rows, of.names[1:])
    tables_below(view, sheet)


def _lines(text: str, characters: int) -> int:
    return 1 + len(text) // characters


def _table_row(sheet: Sheet, row: Row) -> None:
    """A row of the first table in words, coloured and with its mark."""
    texts = [f"{cell.text} {cell.mark}".strip() for cell in row.cells]
    coloured = ("better", "worse", "undecided")
    formats = [cell.verdict if cell.verdict in coloured else "" for cell in row.cells]
    if row.span:
        texts, formats = [texts[0], row.span], ["", "prose"]
    sheet.cells([row.title, *texts], ["under" if row.indent else "name", *formats])


def _ratios(view: View, sheet: Sheet, rows: Sequence[Row], names: Sequence[str]) -> None:
    """better : worse against the baseline with its interval, and a chart of it."""
    texts = view.texts
    compared = [row for row in rows if any(cell.pair for cell in row.cells)]
    if not compared or not names:
        return
    baseline = view.verdict.baseline
    sheet.line(texts("sheet.ratios", baseline=baseline), "heading")
    head = [texts("column.workload"), *names]
    for name in names:
        head += [f"{name} −", f"{name} +"]
    start = sheet.row
    sheet.cells(head, heads(head, 1))
    ends: list[float] = []
    for row in compared:
        values, errors = _ratio_values(row, ends)
        title = f"{row.of.workload}: {row.title}" if row.indent else row.title
        sheet.cells([title, *values, *errors], ["name", *["ratio"] * (3 * len(names))])
    last = min(sheet.row - 1, start + CHART_WORKLOADS_MAX)
    chart = sheet.book.add_chart({"type": "line"})
    for i, name in enumerate(names):
        minus = 1 + len(names) + 2 * i
        places: dict[str, Any] = {
            "categories": [sheet.title, start + 1, 0, last, 0],
            "values": [sheet.title, start + 1, 1 + i, last, 1 + i],
            "minus": sheet.range(start + 1, last, minus),
            "plus": sheet.range(start + 1, last, minus + 1),
        }
        chart.add_series(dot_series(name, i + 1, places))
    title = texts("sheet.chart_title", baseline=baseline)
    dress(chart, title, "", texts("sheet.ratio_axis"), ratio_axis(ends))
    sheet.page.insert_chart(sheet.row + 1, 0, chart)
    sheet.skip(CHART_ROWS + 1)


def _ratio_values(row: Row, ends: list[float]) -> tuple[list[float | None], list[float | None]]:
    """The ratios of a row, and the lengths of their error bars; `ends` collects what is drawn."""
    values: list[float | None] = []
    errors: list[float | None] = []
    for cell in row.cells[1:]:
        if cell.pair is None:
            values.append(None)
            errors += [None, None]
            continue
        of = drawn(cell.pair, row.of.metric.higher_is_better)
        low, high = of.low or of.ratio, of.high or of.ratio
        values.append(of.ratio)
        errors += [of.ratio - low, high - of.ratio]
        ends += [low, of.ratio, high]
    return values, errors
