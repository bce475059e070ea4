"""Charts are read back from their pictures: what a reader sees at the ticks is what was drawn."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from schedlab.report import charts, drawing
from schedlab.report.tables import Cell, Column, Loss, Table, build
from schedlab.report.texts import Scale, Texts

EN = Texts("en")
PIXEL = 0.11  # coordinates have one decimal
NS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Shape:
    """An element of a picture, with the class of the group that it is in."""

    tag: str
    kind: str
    group: str
    words: str
    at: dict[str, str]

    def numbers(self, name: str = "d") -> list[float]:
        return [float(word) for word in re.findall(r"-?[\d.]+", self.at[name])]

    @property
    def place(self) -> tuple[float, float]:
        x, y = ("cx", "cy") if self.tag == "circle" else ("x", "y")
        return float(self.at[x]), float(self.at[y])


def shapes(svg: str) -> list[Shape]:
    found = []

    def walk(element: ElementTree.Element, group: str) -> None:
        kind = element.get("class", "")
        found.append(Shape(element.tag, kind, group, element.text or "", dict(element.attrib)))
        for child in element:
            walk(child, kind if element.tag == "g" else group)

    walk(ElementTree.fromstring(svg), "")
    return found


def of_kind(every: Sequence[Shape], kind: str, tag: str = "path") -> list[Shape]:
    return [each for each in every if each.kind == kind and each.tag == tag]


def number(label: str) -> float:
    """The number that a tick names: 1,000; 1/20; 5×; 0.5 %; 20 µs."""
    label = label.replace(",", "").replace("\u00a0", " ").replace("−", "-").strip("× ")
    if label.startswith("1/"):
        return 1 / float(label[2:])
    first, _, unit = label.partition(" ")
    return float(first) * {"": 1, "%": 0.01, **NS}[unit]


def reader(ticks: Sequence[tuple[float, float]], log: bool) -> Callable[[float], float]:
    """From a place in the picture to a value, by ticks (place, value) that must agree."""
    to, back = (math.log, math.exp) if log else (float, float)
    (first, low), (last, high) = ticks[0], ticks[-1]
    per_pixel = (to(high) - to(low)) / (last - first)
    for place, value in ticks:
        assert place == pytest.approx(first + (to(value) - to(low)) / per_pixel, abs=2 * PIXEL)
    return lambda place: back(to(low) + (place - first) * per_pixel)


def axes(every: list[Shape], log_x: bool, log_y: bool) -> list[Callable[[float], float]]:
    """Readers of x and y of a framed chart."""
    words = [each for each in every if each.tag == "text"]
    up = [(each.place[1] - 4, number(each.words)) for each in words if each.kind == "end"]
    across = [(each.place[0], number(each.words)) for each in words if each.kind == "mid"]
    return [reader(across, log_x), reader(up, log_y)]


def pairs(numbers: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


STEADY = [(1.0, 10.0), (2.0, 11.0), (4.0, 12.5), (8.0, 12.0)]
STEEP = [(1.0, 300.0), (2.0, 90.0), (4.0, 40.0), (8.0, 25.0)]


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize(("low", "log_y"), [(STEADY, False), (STEEP, True)])
def test_lines_and_their_intervals(log_x: bool, low: list, log_y: bool) -> None:
    high = [(x, 1.2 * y) for x, y in low]
    ranges = [(0.9 * y, 1.1 * y) for _, y in high]
    lines = [charts.Line(0, low, name="low"), charts.Line(1, high, ranges, name="high")]
    chart = charts.Chart(lines, "a title", "another", log_x=log_x, level=low[1][1])
    every = shapes(charts.line_chart(chart, EN, "the label"))
    assert every[0].at["aria-label"] == "the label"
    x, y = axes(every, log_x, log_y)
    drawn = of_kind(every, "line")
    assert [each.group for each in drawn] == ["s0", "s1"]
    # Lines with intervals stand 3.2 pixels apart, evenly about their true place.
    for each, points, aside in zip(drawn, (low, high), (-1.6, 1.6), strict=True):
        for (px, py), point in zip(pairs(each.numbers()), points, strict=True):
            assert (x(px - aside), y(py)) == pytest.approx(point, rel=0.02)
    (whiskers,) = of_kind(every, "whisker")
    assert whiskers.group == "s1"
    for (place, *ends), (px, _), pair in zip(
        pairs_of_three(whiskers.numbers()), pairs(drawn[1].numbers()), ranges, strict=True
    ):
        assert place == px
        assert [y(end) for end in ends] == pytest.approx(pair, rel=0.02)
    (level,) = of_kind(every, "zero")
    assert y(level.numbers()[1]) == pytest.approx(low[1][1], rel=0.02)
    for name, line in zip(("low", "high"), drawn, strict=True):
        (words,) = [each for each in every if each.words == name]
        assert words.group == f"{line.group} named"
        last_x, last_y = pairs(line.numbers())[-1]
        assert -PIXEL < words.place[1] - 4 - last_y < 12  # pushed down by one above it
        assert last_x <= words.place[0] < 400 - 6 * len(name)
    assert {each.words for each in every if "axis" in each.kind} == {"a title", "another"}


def pairs_of_three(numbers: Sequence[float]) -> list[tuple[float, ...]]:
    return list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))


def test_bands_and_what_does_not_count() -> None:
    ranges = [(0.5 * y, 2 * y) for _, y in STEEP]
    chart = charts.Chart([charts.Line(3, STEEP, ranges)], bands=True, shaded=(0.0, 2.0))
    every = shapes(charts.line_chart(chart, EN, "label"))
    x, y = axes(every, False, True)
    (band,) = of_kind(every, "band s3")
    outline = pairs(band.numbers())
    assert [y(place) for _, place in outline[:4]] == pytest.approx([h for _, h in ranges], rel=0.02)
    assert [y(place) for _, place in outline[:3:-1]] == pytest.approx(
        [low for low, _ in ranges], rel=0.02
    )
    (line,) = of_kind(every, "line")
    assert [x(px) for px, _ in pairs(line.numbers())] == pytest.approx(
        [px for px, _ in STEEP], abs=0.05
    )
    (shaded,) = of_kind(every, "margin", "rect")
    left, width = shaded.numbers("x")[0], shaded.numbers("width")[0]
    assert x(left + width) == pytest.approx(2, abs=0.05)
    assert left == pytest.approx(pairs(of_kind(every, "tick")[0].numbers()[:2])[0][0], abs=PIXEL)


def test_names_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    lines = [charts.Line(i, [(0, 10), (1, 10 + 0.001 * i)], name=f"line {i}") for i in range(3)]
    every = shapes(charts.line_chart(charts.Chart(lines, zero=True), EN, "label"))
    heights = sorted(each.place[1] for each in every if each.words.startswith("line "))
    assert [b - a for a, b in itertools.pairwise(heights)] == pytest.approx([12, 12])


def test_markers_of_long_lines_are_staggered() -> None:
    points = [(float(i), float(i % 7)) for i in range(20)]
    lines = [charts.Line(series, points) for series in (0, 1, 7)]
    every = shapes(charts.line_chart(charts.Chart(lines, marker_every=5), EN, "label"))
    for line, marks, first in zip(
        of_kind(every, "line"), [s for s in every if s.kind in ("dots", "marks")], (0, 1, 2),
        strict=True,
    ):  # fmt: skip
        places = [tuple(map(float, p)) for p in re.findall(r"M([\d.]+) ([\d.]+)", marks.at["d"])]
        assert places == pairs(line.numbers())[first::5]


@pytest.mark.parametrize("values", [(10.0, 11.0, 12.0), (3.0, 40.0, 900.0)])
def test_dots_in_rows(values: tuple[float, ...]) -> None:
    log = values[-1] > 2 * values[0]
    rows = [
        charts.Dot(i, f"a name of a row {i}", v, 0.9 * v, 1.1 * v, 1.05 * v if i == 1 else None)
        for i, v in enumerate(values)
    ]
    groups = [("first", rows[:1]), ("second", rows[1:])]
    every = shapes(charts.dots(groups, EN, "label", "unit"))
    words = [each for each in every if each.tag == "text"]
    x = reader([(t.place[0], number(t.words)) for t in words if t.kind == "mid"], log)
    markers = [each for each in every if each.tag == "use"]
    assert [each.at["href"] for each in markers] == ["#m0", "#m1", "#m2"]
    assert [each.group for each in markers] == ["s0", "s1", "s2"]
    assert [x(each.place[0]) for each in markers] == pytest.approx(values, rel=0.02)
    for whisker, value in zip(of_kind(every, "whisker"), values, strict=True):
        start, _, end = whisker.numbers()
        assert (x(start), x(end)) == pytest.approx((0.9 * value, 1.1 * value), rel=0.02)
    (cross,) = of_kind(every, "reference")
    assert x(cross.numbers()[0]) == pytest.approx(1.05 * values[1], rel=0.02)
    names = [each for each in words if each.kind == "end"]
    for name, mark in zip(names, markers, strict=True):
        assert name.place[1] - 4 == pytest.approx(mark.place[1], abs=PIXEL)
        assert 6 * len(name.words) < name.place[0] < 120  # inside the gutter, which is not wider
    heads = [each.place[1] for each in words if each.kind == "group"]
    down = [each.place[1] for each in markers]
    assert heads[0] < down[0] < heads[1] < down[1] < down[2]
    assert down[2] - down[1] >= 15
    ticks = [each.place[1] for each in words if each.kind == "mid"]
    assert len(set(ticks)) == 1 and ticks[0] > down[2] + 12
    height = float(every[0].at["height"])
    assert max(each.place[1] for each in words) <= height
    assert height < max(ticks) + 30


LOSSES = [
    Loss(math.log(4), math.log(3), math.log(6)),
    Loss(math.log(1.2), 0.0, math.log(1.9)),
    Loss(0.0, 0.0, 0.0),
    Loss(math.log(1.5), math.log(1.4), None),
]


@pytest.mark.parametrize("of", LOSSES)
def test_a_loss_in_a_table_cell(of: Loss) -> None:
    reach = charts.loss_reach(LOSSES)
    assert reach == pytest.approx(math.log(10))
    every, ends = shapes(charts.loss_cell(of, reach)), shapes(charts.loss_axis(reach))
    (tick,) = of_kind(ends, "tick")
    start, _, end = tick.numbers()[:3]
    assert [each.words for each in ends if each.tag == "text"] == ["0", "10×"]

    def loss(at: float) -> float:
        return (at - start) / (end - start) * reach

    (dot,) = [each for each in every if each.tag == "circle"]
    assert loss(dot.place[0]) == pytest.approx(of.point, abs=0.02)
    for whisker in of_kind(every, "whisker"):
        low, _, up = whisker.numbers()[:3]
        known = reach if of.up is None else of.up
        assert (loss(low), loss(up)) == pytest.approx((of.low, known), abs=0.02)
        assert len(whisker.numbers()) == (3 if of.up is not None else 9)  # an arrow


@pytest.mark.parametrize(
    ("losses", "reach"),
    [
        ([(1.01, 1, 1.03)], 1.05), ([(1.01, 1, 1.08)], 1.1), ([(3.3, 2, 4)], 5),
        ([(40, 30, 55)], 100), ([(1.2, 1, 1e5)], 100), ([(300, 250, 400)], 1000),
        ([(1.0, 1, 1)], 1.02), ([(1.0, 1, None)], 1.02),
    ],
)  # fmt: skip
def test_the_reach_of_an_axis_of_losses(losses: list, reach: float) -> None:
    """The last but three: a useless interval is cut."""
    logs = [Loss(*(None if end is None else math.log(end) for end in row)) for row in losses]
    assert charts.loss_reach(logs) == pytest.approx(math.log(reach))


def sized(chart: str) -> Table:
    columns = [Column("size", text=True)]
    columns += [Column("a", "B/s"), Column("±", "B/s", half=True), Column("b", "B/s")]
    rows = [[Cell(f"{s} KiB", s), s * 1e6, 0.1 * s * 1e6, None if s == 8 else s * 2e6]
            for s in (4.0, 8.0, 16.0)]  # fmt: skip
    return build(EN, "t", "title", columns, rows, chart=chart)


def test_a_table_of_sizes_is_lines_with_the_half_widths() -> None:
    every = shapes(charts.of_table(sized("lines"), EN))
    assert {each.group for each in of_kind(every, "line")} == {"s0", "s1"}
    places = [len(pairs(each.numbers())) for each in of_kind(every, "line")]
    assert places == [3, 2]
    words = [each.words for each in every if each.tag == "text"]
    assert {"4.0 KiB", "16.0 KiB", "size", "MB/s"} <= set(words)


def test_a_table_of_groups_is_dots() -> None:
    every = shapes(charts.of_table(sized("dots"), EN))
    assert [e.at["href"] for e in every if e.tag == "use"] == ["#m0", "#m1", "#m0", "#m0", "#m1"]
    assert len(of_kind(every, "whisker")) == 3
    assert charts.of_table(sized(""), EN) == ""


def test_bars_of_parts() -> None:
    rows = [("none", (1e6, 3e6, 0.0)), ("a longer name", (0.0, 1e6, 1e6))]
    parts = [("one", "first"), ("two", "second & last"), ("three", "third")]
    every = shapes(charts.stacked(rows, parts, Scale.fitting([4e6], "ns"), EN, "label"))
    bars = [each for each in every if each.tag == "rect"]
    assert [bar.kind for bar in bars] == ["part one", "part two", "part two", "part three"]
    titles = [each.words for each in every if each.tag == "title"]
    assert titles == ["first", "second & last", "second & last", "third"]
    start = bars[0].place[0]
    per_ms = bars[0].numbers("width")[0]
    assert [bar.numbers("width")[0] / per_ms for bar in bars] == pytest.approx(
        [1, 3, 1, 1], abs=0.01
    )
    assert [(bar.place[0] - start) / per_ms for bar in bars] == pytest.approx(
        [0, 1, 0, 1], abs=0.01
    )
    words = {each.words: each.place for each in every if each.tag == "text"}
    assert list(words) == ["none", "4.0 ms", "a longer name", "2.0 ms"]
    for total, name, bar in (("4.0 ms", "none", bars[1]), ("2.0 ms", "a longer name", bars[3])):
        right = bar.place[0] + bar.numbers("width")[0]
        assert words[total][0] == pytest.approx(right + 6, abs=0.2)
        assert words[total][1] == words[name][1] == bar.place[1] + 14
        assert words[name][0] < start
    assert words["4.0 ms"][0] + 36 < 420


def test_latency_curves() -> None:
    points = [(0.0, 8e3), (0.5, 2e4), (0.9, 1.5e5), (0.99, 2e6), (0.999, 2.5e7)]
    every = shapes(charts.latency([(0, points), (2, points[:3])], EN, "label"))
    x, y = axes(every, True, True)
    drawn = of_kind(every, "line")
    assert [each.group for each in drawn] == ["s0", "s2"]
    for each, curve in zip(drawn, (points, points[:3]), strict=True):
        seen = [(1 - y(py), x(px)) for px, py in pairs(each.numbers())]
        for (share, ns), point in zip(seen, curve, strict=True):
            assert 1 - share == pytest.approx(1 - point[0], rel=0.05)
            assert ns == pytest.approx(point[1], rel=0.05)
    labels = [each.words for each in every if each.kind == "end" and each.tag == "text"]
    assert [label.replace("\u00a0", " ") for label in labels] == [
        "100 %", "10 %", "1 %", "0.1 %",
    ]  # fmt: skip


def test_the_runs_in_their_order() -> None:
    points = [(i, i % 3, 1e6 * (10 + i + 5 * (i % 3))) for i in range(1, 13)]
    scale = Scale.fitting([1e7], "bytes/s")
    every = shapes(charts.run_order(points, scale, EN, "label"))
    words = [each for each in every if each.kind == "end"]
    log = max(v for *_, v in points) > 2 * min(v for *_, v in points)
    y = reader([(t.place[1] - 4, number(t.words)) for t in words], log)
    marks = [each for each in every if each.kind in ("dots", "marks")]
    assert [each.group for each in marks] == ["s0", "s1", "s2"]
    left, _, right = of_kind(every, "tick")[0].numbers()
    per_run = (right - left) / 12
    for each, series in zip(marks, (0, 1, 2), strict=True):
        own = [(i, value) for i, s, value in points if s == series]
        places = re.findall(r"M([\d.]+) ([\d.]+)", each.at["d"])
        for (px, py), (order, value) in zip(places, own, strict=True):
            assert (float(px) - left) / per_run == pytest.approx(order - 0.5, abs=0.01)
            assert y(float(py)) * scale.factor == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 10, [1, 2, 5, 10]),
        (3, 400, [5, 10, 20, 50, 100, 200]),
        (1, 1000, [1, 10, 100, 1000]),
        (2, 90, [2, 5, 10, 20, 50]),
        (2, 500, [3, 10, 30, 100, 300]),
    ],
)
def test_logarithmic_ticks(low: float, high: float, expected: list[float]) -> None:
    assert drawing.log_ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "zero", "ticks", "log"),
    [
        ((10, 12), False, [10, 11, 12], False),
        ((0, 7), True, [0, 2, 4, 6], False),
        ((6, 7), True, [0, 2, 4, 6], False),
        ((3, 400), False, [5, 10, 20, 50, 100, 200], True),
        ((11, 29), False, [10, 20], True),
        ((-4, 4), True, [-2.5, 0, 2.5], False),
    ],
)
def test_the_axis_of_values(values: tuple, zero: bool, ticks: list[float], log: bool) -> None:
    axis = drawing.value_axis(values, EN, zero=zero)
    assert ([value for value, _ in axis.ticks], axis.log) == (pytest.approx(ticks), log)
    assert [number(label) for _, label in axis.ticks] == pytest.approx(ticks)
    assert axis.low <= min(values) and max(values) <= axis.high
