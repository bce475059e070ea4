"""The page of a search of settings, and what it says of the settings that it tried."""

import math

from schedlab.report import tune_page
from schedlab.spec import METRICS


def tuned(trials=4):
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


def test_the_page_and_the_text_of_tuning(tmp_path, golden):
    tune_page.write_page(tuned(), tmp_path / "tune.html")
    html = (tmp_path / "tune.html").read_text("utf-8")
    inside = html[html.index("<main") : html.index("</main>")].replace("><", ">\n<")
    golden("tuning.txt", f"{tune_page.text(tuned())}\n\n{inside}")
    assert [tune_page._ratio(math.log(r)) for r in (2.0, 4.2, 15)] == ["+100\u00a0%", "4.2×", "15×"]
    assert tune_page.pareto_chart(tuned(1)) == tune_page.pareto_chart(tuned(0)) == ""
