"""The pages of a block-size sweep and of the NCQ study have the frame of every report."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from schedlab.report import ncq_page, sweep_chart

MODES = ("buffered", "direct")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = random.Random(3)
    points = [
        {
            "mode": mode,
            "block_bytes": 4096 << i,
            "calls": 1000,
            "repetition": k,
            "elapsed_s": 1000 * (cost + (4096 << i) / 2e9) * rng.uniform(0.95, 1.05),
        }
        for mode, cost in zip(MODES, (2e-6, 2e-5), strict=True)
        for i in range(0, 10, 2)
        for k in range(3)
    ]
    told = {"knee": {"statement": "the knee is at 64 KiB"}, "cost": {"statement": "2 µs a call."}}
    return {"target": "/dev/x", "points": points, "modes": dict.fromkeys(MODES, told)}


def stands_alone(page: str) -> None:
    assert page.startswith("<!doctype html>") and page.count("<h1") == 1
    assert "<script" not in page and "http" not in page and "url(" not in page
    assert '<a class="skip"' in page and "prefers-color-scheme: dark" in page
    for tag in re.findall(r"<svg[^>]*role=\"img\"[^>]*>", page):
        assert "aria-label=" in tag


def test_a_sweep_has_its_chart_and_table(data: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    sweep_chart.write_page(data, path)
    page = path.read_text("utf-8")
    stands_alone(page)
    assert re.search(r"<h1>buffered: 2 µs a call\.", page)
    assert page.count('class="line"') == len(MODES)
    for words in ("4 KiB", "1 MiB", "The knee is at 64 KiB.", "µs per call"):
        assert words in page
    assert page.count("<th scope=row>buffered") == 5


def test_a_sweep_has_its_workbook(data: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "sweep.xlsx"
    sweep_chart.write_workbook(data, path)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Conclusions", "Medians", "Runs"]
    assert book["Runs"].max_row == 1 + len(data["points"])


def test_the_ncq_page_marks_what_the_paper_says(tmp_path: Path) -> None:
    rows = [
        {"workload": "A", "share": 0.4, "policy": policy, "paper": paper}
        for policy, paper in (("S", 0.41), ("TS", None))
    ]
    figure = ncq_page.figure("Share", "note", ncq_page.dot_chart(rows, "workload", "share",
                                                                  "policy"), rows)  # fmt: skip
    assert figure.count('class="reference"') == 1
    lines = [{"x": x, "y": y, "by": "a"} for x, y in ((1, 10.0), (2, 100.0), (4, 1000.0))]
    chart = ncq_page.line_chart(lines, "x", "y", "by", log=True)
    assert {"10", "100", "1,000"} <= set(re.findall(r'class="end">([^<]+)<', chart))
    path = tmp_path / "ncq.html"
    statements = [
        {"result": "S is 0.41", "paper": "0.41", "model": 0.4, "comes out": "yes"},
        {"result": "B is 0.35", "paper": "0.35", "model": 0.6, "comes out": "no"},
    ]
    ncq_page.write_page(path, statements, ["B does not come out."], [figure, chart], "8 seeds.")
    page = path.read_text("utf-8")
    stands_alone(page)
    assert "Simulated: 1 of 2 statements of the paper come out." in page
    assert "B does not come out." in page
