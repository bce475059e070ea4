"""The workbook, read back by openpyxl."""

from __future__ import annotations

import statistics
from pathlib import Path

import openpyxl
import pytest
import report_simulation as simulation

from schedlab import report
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
    assert book.sheetnames == ["README", "Verdict", "Means", "Pairs", "Runs", "Host"]
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
    assert row[6] == pytest.approx(100 * (pair.ratio - 1))


@pytest.mark.parametrize("language", report.LANGUAGES)
@pytest.mark.parametrize("make", [simulation.cpu_record, simulation.sim_record])
def test_other_kinds_and_languages(make, language: str, tmp_path: Path) -> None:
    record = make(blocks=4)
    path = tmp_path / "report.xlsx"
    report.write_xlsx(record, simulation.judged(record), path, language)
    assert len(openpyxl.load_workbook(path).sheetnames) == 6


def test_unwritable_path_is_an_os_error(tmp_path: Path) -> None:
    record = simulation.sim_record(blocks=3)
    with pytest.raises(OSError, match="cannot be written"):
        report.write_xlsx(record, simulation.judged(record), tmp_path / "no" / "report.xlsx")
