"""A page, its charts and the texts of a result with known figures, read back and compared."""

from __future__ import annotations

import base64
import dataclasses
import math
import re

import pytest
import report_known as known
from test_report_charts import axes, number, of_kind, pairs, reader, shapes

from schedlab.report import (
    cells,
    notes,
    page,
    page_figures,
    page_first,
    page_tables,
    page_workloads,
    screen,
)
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.report.why import explained
from schedlab.spec import Explanation, Flag, Noise, RateSeries

EN = Texts("en")


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.fixture(scope="module")
def view() -> View:
    return known.view()


@pytest.fixture(scope="module")
def html(view: View) -> str:
    return page.render(view)


@pytest.fixture(scope="module")
def tables(html: str) -> dict[str, list[known.Table]]:
    """All tables of the page by caption."""
    found: dict[str, list[known.Table]] = {}
    for table in known.Tables(html).tables:
        found.setdefault(table.caption, []).append(table)
    return found


def test_every_table_of_the_page_has_the_known_figures(
    tables: dict[str, list[known.Table]],
) -> None:
    alone = {name: each[0].lines for name, each in tables.items() if len(each) == 1}
    for name, lines in known.ONE_EACH.items():
        assert alone.pop(name) == lines
    assert not alone
    assert {name: len(each) for name, each in tables.items() if len(each) > 1} == {
        "throughput: higher is better": 3, "Pairs": 4, "In order of time": 4,
    }  # fmt: skip


def test_the_tables_of_each_workload(tables: dict[str, list[known.Table]]) -> None:
    large, small, cached = (t.lines for t in tables["throughput: higher is better"])
    head = "Candidate | throughput, MB/s | 95 % interval | Against none | Runs"
    assert large[0] == small[0] == head
    assert large[1:] == [
        "none | 400 | 392 to 408 | – | 8",
        "kyber | 400 | 388 to 412 | same | 4",
        "bfq | 200 | 194 to 206 | 2.0× slower ▼ | 4",
    ]
    assert small[2:] == [
        "kyber | 125 | 121 to 129 | 25 % faster ▲ | 4",
        "bfq | 80.0 | 77.6 to 82.4 | 20 % slower ▼ | 4",
    ]
    assert cached[3] == "bfq | 8.00 | 7.76 to 8.24 | ? | 4"
    large, small, readers, cached = (t.lines for t in tables["Pairs"])
    assert large[2] == "none against bfq | 2.0× faster | 1.6 to 2.5× | ▲ better"
    assert small == [
        "Pair | How much | 95 % interval | Verdict | Further blocks | Remark",
        "kyber against none | 25 % faster | 20 to 30 % | ▲ better | – | ",
        "none against bfq | 25 % faster | 18 to 33 % | ▲ better | – | ",
        "kyber against bfq | 56 % faster | 48 to 64 % | ? undecided | 4 to 12 | ranks do not"
        " confirm it and two modes",
    ]
    assert readers[1:] == [
        "kyber against none | 2.0× shorter | 1.6 to 2.5× | ▲ better",
        "none against bfq | 20 % shorter | 9 to 29 % | ▲ better",
        "kyber against bfq | 2.5× shorter | 2.4 to 2.6× | ? undecided",
    ]
    assert cached[1] == "kyber against none | same | −1.0 to 1.0 % | = equivalent"
    order = [table.lines for table in tables["In order of time"]]
    assert order[0] == [
        "Block | none, MB/s | kyber, MB/s | bfq, MB/s | none (A/A), MB/s",
        "1 | 200 | 200 | 100 | 200",
        "2 | 400 | 400 | 200 | 400",
        "3 | 400 | 400 | 200 | 400",
        "4 | 800 | 800 | – | 800",
    ]
    assert order[2][4] == "4 | 8.00 | 4.00 | 10.0 | 8.00"


def test_cells_have_the_class_of_their_verdict(tables: dict[str, list[known.Table]]) -> None:
    first = tables["Every workload, every candidate"][0]
    assert [cell.kind for cell in first.rows[2]] == ["", "t", "t v-better", "t v-worse"]
    assert [cell.label for cell in first.rows[2]] == ["", "none", "kyber", "bfq"]
    assert first.kinds[-1] == " | t | t v-equivalent | t v-undecided"
    assert tables["throughput: higher is better"][1].kinds == [
        " |  |  | t | ", " |  |  | t v-better | ", " |  |  | t v-worse | ",
    ]  # fmt: skip
    assert [each.split(" | ")[3] for each in tables["Pairs"][1].kinds] == [
        "t v-better", "t v-better", "t v-undecided",
    ]  # fmt: skip
    assert tables["read 4 KiB"][0].kinds[1:] == [
        " |  |  |  |  | t", " |  |  |  |  | t v-worse",
    ]  # fmt: skip
    ratios = tables["read: against none by record size"][0]
    assert ratios.kinds == [" | t v-better | t v-worse", " | t v-equivalent | t v-worse"]


def section(html: str, name: str) -> str:
    start = html.index(f'<section id="{name}"')
    return html[start : html.index("</section>", start)].replace("\u00a0", " ")


def test_the_frame_of_the_page(html: str) -> None:
    kicker = "Known figures. Measured 2026-03-12 09:26 on lab1, 6.18.0, Example 3000"
    assert f'<p class="kicker">{kicker}</p>' in html
    names = re.findall(r'<section id="(\w+)"', html)
    assert names == [
        "workloads", "overall_pairs", "figures", "pareto", "knees", "caveats", "drift", "gates",
        "omitted", "design", "environment", "reproduce",
    ]  # fmt: skip
    assert re.findall(r'<li><a href="#(\w+)">', html) == names
    assert '<h2 id="h-figures">By record size and by test</h2>' in html
    for name in names:
        assert f'id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">' in html
    assert "<p>lab1, 6.18.0, Example 3000</p>" in section(html, "environment")
    summaries = re.findall("<summary>([^<]*)</summary>", section(html, "environment"))
    assert summaries == ["kernel (2)", "cpu (4)", "device (3)"]
    assert "set -eu" in section(html, "reproduce")
    assert "4 runs failed a check." in section(html, "gates")
    # Four workloads are closed, three would be open.
    assert html.count('<details class="workload"><summary>') == 4


def test_limits_of_one_kind_are_together_and_the_fifth_is_folded(html: str) -> None:
    caveats = section(html, "caveats")
    shown, folded = caveats.split("<details>")
    assert [re.findall(r"block (\d): one run is 10×", part) for part in (shown, folded)] == [
        ["1", "2", "3", "4"], ["5", "6"],
    ]  # fmt: skip
    assert folded.startswith("<summary>2 more</summary>")
    assert "<strong>Outlier</strong>" in shown
    assert "<strong>Steadiness assumed</strong>" in folded
    four = dataclasses.replace(known.verdict(), flags=known.FLAGS[:4])
    assert "<details>" not in page._caveats(View(known.record(), four, EN))
    assert page._caveats(View(known.record(), dataclasses.replace(four, flags=()), EN)) == ""


@pytest.mark.parametrize(("length", "shown"), [(3, "xxx"), (400, "x" * 400), (0, "–")])
def test_facts_are_whole_up_to_400_signs(length: int, shown: str) -> None:
    assert page._fact("x" * length) == shown
    assert page._fact("x" * 402) == "x" * 400 + "…"
    assert (page._fact(None), page._fact(0)) == ("–", "0")


def test_at_most_200_findings_of_checks_are_listed() -> None:
    of = known.record()
    failed = next(run for run in of.runs if run.gates)
    for count, more in ((200, ""), (203, "3 more")):
        gates = dataclasses.replace(failed, gates=(known.KNOB,) * count)
        changed = dataclasses.replace(of, runs=(gates, of.runs[0]))
        text = page._gates(View(changed, known.verdict(), EN))
        (table,) = known.tables(text)
        assert len(table.rows) == 1 + 200
        assert re.findall(r'<p class="note">(.*?)</p>', text) == [more] * bool(more)
        assert "1\u00a0run failed a check." in text
    kept = dataclasses.replace(of, runs=tuple(r for r in of.runs if not r.gates))
    text = page._gates(View(kept, known.verdict(), EN))
    assert text == "<p>Every run passed its checks at the first attempt.</p>"


def svg_of(html: str, label: str) -> str:
    start = html.index(f'aria-label="{label}"')
    return html[html.rindex("<svg", 0, start) : html.index("</svg>", start) + 6]


def test_charts_over_the_record_size_show_the_verdict(html: str) -> None:
    every = shapes(svg_of(html, "read: throughput by record size"))
    ticks = {s.words: s.place[0] for s in every if s.tag == "text" and s.kind == "mid"}
    left, right = ticks["4 KiB"], ticks["1 MiB"]
    up = [(s.place[1] - 4, number(s.words)) for s in every if s.kind == "end"]
    y = reader(up, log=True)
    lines = of_kind(every, "line")
    assert [line.group for line in lines] == ["s0", "s1", "s2"]
    for line, levels in zip(lines, ((100, 400), (125, 400), (80, 200)), strict=True):
        places = pairs(line.numbers())
        assert [y(py) for _, py in places] == pytest.approx(levels, rel=0.02)
        assert [px for px, _ in places] == pytest.approx([left, right], abs=4)
    ends = of_kind(every, "whisker")[1].numbers()
    assert sorted(y(e) for i, e in enumerate(ends) if i % 3) == pytest.approx(
        [0.97 * 125, 1.03 * 125, 0.97 * 400, 1.03 * 400], rel=0.02
    )
    ratios = shapes(svg_of(html, "read: against none by record size"))
    up = [(s.place[1] - 4, number(s.words)) for s in ratios if s.kind == "end"]
    y = reader(up, log=True)
    lines = of_kind(ratios, "line")
    assert [line.group for line in lines] == ["s1", "s2"]
    for line, levels in zip(lines, ((1.25, 1.0), (0.8, 0.5)), strict=True):
        assert [y(py) for _, py in pairs(line.numbers())] == pytest.approx(levels, rel=0.02)
    ends = of_kind(ratios, "whisker")[1].numbers()
    assert sorted(y(e) for i, e in enumerate(ends) if i % 3) == pytest.approx(
        [0.4, 0.625, 0.75, 0.85], rel=0.02
    )
    assert y(of_kind(ratios, "zero")[0].numbers()[1]) == pytest.approx(1, rel=0.01)


def test_right_is_better_in_the_means_and_in_the_forest(html: str) -> None:
    every = shapes(svg_of(html, "Mean reader latency by workload"))
    mid = [s for s in every if s.tag == "text" and s.kind == "mid"]
    x = reader([(s.place[0], number(s.words)) for s in mid], log=True)
    assert [x(s.place[0]) for s in every if s.tag == "use"] == pytest.approx([4, 2, 5], rel=0.02)
    label = "Pairs of readers: difference of the first to the second with its interval"
    forest = shapes(svg_of(html, label))
    mid = [s for s in forest if s.tag == "text" and s.kind == "mid"]
    x = reader([(s.place[0], number(s.words)) for s in mid], log=True)
    ends = [[x(each.numbers()[i]) for i in (0, 2)] for each in of_kind(forest, "whisker")]
    assert ends[0] == pytest.approx([1.6, 2.5], rel=0.02)
    assert ends[1] == pytest.approx([1.1, 1.4], rel=0.02)
    (margin,) = of_kind(forest, "margin", "rect")
    left, width = margin.numbers("x")[0], margin.numbers("width")[0]
    assert (x(left), x(left + width)) == pytest.approx((1 / 1.05, 1.05), rel=0.02)
    assert "differences that do not matter (±5\u00a0%)" in html
    assert "differences that do not matter (±3\u00a0%)" in html  # over all workloads


def test_the_drift_is_drawn_and_its_ticks_are_blocks(view: View, html: str) -> None:
    every = shapes(svg_of(html, "Mean of each block against the mean of all, over all workloads"))
    x, y = axes(every, False, True)
    for line, aside in zip(of_kind(every, "line"), (0, 0, 0), strict=True):
        points = [(x(px), y(py)) for px, py in pairs(line.numbers())]
        assert [px for px, _ in points] == pytest.approx([1, 2, 3, 4], abs=0.05 + aside)
        assert [py for _, py in points] == pytest.approx([0.5, 1, 1, 2], rel=0.02)
    labels = [s.words for s in every if s.tag == "text" and s.kind == "mid"]
    assert labels == ["1", "2", "3", "4"]
    of = known.record()
    for blocks, ticks in ((12, list(range(1, 13))), (13, [1, 3, 5, 7, 9, 11, 13])):
        runs = [r for r in of.runs if r.block == 2 and r.status == "ok"]
        many = [dataclasses.replace(r, block=b) for b in range(blocks) for r in runs]
        changed = View(dataclasses.replace(of, runs=tuple(many)), known.verdict(), EN)
        drawn = shapes(svg_of(page_figures.drift_section(changed), labels_of_drift()))
        assert [int(s.words) for s in drawn if s.kind == "mid"] == ticks
    once = [r for r in of.runs if r.block == 2]
    changed = View(dataclasses.replace(of, runs=tuple(once)), known.verdict(), EN)
    assert page_figures.drift_section(changed) == ""


def labels_of_drift() -> str:
    return EN("chart.drift")


def test_the_runs_are_drawn_with_the_change_of_level(html: str) -> None:
    every = shapes(svg_of(html, "readers: every run in order of time"))
    (change,) = of_kind(every, "change")
    left, _, right = of_kind(every, "tick")[0].numbers()
    # 16 runs, 4 of each block: the third block begins with the ninth, after 8.5 of 16 places.
    assert (change.numbers()[0] - left) / (right - left) * 16 == pytest.approx(8.5, abs=0.01)
    assert "level changed after block 2" in html
    small = shapes(svg_of(html, "read 4 KiB: every run in order of time"))
    assert not of_kind(small, "change")


def test_rates_over_time_have_their_median_and_range(view: View, html: str) -> None:
    every = shapes(svg_of(html, "readers: the readers over time"))
    x, y = axes(every, False, True)
    none, kyber = (pairs(each.numbers()) for each in of_kind(every, "line"))
    assert [x(px) for px, _ in none] == pytest.approx([0.25, 0.75, 1.25], abs=0.02)
    assert [y(py) for _, py in none] == pytest.approx([12, 26, 40], rel=0.02)
    assert [y(py) for _, py in kyber] == pytest.approx([40] * 3, rel=0.02)
    outline = pairs(of_kind(every, "band s0")[0].numbers())
    assert [y(py) for _, py in outline] == pytest.approx([14, 29, 50, 30, 20, 10], rel=0.02)
    (ramp,) = of_kind(every, "margin", "rect")
    assert x(ramp.numbers("x")[0] + ramp.numbers("width")[0]) == pytest.approx(0.5, abs=0.02)
    long = [RateSeries(0, "", "1/s", 0.1, tuple(float(i) for i in range(121)))] * 2
    points = page_workloads._median_rate(long)
    # 121 bins in steps of 3: the middle of the first is 0.15 s, of the last 12.15 s.
    assert len(points) == 41
    assert points[0] == pytest.approx((0.15, 1.0, 1.0, 1.0))
    assert points[-1] == pytest.approx((12.15, 120.0, 120.0, 120.0))
    short = [RateSeries(0, "", "1/s", 0.1, tuple(float(i) for i in range(60)))]
    assert len(page_workloads._median_rate(short)) == 60
    nothing = [RateSeries(0, "", "1/s", 0.1, (math.nan, 5.0))]
    assert page_workloads._median_rate(nothing) == [pytest.approx((0.15, 5, 5, 5))]


def test_about_ten_moments_of_the_rates_are_listed(view: View) -> None:
    curve = [(0.5 + i, 1e3 * i, 0.0, 0.0) for i in range(21)]
    scale = page_workloads.Scale(1e3, "k/s")
    text = page_workloads._rate_table(view, {"none": curve}, scale, "rates")
    (table,) = known.tables(text)
    assert table.lines == ["Time, s | none, k/s", *(
        f"{t} | {v}" for t, v in zip(
            ("0.50", "3.5", "6.5", "9.5", "12", "16", "18"),
            ("0", "3.00", "6.00", "9.00", "12.0", "15.0", "18.0"), strict=True)
    )]  # fmt: skip


def many(count: int, families: bool = False) -> View:
    """So many workloads as the small reads, each of two record sizes if they are families."""
    of, verdict = known.record(), known.verdict()
    work = next(w for w in of.experiment.workloads if w.label == known.SMALL)
    works, verdicts = [], {}
    for i in range(count):
        for size in (4096, 8192) if families else (0,):
            label = f"work {i} {size}"
            parameters = {"test": f"work {i}", "record_bytes": size, "depth": 8}
            works.append(dataclasses.replace(work, label=label, parameters=parameters))
            verdicts[label] = dataclasses.replace(verdict.workloads[known.SMALL], workload=label)
    experiment = dataclasses.replace(of.experiment, workloads=tuple(works))
    pareto = dict.fromkeys(verdicts, verdict.pareto[known.LARGE])
    pareto[label] = verdict.pareto[known.SMALL]
    first = [r for r in of.runs if (r.workload, r.block) == (known.SMALL, 2)]
    runs = [dataclasses.replace(r, workload=w.label) for r in first for w in works]
    record = dataclasses.replace(of, experiment=experiment, runs=tuple(runs))
    return View(record, dataclasses.replace(verdict, workloads=verdicts, pareto=pareto), EN)


LIMITED = "Charts are drawn for the first {} of {} workloads; the tables are complete."


@pytest.mark.parametrize(("count", "opened"), [(3, 3), (4, 0), (80, 0), (81, 0)])
def test_charts_of_single_workloads_have_a_limit(count: int, opened: int) -> None:
    text = page_workloads.workloads_section(many(count))
    assert text.count('<details class="workload" open>') == opened
    assert text.count('aria-label="Pairs of work') == min(count, 80)
    assert text.count(": every run in order of time") == min(count, 80)
    assert (LIMITED.format(80, count) in text) == (count > 80)
    assert len(known.tables(text, "Pairs")) == count
    assert len(known.tables(text, "In order of time")) == count


def test_values_of_many_runs_are_left_to_the_workbook() -> None:
    of = many(1)
    (work,) = of.workloads
    for count in (3000, 3001):
        runs = [of.runs[0]] * (count - len(of.runs)) + list(of.runs)
        changed = View(dataclasses.replace(of.record, runs=tuple(runs)), of.verdict, EN)
        text = page_workloads._order(changed, work, of.runs, False)
        assert len(known.tables(text)) == (count == 3000)
    assert page_workloads._order(of, work, of.runs[:1], True) == ""


@pytest.mark.parametrize("count", [20, 21])
def test_the_means_are_drawn_for_60_rows_and_listed_for_all(count: int) -> None:
    text = page_figures.figures_section(many(count))
    assert (LIMITED.format(20, count) in text) == (count == 21)
    (table,) = known.tables(text, "Throughput by workload")
    assert len(table.rows) == 1 + count
    every = shapes(svg_of(text, "Throughput by workload"))
    assert sum(s.kind == "group" for s in every) == 20


@pytest.mark.parametrize("count", [12, 13])
def test_families_beyond_the_twelfth_are_only_in_tables(count: int) -> None:
    text = page_figures.figures_section(many(count, families=True))
    assert text.count('aria-label="work') == 2 * 12
    assert (LIMITED.format(12, count) in text) == (count == 13)
    (table,) = known.tables(text, "Throughput, mean of all record sizes")
    assert len(table.rows) == 1 + count


@pytest.mark.parametrize(("count", "short"), [(6, 0), (7, 1), (8, 2)])
def test_six_workloads_have_their_own_table_of_throughput_and_latency(
    count: int, short: int
) -> None:
    found = known.tables(page_tables.pareto_section(many(count)))
    # First the one with a dominated candidate, which came last.
    assert [t.caption for t in found[:2]] == [f"work {count - 1} 0", "work 0 0"]
    assert len(found) == 6 + bool(short)
    for table in found[6:]:
        assert table.caption == "Throughput against latency"
        assert table.lines[0] == "Workload | none | kyber | bfq"
        assert table.lines[1:] == [
            f"work {i} 0 | 400 MB/s, 5.00 ms | 400 MB/s, 4.00 ms | –" for i in range(5, count - 1)
        ]
    of = many(1)
    text = page_tables._short(of, [cells.pareto_tables(of)[0]])
    (table,) = known.tables(text)
    assert table.lines[1].endswith("| 80.0 MB/s, 400 µs ▼")
    assert table.kinds == [" |  |  | v-worse"]


def test_workloads_that_the_first_table_has_no_room_for_are_folded() -> None:
    of = many(18)
    text = page_first.first_screen(of, screen.screen(of))
    first, rest = known.tables(text)
    assert (len(first.rows), len(rest.rows)) == (1 + 16, 1 + 2)
    assert "2\u00a0more\u00a0workloads with smaller differences or none" in text
    assert rest.lines[1:] == [f"work {i} 0 | 100 MB/s | 25 % faster ▲ | 20 % slower ▼"
                              for i in (16, 17)]  # fmt: skip
    assert text.count('<svg class="bar"') == 16 * 3
    assert "differences within 3\u00a0%, treated as equivalent" in text


def test_two_reasons_are_shown_and_the_others_folded() -> None:
    of = known.record()
    (none,) = of.explanations[known.READERS, "none"]
    each = {
        (label, name): (none, dataclasses.replace(none, group="writers"))
        for label in (known.SMALL, known.LARGE, known.READERS)
        for name in ("none", "bfq")
    }
    changed = View(dataclasses.replace(of, explanations=each), known.verdict(), EN)
    text = page_first.first_screen(changed, screen.screen(changed))
    shown, folded = text.split("<summary>4 more</summary>")
    captions = [t.caption for t in known.tables(shown) if "where a request" in t.caption]
    # Of each workload the group of its metric, for readers that of the readers.
    assert captions == [
        "read 1 MiB: where a request of the readers waits",
        "read 4 KiB: where a request of the readers waits",
    ]
    assert len(re.findall("where a request of the (?:read|writ)ers waits</cap", folded)) == 4
    assert "From one more run of each candidate, which does not count in the figures." in folded


def test_a_part_is_in_the_picture_from_one_in_a_hundred() -> None:
    of = known.record()
    (none,) = of.explanations[known.READERS, "none"]  # 4 ms together
    for plug, shown in ((0.00003, False), (0.0001, True)):
        each = dataclasses.replace(none, plug_s=plug)
        why = page_first.Why("w", "readers", (("none", each),), ())
        assert ("plug" in page_first._parts(why)) == shown
        assert "outside" not in page_first._parts(why)


def test_figures_of_the_folder_are_pictures_with_their_title(html: str) -> None:
    data = base64.b64encode(known.SVG.encode()).decode()
    assert f'<img alt="Bursts &amp; more" src="data:image/svg+xml;base64,{data}">' in html
    assert 'alt=""' in page_figures.embedded("<svg></svg>")


def test_bursts_are_summed_by_candidate() -> None:
    of = known.record()
    runs = [r for r in of.runs if r.workload == known.CACHED and "A/A" not in r.candidate][:4]
    burst = {
        "workers": [
            {"worker": 0, "calculations": 1200, "cpu_burst_s": 1.5},
            {"worker": 1, "calculations": 800, "cpu_burst_s": 0.5},
            {"worker": 2},
        ]
    }
    runs = [dataclasses.replace(r, properties=burst) for r in runs]
    broken = {"workers": [{"worker": 0, "calculations": 5}]}
    runs[1] = dataclasses.replace(runs[1], properties=broken)
    changed = View(dataclasses.replace(of, runs=tuple(runs)), known.verdict(), EN)
    text = page_figures._bursts(changed)
    total, every = known.tables(text, "Work and CPU bursts")
    assert total.lines == [
        "Candidate | Calculations | CPU burst, s | Calculations per CPU second",
        "none | 4,000 | 4.000 | 1,000.00",
        "kyber | 5 | 0.000 | –",
        "bfq | 2,000 | 2.000 | 1,000.00",
    ]
    assert every.lines[:3] == [
        "Candidate | Block | Worker | Calculations | CPU burst, s | Calculations per CPU second",
        "none | 1 | 0 | 1,200 | 1.500 | 800.00",
        "none | 1 | 1 | 800 | 0.500 | 1,600.00",
    ]
    assert every.lines[-1].startswith("none | 2 | 1 |")
    assert page_figures._bursts(known.view()) == ""


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        (Flag("change-point", "w", (), {"block": 5.0, "change": -0.25}),
         "the level changes by −25.0 % from block 5 on; the parts before and after are also shown "
         "apart"),
        (Flag("control-open", "w", (), {"reach": 0.5, "margin": 0.02}),
         "no difference was found, but one of 50 % could hide (the margin is 2 %)"),
        (Flag("cold-first-run", "w", ("a", "b"),
              {"difference": {"a": 2e6, "b": 4e6}, "unit": "ns"}),
         "the first run of a and b is worse than its median by 2.0 to 4.0 ms: a cold start; it "
         "is kept"),
        (Flag("cold-first-run", "w", ("a",), {"difference": {"a": 2.0}, "unit": ""}),
         "the first run of a is worse than its median by 2.0: a cold start; it is kept"),
        (Flag("uneven-noise", "", (), {"noisiest": "a", "quietest": "b", "ratio": 0.25}),
         "a varies 4.0× as much as b: this can hide its differences, and with fewer than 6 "
         "blocks those of the others"),
        (Flag("carry-over", "", (), {"effects": {"a": math.log(1.25), "b": 0.0}}),
         "the previous run affects a run: a +25.0 % and b 0 %. Estimates without this effect are "
         "compared too"),
        (Flag("sessions-disagree", "", (), {"ratios": {"1": 0.5, "2": 1.25}}),
         "the ratio differs between the sessions: 0.50 and 1.2"),
        (Flag("starved", "", (), {"counts": {"a": 2, "b": 0}, "runs": 8}),
         "runs in which not all requests were served in time, or too few for this figure (of 8 "
         "each): a 2. Their true value is at least as bad as the one that is used"),
        (Flag("two-modes", known.SMALL, ("a",),
              {"low": 1e6, "high": 2e9, "share_low": 0.25, "share_high": 0.75}),
         "a: the values form two groups, 1.0 MB/s (25 % of them) and 2.0 GB/s (75 %)"),
        (Flag("call-cost", known.SMALL, (), {"seconds_per_call": 8e-6, "constant_s": 0.25,
                                             "explained": 0.99}), "8.00 µs"),
        (Flag("extension", "", (), {"first_blocks": 8, "error": 0.075}),
         "blocks were added after a first verdict at 8: the chance of a false difference is up "
         "to 7.5 %"),
    ],
)  # fmt: skip
def test_sentences_of_flags(view: View, flag: Flag, text: str) -> None:
    shown = plain(notes.flag_text(view, flag))
    assert shown == text or (flag.kind == "call-cost" and text in shown and "250 ms" in shown)


def test_how_it_was_measured() -> None:
    lines = [plain(line) for line in notes.design(known.changed())]
    assert lines == [
        "4 workloads × 3 schedulers in 4 blocks: 63 runs analysed, 4 repeated after a failed "
        "check.",
        "Blocks of all 16 cells; workloads in random order, candidates in carry-over balanced "
        "order, seed 42.",
        "The baseline ran a second time in every block under another name (A/A arm).",
        "Target: scratch device of 3 GiB on /var/tmp.",
        "Differences within ±3 % count as equivalent; fixed before the first run.",
        "Stopping rule: a fixed number of blocks, analysed once.",
        "Differences of 15 % or more would have shown with 80 % probability.",
        "the disk was new",
    ]
    noise = {"noise": Noise(aa_low=0.987, aa_high=1.0234), "mdd": None}
    of = known.changed(experiment={"blocked": False, "aa_arm": False}, overall=noise)
    assert [plain(line) for line in notes.design(of)][1:3] == [
        "Imported runs; their order was not randomised by schedlab.",
        "The runs were not made in random blocks: a drift of the machine looks like a difference "
        "between the schedulers.",
    ]
    assert plain(notes.scope(of)).startswith("4 workloads × 3 schedulers in 4 repetitions: 63")
    assert notes.noise(of) == [
        "The baseline against itself (A/A): ratio between 0.987 and 1.02.",
    ]  # fmt: skip
    assert plain(notes.omitted(known.changed())[1]).startswith("4 runs failed a check.")
    runs = tuple(r for r in known.record().runs if r.status == "ok")
    assert notes.omitted(known.changed(record={"runs": runs, "notices": ()})) == [
        "Nothing: every planned run was completed and analysed.",
    ]  # fmt: skip


def waits(**parts: float) -> Explanation:
    return Explanation("readers", **{"tag_s": 0.0, "scheduler_s": 0.0, "device_s": 0.0, **parts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("none", "kyber", "said"),
    [
        ({"device_s": 0.7, "tag_s": 0.2, "plug_s": 0.1}, {}, ["device_shallow"]),
        ({"device_s": 0.7, "plug_s": 0.3, "device_depth": 4.0}, {}, ["device"]),
        ({"device_s": 0.69, "tag_s": 0.24, "plug_s": 0.07}, {}, []),
        ({"device_s": 0.5, "tag_s": 0.25, "plug_s": 0.25}, {}, ["tag"]),
        ({"device_s": 0.5, "outside_s": 0.25, "plug_s": 0.25}, {}, ["outside"]),
        ({"device_s": 0.5, "scheduler_s": 0.25, "plug_s": 0.25}, {}, ["scheduler"]),
        ({"device_s": 0.5, "plug_s": 0.5, "raised": 1.0}, {}, []),
        ({"device_s": 0.5, "plug_s": 0.5, "raised": 1.5}, {}, ["raised"]),
        ({"device_s": 0.5, "plug_s": 0.5}, {"device_s": 0.34, "plug_s": 0.33}, []),
        ({"device_s": 0.5, "plug_s": 0.55}, {"device_s": 0.4, "plug_s": 0.3}, ["fell"]),
        ({"device_s": 0.5, "plug_s": 0.5, "requests_per_operation": 1.09}, {}, []),
        ({"device_s": 0.5, "plug_s": 0.5, "requests_per_operation": 0.89}, {}, ["split"]),
        ({"device_s": 0.5, "plug_s": 0.5, "requests": 99, "lost": 1}, {}, ["lost"]),
        ({"device_s": 0.5, "plug_s": 0.5, "requests": 100, "lost": 1}, {}, []),
    ],
)
def test_reasons_begin_at_their_shares(none: dict, kyber: dict, said: list[str]) -> None:
    each = {(known.READERS, "none"): (waits(**none),)}
    if kyber:
        each[known.READERS, "kyber"] = (waits(**kyber),)
    (why,) = explained(known.changed(record={"explanations": each}))
    starts = {
        "device_shallow": "was the device itself", "device": "no scheduler can reorder",
        "tag": "For a free tag", "outside": "Outside the block", "scheduler": "In the scheduler",
        "raised": "their weight", "fell": "the wait in the plug fell from 550 ms to 300 ms",
        "split": "An operation of", "lost": "The captures missed 1 %",
    }  # fmt: skip
    found = [name for name, words_ in starts.items()
             if any(words_ in plain(line) for line in why.sentences)]  # fmt: skip
    assert found == said
    unknown = not set(said) - {"split", "lost"}
    assert any("do not show why" in line for line in why.sentences) == unknown
