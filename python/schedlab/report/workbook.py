"""The result as an Excel workbook: the first screen, the tables of the study, runs and machine.

Numbers are stored as numbers; their units are in the headers. Charts are native ones, drawn from
the same tables as those of the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import schedlab
from schedlab.nouns import METRICS
from schedlab.report import notes, why
from schedlab.report.drawing import COLOURS, cells, ticks
from schedlab.report.handin import study_tables
from schedlab.report.screen import losses_table, screen
from schedlab.report.sentences import headline_text
from schedlab.report.steps import next_step
from schedlab.report.tables import Column, Table, TableCell, build
from schedlab.report.texts import Texts
from schedlab.report.view import View, flatten

WIDTH_MAX = 48
FONT, FONT_SIZE = "Calibri", 11
MARKERS = ("circle", "square", "triangle", "diamond", "x", "plus", "star", "short_dash")
# Of a paragraph: its least width in characters, and how many fit in a font wider than ours.
PROSE_WIDTH, FILLED, COLUMN_WIDTH = 100, 0.8, 8
LINE_PT, ROW_MAX_PT = 1.4, 400.0
CHART_ROWS = 16
# What a spreadsheet takes for a formula or a link is text.
OPTIONS = {
    "nan_inf_to_errors": False, "in_memory": True, "strings_to_formulas": False,
    "strings_to_urls": False,
}  # fmt: skip


def content(view: View) -> bytes:
    """The workbook as the bytes of a file."""
    import io

    import xlsxwriter

    file = io.BytesIO()
    book = xlsxwriter.Workbook(file, OPTIONS)
    facts: dict[str, object] = {"title": headline_text(view), "subject": view.experiment.title}
    with suppress(ValueError):  # Without it, it is now: the same folder would be another file.
        facts["created"] = datetime.fromisoformat(view.started_at)
    book.set_properties({**facts, "keywords": view.answer.code, "comments": "Made by schedlab"})
    formats = _formats(book)
    makers = {
        "verdict": _first, "losses": _losses, "tables": _tables, "runs": _runs, "host": _host,
        "readme": _readme,
    }  # fmt: skip
    for name, make in makers.items():
        sheet = Sheet(book, view.texts, name, formats)
        make(view, sheet)
        sheet.finish()
    book.close()
    return file.getvalue()


def _formats(book: Any) -> dict[str, object]:
    """The cell formats by name."""
    base: dict[str, object] = {"font_name": FONT, "font_size": FONT_SIZE, "valign": "vcenter"}
    head = {"bold": True, "bottom": 2, "text_wrap": True, "valign": "bottom"}
    wrap = {"text_wrap": True, "valign": "top"}
    named: dict[str, dict[str, object]] = {
        "": {}, "prose": {}, "heading": {"bold": True, "font_size": 13}, "head": head,
        "head-right": {**head, "align": "right"}, "name": {"bold": True}, "wrapped": wrap,
        "under": {"indent": 1, "font_color": "#5A6069"}, "soft": {"font_color": "#5A6069"},
        "wrapped-title": {**wrap, "bold": True, "font_size": 16},
        "best": {"font_color": "#12694A", "bold": True},
        "behind": {"font_color": "#A8321A", "bold": True},
        "0": {"num_format": "#,##0"}, "1": {"num_format": "#,##0.0"},
        "2": {"num_format": "#,##0.00"}, "3": {"num_format": "#,##0.000"},
        "small": {"num_format": "0.00E+00"}, "words": {"indent": 1},
        "head-words": {**head, "align": "left", "indent": 1},
        "line": {"top": 4, "top_color": "#C4C8CE"},
    }  # fmt: skip
    return {name: book.add_format({**base, **more}) for name, more in named.items()}


class Sheet:
    """A worksheet that is written row by row and knows how wide its columns must be."""

    def __init__(self, book: Any, texts: Texts, name: str, formats: dict[str, Any]) -> None:
        self.title = texts(f"sheet.{name}")[:31]
        self.page = book.add_worksheet(self.title)
        self.book, self.texts, self.formats = book, texts, formats
        self.row = 0
        self.widths: dict[int, int] = {}
        self.paragraphs: list[tuple[int, str, str]] = []
        self.page.hide_gridlines(2)
        self.page.set_landscape()
        self.page.fit_to_pages(1, 0)

    def line(self, text: str, name: str = "prose") -> None:
        """A sentence in the first column that may run over the others."""
        self.page.write_string(self.row, 0, text, self.formats[name])
        self.row += 1

    def paragraph(self, text: str, name: str = "wrapped") -> None:
        """A text over as many columns as it needs, in a row that is high enough for it."""
        self.paragraphs.append((self.row, text, name))
        self.row += 1

    def table(self, of: Table, *, titled: bool = True) -> None:
        """A table of the model: a value as a number, a note in a row of its own below it."""
        if titled:
            self.line(of.title, "heading")
        top = self.row
        for i, column in enumerate(of.columns):
            right = not column.text and not any(row.cells[i].note for row in of.rows)
            between = "head-words" if column.text and i else "head"
            self._write(i, column.head, "head-right" if right else between)
        self.row += 1
        for row in of.rows:
            self._row(of, row.cells, row.level)
        for note in of.notes:
            self.line(note, "soft")
        if of.chart:
            self._chart(of, top)
        self.row += 1

    def _row(self, of: Table, cells: Sequence[TableCell], level: int) -> None:
        noted = any(cell.note for cell in cells)
        if noted:  # its two lines are one row of the table
            everywhere = {"type": "no_errors", "format": self.formats["line"]}
            self.page.conditional_format(self.row, 0, self.row, len(cells) - 1, everywhere)
        for i, (column, cell) in enumerate(zip(of.columns, cells, strict=True)):
            if i == 0:
                self._write(i, cell.text, "under" if level else "name")
            elif cell.unit and cell.number is not None:
                self._quantity(i, cell.number, cell.unit)
            elif cell.number is None or noted:
                is_empty = not noted and cell.text == self.texts("verdict.none")
                self._write(i, "" if is_empty else cell.text, "words" if column.text else "")
            else:
                value = cell.number / column.scale.factor
                self._write(i, value, _number_format(column, value))
        self.row += 1
        if noted:
            for i, cell in enumerate(cells):
                tone = cell.tone if cell.tone in ("best", "behind") else ""
                self._write(i, cell.note, tone if i else "under")
            self.row += 1

    def _quantity(self, column: int, number: float, unit: str) -> None:
        """A number with its unit behind it, as the page prints it."""
        scale = self.texts.scale([number], unit)
        name = f"unit {scale.unit}"
        if name not in self.formats:
            shown = f'#,##0.0" {scale.unit}"'
            style = {"font_name": FONT, "font_size": FONT_SIZE, "align": "left"}
            self.formats[name] = self.book.add_format({**style, "num_format": shown})
        self._write(column, number / scale.factor, name)

    def _write(self, column: int, value: Any, name: str) -> None:
        style = self.formats[name]
        if value == "":
            self.page.write_blank(self.row, column, None, style)
        elif isinstance(value, int | float):
            self.page.write_number(self.row, column, value, style)
        else:
            self.page.write_string(self.row, column, str(value), style)
        shown = 9 if isinstance(value, float) else len(str(value))
        self.widths[column] = max(self.widths.get(column, 0), shown)

    def _range(self, first: int, column: int) -> str:
        """The formula of a part of a column, which error bars are given by."""
        from xlsxwriter.utility import xl_range_abs

        title = self.title.replace("'", "''")
        return f"='{title}'!{xl_range_abs(first, column, self.last, column)}"

    def _chart(self, of: Table, top: int) -> None:
        """A native chart of a table, with the half-widths as error bars, below it."""
        first, self.last = top + 1, top + len(of.rows)
        axis, is_log = value_axis(of)
        is_bars = of.chart == "dots" and not is_log  # dots of one row would hide each other
        chart = self.book.add_chart({"type": "column" if is_bars else "line"})
        numbers = of.drawn
        for series, i in enumerate(numbers):
            colour = COLOURS[series % len(COLOURS)]
            options: dict[str, object] = {
                "name": of.columns[i].title,
                "categories": [self.title, first, 0, self.last, 0],
                "values": [self.title, first, i, self.last, i],
            }
            if is_bars:
                options["fill"] = {"color": colour}
            else:
                options["line"] = {"none": True} if of.chart == "dots" else {"color": colour}
                options["marker"] = {
                    "type": MARKERS[series % len(MARKERS)], "size": 7,
                    "fill": {"color": colour}, "border": {"color": colour},
                }  # fmt: skip
            if (at := of.half_of(i)) is not None:
                half = self._range(first, at)
                line = {"color": "#2B2F36" if is_bars else colour, "width": 1.25}
                bars = {"type": "custom", "plus_values": half, "minus_values": half, "line": line}
                options["y_error_bars"] = bars
            chart.add_series(options)
        _dress(chart, of, axis, is_log)
        self.page.insert_chart(self.row + 1, 0, chart)
        self.row += CHART_ROWS + 1

    def finish(self) -> None:
        """Fit the column widths to their contents, and the rows of paragraphs to those."""
        widths = {at: min(WIDTH_MAX, max(9, width + 3)) for at, width in self.widths.items()}
        for column, width in widths.items():
            self.page.set_column(column, column, width)
        for row, text, name in self.paragraphs:
            last, room = 0, widths.get(0, COLUMN_WIDTH)
            while room < PROSE_WIDTH or last < max(widths, default=1):
                last += 1
                room += widths.get(last, COLUMN_WIDTH)
            self.page.merge_range(row, 0, row, last, text, self.formats[name])
            size = self.formats[name].font_size
            lines = _lines(text, FILLED * room * FONT_SIZE / size)
            self.page.set_row(row, min(ROW_MAX_PT, LINE_PT * size * lines))


def _lines(text: str, room: float) -> int:
    """How many lines of `room` Latin letters some words need."""
    lines, used = 1, 0
    for word in text.split():
        wide = cells(word)
        if used and used + 1 + wide > room:
            lines, used = lines + 1, 0
        used += wide + (used > 0)
        lines, used = lines + int(used // room), int(used % room)
    return lines


def _number_format(column: Column, value: float) -> str:
    """As many decimals as the page prints."""
    if column.decimals is not None:
        return str(min(3, column.decimals))
    if value and abs(value) < 0.001:
        return "small"
    size = math.floor(math.log10(abs(value))) if value else 0
    return str(max(0, min(3, column.digits - 1 - size)))


def value_axis(of: Table) -> tuple[dict[str, float], bool]:
    """Round ends of the axis: from 0, or logarithmic where the values of a curve differ more than
    twofold, those of bars more than twentyfold.

    Error bars do not make an axis longer below: a mean near 0 would otherwise need 1E-34.
    """
    units = {i: of.columns[i].scale.factor for i in of.drawn}
    values = [
        cell.number / units[i]
        for row in of.rows
        for i, cell in enumerate(row.cells)
        if i in units and cell.number is not None
    ]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low > 0 and high > (20 if of.chart == "dots" else 2) * low:
        bottom = 10.0 ** math.floor(math.log10(low))
        return {"min": bottom, "max": 10.0 ** math.ceil(math.log10(high * 1.0001))}, True
    top = max(high, 0.0) or 1.0
    steps = ticks(0.0, top, 5)
    step = steps[1] if len(steps) > 1 else top
    return {"min": min(0.0, low), "max": step * math.ceil(top * 1.05 / step)}, False


def _dress(chart: Any, of: Table, axis: dict[str, float], is_log: bool) -> None:
    """The style that all charts of the workbook share."""
    plain = {"name": FONT, "size": 10, "bold": False}
    unit = of.columns[1].scale.unit
    chart.set_title({"name": of.title, "name_font": {**plain, "size": 13}, "overlay": False})
    first = {"name": of.columns[0].title, "name_font": plain, "num_font": plain}
    chart.set_x_axis({**first, "label_position": "low"})
    more = {"log_base": 10, "crossing": axis["min"]} if is_log else {}
    grid = {"visible": True, "line": {"color": "#D9D9D3", "width": 0.75}}
    style = {"num_format": "General", "major_gridlines": grid, "num_font": plain}
    chart.set_y_axis({"name": unit, "name_font": plain, **style, **axis, **more})
    chart.set_legend({"position": "bottom", "font": plain})
    chart.set_size({"width": 760, "height": 320})


def _first(view: View, sheet: Sheet) -> None:
    """Headline, what was measured, the table, why, next step."""
    of = screen(view)
    sheet.paragraph(" ".join(of.headline), "wrapped-title")
    sheet.paragraph(of.measured)
    sheet.row += 1
    sheet.table(of.table, titled=False)
    for line in why.lines(view):
        sheet.paragraph(line)
    step = next_step(view)
    words = "   ".join(filter(None, (step.command, step.remark)))
    sheet.paragraph(f"{view.texts('next.title')}: {words}")


def _losses(view: View, sheet: Sheet) -> None:
    """The same cells as numbers."""
    sheet.table(losses_table(view), titled=False)
    sheet.page.freeze_panes(1, 3)


def _tables(view: View, sheet: Sheet) -> None:
    for table in study_tables(view):
        sheet.table(table)


def _runs(view: View, sheet: Sheet) -> None:
    """Every attempt with all its metrics."""
    sheet.table(runs_table(view), titled=False)
    sheet.page.freeze_panes(1, 2)
    width = len(sheet.widths) - 1
    sheet.page.autofilter(0, 0, max(1, len(view.record.runs)), width)


def runs_table(view: View) -> Table:
    """Every attempt with all its metrics, and the checks that it failed."""
    texts, runs, number_of = view.texts, view.record.runs, view.record.number_of
    elapsed = f"{texts.metric(METRICS['elapsed_s'])}, {texts.maybe('unit.s', 's')}"
    metrics = [view.metric(name) for name in dict.fromkeys(n for run in runs for n in run.metrics)]
    columns: list[tuple[Column, list[Any]]] = [
        (Column(texts("column.workload"), text=True), [run.workload for run in runs]),
        (Column(texts("column.candidate"), text=True), [run.candidate for run in runs]),
        (Column(texts("sheet.status"), text=True), [run.status for run in runs]),
        (Column(texts("sheet.started"), text=True), [run.started_at for run in runs]),
        (Column(texts("column.block"), decimals=0), [number_of(run.block) for run in runs]),
        (Column(texts("column.position"), decimals=0), [run.position + 1 for run in runs]),
        (Column(texts("sheet.attempt"), decimals=0), [run.attempt for run in runs]),
        (Column(elapsed, decimals=2), [run.elapsed_s for run in runs]),
        *((Column(texts.metric(m), m.unit, digits=4), [run.metrics.get(m.name) for run in runs])
          for m in metrics),
        (Column(texts("column.check"), text=True),
         ["; ".join(f"{gate.gate}: {gate.detail}" for gate in run.gates) for run in runs]),
    ]  # fmt: skip
    rows = [*zip(*(values for _, values in columns), strict=True)]
    return build(texts, "runs", texts("sheet.runs"), [head for head, _ in columns], rows)


def _host(view: View, sheet: Sheet) -> None:
    """The machine, one fact per row."""
    texts = view.texts
    columns = [Column(texts("column.fact"), text=True), Column(texts("column.value"))]
    rows = [
        [name, value if isinstance(value, int | float) else str("" if value is None else value)]
        for name, value in flatten(view.record.host)
    ]
    sheet.table(build(texts, "host", texts("sheet.host"), columns, rows), titled=False)
    sheet.page.freeze_panes(1, 0)


def _readme(view: View, sheet: Sheet) -> None:
    """The method, its limits, and the contents of each sheet."""
    texts = view.texts
    sheet.line(texts("sheet.intro", title=view.experiment.title), "heading")
    sheet.row += 1
    for name in ("verdict", "losses", "tables", "runs", "host", "units"):
        sheet.line(texts(f"sheet.readme_{name}"))
    flags = [f"{t}: {line}" for t, lines in notes.grouped_flags(view).items() for line in lines]
    for title, lines in {"caveats": flags, **notes.method(view)}.items():
        if lines:
            sheet.row += 1
            sheet.line(texts(f"section.{title}"), "heading")
            for line in lines:
                sheet.line(line)
    sheet.row += 1
    sheet.line(f"schedlab {schedlab.__version__}")
    sheet.page.set_column(0, 0, 110)
