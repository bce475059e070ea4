"""Charts: their pictures, and the ticks and ends of their axes."""

import math
import re

import pytest

from schedlab.report import charts, drawing
from schedlab.report.tables import Column, LossRange, TableCell, build
from schedlab.report.texts import Texts, UnitScale

EN = Texts("en")
STEADY = [(1.0, 10.0), (2.0, 11.0), (4.0, 12.5), (8.0, 12.0)]
STEEP = [(1.0, 300.0), (2.0, 90.0), (4.0, 40.0), (8.0, 25.0)]
LONG = [(float(i), float(i % 7)) for i in range(20)]
LOSSES = [
    LossRange(math.log(4), math.log(3), math.log(6)),
    LossRange(math.log(1.2), 0.0, math.log(1.9)),
    LossRange(0.0, 0.0, 0.0),
    LossRange(math.log(1.5), math.log(1.4), None),
]
SHARES = [(0.0, 8e3), (0.5, 2e4), (0.9, 1.5e5), (0.99, 2e6), (0.999, 2.5e7)]


def two_lines(low, log_x):
    """One line without intervals, and one with them."""
    high = [(x, 1.2 * y) for x, y in low]
    ranges = [(0.9 * y, 1.1 * y) for _, y in high]
    lines = [charts.ChartLine(0, low, name="low"), charts.ChartLine(1, high, ranges, name="high")]
    chart = charts.Chart(lines, "a title", "another", log_x=log_x, level=low[1][1])
    return charts.line_chart(chart, EN, "the label")


def lines(*drawn, **more):
    return charts.line_chart(charts.Chart(drawn, **more), EN, "label")


def dots_of(values):
    rows = [
        charts.Dot(i, f"a name of a row {i}", v, 0.9 * v, 1.1 * v, 1.05 * v if i == 1 else None)
        for i, v in enumerate(values)
    ]
    return charts.dots([("first", rows[:1]), ("second", rows[1:])], EN, "label", "unit")


def sized(chart):
    columns = [Column("size", text=True)]
    columns += [Column("a", "B/s"), Column("±", "B/s", half=True), Column("b", "B/s")]
    rows = [[TableCell(f"{s} KiB", s), s * 1e6, 0.1 * s * 1e6, None if s == 8 else s * 2e6]
            for s in (4.0, 8.0, 16.0)]  # fmt: skip
    return build(EN, "t", "title", columns, rows, chart=chart)


PICTURES = {
    "lines": lambda: two_lines(STEADY, log_x=False),
    "lines-steep-log": lambda: two_lines(STEEP, log_x=True),
    "bands-and-what-does-not-count": lambda: lines(
        charts.ChartLine(3, STEEP, [(0.5 * y, 2 * y) for _, y in STEEP]),
        bands=True,
        shaded=(0.0, 2.0),
    ),
    "names-pushed-apart": lambda: lines(
        *(charts.ChartLine(i, [(0, 10), (1, 10 + 0.001 * i)], name=f"line {i}") for i in range(3)),
        zero=True,
    ),
    "markers-staggered": lambda: lines(
        *(charts.ChartLine(series, LONG) for series in (0, 1, 7)), marker_every=5
    ),
    "dots": lambda: dots_of((10.0, 11.0, 12.0)),
    "dots-log": lambda: dots_of((3.0, 40.0, 900.0)),
    "losses": lambda: "\n".join(
        [*(charts.loss_cell(of, charts.loss_reach(LOSSES)) for of in LOSSES),
         charts.loss_axis(charts.loss_reach(LOSSES))]
    ),
    "table-of-sizes": lambda: charts.of_table(sized("lines"), EN),
    "table-of-groups": lambda: charts.of_table(sized("dots"), EN),
    "table-without-chart": lambda: charts.of_table(sized(""), EN),
    "bars-of-parts": lambda: charts.stacked(
        [("none", (1e6, 3e6, 0.0)), ("a longer name", (0.0, 1e6, 1e6))],
        [("one", "first"), ("two", "second & last"), ("three", "third")],
        UnitScale.fitting([4e6], "ns"), EN, "label",
    ),
    "latency": lambda: charts.latency([(0, SHARES), (2, SHARES[:3])], EN, "label"),
    "runs-in-order": lambda: charts.run_order(
        [(i, i % 3, 1e6 * (10 + i + 5 * (i % 3))) for i in range(1, 13)],
        UnitScale.fitting([1e7], "bytes/s"), EN, "label",
    ),
}  # fmt: skip


def test_an_interval_that_reaches_below_a_logarithmic_axis_ends_there():
    drawn = lines(charts.ChartLine(0, STEEP, [(-y, 2 * y) for _, y in STEEP]))
    ends = re.findall(r"M\S+ ([\d.]+)V([\d.]+)", drawn[drawn.index("whisker") :])
    assert len(ends) == 4 and all(10 <= float(y) <= 180 for pair in ends for y in pair)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name, golden):
    golden(f"charts/{name}.svg", PICTURES[name]().replace("><", ">\n<"))


@pytest.mark.parametrize(
    ("losses", "reach"),
    [
        ([(1.01, 1, 1.03)], 1.05), ([(1.01, 1, 1.08)], 1.1), ([(3.3, 2, 4)], 5),
        ([(40, 30, 55)], 100), ([(1.2, 1, 1e5)], 100), ([(300, 250, 400)], 1000),
        ([(1.0, 1, 1)], 1.02), ([(1.0, 1, None)], 1.02),
    ],
)  # fmt: skip
def test_the_reach_of_an_axis_of_losses(losses, reach):
    """The last but three: a useless interval is cut."""
    logs = [LossRange(*(None if end is None else math.log(end) for end in row)) for row in losses]
    assert charts.loss_reach(logs) == pytest.approx(math.log(reach))


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
def test_logarithmic_ticks(low, high, expected):
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
        ((0.97, 1.3), False, [1, 1.1, 1.2, 1.3], False),
        ((1e-3, 9e-3), False, [0.001, 0.002, 0.005, 0.01], True),
    ],
)
def test_the_axis_of_values(values, zero, ticks, log):
    axis = drawing.value_axis(values, EN, zero=zero)
    assert ([value for value, _ in axis.ticks], axis.log) == (pytest.approx(ticks), log)
    assert [float(label.replace("−", "-")) for _, label in axis.ticks] == pytest.approx(ticks)
    assert axis.low <= min(values) and max(values) <= axis.high


def test_an_interval_beyond_the_edge_ends_in_an_arrow():
    cells = [charts.loss_cell(LOSSES[0], math.log(reach)) for reach in (5, 7)]
    assert ["l-4-3m4" in cell for cell in cells] == [True, False]
