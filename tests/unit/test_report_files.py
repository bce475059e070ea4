"""The workbook, Markdown, CSV and terminal text of a result with known figures, read back."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import report_known as known
import xlsxwriter

import schedlab
from schedlab.report import cells, exchange, screen, terminal, workbook, workbook_first
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.report.workbook import axis_for, ratio_axis
from schedlab.report.workbook_means import Column, grand
from schedlab.spec import METRICS, Flag

EN = Texts("en")
# Student's t of 3 and 2 degrees of freedom at 97.5 %, from a printed table.
T3, T2 = 3.182446, 4.302653


@pytest.fixture(scope="module")
def view() -> View:
    return known.view()


@pytest.fixture(scope="module")
def book(view: View) -> Any:
    return openpyxl.load_workbook(io.BytesIO(workbook.content(view)))


def rows(sheet: Any) -> dict[int, list[Any]]:
    """The row number and the values of every row that has some, without empty ends."""
    found = {}
    for i, row in enumerate(sheet.iter_rows(values_only=True), 1):
        values = [v.replace("\u00a0", " ") if isinstance(v, str) else v for v in row]
        while values and values[-1] is None:
            values.pop()
        if values:
            found[i] = values
    return found


def close(values: list[Any], expected: list[Any]) -> None:
    assert len(values) == len(expected), (values, expected)
    for value, wanted in zip(values, expected, strict=True):
        assert value == (pytest.approx(wanted, rel=1e-6) if isinstance(wanted, float) else wanted)


def test_the_first_sheet_has_words_then_ratios_as_numbers(book: Any) -> None:
    found = rows(book["Verdict"])
    assert found[1][0].startswith("kyber is best for this mix of workloads: on average 20 %")
    assert found[2][0].startswith("Measured: 4 workloads on a temporary loop device")
    assert [found[i] for i in range(4, 11)] == [
        ["Workload", "none", "kyber", "bfq"],
        ["read 1 MiB", "400 MB/s", "same", "2.0× slower ▼"],
        ["read 4 KiB", "100 MB/s", "25 % faster ▲", "20 % slower ▼"],
        ["readers", "4.0 ms", "2.0× shorter ▲", "25 % longer ▼"],
        ["its writers", "1.0 GB/s", "same", "20 % slower ▼"],
        ["p99 reader latency", "20 ms", "same", "2.5× longer ▼"],
        ["cached", "8.0 GB/s", "same", "?"],
    ]
    assert [found[i][0][:12] for i in (12, 13, 14)] == [
        "With kyber a",
        "With none, 7",
        "For a free t",
    ]
    assert [found[15], found[16]] == [
        ["Next", "schedlab apply kyber /dev/DEVICE"], [None, "to use it"],
    ]  # fmt: skip
    assert found[18] == ["Ratios to none: above 1 is better"]
    assert found[19] == ["Workload", "kyber", "bfq", "kyber −", "kyber +", "bfq −", "bfq +"]
    # better : worse, and the lengths of the error bars below and above it
    close(found[20], ["read 1 MiB", 1, 0.5, 0.01, 0.01, 0.1, 0.125])
    close(found[21], ["read 4 KiB", 1.25, 0.8, 0.05, 0.05, 0.05, 0.05])
    close(found[22], ["readers", 2, 0.8, 0.4, 0.5, 0.8 - 1 / 1.4, 1 / 1.1 - 0.8])
    close(found[23], ["readers: its writers", 1, 0.8, 0.01, 0.01, 0.05, 0.05])
    close(found[24], ["readers: p99 reader latency", 1, 0.4, 1 - 1 / 1.01, 1 / 0.99 - 1,
                      0.4 - 1 / 3, 0.1])  # fmt: skip
    close(found[25], ["cached", 1, 1, 0.01, 0.01, 0.1, 0.1])
    head = ["Low", "High"]
    assert found[48] == [
        "read 1 MiB: Candidate", "Dominated by", "throughput, MB/s", *head, "p99 latency, ms",
        *head,
    ]  # fmt: skip
    assert found[49] == ["none", None, 400, 380, 420, 5, None, 5.5]
    assert found[54] == ["bfq", "none and kyber", 80, 76, 84, 400, 360, pytest.approx(440)]
    assert found[59] == ["read", "none", "64 KiB", "32 KiB to 128 KiB", "0.75 → 0.25"]
    assert max(found) == 61


def test_the_look_of_the_first_sheet(book: Any) -> None:
    sheet = book["Verdict"]
    assert sheet.freeze_panes == "B5"
    merged = {str(each) for each in sheet.merged_cells.ranges}
    assert merged == {f"A{i}:F{i}" for i in (1, 2, 12, 13, 14)}
    colours = {(5, 4): "FFA8321A", (6, 3): "FF12694A", (10, 4): "FF7A5A00", (8, 1): "FF5A6069"}
    for place, colour in colours.items():
        assert sheet.cell(*place).font.color.rgb == colour
    assert sheet.cell(5, 3).font.color.rgb not in colours.values()  # "same"
    assert (sheet.cell(5, 1).font.b, sheet.cell(8, 1).font.b) == (True, False)
    assert sheet.cell(8, 1).alignment.indent == 1
    assert {sheet.cell(20, i).number_format for i in range(2, 8)} == {"0.000"}
    assert [sheet.cell(48, i).alignment.horizontal for i in (2, 3)] == [None, "right"]
    assert [sheet.cell(19, i).alignment.horizontal for i in (1, 2)] == [None, "right"]
    # 83 and 148 characters, 80 and 110 a line; heights are rounded to whole pixels.
    heights = [sheet.row_dimensions[i].height for i in (1, 2)]
    assert heights == pytest.approx([22 * 2, 16 * 2], abs=0.4)
    widths = {name: round(of.width) for name, of in sheet.column_dimensions.items()}
    assert widths["A"] == len("readers: p99 reader latency") + 3 + 1
    assert widths["F"] == workbook.WIDTH_MAX + 1
    assert [workbook_first._lines("x" * n, 80) for n in (79, 80, 160)] == [1, 2, 3]


SERIES = {
    "none": ("circle", "0B62A4"),
    "kyber": ("square", "C2410C"),
    "bfq": ("triangle", "0F7B5A"),
}


def ranges(series: Any) -> list[str]:
    """Where the categories, values, plus and minus of a series are."""
    category = series.cat.strRef or series.cat.numRef
    bars = series.errBars
    places = (category.f, series.val.numRef.f, bars.plus.numRef.f, bars.minus.numRef.f)
    return [place.replace("$", "").split("!")[1] for place in places]


def test_the_chart_of_ratios_points_at_its_table(book: Any) -> None:
    (chart,) = book["Verdict"]._charts
    assert [series.tx.v for series in chart.series] == ["kyber", "bfq"]
    assert [ranges(series) for series in chart.series] == [
        ["A20:A25", "B20:B25", "E20:E25", "D20:D25"],
        ["A20:A25", "C20:C25", "G20:G25", "F20:F25"],
    ]
    # From 0.333 to 2.5: powers of two on both sides of 1.
    scaling = chart.y_axis.scaling
    assert (scaling.min, scaling.max, scaling.logBase) == (0.25, 4, 2)
    assert chart.x_axis.crossesAt == 1 or chart.y_axis.crossesAt == 1
    assert chart.anchor._from.row == 26
    for series in chart.series:
        symbol, colour = SERIES[series.tx.v]
        assert series.marker.symbol == symbol
        assert series.marker.spPr.solidFill.srgbClr == colour


def test_means_and_their_half_widths(book: Any) -> None:
    sheet, found = book["Means"], rows(book["Means"])
    assert [found[i] for i in (1, 3)] == [["Throughput, MB/s"], ["Grand means per test"]]
    assert found[4] == ["Test", *known.NAMES, "none ± MB/s", "kyber ± MB/s", "bfq ± MB/s"]
    # Values 1/2, 1, 1, 2 have the mean 1.125 and, √(3958.33) / 100, the deviation 0.62915.
    half = T3 * 0.6291529 / 2
    close(found[5], ["read", 281.25, 295.3125, 860 / 7, 250 * half, 262.5 * half,
                     T2 * 40.41452 / math.sqrt(3)])  # fmt: skip
    assert found[24][0] == "Record size"
    close(found[25], ["4 KiB", 112.5, 140.625, 90, 100 * half, 125 * half, 80 * half])
    close(found[26], ["1 MiB", 450, 450, 500 / 3, 400 * half, 400 * half,
                      T2 * 57.73503 / math.sqrt(3)])  # fmt: skip
    assert [found[i] for i in (44, 45, 46)] == [
        ["none, 4 KiB (MB/s)"], ["Test", 1, 2, 3, 4, "Mean"], ["read", 50, 100, 100, 200, 112.5],
    ]  # fmt: skip
    assert found[48] == ["kyber, 4 KiB (MB/s)"]
    assert found[64] == ["bfq, 1 MiB (MB/s)"]
    assert found[65] == ["Test", 1, 2, 3, "Mean"]
    close(found[66], ["read", 100, 200, 200, 500 / 3])
    assert [found[i] for i in (68, 70)] == [["Mean reader latency, ms"], ["Grand means per test"]]
    close(found[72], ["readers", 4.5, 2.25, 5.625, 4 * half, 2 * half, 5 * half])
    assert [found[i] for i in (90, 91, 92)] == [
        ["none (ms)"], ["Workload", 1, 2, 3, 4, "Mean"], ["readers", 2, 4, 4, 8, 4.5],
    ]  # fmt: skip
    assert found[102] == ["Throughput, GB/s"]  # the negative control by itself
    close(found[106], ["cached", 9, 9, 9, 8 * half, 8 * half, 8 * half])
    assert max(found) == 134
    assert sheet.freeze_panes == "B1"
    assert {sheet.cell(5, i).number_format for i in range(2, 8)} == {"#,##0.00"}
    assert [sheet.cell(5, i).font.b for i in (1, 2, 4, 5)] == [True, True, True, False]
    assert [sheet.cell(46, i).font.b for i in (2, 5, 6)] == [False, False, True]


def test_the_charts_of_means_point_at_their_tables(book: Any) -> None:
    charts = book["Means"]._charts
    assert [(chart.anchor._from.row, chart.anchor._from.col) for chart in charts] == [
        (6, 0), (27, 0), (73, 0), (107, 0),
    ]  # fmt: skip
    for chart, (first, last) in zip(charts, ((5, 5), (25, 26), (72, 72), (106, 106)), strict=True):
        assert [series.tx.v for series in chart.series] == list(known.NAMES)
        for i, series in enumerate(chart.series):
            places = [f"{c}{first}" + f":{c}{last}" * (last > first)
                      for c in ("A", "BCD"[i], "EFG"[i], "EFG"[i])]  # fmt: skip
            assert ranges(series) == places
    axes = [chart.y_axis.scaling for chart in charts]
    # The smallest mean less its half-width, and the largest with it: 22 to 558 MB/s, …
    assert [(of.min, of.max, of.logBase) for of in axes] == [
        (20, 640, 2), (1, 1000, 10), (0.1, 100, 10), (0.5, 32, 2),
    ]  # fmt: skip


def test_equal_means_are_bars_from_zero() -> None:
    of = known.record()
    level = tuple(
        dataclasses.replace(r, metrics=dict.fromkeys(r.metrics, 100000000.0)) for r in of.runs
    )  # fmt: skip
    changed = View(dataclasses.replace(of, runs=level), known.verdict(), EN)
    chart = openpyxl.load_workbook(io.BytesIO(workbook.content(changed)))["Means"]._charts[0]
    assert type(chart).__name__ == "BarChart"
    assert (chart.y_axis.scaling.min, chart.y_axis.scaling.max) == (0, 120)
    assert chart.y_axis.majorUnit == 20
    fills = [series.spPr.solidFill.srgbClr for series in chart.series]
    assert fills == [SERIES[name][1] for name in known.NAMES]
    assert [ranges(series)[1:] for series in chart.series] == [
        ["B5", "E5", "E5"], ["C5", "F5", "F5"], ["D5", "G5", "G5"],
    ]  # fmt: skip


def test_a_grand_mean_is_of_all_values_and_its_interval_of_whole_blocks() -> None:
    metric = METRICS[known.RATE]
    one = Column("a", None, metric, {"x": {0: 1.0, 1: 3.0, 2: 8.0}, "y": {0: 7.0}, "z": {}})
    two = Column("b", None, metric, {"x": {0: 3.0, 1: 5.0}, "y": {0: 9.0}, "z": {}})
    found = grand([one, two], "x")
    # Blocks 0 and 1 have means 2 and 4: t of one degree is 12.7062, times √2/√2.
    assert found is not None
    assert (found.mean, found.half) == (4.0, pytest.approx(12.7062, rel=1e-5))
    single = grand([one, two], "y")
    assert single is not None and (single.mean, single.half) == (8.0, 0.0)
    assert grand([one, two], "z") is None


def test_every_pair_is_a_row(book: Any, view: View) -> None:
    sheet, found = book["Pairs"], rows(book["Pairs"])
    assert found[1] == [
        "Workload", "Metric", "a", "b", "Verdict", "How much", "Remark", "a / b", "Low", "High",
        "Robust", "p", "Further blocks, Low", "Further blocks, High",
    ]  # fmt: skip
    wanted = [
        (of, of.workload, EN.metric(of.metric), pair)
        for w in view.workloads
        for of in (w, *view.verdict.secondary.get(w.workload, ()))
        for pair in of.pairs
    ]
    wanted += [(view.verdict.overall, "all workloads", None, p) for p in known.OVERALL]  # type: ignore[misc]
    assert len(found) == 1 + len(wanted) == 1 + 7 * 3 + 2
    for row, (of, workload, metric, pair) in zip(list(found.values())[1:], wanted, strict=True):
        (words,) = cells.pair_texts(view, of, [pair])
        title = f"{words.title}: {words.amount}".replace("\u00a0", " ")
        numbers = [pair.ratio, pair.low, pair.high, pair.hodges_lehmann, pair.p]
        expected = [workload, metric, pair.a, pair.b, pair.verdict, title, words.remark or None,
                    *numbers, *(pair.blocks_needed or (None, None))]  # fmt: skip
        while expected[-1] is None:
            expected.pop()
        close(row, expected)
    assert found[7][5:] == ["kyber against bfq: 56 % faster",
                            "ranks do not confirm it and two modes", 1.5625, 1.484375, 1.640625,
                            1.5, 0.25, 4, 12]  # fmt: skip
    assert (sheet.auto_filter.ref, sheet.freeze_panes) == ("A1:N24", "B2")
    formats = [sheet.cell(7, i).number_format for i in range(8, 15)]
    assert formats == ["0.000"] * 4 + ["0.0000"] + ["#,##0"] * 2
    assert [sheet.cell(1, i).alignment.horizontal for i in (7, 8)] == [None, "right"]
    assert sheet.cell(5, 5).font.color.rgb == "FF12694A"


def test_every_attempt_is_a_row(book: Any, view: View) -> None:
    sheet, found = book["Runs"], rows(book["Runs"])
    assert found[1] == [
        "Workload", "Candidate", "Status", "Started", "Block", "Position", "Attempt",
        "elapsed time, s", "throughput, MB/s", "mean reader latency, ms",
        "write throughput, GB/s", "Check",
    ]  # fmt: skip
    for row, run in zip(list(found.values())[1:], view.record.runs, strict=True):
        values = [run.metrics.get(n) for n in (known.RATE, known.WAIT, known.WRITES)]
        scaled = [v if v is None else v / f for v, f in zip(values, (1e6, 1e6, 1e9), strict=True)]
        gates = {0: "", 1: "strange-thing: 5 pages", 2: "knob-changed: scheduler: none -> bfq; "
                 "strange-thing: 5 pages"}  # fmt: skip
        check = gates[len(run.gates)]
        if run.gates == (known.KNOB,):
            check = "knob-changed: scheduler: none -> bfq"
        expected = [run.workload, run.candidate, run.status, run.started_at, run.block - 1,
                    run.position + 1, run.attempt, 1.5, *scaled, check or None]  # fmt: skip
        while expected[-1] is None:
            expected.pop()
        close(row, expected)
    assert (sheet.auto_filter.ref, sheet.freeze_panes) == ("A1:L68", "C2")
    formats = [sheet.cell(2, i).number_format for i in range(5, 12)]
    assert formats == [*["#,##0"] * 3, *(f'#,##0.00" {u}"' for u in ("s", "MB/s", "ms", "GB/s"))]
    assert [sheet.cell(1, i).alignment.horizontal for i in (4, 5, 11, 12)] == [
        None, "right", "right", None,
    ]  # fmt: skip


def test_a_filter_has_a_row_even_without_runs_and_no_value_is_an_empty_cell() -> None:
    of = known.record()
    run = dataclasses.replace(of.runs[0], metrics={"odd": math.nan, known.RATE: 5e6})
    for runs, last in (((), 2), ((run,), 2)):
        changed = View(dataclasses.replace(of, runs=runs, explanations={}), known.verdict(), EN)
        file = io.BytesIO()
        with xlsxwriter.Workbook(file) as made:
            sheet = workbook.Sheet(made, "Runs", workbook.Formats(made))
            workbook._runs(changed, sheet)
        back = openpyxl.load_workbook(file).worksheets[0]
        assert back.auto_filter.ref.endswith(str(last))
    assert [cell.value for cell in back[1]][8:] == ["odd", "throughput, MB/s", "Check"]
    assert [cell.value for cell in back[2]][8:] == [None, 5, None]
    assert workbook.metric_of(changed, "odd").unit == ""
    assert workbook.metric_of(changed, "iops") is METRICS["iops"]


def test_a_sheet_writes_each_value_as_what_it_is() -> None:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as made:
        sheet = workbook.Sheet(made, "it's a name of more than 31 letters", workbook.Formats(made))
        sheet.cells([1, 2.5, True, "x", None, "", math.inf, Path("y")])
        sheet.skip(2)
        sheet.line("a long sentence that takes no part in the width")
        sheet.cells(["z" * 20, 1234567890123.5, "w" * 90], ["", "", "title"])
        sheet.paragraph("over two", 2, height=42)
        sheet.finish()
        assert sheet.range(3, 5, 1) == "='it''s a name of more than 31 let'!$B$4:$B$6"
        assert sheet.row == 6
    back = openpyxl.load_workbook(file).worksheets[0]
    assert back.title == "it's a name of more than 31 let"
    assert [cell.value for cell in back[1]] == [1, 2.5, True, "x", None, None, None, "y"]
    assert back["A4"].value.startswith("a long sentence")
    widths = [back.column_dimensions[c].width for c in "ABC"]
    assert widths == pytest.approx([23.71, 12.71, 9.71], abs=0.01)
    assert back.row_dimensions[6].height == 42
    assert str(next(iter(back.merged_cells.ranges))) == "A6:B6"


def test_the_machine_and_the_method(book: Any) -> None:
    found = list(rows(book["Host"]).values())
    assert found == [
        ["Fact", "Value"], ["hostname", "lab1"], ["kernel.release", "6.18.0"], ["kernel.version"],
        ["cpu.model", "Example 3000"], ["cpu.flags", "a, b"], ["cpu.caches.1.level", 1],
        ["cpu.caches.2.level", 2], ["notes", "x" * 401], ["short", "y" * 400], ["nothing"],
        ["device.name", "loop7"], ["device.queue.nr_requests", "128"],
        ["device.queue.rotational", "0"],
    ]  # fmt: skip
    assert book["Host"].freeze_panes == "A2"
    readme = rows(book["README"])
    assert readme[1] == ["schedlab result: Known figures"]
    assert [readme[i][0].split(":")[0] for i in range(3, 8)] == book.sheetnames[:5]
    headings = {i: row[0] for i, row in readme.items() if book["README"].cell(i, 1).font.sz == 13}
    assert headings == {
        10: "Limits of this result", 19: "How it was measured", 30: "What was omitted",
    }  # fmt: skip
    assert readme[11][0] == (
        "outlier: read 4 KiB: bfq, block 1: one run is 10× away from the prediction of the other "
        "runs. It is kept"
    )
    assert readme[35] == [f"schedlab {schedlab.__version__}"]
    assert book["README"].column_dimensions["A"].width == pytest.approx(110.71, abs=0.01)
    assert book.properties.title.startswith("kyber is best")
    assert (book.properties.subject, book.properties.keywords) == ("Known figures", "winner")


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([], (0, 1.2, 0.2, 0)),
        ([0.0], (0, 1.2, 0.2, 0)),
        ([-3.0, 7.0], (-3, 8, 2, 0)),
        ([5.0, 10.0], (0, 12, 2, 0)),
        ([math.nan, 9.5], (0, 10, 2, 0)),
        ([2.0, 4.1], (2, 8, 0, 2)),
        ([4.9, 11.0], (2, 16, 0, 2)),
        ([5.0, 21.0], (5, 40, 0, 2)),
        ([0.05, 2.0], (0.05, 3.2, 0, 2)),
        ([0.05, 2.1], (0.01, 10, 0, 10)),
    ],
)
def test_axes_of_values(values: list[float], axis: tuple[float, ...]) -> None:
    of = axis_for(values)
    assert (of.low, of.high, of.step, of.log_base) == pytest.approx(axis)
    assert of.crossing == (of.low if of.log_base else None)
    assert of.options() == {
        "min": of.low, "max": of.high,
        **({"log_base": of.log_base, "crossing": of.low} if of.log_base
           else {"major_unit": of.step}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("far", "axis"),
    [
        (1.0, (0.95, 1.05, 0.01, 0)),
        (1.05, (0.95, 1.05, 0.01, 0)),
        (1.06, (0.9, 1.1, 0.025, 0)),
        (1.15, (0.8, 1.2, 0.05, 0)),
        (1.3, (0.5, 1.5, 0.125, 0)),
        (1.9, (0, 2, 0.25, 0)),
        (2.0, (0, 2, 0.25, 0)),
        (2.1, (0.25, 4, 0, 2)),
        (4.0, (0.25, 4, 0, 2)),
        (16.0, (1 / 16, 16, 0, 2)),
        (17.0, (0.01, 100, 0, 10)),
        (101.0, (0.001, 1000, 0, 10)),
    ],
)
def test_axes_of_ratios(far: float, axis: tuple[float, ...]) -> None:
    for ratios in ([1.0, far], [0.0, 1 / far, 1.0]):
        of = ratio_axis(ratios)
        assert (of.low, of.high, of.step, of.log_base) == pytest.approx(axis)
        assert of.options()["crossing"] == 1.0


def piped(text: str, heading: str) -> list[list[str]]:
    """The tables of a Markdown text below a heading, as rows of `a | b | c`."""
    found: list[list[str]] = [[]]
    for line in text.split(f"{heading}\n")[1].split("\n## ", maxsplit=1)[0].splitlines():
        if line.startswith("|"):
            found[-1].append(line.removeprefix("| ").removesuffix(" |"))
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_markdown_has_every_table(view: View) -> None:
    text = exchange.markdown(view).replace("\u00a0", " ")
    first = piped(text, "3 min. This holds for these sessions.")[0]
    assert first[:2] == ["Workload | none | kyber | bfq", "--- | --- | --- | ---"]
    assert first[4:7] == [
        "readers | 4.0 ms | 2.0× shorter ▲ | 25 % longer ▼",
        "– its writers | 1.0 GB/s | same | 20 % slower ▼",
        "– p99 reader latency | 20 ms | same | 2.5× longer ▼",
    ]
    large, pairs, *_ = piped(text, "## Workload by workload")
    assert large == [
        "Candidate | throughput, MB/s | 95 % interval", "--- | ---: | ---:",
        "none | 400 | 392 to 408", "kyber | 400 | 388 to 412", "bfq | 200 | 194 to 206",
    ]  # fmt: skip
    assert pairs == [
        "Pair | How much | 95 % interval | Verdict | Remark",
        "--- | --- | --- | --- | ---",
        "kyber against none | same | −1.0 to 1.0 % | = equivalent | ",
        "none against bfq | 2.0× faster | 1.6 to 2.5× | ▲ better | ",
        "kyber against bfq | 2.0× faster | 1.9 to 2.1× | ? undecided | ",
    ]
    assert len(piped(text, "## Workload by workload")) == 2 * 4
    _, small = piped(text, "## Throughput against latency")
    assert small == [
        "Candidate | throughput, MB/s | 95 % interval | p99 latency, µs | 95 % interval"
        " | Dominated by",
        "--- | ---: | ---: | ---: | ---: | ---",
        "none | 100 | 95.0 to 105 | 200 | 180 to 220 | –",
        "kyber | 120 | 114 to 126 | 100 | 90.0 to 110 | –",
        "bfq | 80.0 | 76.0 to 84.0 | 400 | 360 to 440 | none and kyber",
    ]
    (bends,) = piped(text, "## Where the curves bend")
    assert bends[1:3] == [
        "--- | --- | ---: | ---: | ---: | ---",
        "read | none | 64 KiB | 32 KiB to 128 KiB | 0.75 → 0.25 | ",
    ]
    assert "\n\n**What to do next**\n\n* `schedlab apply kyber /dev/DEVICE` — to use it\n" in text
    assert "\n* **outlier**: read 4 KiB: bfq, block 1: one run" in text
    assert text.endswith("and have no value: 1; all other cells are kept.\n")
    short = exchange.findings(view).replace("\u00a0", " ")
    assert short.startswith("**kyber is best for this mix")
    assert [line for line in short.splitlines() if line.startswith("#")] == [
        "### Why", "### Where the curves bend",
    ]  # fmt: skip
    assert exchange._escaped("a|b\\c<d*e_f`g\nh") == "a\\|b\\\\c\\<d\\*e\\_f\\`g h"


def test_a_workload_with_nothing_to_order_spans_its_cells(view: View) -> None:
    of = screen.screen(view)
    row = dataclasses.replace(screen.all_rows(view)[0], span="nothing to order")
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as made:
        workbook_first._table_row(workbook.Sheet(made, "a", workbook.Formats(made)), row)
    back = openpyxl.load_workbook(file).worksheets[0]
    assert [c.value for c in back[1]] == ["read 1 MiB", "400\u00a0MB/s", "nothing to order"]
    assert terminal._line(row, range(3), 30)[2] == terminal.Field(
        ("nothing to order",), terminal.DIM, span=True
    )
    assert len(of.rows) == 6


def test_csv_is_the_verdict_in_plain_numbers(view: View) -> None:
    lines = list(csv.reader(io.StringIO(exchange.csv_text(view))))
    assert tuple(lines[0]) == exchange.CSV_COLUMNS
    assert lines[6] == [
        "read 4 KiB", "", known.RATE, "B/s", "kyber", "bfq", "1.5625", "1.484375", "1.640625",
        "undecided", "0.25", "1.5", "fragile two-modes", "0.05", "0.02", "4",
    ]  # fmt: skip
    assert lines[7][:9] == ["readers", "", known.WAIT, "ns", "kyber", "none", "0.5", "0.4", "0.625"]
    assert lines[7][13:] == ["0.05", "0.05", "4"]
    assert lines[10][:4] == ["readers", "writers", known.WRITES, "B/s"]
    assert lines[-1] == ["", "", "", "", "bfq", "none", "0.8", "0.7", "0.9", "worse", "0.02", "",
                         "", "0.15", "0.03", "4"]  # fmt: skip
    assert len(lines) == 1 + 23
    metric = dataclasses.replace(view.verdict.overall, metric=METRICS["iops"])
    of = View(view.record, dataclasses.replace(view.verdict, overall=metric), EN)
    assert exchange.csv_text(of).splitlines()[-1].startswith(",,iops,1/s,bfq,none,0.8,")


def test_pairs_of_two_results_are_lines(view: View) -> None:
    lines = cells.pair_lines(view)
    assert lines[0].startswith("kyber is best for this mix of workloads: on average 20 % better")
    assert lines[4:6] == [
        "  read 4 KiB: kyber against none: 25 % faster (20 to 30 %) ▲ better",
        "  read 4 KiB: none against bfq: 25 % faster (18 to 33 %) ▲ better",
    ]
    assert len(lines) == 1 + 4 * 3


def tabled(names: tuple[str, ...], *rows: tuple[str, ...], **more: Any) -> screen.Screen:
    """A screen whose cells have these words; the first of a row is its title."""
    of = known.workloads()[0]
    lines = [
        screen.Row(title, of, tuple(screen.Cell(text) for text in texts), **more)
        for title, *texts in rows
    ]
    return screen.Screen([], [], names, tuple(lines))


def test_tables_of_a_terminal_fit_by_folding_turning_or_parting(view: View) -> None:
    of = tabled(("none", "bfq"), ("a title of 20 letter", "1", "22"), ("b", "333", "4"))
    wide = ["                      none  bfq", "a title of 20 letter  1     22",
            "b                     333   4"]  # fmt: skip
    assert terminal._table(view, of, 31, False) == wide
    assert terminal._table(view, of, 30, False) == [
        "               none  bfq", "a title of 20  1     22", "  letter",
        "b              333   4",
    ]  # fmt: skip
    turned = tabled(("none", "bfq", "kyber"), ("first one", "x" * 9, "y" * 9, "z" * 9))
    assert terminal._table(view, turned, 42, False)[0].split() == ["none", "bfq", "kyber"]
    assert terminal._table(view, turned, 41, False) == [
        "       first one", "none   xxxxxxxxx", "bfq    yyyyyyyyy", "kyber  zzzzzzzzz",
    ]  # fmt: skip
    square = tabled(("none", "bfq", "kyber"), *[(c, "x" * 9, "y" * 9, "z" * 9) for c in "abc"])
    parts = terminal._table(view, square, 23, False)
    assert [line.split() for line in parts if "none" in line] == [
        ["none", "bfq"], ["none", "kyber"],
    ]  # fmt: skip
    tables = [terminal._parts(square, 23), terminal._parts(square, 34)]
    assert [[len(head) for head, *_ in each] for each in tables] == [[3, 3], [4]]
    assert len(terminal._parts(tabled(("none",)), 9)[0][0]) == 2
    assert parts[4] == ""
    folded = terminal._table(
        view, tabled(("none", "a name of two lines, long"), ("w", "1", "2")), 80, False
    )
    assert folded == ["         a name of two lines,", "   none  long", "w  1     2"]


def test_a_row_that_spans_is_wrapped_into_what_is_left(view: View) -> None:
    of = tabled(("none", "bfq"), ("work", "1 ms", "?"), span="nothing to order at all here")
    assert terminal._table(view, of, 30, False) == [
        "      none  bfq", "work  1 ms  nothing to order", "            at all here",
    ]  # fmt: skip


def test_lines_are_wrapped_and_words_cut() -> None:
    assert terminal.wrapped("a bb ccc dddd", 6) == ["a bb", "ccc", "dddd"]
    assert terminal.wrapped("a bb ccc", 8) == ["a bb ccc"]
    assert terminal.wrapped("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]
    assert terminal.wrapped("한국어 ab", 4) == ["한국", "어", "ab"]
    assert (terminal.cells("한국 a"), terminal.cells("abc")) == (6, 3)
    bold = "\x1b[1mlong one\x1b[0m"
    assert terminal._cut(["a b c", bold], 3) == ["a b", "c", bold]
    assert terminal._painted("a", "31", True) == "\x1b[31ma\x1b[0m"
    plain = [("  ", "1", True), ("a", "", True), ("a", "1", False)]
    assert [terminal._painted(*args) for args in plain] == ["  ", "a", "a"]


def test_the_closing_lines_hang_below_their_title(view: View) -> None:
    lines = terminal._hanging(view, "Next", ["schedlab run x   about 3 min", "a b c d"], 24, False)
    assert lines == ["Next   schedlab run x", "         about 3 min", "       a b c d"]
    long = terminal._hanging(view, "Next", [f"schedlab run x   {'word ' * 9}"], 24, False)
    assert long == ["Next   schedlab run x", *["         word word word"] * 3]
    assert terminal._hanging(view, "A title", ["x"], 40, True) == ["\x1b[1mA title\x1b[0m  x"]
    whole = terminal._hanging(view, "Next", ["schedlab a   b"], 21, False)
    assert whole == ["Next   schedlab a   b"]
    files = [("Report", "a/b.html"), ("Book", "a/c.xlsx")]
    assert terminal._paths(files, 31, False) == ["Report a/b.html   Book a/c.xlsx"]
    assert terminal._paths(files, 30, False) == ["Report a/b.html", "Book a/c.xlsx"]
    assert terminal._paths(files[:1], 30, True) == ["\x1b[1mReport\x1b[0m a/b.html"]


def test_limits_and_reasons_on_a_terminal_are_few() -> None:
    flags = tuple(Flag(kind, "w", ("bfq",), {"goal": "latency"}) for kind in
                  ("unblocked", "outlier-not", "unblocked", "only-one"))  # fmt: skip
    of = known.changed(verdict={"flags": flags}, record={"notices": tuple("abcde")})
    parts = dict(terminal._closing(of))
    assert list(parts) == ["Why", "Note", "Next"]
    assert [line[:13] for line in parts["Note"]] == ["not in blocks", "a", "b"]
    assert parts["Next"] == ["schedlab apply kyber /dev/DEVICE   to use it"]
    rendered = terminal.render(known.view(), 10, False).splitlines()
    assert max(map(terminal.cells, rendered)) <= terminal.WIDTH_MIN
    wide = terminal.render(known.view(), 200, False).splitlines()
    assert 90 < terminal.cells(wide[2]) <= terminal.PROSE_WIDTH and wide[3]
    because = wide[next(i for i, line in enumerate(wide) if line.startswith("Why ")) :]
    assert max(map(terminal.cells, because)) <= terminal.PROSE_WIDTH
