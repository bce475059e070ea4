"""The result as an Excel workbook: first screen, means, pairs, runs and machine, native charts.

Numbers are stored as numbers; their units are in the headers and number formats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import schedlab
from schedlab.report import notes
from schedlab.report.cells import (
    knee_cells,
    knee_heads,
    pair_texts,
    pareto_tables,
    shown_knees,
)
from schedlab.report.drawing import ticks
from schedlab.report.sentences import headline_text
from schedlab.report.texts import Scale
from schedlab.report.view import View, flatten
from schedlab.spec import METRICS, Metric, Overall, WorkloadVerdict

WIDTH_MAX = 48
FONT = "Calibri"
SERIES_COLOURS = (
    "#0B62A4", "#C2410C", "#0F7B5A", "#9D3C86", "#806300", "#4B5563", "#B4234A", "#0E7490",
)  # fmt: skip
MARKERS = ("circle", "square", "triangle", "diamond", "x", "plus", "star", "short_dash")


class Sheet:
    """A worksheet that is written row by row and knows how wide its columns must be."""

    def __init__(self, book: Any, title: str, formats: Formats) -> None:
        self.page = book.add_worksheet(title[:31])
        self.book, self.title, self.formats = book, title[:31], formats
        self.row = 0
        self.widths: dict[int, int] = {}
        self.page.hide_gridlines(2)
        self.page.set_landscape()
        self.page.fit_to_pages(1, 0)

    def cells(self, values: Sequence[Any], formats: Sequence[str] | str = "") -> None:
        """One row of values with the named formats; None leaves a cell empty."""
        for i, value in enumerate(values):
            name = formats if isinstance(formats, str) else formats[i]
            self._cell(self.row, i, value, name)
        self.row += 1

    def _cell(self, row: int, column: int, value: Any, name: str) -> None:
        style = self.formats[name]
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        if value is None or value == "":
            self.page.write_blank(row, column, None, style)
        elif isinstance(value, bool):
            self.page.write_boolean(row, column, value, style)
        elif isinstance(value, int | float):
            self.page.write_number(row, column, value, style)
        else:
            self.page.write_string(row, column, str(value), style)
        if name not in ("title", "heading", "prose"):
            shown = len(str(value)) if not isinstance(value, float) else 9
            self.widths[column] = max(self.widths.get(column, 0), shown)

    def line(self, text: str, name: str = "prose") -> None:
        """A sentence in the first column that may run over the others."""
        self.page.write_string(self.row, 0, text, self.formats[name])
        self.row += 1

    def paragraph(self, text: str, columns: int, name: str = "wrapped", height: float = 0) -> None:
        """A text over so many columns, in a row that is high enough for it."""
        self.page.merge_range(self.row, 0, self.row, columns - 1, text, self.formats[name])
        if height:
            self.page.set_row(self.row, height)
        self.row += 1

    def range(self, first: int, last: int, column: int) -> str:
        """The formula of a part of a column, which error bars are given by."""
        from xlsxwriter.utility import xl_range_abs

        title = self.title.replace("'", "''")
        return f"='{title}'!{xl_range_abs(first, column, last, column)}"

    def skip(self, rows: int = 1) -> None:
        """Empty rows."""
        self.row += rows

    def finish(self) -> None:
        """Fit the column widths to their contents."""
        for column, width in self.widths.items():
            self.page.set_column(column, column, min(WIDTH_MAX, max(9, width + 3)))


class Formats:
    """The cell formats of the workbook by name; `0.0 MB/s` and the like are made when asked."""

    def __init__(self, book: Any) -> None:
        self.book = book
        base: dict[str, Any] = {"font_name": FONT, "font_size": 11, "valign": "vcenter"}
        named: dict[str, dict[str, Any]] = {
            "": {},
            "prose": {},
            "title": {"bold": True, "font_size": 16},
            "heading": {"bold": True, "font_size": 13},
            "head": {"bold": True, "bottom": 2, "text_wrap": True, "valign": "bottom"},
            "head-right": {
                "bold": True, "bottom": 2, "text_wrap": True, "align": "right", "valign": "bottom",
            },
            "name": {"bold": True},
            "ratio": {"num_format": "0.000"},
            "p": {"num_format": "0.0000"},
            "under": {"indent": 1, "font_color": "#5A6069"},
            "wrapped": {"text_wrap": True, "valign": "top"},
            "wrapped-title": {
                "text_wrap": True, "valign": "top", "bold": True, "font_size": 16,
            },
            "code": {"font_name": "Consolas"},
            "integer": {"num_format": "#,##0"},
            "value": {"num_format": "#,##0.00"},
            "mean": {"num_format": "#,##0.00", "bold": True},
            "better": {"font_color": "#12694A", "bold": True},
            "worse": {"font_color": "#A8321A", "bold": True},
            "equivalent": {"font_color": "#3D4F7C"},
            "undecided": {"font_color": "#7A5A00"},
            "baseline": {"font_color": "#5A6069"},
        }  # fmt: skip
        self.formats = {name: book.add_format({**base, **more}) for name, more in named.items()}
        self.base = base

    def __getitem__(self, name: str) -> Any:
        return self.formats[name]

    def unit(self, unit: str) -> str:
        """The name of a number format that shows the unit after the number."""
        name = f"unit {unit}"
        if name not in self.formats:
            quoted = f'#,##0.00" {unit}"' if unit else "#,##0.000"
            self.formats[name] = self.book.add_format({**self.base, "num_format": quoted})
        return name


def content(view: View) -> bytes:
    """The workbook as the bytes of a file."""
    import io

    import xlsxwriter

    from schedlab.report.workbook_first import first
    from schedlab.report.workbook_means import means

    file = io.BytesIO()
    book = xlsxwriter.Workbook(file, {"nan_inf_to_errors": False, "in_memory": True})
    facts = {"title": headline_text(view), "subject": view.experiment.title}
    book.set_properties({**facts, "keywords": view.verdict.code, "comments": "Made by schedlab"})
    formats = Formats(book)
    makers = {
        "verdict": first, "means": means, "pairs": _pairs, "runs": _runs, "host": _host,
        "readme": _readme,
    }  # fmt: skip
    for name, make in makers.items():
        sheet = Sheet(book, view.texts(f"sheet.{name}"), formats)
        make(view, sheet)
        sheet.finish()
    book.close()
    return file.getvalue()


def _readme(view: View, sheet: Sheet) -> None:
    """The method, its limits, and the contents of each sheet."""
    texts = view.texts
    sheet.line(texts("sheet.intro", title=view.experiment.title), "title")
    sheet.skip()
    for name in ("verdict", "means", "pairs", "runs", "host", "units"):
        sheet.line(texts(f"sheet.readme_{name}"))
    flags = [f"{t}: {line}" for t, lines in notes.grouped_flags(view).items() for line in lines]
    for title, lines in (
        ("caveats", flags),
        ("design", [notes.confidence(view), *notes.design(view)]),
        ("omitted", notes.omitted(view)),
    ):
        if lines:
            sheet.skip()
            sheet.line(texts(f"section.{title}"), "heading")
            for line in lines:
                sheet.line(line)
    sheet.skip()
    sheet.line(f"schedlab {schedlab.__version__}")
    sheet.page.set_column(0, 0, 110)


def heads(labels: Iterable[str], left: int) -> list[str]:
    """Formats of a header row: the first `left` columns are of words, the others of numbers."""
    return ["head" if i < left else "head-right" for i, _ in enumerate(labels)]


def tables_below(view: View, sheet: Sheet) -> None:
    """Throughput against p99 latency, then knees, where there are any."""
    texts = view.texts
    tables = pareto_tables(view)
    if tables:
        sheet.skip()
        sheet.line(texts("section.pareto"), "heading")
        sheet.line(texts("text.pareto_intro"))
    for table in tables:
        ends = [texts("sheet.low"), texts("sheet.high")]
        head = [f"{table.workload}: {texts('column.candidate')}", texts("column.dominated")]
        head += [table.throughput_title, *ends, table.latency_title, *ends]
        sheet.cells(head, heads(head, 2))
        for p in table.points:
            fast = (p.throughput, p.throughput_low, p.throughput_high)
            slow = (p.latency, p.latency_low, p.latency_high)
            values = [_scaled(v, table.throughput) for v in fast]
            values += [_scaled(v, table.latency) for v in slow]
            names = texts.listed(p.dominated_by)
            sheet.cells([p.candidate, names, *values], ["name", "worse", *["value"] * 6])
    if knees := shown_knees(view):
        sheet.skip()
        sheet.line(texts("section.knees"), "heading")
        sheet.line(texts("text.knees_intro"))
        sheet.cells(knee_heads(view), "head")
        for knee in knees:
            sheet.cells(knee_cells(view, knee), ["name", *[""] * 5])


def _scaled(value: float | None, scale: Scale) -> float | None:
    return None if value is None else value / scale.factor


@dataclass(frozen=True)
class ValueAxis:
    """A value axis with round ticks; spreadsheets choose theirs without the error bars.

    `log_base` is 0 for a linear axis, else ticks are `low` times its powers. `crossing` is the
    value at which the axis of categories is.
    """

    low: float
    high: float
    step: float
    log_base: int = 0
    crossing: float | None = None

    def options(self) -> dict[str, Any]:
        """For XlsxWriter."""
        bounds: dict[str, Any] = {"min": self.low, "max": self.high}
        bounds |= {"log_base": self.log_base} if self.log_base else {"major_unit": self.step}
        return bounds if self.crossing is None else {**bounds, "crossing": self.crossing}


def axis_for(values: Sequence[float]) -> ValueAxis:
    """Logarithmic where values differ more than twofold, else linear from 0."""
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low > 0 and high > 2 * low:
        return _log_axis(low, high)
    top = max(high, 0.0) or 1.0
    step = ticks(0.0, top, 5)[1] if len(ticks(0.0, top, 5)) > 1 else top
    return ValueAxis(min(0.0, low), step * math.ceil(top * 1.001 / step), step)


def _log_axis(low: float, high: float) -> ValueAxis:
    """Powers of 2 or 10 times a round number, below and above the values."""
    if high / low > 40:
        bottom = 10.0 ** math.floor(math.log10(low))
        return ValueAxis(bottom, 10.0 ** math.ceil(math.log10(high)), 0, 10, bottom)
    power = 10.0 ** math.floor(math.log10(low))
    bottom = power * max(m for m in (1, 2, 5) if power * m <= low * 1.0001)
    top = bottom * 2.0 ** math.ceil(math.log2(high / bottom))
    return ValueAxis(bottom, top, 0, 2, bottom)


def ratio_axis(ratios: Sequence[float]) -> ValueAxis:
    """An axis around 1, the same on both sides: linear for small differences."""
    far = max([abs(math.log(r)) for r in ratios if r > 0] + [math.log(1.05)])
    if far <= math.log(2):
        side = next(s for s in (0.05, 0.1, 0.2, 0.5, 1.0) if s >= math.expm1(far) * 0.999)
        step = side / (4 if side != 0.05 else 5)
        return ValueAxis(1 - side if side < 1 else 0.0, 1 + side, step, crossing=1.0)
    base = 2 if far <= math.log(16) else 10
    reach = float(base) ** math.ceil(far / math.log(base) - 1e-9)
    return ValueAxis(1 / reach, reach, 0, base, 1.0)


def dress(chart: Any, title: str, x: str, y: str, axis: ValueAxis) -> None:
    """The style that all charts of the workbook share."""
    plain = {"name": FONT, "size": 10, "bold": False}
    chart.set_title({"name": title, "name_font": {**plain, "size": 13}, "overlay": False})
    chart.set_x_axis({"name": x, "name_font": plain, "num_font": plain, "label_position": "low"})
    grid = {"visible": True, "line": {"color": "#D9D9D3", "width": 0.75}}
    more = {"num_format": "General", "major_gridlines": grid, **axis.options()}
    chart.set_y_axis({"name": y, "name_font": plain, "num_font": plain, **more})
    chart.set_legend({"position": "bottom", "font": plain})
    chart.set_size({"width": 760, "height": 320})


def dot_series(name: str, series: int, ranges: dict[str, Any]) -> dict[str, Any]:
    """A series of dots with error bars; `ranges` are its categories, values, plus and minus."""
    colour = SERIES_COLOURS[series % len(SERIES_COLOURS)]
    return {
        "name": name,
        "categories": ranges["categories"],
        "values": ranges["values"],
        "line": {"none": True},
        "marker": {
            "type": MARKERS[series % len(MARKERS)],
            "size": 8,
            "fill": {"color": colour},
            "border": {"color": colour},
        },
        "y_error_bars": error_bars(ranges["plus"], ranges["minus"], colour),
    }


def error_bars(plus: str, minus: str, colour: str = "#1C1F23") -> dict[str, Any]:
    """Error bars whose lengths are in cells."""
    line = {"color": colour, "width": 1.25}
    return {"type": "custom", "plus_values": plus, "minus_values": minus, "line": line}


def _pairs(view: View, sheet: Sheet) -> None:
    """Every pair on every workload, then over all: better first, as numbers and in words."""
    texts = view.texts
    head = [
        texts("column.workload"), texts("column.metric"), "a", "b", texts("column.verdict"),
        texts("column.amount"), texts("column.remark"), "a / b", texts("sheet.low"),
        texts("sheet.high"), texts("column.robust"), "p",
        f"{texts('column.blocks_needed')}, {texts('sheet.low')}",
        f"{texts('column.blocks_needed')}, {texts('sheet.high')}",
    ]  # fmt: skip
    sheet.cells(head, heads(head, 7))
    sheet.page.freeze_panes(1, 1)
    overall = view.verdict.overall
    groups: list[tuple[str, str, WorkloadVerdict | Overall]] = [
        (of.workload, texts.metric(of.metric), of)
        for verdict in view.workloads
        for of in (verdict, *view.verdict.secondary.get(verdict.workload, ()))
    ]
    groups.append((texts("text.all_workloads"), "", overall))
    for workload, metric, of in groups:
        for pair, pair_text in zip(of.pairs, pair_texts(view, of, of.pairs), strict=True):
            word = texts(f"verdict.{pair.verdict}")
            shown = f"{pair_text.title}: {pair_text.amount}"
            about = [workload, metric, pair.a, pair.b, word, shown, pair_text.remark]
            numbers = [pair.ratio, pair.low, pair.high, pair.hodges_lehmann, pair.p]
            formats = ["", "", "", "", pair.verdict, "", "", *["ratio"] * 4, "p"]
            needed = pair.blocks_needed or (None, None)
            sheet.cells([*about, *numbers, *needed], [*formats, "integer", "integer"])
    sheet.page.autofilter(0, 0, max(1, sheet.row - 1), len(head) - 1)


def _runs(view: View, sheet: Sheet) -> None:
    """Every attempt with all its metrics."""
    texts = view.texts
    names = list(dict.fromkeys(name for run in view.record.runs for name in run.metrics))
    metrics = [metric_of(view, name) for name in names]
    scales = [
        Scale.fitting(
            [run.metrics[m.name] for run in view.record.runs if m.name in run.metrics], m.unit
        )
        for m in metrics
    ]
    words = [texts(f"column.{name}") for name in ("workload", "candidate")]
    words += [texts("sheet.status"), texts("sheet.started")]
    numbers = [texts("column.block"), texts("column.position"), texts("sheet.attempt")]
    units = zip(metrics, scales, strict=True)
    titles = [f"{texts.metric(m)}, {scale.unit}".rstrip(", ") for m, scale in units]
    head = [*words, *numbers, f"{texts('metric.elapsed_s')}, s", *titles, texts("column.check")]
    sheet.cells(head, [*heads(head[:-1], 4), "head"])
    sheet.page.freeze_panes(1, 2)
    formats = ["", "", "", "", "integer", "integer", "integer", sheet.formats.unit("s")]
    formats += [sheet.formats.unit(scale.unit) for scale in scales]
    for run in view.record.runs:
        values = [run.metrics.get(m.name) for m in metrics]
        scaled = [
            None if value is None or not math.isfinite(value) else value / scale.factor
            for value, scale in zip(values, scales, strict=True)
        ]
        about = [run.workload, run.candidate, run.status, run.started_at]
        about += [view.record.number_of(run.block), run.position + 1, run.attempt, run.elapsed_s]  # type: ignore[list-item]
        gates = "; ".join(f"{g.gate}: {g.detail}" for g in run.gates)
        sheet.cells([*about, *scaled, gates], [*formats, ""])
    sheet.page.autofilter(0, 0, max(1, sheet.row - 1), len(head) - 1)


def metric_of(view: View, name: str) -> Metric:
    """A metric by its name, also where it belongs to the experiment alone."""
    known = {of.metric.name: of.metric for of in view.workloads}
    return known.get(name) or METRICS.get(name) or Metric(name, "", True, name)


def _host(view: View, sheet: Sheet) -> None:
    """The machine, one fact per row."""
    texts = view.texts
    sheet.cells([texts("column.fact"), texts("column.value")], "head")
    sheet.page.freeze_panes(1, 0)
    for name, value in flatten(view.record.host):
        plain = value if value is None or isinstance(value, int | float | str) else str(value)
        sheet.cells([name, plain], ["name", ""])
