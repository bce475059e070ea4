"""The workbook, read back by openpyxl."""

from __future__ import annotations

import statistics
from pathlib import Path

import openpyxl
import pytest
import report_simulation as simulation
import report_verdicts as verdicts

from schedlab import report
from schedlab.report.workbook import axis_for, ratio_axis
from schedlab.spec import Record, Verdict

Case = tuple[Record, Verdict, Path]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    record = simulation.io_record(sizes=2, blocks=5)
    verdict = simulation.judged(record)
    path = tmp_path_factory.mktemp("xlsx") / "report.xlsx"
    report.write_xlsx(record, verdict, path)
    return record, verdict, path


def test_sheets_and_charts(case: Case) -> None:
    book = openpyxl.load_workbook(case[2])
    assert book.sheetnames == ["Verdict", "Means", "Pairs", "Runs", "Host", "README"]
    charts = {name: book[name]._charts for name in book.sheetnames}
    assert len(charts["Verdict"]) == 1
    assert len(charts["Means"]) == 3
    for chart in (*charts["Verdict"], *charts["Means"]):
        for series in chart.series:
            assert series.errBars is not None
            assert "!$" in series.errBars.plus.numRef.f


def test_runs_are_numbers_with_units(case: Case) -> None:
    record, _, path = case
    sheet = openpyxl.load_workbook(path)["Runs"]
    head = [cell.value for cell in sheet[1]]
    column = next(i for i, title in enumerate(head) if str(title).startswith("throughput"))
    unit = str(head[column]).split(", ")[1]
    factor = {"kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}[unit]
    for row, run in zip(sheet.iter_rows(min_row=2), record.runs, strict=True):
        value = run.metrics.get("throughput_bytes_per_s")
        assert row[column].value == (None if value is None else pytest.approx(value / factor))
        if value is not None:
            assert unit in row[column].number_format
    assert sheet.freeze_panes == "C2"
    assert sheet.auto_filter.ref


def test_means_are_the_means_of_their_rows(case: Case) -> None:
    sheet = openpyxl.load_workbook(case[2])["Means"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    checked = 0
    for i, row in enumerate(rows):
        if row[0] != "Test" or row[1] != 1:
            continue
        mean = row.index("Mean")
        for line in rows[i + 1 : i + 1 + len(simulation.TESTS)]:
            assert line[0] in simulation.TESTS
            assert line[mean] == pytest.approx(statistics.mean(line[1:mean]))
            checked += 1
    assert checked == 4 * 2 * len(simulation.TESTS)


def test_pairs_are_all_there(case: Case) -> None:
    _, verdict, path = case
    sheet = openpyxl.load_workbook(path)["Pairs"]
    of = next(iter(verdict.workloads.values()))
    row = [cell.value for cell in sheet[2]]
    pair = of.pairs[0]
    assert row[0] == of.workload and row[2:5] == [pair.a, pair.b, pair.verdict]
    assert row[7] == pytest.approx(pair.ratio)
    assert row[8] == pytest.approx(pair.low)


def test_the_first_sheet_is_the_first_screen(tmp_path: Path) -> None:
    path = tmp_path / "first.xlsx"
    report.write_xlsx(*verdicts.first_screen(), path)
    sheet = openpyxl.load_workbook(path).worksheets[0]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert str(rows[0][0]).startswith("It depends on the work")
    assert str(rows[1][0]).startswith("Measured: 6")
    table = next(i for i, row in enumerate(rows) if row[0] == "Workload")
    assert rows[table][1:5] == ["none", "mq-deadline", "kyber", "bfq"]
    assert rows[table + 1][:2] == ["new reader beside writers", "3.6\u00a0ms"]
    assert rows[table + 1][4] == "46× shorter ▲"
    assert rows[table + 2][4] == "29\u00a0% slower ▼"
    commands = [cell for row in rows for cell in row if str(cell).startswith("schedlab ")]
    assert commands == [
        "schedlab apply bfq /dev/DEVICE",
        "schedlab compare --resume DIR --blocks 14",
    ]
    numbers = next(row for row in rows[table + 8 :] if row[0] == "new reader beside writers")
    assert numbers[3] == pytest.approx(46)


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([810.0, 834.0], (0, 1000, 200, 0)),
        ([0.9, 2.4], (0.5, 4.0, 0, 2)),
        ([3.0, 900.0], (1.0, 1000.0, 0, 10)),
        ([0.0, 7.0], (0, 8, 2, 0)),
    ],
)
def test_axes_have_round_ticks_and_are_logarithmic_beyond_twofold(
    values: list[float], axis: tuple[float, float, float, int]
) -> None:
    of = axis_for(values)
    assert (of.low, of.high, of.step, of.log_base) == pytest.approx(axis)
    assert of.low <= min(values) and max(values) <= of.high


@pytest.mark.parametrize("far", [1.01, 1.2, 1.9, 2.5, 46.0, 5000.0])
def test_ratio_axes_have_1_in_the_middle(far: float) -> None:
    of = ratio_axis([1.0, 1 / far, far])
    assert of.crossing == 1.0 and of.low <= 1 / far and far <= of.high
    assert bool(of.log_base) == (far > 2)


def test_charts_carry_their_axes(tmp_path: Path) -> None:
    path = tmp_path / "first.xlsx"
    report.write_xlsx(*verdicts.first_screen(), path)
    book = openpyxl.load_workbook(path)
    (chart,) = book.worksheets[0]._charts
    assert chart.y_axis.scaling.logBase == 10
    assert (chart.y_axis.scaling.min, chart.y_axis.scaling.max) == (0.01, 100)
    latency, throughput = book["Means"]._charts[:2]
    assert latency.y_axis.scaling.logBase  # 46-fold
    assert throughput.y_axis.scaling.logBase is None and throughput.y_axis.majorUnit > 0


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize("make", [simulation.cpu_record, simulation.sim_record])
def test_other_kinds_and_languages(make, language: str, tmp_path: Path) -> None:
    record = make(blocks=4)
    path = tmp_path / "report.xlsx"
    report.write_xlsx(record, simulation.judged(record), path, language)
    assert len(openpyxl.load_workbook(path).sheetnames) == 6


def test_unwritable_path_is_an_os_error(tmp_path: Path) -> None:
    record = simulation.sim_record(blocks=3)
    with pytest.raises(OSError, match=r"report\.xlsx"):
        report.write_xlsx(record, simulation.judged(record), tmp_path / "no" / "report.xlsx")
