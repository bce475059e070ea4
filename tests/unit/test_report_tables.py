"""Throughput against p99, and knees, in every form of the report but the first screen."""

import openpyxl
import pytest
import report_simulation as simulation

from schedlab import report
from schedlab.analyse import knees
from schedlab.report.texts import Texts
from schedlab.spec import METRICS, Candidate, Samples, Workload


@pytest.fixture(scope="module")
def case():
    record = simulation.io_record(sizes=5, blocks=8)
    return record, simulation.judged(record)


def forms(case, language, tmp_path):
    """Markdown, page, and all cells of the workbook."""
    file = tmp_path / "report.xlsx"
    report.write_xlsx(*case, file, lang=language)
    book = openpyxl.load_workbook(file)
    cells = [c.value for sheet in book for row in sheet.iter_rows() for c in row if c.value]
    yield report.markdown(*case, lang=language)
    yield report.html(*case, lang=language)
    yield "\n".join(map(str, cells))


@pytest.mark.parametrize("language", report.LANGUAGES)
def test_every_form_has_the_pareto_table_and_the_knees(case, language, tmp_path):
    _, verdict = case
    assert len(verdict.pareto) == 35
    assert any(p.dominated_by for points in verdict.pareto.values() for p in points)
    assert any(knee.reason == "straight" for knee in verdict.knees)
    texts = Texts(language)
    for form in forms(case, language, tmp_path):
        for key in ("section.pareto", "column.dominated", "section.knees", "text.knee_straight"):
            assert texts(key).split(":")[0] in form, key


def test_workbook_holds_the_pareto_figures_as_numbers(case, tmp_path):
    record, verdict = case
    file = tmp_path / "report.xlsx"
    report.write_xlsx(record, verdict, file)
    sheet = openpyxl.load_workbook(file)["Verdict"]
    label, points = next(iter(verdict.pareto.items()))
    rows = list(sheet.iter_rows(values_only=True))
    start = next(i for i, row in enumerate(rows) if row[0] == f"{label}: Candidate")
    for row, point in zip(rows[start + 1 :], points, strict=False):
        assert row[0] == point.candidate
        assert row[2] == pytest.approx(point.throughput / 1e6)
        assert row[5] == pytest.approx(point.latency / 1e3)


def test_a_queue_depth_has_its_knee_for_every_candidate():
    depths = (1, 2, 4, 8, 16, 32)
    workloads = tuple(
        Workload(f"read at {d}", "file-test", "iops", {"test": "read", "depth": d}) for d in depths
    )
    samples = [
        Samples(
            work.label, METRICS["iops"], ("none", "bfq") * 3, (0, 0, 1, 1, 2, 2),
            tuple(1000 * min(depth, 8) * (1 + i / 500) for i in range(6)),
        )
        for work, depth in zip(workloads, depths, strict=True)
    ]  # fmt: skip
    knee_points = knees(workloads, (Candidate("none"), Candidate("bfq")), samples)
    assert [(k.family, k.size, k.candidate) for k in knee_points] == [
        ("read", "depth", "none"),
        ("read", "depth", "bfq"),
    ]
    assert all(k.reason == "knee" and 7.5 < k.low <= k.knee <= k.high < 8.5 for k in knee_points)
    assert knees(workloads[:3], (Candidate("none"),), samples)[0].reason == "too few values"
    assert knees(workloads[:1], (Candidate("none"),), samples) == ()
