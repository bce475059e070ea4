"""The page of the NCQ study has the frame of every report."""

from __future__ import annotations

import re
from pathlib import Path

from schedlab.report import ncq_page


def stands_alone(page: str) -> None:
    assert page.startswith("<!doctype html>") and page.count("<h1") == 1
    assert "<script" not in page and "http" not in page and "url(" not in page
    assert '<a class="skip"' in page and "prefers-color-scheme: dark" in page
    for tag in re.findall(r"<svg[^>]*role=\"img\"[^>]*>", page):
        assert "aria-label=" in tag


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
    assert "Simulated: 1 of 2 statements of the paper are reproduced." in page
    assert "B does not come out." in page
