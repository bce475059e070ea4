"""The page of a search of settings, and what it says of the settings that it tried."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from test_report_charts import axes, shapes

from schedlab.report import tune_page
from schedlab.spec import METRICS


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def tables(page: str) -> list[list[str]]:
    """The lines of every table of a page, its cells apart."""
    found = []
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = re.sub(r"<caption>.*?</caption>", "", table).split("<tr>")[1:]
        cells = [
            [re.sub(r"<[^>]*>", "", c) for c in re.split(r"<t[hd][^>]*>", r)[1:]] for r in rows
        ]
        found.append([plain(" | ".join(row)) for row in cells])
    return found


def tuned(trials: int = 4) -> tune_page.TuneView:
    """Four settings, of which "b" is beaten by "a" on both metrics and "d" is not allowed."""
    rows = [
        tune_page.Trial("a", "x=1", 5, math.log(1.25), math.log(1.1), math.log(1.5), True, True,
                        200e3, 4e6),
        tune_page.Trial("b", "x=2", 1, None, None, None, True, False, 100e3, 5e6),
        tune_page.Trial("c", "x=3", 2, math.log(0.8), math.log(0.5), 0.0, True, False, 150e3, 2e6),
        tune_page.Trial("d", "x=4", 3, 1.0, 0.5, 1.5, False, False, None, 1e6),
    ]  # fmt: skip
    shares = {"v": 0.05, "w": 0.6, "x": 0.15, "y": 0.1, "z": 0.07, "u": 0.03}
    metrics = (METRICS["iops"], METRICS["latency_ns_p99"])
    return tune_page.TuneView("Tuning", "a is best.", ["Line."], ["run <it>"], rows[:trials],
                              shares, metrics, "v&.html", "The basis.")  # fmt: skip


def test_the_page_of_tuning(tmp_path: Path) -> None:
    tune_page.write_page(tuned(), tmp_path / "tune.html")
    html = (tmp_path / "tune.html").read_text("utf-8")
    trials, shares = tables(html)
    assert trials == [
        "Setting | Values | Blocks | To the default | Interval",
        "a * | x=1 | 5 | +25 % | +10 % to +50 %", "b | x=2 | 1 |  | ",
        "c | x=3 | 2 | −20 % | −50 % to 0 %", "d | x=4 | 3 | not allowed | ",
    ]  # fmt: skip
    assert [tune_page._ratio(math.log(r)) for r in (2.0, 4.2, 15)] == ["+100\u00a0%", "4.2×", "15×"]
    assert shares == ["Tunable | Share", "w | 60 %", "x | 15 %", "y | 10 %", "z | 7 %",
                            "v | 5 %", "u | 3 %"]  # fmt: skip
    assert '<a href="v&amp;.html">' in html and "<li>run &lt;it&gt;</li>" in html
    assert tune_page.text(tuned()).splitlines() == [
        "a is best.", "Line.", "",
        "Importance of tunables: w 60\u00a0%, x 15\u00a0%, y 10\u00a0%, z 7\u00a0%, v 5\u00a0%.",
        tune_page.TEXTS("tune.describes"), "",
        "run <it>",
    ]  # fmt: skip
    every = shapes(re.findall(r"<svg.*?</svg>", html, re.DOTALL)[-1])
    titles = ["I/O operations per second, k/s", "latency p99, ms"]
    assert [s.words for s in every if "axis" in s.kind] == titles
    x, y = axes(every, False, True)
    marks = {s.group: re.findall(r"M([\d.]+) ([\d.]+)", s.at["d"]) for s in every
             if s.kind in ("dots", "marks")}  # fmt: skip
    places = [(x(float(a)), y(float(b))) for group in ("s1", "s0") for a, b in marks[group]]
    for place, point in zip(sorted(places), [(100, 5), (150, 2), (200, 4)], strict=True):
        assert place == pytest.approx(point, rel=0.02)
    assert tune_page.pareto_chart(tuned(1)) == tune_page.pareto_chart(tuned(0)) == ""
