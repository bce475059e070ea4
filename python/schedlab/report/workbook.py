"""The result as an Excel workbook: verdict, means, pairs, runs and machine, with native charts.

Numbers are stored as numbers; their units stand in the headers and number formats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import schedlab
from schedlab.report import sentences
from schedlab.report.cells import (
    best_text,
    candidate_rows,
    knee_cells,
    knee_heads,
    pareto_tables,
    shown_knees,
)
from schedlab.report.texts import Scale
from schedlab.report.view import View, flatten, summary_of
from schedlab.spec import METRICS, Metric

PERCENT = '+0.00" %";\u22120.00" %";0.00" %"'
WIDTH_MAX = 48
FONT = "Calibri"


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

    def range(self, first: int, last: int, column: int) -> str:
        """The formula of a part of a column, which error bars are given by."""
        from xlsxwriter.utility import xl_range_abs

        title = self.title.replace("'", "''")
        return f"='{title}'!{xl_range_abs(first, column, last, column)}"

    def skip(self, rows: int = 1) -> None:
        """Empty rows."""
        self.row += rows

    def finish(self) -> None:
        """Set the column widths to what was written."""
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
            "percent": {"num_format": PERCENT},
            "floor": {"num_format": '0.00" %"'},
            "integer": {"num_format": "#,##0"},
            "value": {"num_format": "#,##0.00"},
            "mean": {"num_format": "#,##0.00", "bold": True},
            "better": {"font_color": "#12694A", "bold": True},
            "worse": {"font_color": "#A8321A", "bold": True},
            "equivalent": {"font_color": "#3D4F7C"},
            "undecided": {"font_color": "#7A5A00"},
            "baseline": {"font_color": "#5A6069"},
        }  # fmt: skip
        self.made = {name: book.add_format({**base, **more}) for name, more in named.items()}
        self.base = base

    def __getitem__(self, name: str) -> Any:
        return self.made[name]

    def unit(self, unit: str) -> str:
        """The name of a number format that shows the unit after the number."""
        name = f"unit {unit}"
        if name not in self.made:
            quoted = f'#,##0.00" {unit}"' if unit else "#,##0.000"
            self.made[name] = self.book.add_format({**self.base, "num_format": quoted})
        return name


def write(view: View, path: Path) -> None:
    """Write the workbook; OSError when `path` cannot be written."""
    import xlsxwriter
    from xlsxwriter.exceptions import FileCreateError

    from schedlab.report.workbook_means import means

    book = xlsxwriter.Workbook(str(path), {"nan_inf_to_errors": False})
    book.set_properties({"title": view.experiment.title, "comments": "Made by schedlab"})
    formats = Formats(book)
    makers = {
        "readme": _readme, "verdict": _verdict, "means": means, "pairs": _pairs, "runs": _runs,
        "host": _host,
    }  # fmt: skip
    for name, make in makers.items():
        sheet = Sheet(book, view.texts(f"sheet.{name}"), formats)
        make(view, sheet)
        sheet.finish()
    try:
        book.close()
    except FileCreateError as error:
        raise OSError(f"{path}: cannot be written: {error}") from error


def _readme(view: View, sheet: Sheet) -> None:
    """What the workbook says, and where what is."""
    texts = view.texts
    sheet.line(texts("sheet.intro", title=view.experiment.title), "title")
    sheet.skip()
    for line in sentences.headlines(view):
        sheet.line(f"{line}.", "heading")
    sheet.line(sentences.scope(view))
    sheet.line(sentences.confidence(view))
    sheet.line(f"{texts('next.title')}: {sentences.next_step(view)}")
    sheet.skip()
    for name in ("verdict", "means", "pairs", "runs", "host", "units"):
        sheet.line(texts(f"sheet.readme_{name}"))
    for title, lines in (
        ("design", sentences.design(view)),
        ("omitted", sentences.omitted(view)),
        ("caveats", [_flag_line(view, i) for i in range(len(view.flags))]),
    ):
        if lines:
            sheet.skip()
            sheet.line(texts(f"section.{title}"), "heading")
            for line in lines:
                sheet.line(line)
    sheet.skip()
    sheet.line(f"schedlab {schedlab.__version__}")
    sheet.page.set_column(0, 0, 110)


def _flag_line(view: View, index: int) -> str:
    flag = view.flags[index]
    where = f" ({flag.workload})" if flag.workload else ""
    return f"{sentences.flag_title(view, flag)}{where}: {sentences.flag_text(view, flag)}"


def _heads(labels: Iterable[str], left: int) -> list[str]:
    """Formats of a header row: the first `left` columns are of words, the others of numbers."""
    return ["head" if i < left else "head-right" for i, _ in enumerate(labels)]


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (ratio - 1)


def _verdict(view: View, sheet: Sheet) -> None:
    """The candidates with a chart, then every workload."""
    texts, overall = view.texts, view.verdict.overall
    baseline = view.verdict.baseline
    for i, line in enumerate(sentences.headlines(view)):
        sheet.line(f"{line}.", "prose" if i else "title")
    sheet.skip()
    head = [
        texts("column.candidate"),
        texts("column.verdict"),
        texts("column.difference", baseline=baseline),
        texts("sheet.low"),
        texts("sheet.high"),
        texts("sheet.half_minus"),
        texts("sheet.half_plus"),
        texts("column.noise_floor"),
    ]
    sheet.cells(head, _heads(head, 2))
    first = sheet.row
    for row in candidate_rows(view):
        s = row.summary
        middle, low, high = map(_percent, (s.ratio or 1.0, s.ratio_low, s.ratio_high))
        known = low is not None and high is not None and middle is not None
        minus, plus = (middle - low, high - middle) if known else (0.0, 0.0)  # type: ignore[operator]
        floor = None if overall.noise_floor is None else 100 * overall.noise_floor
        values = [row.name, row.verdict_text, middle, low, high, minus, plus, floor]
        sheet.cells(values, ["name", row.verdict, *["percent"] * 3, *["floor"] * 3])
    sheet.page.insert_chart(sheet.row + 1, 0, difference_chart(view, sheet, first, sheet.row - 1))
    sheet.skip(17)
    _verdict_workloads(view, sheet)
    _verdict_tables(view, sheet)


def _verdict_workloads(view: View, sheet: Sheet) -> None:
    texts, baseline = view.texts, view.verdict.baseline
    others = [name for name in view.names if name != baseline]
    sheet.line(texts("section.workloads"), "heading")
    head = [
        texts("column.workload"),
        texts("column.metric"),
        texts("column.best"),
        *(f"{name}: {texts('column.difference', baseline=baseline)}" for name in others),
        texts("column.noise_floor"),
        texts("scope.blocks_title"),
    ]
    sheet.cells(head, _heads(head, 3))
    for verdict in view.workloads:
        rows = [summary_of(verdict.candidates, name) for name in others]
        differences = [_percent(row.ratio) if row else None for row in rows]
        floor = None if verdict.noise_floor is None else 100 * verdict.noise_floor
        about = [verdict.workload, texts.metric(verdict.metric), best_text(view, verdict)]
        sheet.cells(
            [*about, *differences, floor, verdict.blocks],
            ["name", "", "", *["percent"] * len(others), "floor", "integer"],
        )


def _verdict_tables(view: View, sheet: Sheet) -> None:
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
        sheet.cells(head, _heads(head, 2))
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


def difference_chart(view: View, sheet: Sheet, first: int, last: int) -> Any:
    """Columns of the difference to the baseline with error bars of the interval."""
    chart = sheet.book.add_chart({"type": "column"})
    name = sheet.title
    chart.add_series(
        {
            "name": view.texts("column.difference", baseline=view.verdict.baseline),
            "categories": [name, first, 0, last, 0],
            "values": [name, first, 2, last, 2],
            "fill": {"color": "#7FA8C9"},
            "gap": 80,
            "y_error_bars": {
                "type": "custom",
                "plus_values": sheet.range(first, last, 6),
                "minus_values": sheet.range(first, last, 5),
                "line": {"color": "#1C1F23", "width": 1.25},
            },
        }
    )
    title = view.texts("sheet.chart_title", baseline=view.verdict.baseline)
    summaries = [row.summary for row in candidate_rows(view)]
    ratios = [r for s in summaries for r in (s.ratio_low, s.ratio, s.ratio_high)]
    ends = [percent for r in ratios if (percent := _percent(r)) is not None]
    limits = (rounded_out(min(ends, default=0.0)), rounded_out(max(ends, default=0.0)))
    dress(chart, title, "", "%", limits)
    chart.set_legend({"none": True})
    return chart


def dress(chart: Any, title: str, x: str, y: str, limits: tuple[float, float]) -> None:
    """The look that all charts of the workbook share.

    `limits` are those of the y axis: spreadsheets choose theirs without the error bars.
    """
    plain = {"name": FONT, "size": 10, "bold": False}
    chart.set_title({"name": title, "name_font": {**plain, "size": 13}, "overlay": False})
    chart.set_x_axis({"name": x, "name_font": plain, "num_font": plain, "label_position": "low"})
    grid = {"visible": True, "line": {"color": "#D9D9D3", "width": 0.75}}
    low, high = limits
    ends = {"min": low, "max": high} if low < high else {}
    more = {"num_format": "General", "major_gridlines": grid, **ends}
    chart.set_y_axis({"name": y, "name_font": plain, "num_font": plain, **more})
    chart.set_legend({"position": "bottom", "font": plain})
    chart.set_size({"width": 720, "height": 300})


def rounded_out(value: float) -> float:
    """The next value away from 0 with one or two digits, for the end of an axis."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    step = 10.0 ** math.floor(math.log10(abs(value))) / 2
    return math.copysign(math.ceil(abs(value) * 1.02 / step) * step, value)


def _pairs(view: View, sheet: Sheet) -> None:
    """Every pair on every workload, then over all."""
    texts = view.texts
    head = [
        texts("column.workload"), texts("column.metric"), "a", "b", texts("column.verdict"),
        texts("verdict.fragile"), texts("column.ratio"), texts("sheet.low"), texts("sheet.high"),
        texts("column.robust"), texts("column.noise_floor"),
        f"{texts('column.blocks_needed')}, {texts('sheet.low')}",
        f"{texts('column.blocks_needed')}, {texts('sheet.high')}",
    ]  # fmt: skip
    sheet.cells(head, _heads(head, 6))
    sheet.page.freeze_panes(1, 1)
    overall = view.verdict.overall
    groups: list[tuple[str, str, Any]] = [
        (of.workload, texts.metric(of.metric), of)
        for verdict in view.workloads
        for of in (verdict, *view.verdict.secondary.get(verdict.workload, ()))
    ]
    groups.append((texts("text.all_workloads"), "", overall))
    for workload, metric, of in groups:
        floor = None if of.noise_floor is None else 100 * of.noise_floor
        for p in of.pairs:
            fragile = texts("text.yes") if p.fragile else ""
            ratios = [_percent(r) for r in (p.ratio, p.low, p.high, p.hodges_lehmann)]
            needed = p.blocks_needed or (None, None)
            word = texts(f"verdict.{p.verdict}")
            values = [workload, metric, p.a, p.b, word, fragile, *ratios, floor, *needed]
            formats = ["", "", "", "", p.verdict, "", *["percent"] * 4, "floor"]
            sheet.cells(values, [*formats, "integer", "integer"])
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
    sheet.cells(head, [*_heads(head[:-1], 4), "head"])
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
        plain = value if isinstance(value, int | float | str) else str(value)
        sheet.cells([name, plain], ["name", ""])
