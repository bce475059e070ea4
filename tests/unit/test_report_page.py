"""The HTML page: whole, small, without script, and in the requested language."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
import report_simulation as simulation
import report_verdicts as verdicts

from schedlab import report
from schedlab.report import charts, drawing
from schedlab.report.texts import Texts
from schedlab.report.view import View
from schedlab.spec import Record, Segment, Verdict

Case = tuple[Record, Verdict]


@pytest.fixture(scope="module")
def io_case() -> Case:
    record = simulation.io_record(sizes=3, blocks=8)
    return record, simulation.judged(record)


@pytest.fixture(scope="module")
def cases(io_case: Case) -> dict[str, Case]:
    others = {"cpu": simulation.cpu_record(), "sim": simulation.sim_record()}
    judged = {kind: (r, simulation.judged(r)) for kind, r in others.items()}
    return {"io": io_case, "hand": verdicts.first_screen()} | judged


class Outline(HTMLParser):
    """Headings, identifiers and references of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loads: list[str] = []
        self.images = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if "id" in attributes:
            self.ids.append(str(attributes["id"]))
        self.references += [attributes[k] or "" for k in ("aria-labelledby",) if k in attributes]
        if tag == "a" and str(attributes.get("href", "")).startswith("#"):
            self.references.append(str(attributes["href"])[1:])
        self.loads += [str(attributes[k]) for k in ("src", "srcset") if k in attributes]
        self.loads += [str(attributes["href"])] if tag == "link" else []
        if attributes.get("role") == "img":
            self.images += 1
            assert attributes.get("aria-label")


@pytest.mark.parametrize("kind", ["io", "cpu", "sim"])
def test_page_stands_alone_and_hangs_together(cases: dict[str, Case], kind: str) -> None:
    page = report.html(*cases[kind])
    outline = Outline(page)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.levels, outline.levels[1:], strict=False))
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(outline.references) <= set(outline.ids)
    assert not outline.loads
    assert "url(" not in page and "http" not in page and "<script" not in page
    assert outline.images >= 3
    assert "font-family=" not in page


def test_page_shows_what_was_repeated_and_why(io_case: Case) -> None:
    record, _ = io_case
    assert any(run.status == "discarded" for run in record.runs)
    page = report.html(*io_case)
    assert "queue/scheduler was changed under us" in page
    assert "run repeated" in page


def test_page_of_5000_runs_is_under_a_megabyte() -> None:
    record = simulation.io_record(sizes=9, blocks=16)
    assert len(record.runs) > 5000
    page = report.html(record, simulation.judged(record))
    assert len(page.encode()) < 1_000_000
    assert page.count('<details class="workload"') == 64


@pytest.mark.parametrize("language", ["ko", "ru"])
def test_page_speaks_the_language(io_case: Case, language: str) -> None:
    page = report.html(*io_case, lang=language)
    texts = Texts(language)
    assert f'<html lang="{language}">' in page
    for key in ("section.first", "section.omitted", "next.more_title"):
        assert texts(key) in page
    assert "Limits of this result" not in page


def test_families_and_means(io_case: Case) -> None:
    view = View(*io_case, Texts("en"))
    assert [family.title for family in view.families] == list(simulation.TESTS)
    assert [m.record_bytes for m in view.families[0].members] == [4096, 8192, 16384]
    mean = view.test_means[0]
    bfq, none = (next(row for row in mean.rows if row[0] == n) for n in ("bfq", "none"))
    assert bfq[1] / none[1] == pytest.approx(0.92, abs=0.02)
    assert none[2] is not None and none[3] is not None and none[2] < none[1] < none[3]
    assert view.test_means[-1].title == "reader beside writers"


def test_segments_between_level_changes_are_shown_apart(io_case: Case) -> None:
    record, verdict = io_case
    name, of = next(iter(verdict.workloads.items()))
    segments = (Segment(0, 3, of.pairs), Segment(4, 7, of.pairs))
    split = dataclasses.replace(of, change_points=(4,), segments=segments)
    split_verdict = dataclasses.replace(verdict, workloads={**verdict.workloads, name: split})
    page = report.html(record, split_verdict)
    assert "Blocks 1 to 4 by themselves" in page
    assert "Blocks 5 to 8 by themselves" in page
    assert "level changed after block 4" in page


def test_the_first_screen_comes_first() -> None:
    page = report.html(*verdicts.first_screen())
    order = [
        "<h1",
        "Measured: 6",
        'verdicts first-table"',
        'class="why"',
        'class="next"',
        "<nav",
        "<h2 id=",
    ]
    places = [page.index(mark) for mark in order]
    assert places == sorted(places)
    table = page[places[2] : page.index("</table>")]
    assert table.count('<svg class="bar"') == 6 + 6 * 3
    assert table.count('data-label="bfq"') == 6
    assert "46× shorter ▲" in table and "29\u00a0% slower ▼" in table
    assert "nothing to order: one request at a time" in table
    assert "schedlab apply bfq /dev/DEVICE" in page


def dot_and_zero(svg: str) -> tuple[float, float]:
    """Where a cell's estimate and its baseline are."""
    dot, zero = re.search(r'circle cx="([\d.]+)"', svg), re.search(r'zero" d="M([\d.]+)', svg)
    assert dot and zero
    return float(dot[1]), float(zero[1])


def test_right_is_better_for_every_metric() -> None:
    record, verdict = verdicts.first_screen()
    view = View(record, verdict, Texts("en"))
    from schedlab.report.page_first import _row
    from schedlab.report.screen import all_rows, columns

    rows = {row.title: row for row in all_rows(view)}
    better = _row(view, rows["new reader beside writers"], columns(view), True)[-1]
    worse = _row(view, rows["its writers"], columns(view), True)[-1]
    dot, zero = dot_and_zero(better.markup)  # type: ignore[union-attr]
    assert dot > zero + 20  # bfq's latency is lower
    dot, zero = dot_and_zero(worse.markup)  # type: ignore[union-attr]
    assert dot < zero - 5  # and its writers' throughput is lower


def test_why_is_a_picture_with_its_table() -> None:
    page = report.html(*verdicts.first_screen())
    why = page[page.index('class="why"') : page.index('class="next"')]
    assert why.count('class="part device"') == 4 + 1  # four bars and the key
    for words in ("for a tag, ms", "in the device, ms", "depth in the device", "3.8", "88"):
        assert words in why
    assert "no scheduler can reorder those" in why


def test_rates_over_time_are_drawn_with_their_ramp() -> None:
    page = report.html(*verdicts.first_screen())
    start = page.index("the readers over time")
    chart = page[start : page.index("</svg>", start)]
    assert chart.count('class="band s') == 4
    assert 'class="margin"' in chart
    ticks = re.findall(r'class="end">([^<]+)<', chart)
    assert len(ticks) >= 3 and {"1", "10"} <= set(ticks)  # thousands a second, logarithmic


@pytest.mark.parametrize("span", [(0.97, 1.3), (3, 400), (1e-3, 9e-3), (2.1, 4.9), (0, 7)])
def test_ticks_are_round_and_inside(span: tuple[float, float]) -> None:
    low, high = span
    axis = drawing.value_axis(list(span), Texts("en"), zero=low == 0)
    assert axis.log == (low > 0 and high > 2 * low)
    assert 2 <= len(axis.ticks) <= 9
    for value, label in axis.ticks:
        assert axis.low <= value <= axis.high
        digits = label.replace(",", "").replace(".", "").replace("−", "").strip("0")
        assert len(digits) <= 3, label


@pytest.mark.parametrize("reach", [0.01, 0.05, 0.3, 0.7, 2.0, 4.4, 12.0])
def test_ratio_ticks_are_alike_on_both_sides(reach: float) -> None:
    ticks = drawing.ratio_ticks(reach)
    assert [-v for v, _ in reversed(ticks)] == pytest.approx([v for v, _ in ticks])
    assert all(abs(value) <= reach * 1.001 for value, _ in ticks)
    assert (0.0, "1") in ticks


def test_a_forest_row_keeps_inside_its_chart() -> None:
    rows = [charts.Interval("a against b", 1e8, 1e7, 1e9, "better")]
    svg = charts.forest(rows, 0.02, "label", ("worse", "better"))
    places = [float(x) for x in re.findall(r"[MH]([\d.]+)", svg)]
    assert max(places) <= 400
