"""The page of a search of settings, and what it says of the settings that it tried."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import report_known as known
from test_report_charts import axes, shapes

from schedlab.report import tune_page
from schedlab.spec import METRICS, Pair


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


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
    trials, shares = known.tables(html)
    assert trials.lines == [
        "setting |  | blocks | to the default | interval",
        "a * | x=1 | 5 | +25 % | +10 % to +50 %", "b | x=2 | 1 |  | ",
        "c | x=3 | 2 | −20 % | −50 % to 0 %", "d | x=4 | 3 | not allowed | ",
    ]  # fmt: skip
    assert [tune_page._ratio(math.log(r)) for r in (2.0, 4.2, 15)] == ["+100\u00a0%", "4.2×", "15×"]
    assert shares.lines == ["tunable | share", "w | 60 %", "x | 15 %", "y | 10 %", "z | 7 %",
                            "v | 5 %", "u | 3 %"]  # fmt: skip
    assert '<a href="v&amp;.html">' in html and "<li>run &lt;it&gt;</li>" in html
    assert tune_page.text(tuned()).splitlines() == [
        "a is best.", "Line.", "",
        "Importance of tunables: w 60\u00a0%, x 15\u00a0%, y 10\u00a0%, z 7\u00a0%, v 5\u00a0%.",
        tune_page.DESCRIBES, "",
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


@pytest.mark.parametrize(
    ("higher", "pair", "beats", "not_beaten"),
    [
        (True, (1.5, 1.12, 2.5, "better"), "a beats none by at least 12 %.", ""),
        (True, (3.5, 2.0, 9.0, "better"), "a beats none by at least 2.0×.", ""),
        (False, (0.4, 0.2, 0.45, "better"), "a beats none by at least 2.2×.", ""),
        (False, (0.8, 0.7, 0.9, "better"), "a beats none by at least 10 %.", ""),
        (True, (1.0, 0.9, 1.07, "undecided"), "", "No setting beat none by more than 7 %."),
        (False, (1.0, 0.75, 1.07, "undecided"), "", "No setting beat none by more than 25 %."),
        (True, (1.0, 0.4, 6.4, "undecided"), "", "No setting beat none by more than 6.4×."),
        (True, (0.8, 0.7, 0.9, "worse"), "", "No setting beat none by more than 0 %."),
        (True, (1.0, None, None, "undecided"), "a beats none.",
         "No setting was shown to beat none; how much better one may be is unknown."),
    ],
)  # fmt: skip
def test_what_tuning_found(higher: bool, pair: tuple, beats: str, not_beaten: str) -> None:
    stored = Pair("a", "none", *pair)
    of = known.changed(overall={"pairs": (stored,), "higher_is_better": higher}).verdict
    assert plain(tune_page.not_beaten(of, {"a": "x"})) == not_beaten
    assert tune_page.beating(of, ["a"]) == ["a"] * (pair[3] == "better")
    if beats:
        assert plain(tune_page.beats(of, "a")) == beats
    best = Pair("b", "none", 9.0 if higher else 0.1, 1, 1, "better")
    both = known.changed(overall={"pairs": (stored, best), "higher_is_better": higher}).verdict
    assert tune_page.beating(both, ["a", "b"])[0] == "b"
    assert tune_page.gain(0.0, higher) is tune_page.gain(None, higher) is None
