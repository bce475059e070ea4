"""The NCQ study on figures that are known: every statement on both sides of its limit, every note.

All cells have the value 100 at every seed; a test changes the cells that its statement is about.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from schedlab.sim.ncq_figures import Figure, change, figures
from schedlab.sim.ncq_study import POLICIES, Statement, Study, half_width, study_sweep

METRICS = (
    *(
        f"{which}_{way}{at}_ms"
        for which in ("mean", "max")
        for way in ("read", "write")
        for at in ("", "_ncq")
    ),
    "iops",
    "utilisation",
)
# workload, policy, MiB, alpha and service; a shorter one means the usual alpha and serial service.
Cell = tuple[Any, ...]
Changes = Mapping[tuple[str, Cell], float | Sequence[float]]
BUFFERS = (8, 16, 32, 64, 128)


def cell_of(settings: Mapping[str, Any]) -> Cell:
    return (
        settings["workload"],
        settings["policy"],
        int(settings["device.buffer.size"].removesuffix("MiB")),
        settings["policy.alpha"],
        settings["service"],
    )


def whole(cell: Cell) -> Cell:
    return (*cell, *(0.9, "serial")[len(cell) - 3 :]) if len(cell) < 5 else cell


def study(changes: Changes | None = None, overloaded: Sequence[Cell] = (), seeds: int = 3) -> Study:
    """A study of 100 everywhere but in the changed cells (one value, or one for each seed)."""
    known = {(metric, whole(cell)): value for (metric, cell), value in (changes or {}).items()}
    full = {whole(cell) for cell in overloaded}
    rows = []
    cells = set()
    for point in study_sweep(50, seeds).points:
        cell = cell_of(point.settings)
        cells.add(cell)
        metrics: dict[str, float] = {"overloaded": float(cell in full and point.seed == 2)}
        for metric in METRICS:
            value = known.get((metric, cell), 100.0)
            metrics[metric] = value if isinstance(value, float | int) else value[point.seed - 1]
        rows.append({"settings": point.settings, "seed": point.seed, "metrics": metrics})
    assert {cell for _, cell in known} | full <= cells
    return Study(rows)


def statement(of: Study, title: str) -> Statement:
    (found,) = [each for each in of.statements() if each.result == title]
    return found


def test_the_sweep_holds_every_cell_once_for_each_seed() -> None:
    sweep = study_sweep(1234, 3)
    cells = [cell_of(point.settings) for point in sweep.points]
    assert len(set(cells)) == 100 + 8 + 4 + 10
    assert len(sweep.points) == 3 * 122 == len({point.key for point in sweep.points})
    assert [point.seed for point in sweep.points[:4]] == [1, 2, 3, 1]
    assert {point.settings["requests"] for point in sweep.points} == {1234}
    serial = {cell for cell in cells if cell[4] == "serial"}
    assert {cell[:3] for cell in serial if cell[3] == 0.9} == {
        (workload, policy, buffer)
        for workload in "ABCD"
        for policy in ("fcfs", "s", "sb", "ts", "tsb")
        for buffer in BUFFERS
    }
    alphas = {cell[3] for cell in serial if cell[:3] == ("A", "tsb", 32)}
    assert alphas == {0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0}
    assert {cell[1] for cell in serial if cell[3] == 0.95} == {"s", "sb", "ts", "tsb"}
    parallel = {cell for cell in cells if cell[4] == "parallel"}
    assert parallel == {(w, p, 64, 0.9, "parallel") for w in "AD" for p in POLICIES}
    title, described = sweep.text.splitlines()
    assert title.startswith("# ")
    known = json.loads(described.removeprefix("study = '").removesuffix("'"))
    assert known == {"study": "ncq", "requests": 1234, "seeds": 3}


def test_a_mean_is_that_of_one_cell_over_its_seeds() -> None:
    rows = []
    for place, point in enumerate(study_sweep(50, 3).points):
        value = 10.0 * (place // 3) + (0, 1, 5)[point.seed - 1]
        rows.append({"settings": point.settings, "metrics": {"x": value, "overloaded": 0.0}})
    one = Study(rows)
    cells = list(dict.fromkeys(cell_of(row["settings"]) for row in rows))
    for number, cell in enumerate(cells):
        assert one.mean("x", *cell) == pytest.approx(10 * number + 2)
        reference = one.mean("x", cell[0], "fcfs", cell[2], 0.9, cell[4])
        assert one.ratio("x", *cell) == pytest.approx(one.mean("x", *cell) / reference)
    assert one.mean("x", "B", "s", 16) == one.mean("x", "B", "s", 16, 0.9, "serial")


def test_nothing_over_nothing_is_no_change() -> None:
    zero = study({("mean_write_ms", ("A", p, 64, 0.9, "parallel")): 0.0 for p in ("fcfs", "s")})
    assert zero.ratio("mean_write_ms", "A", "s", 64, service="parallel") == 1
    half = study({("iops", ("C", "sb", 8)): 50.0})
    assert (half.ratio("iops", "C", "sb", 8), half.ratio("iops", "C", "ts", 8)) == (0.5, 1)


NEAR = [
    *(
        (f"A, 64 MiB, mean read of {policy.upper()}, share of FCFS, α = {alpha}", at, 0.04,
         [("mean_read_ms", ("A", policy, 64, alpha, "serial"))])
        for policy, at in (("s", 0.41), ("ts", 0.27), ("tsb", 0.22))
        for alpha in (0.9, 0.95)
    ),
    *(
        (f"B, {buffer} MiB, mean read of TSB, share of FCFS", 0.35, 0.06,
         [("mean_read_ms", ("B", "tsb", buffer))])
        for buffer in (32, 128)
    ),
    ("D, 32 MiB, mean write of TSB from NCQ entry, share of FCFS", 1.06, 0.04,
     [("mean_write_ncq_ms", ("D", "tsb", 32))]),
]  # fmt: skip


@pytest.mark.parametrize(("title", "published", "within", "cells"), NEAR)
def test_a_share_near_the_papers_comes_out_on_both_sides_of_it(
    title: str, published: float, within: float, cells: list[tuple[str, Cell]]
) -> None:
    for away, expected in ((0, True), (0.95, True), (-0.95, True), (1.05, False), (-1.05, False)):
        share = published + away * within
        found = statement(study(dict.fromkeys(cells, 100 * share)), title)
        assert (found.published, found.comes_out) == (f"{published:.2f}", expected)
        assert found.model_value == pytest.approx(share)
        assert found.remark == ("the paper does not name the buffer" if title[0] == "B" else "")
    assert statement(study(), title).model_value == 1


@pytest.mark.parametrize(
    ("title", "published", "changes", "value", "expected"),
    [
        (
            "A, 32 MiB, TSB: longest write at α = 1 over that at 0.9",
            "“clearly grows”",
            {
                ("max_write_ms", ("A", "tsb", 32)): 40,
                ("max_write_ms", ("A", "tsb", 32, 1.0, "serial")): grown,
            },
            grown / 40,
            expected,
        )
        for grown, expected in ((20, False), (79, False), (80, True), (120, True))
    ]
    + [
        (
            "D, 32 MiB, mean read from NCQ entry: TSB over TS",
            "TSB is worse",
            {
                ("mean_read_ncq_ms", ("D", "tsb", 32)): tsb,
                ("mean_read_ncq_ms", ("D", "ts", 32)): 50,
            },
            tsb / 50,
            expected,
        )
        for tsb, expected in ((20, False), (49, False), (50, False), (51, True), (200, True))
    ]
    + [
        (
            "A, 64 MiB, IOPS of TSB, share of FCFS",
            "“hardly changes”",
            {("iops", ("A", "tsb", 64)): rate},
            rate / 100,
            expected,
        )
        for rate, expected in (
            (98.9, False), (99.1, True), (100, True), (100.9, True), (101.1, False), (250, False),
        )
    ],
)  # fmt: skip
def test_statements_in_words_change_at_their_limit(
    title: str, published: str, changes: Changes, value: float, expected: bool
) -> None:
    found = statement(study(changes), title)
    assert (found.published, found.comes_out, found.remark) == (published, expected, "")
    assert found.model_value == pytest.approx(value)


@pytest.mark.parametrize("metric", ["mean_read_ms", "mean_write_ms"])
@pytest.mark.parametrize("workload", ["A", "D"])
def test_the_smallest_share_of_the_parallel_device_is_found_wherever_it_is(
    metric: str, workload: str
) -> None:
    changes = {
        ("utilisation", ("A", "fcfs", 64, 0.9, "parallel")): 0.125,
        ("utilisation", ("D", "fcfs", 64, 0.9, "parallel")): 0.25,
        ("utilisation", ("D", "tsb", 64, 0.9, "parallel")): 0.75,
        (metric, (workload, "sb", 64, 0.9, "parallel")): 80.0,
        (metric, (workload, "sb", 64)): 10.0,
    }
    found = statement(
        study(changes), "64 dies in parallel: the smallest share of FCFS of any policy"
    )
    assert (found.model_value, found.published, found.comes_out) == (0.8, "", None)
    assert found.remark == "the dies are busy for 25.0% of the time at most"


def test_half_of_the_interval_of_a_mean_is_that_of_students_t() -> None:
    # Quantiles 0.975 for 1, 2, 3 and 4 degrees of freedom: 12.7062, 4.30265, 3.18245, 2.77645.
    assert half_width([0, 2]) == pytest.approx(12.7062, rel=1e-5)  # s = √2, s/√2 = 1
    assert half_width([1, 2, 3]) == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)  # s = 1
    # The squares of −3, −1, 1 and 3 are 20 together: s²/4 = 20/3/4.
    assert half_width([7, 9, 11, 13]) == pytest.approx(3.18245 * math.sqrt(5 / 3), rel=1e-5)
    assert half_width([4, 4, 4, 4, 9]) == pytest.approx(2.77645, rel=1e-5)  # s² = 20/4, s²/5 = 1
    assert half_width([5, 5, 5]) == 0
    assert half_width([1]) == half_width([]) == math.inf


def test_a_gain_is_that_of_tsb_over_fcfs_at_the_same_seed() -> None:
    one = study(
        {
            ("mean_read_ms", ("C", "fcfs", 16)): (10, 20, 30),
            ("mean_read_ms", ("C", "tsb", 16)): (5, 5, 36),
        }
    )
    assert one.gains("mean_read_ms", "C", 16, relative=True) == pytest.approx([0.5, 0.75, -0.2])
    assert one.gains("mean_read_ms", "C", 16, relative=False) == [5, 15, -6]
    assert one.gains("mean_read_ms", "C", 32, relative=True) == [0, 0, 0]


def test_the_best_buffer_beats_the_next_by_more_than_the_interval_of_their_difference() -> None:
    metric = "mean_read_ms"
    # The gains are the same of 16 and 128; those of 32 are larger by 2, 3, 4 or by 1, 2, 3 ms.
    next_ = {(metric, ("B", "tsb", buffer)): (80, 60, 70) for buffer in (16, 128)}
    clear = study({**next_, (metric, ("B", "tsb", 32)): (78, 57, 66)})
    assert clear.best_buffer(metric, "B", relative=False) == (32, "32 MiB, 33.00 ms", ())
    assert clear.best_buffer(metric, "B", relative=True) == (32, "32 MiB, 33%", ())
    close = study({**next_, (metric, ("B", "tsb", 32)): (79, 58, 67)})
    words = "too close to call: 32 and 16 MiB, about "
    assert close.best_buffer(metric, "B", relative=False) == (None, f"{words}32.00 ms", ())
    assert close.best_buffer(metric, "B", relative=True) == (None, f"{words}32%", ())


def test_a_relative_and_an_absolute_gain_may_have_other_buffers() -> None:
    one = study(
        {
            ("mean_write_ms", ("C", "fcfs", 8)): (200, 201, 202),
            ("mean_write_ms", ("C", "tsb", 8)): (150, 151, 152),  # 50 ms, 25 %
            ("mean_write_ms", ("C", "tsb", 64)): (60, 60, 60),  # 40 ms, 40 %
        }
    )
    assert one.best_buffer("mean_write_ms", "C", relative=False)[:2] == (8, "8 MiB, 50.00 ms")
    assert one.best_buffer("mean_write_ms", "C", relative=True)[:2] == (64, "64 MiB, 40%")


def test_overloaded_buffers_are_omitted_from_arrival_only() -> None:
    changes = {
        (metric, ("D", "tsb", buffer)): 100.0 - buffer / 2
        for metric in ("mean_read_ms", "mean_read_ncq_ms")
        for buffer in BUFFERS
    }
    full = [("D", "fcfs", 128), ("D", "tsb", 64), ("D", "s", 32), ("A", "tsb", 16)]
    one = study(changes, full)
    assert one.best_buffer("mean_read_ms", "D", True) == (32, "32 MiB, 16%", (64, 128))
    assert one.best_buffer("mean_read_ncq_ms", "D", True) == (128, "128 MiB, 64%", ())
    alone = study(changes, [("D", "fcfs", buffer) for buffer in BUFFERS if buffer != 16])
    assert alone.best_buffer("mean_read_ms", "D", True) == (16, "16 MiB, 8%", (8, 32, 64, 128))
    # Of a single seed no interval is known, but without a rival none is needed.
    single = study(changes, seeds=1)
    assert single.best_buffer("mean_read_ms", "D", True)[0] is None
    none = study(changes, [("D", "tsb", buffer) for buffer in BUFFERS])
    assert none.best_buffer("mean_read_ms", "D", True) == (
        None,
        "every buffer is overloaded",
        BUFFERS,
    )


def test_a_cell_is_overloaded_if_one_of_its_seeds_is() -> None:
    one = study(overloaded=[("A", "s", 64), ("D", "s", 64, 0.9, "parallel")])
    assert one.is_overloaded("A", "s", 64)
    assert not one.is_overloaded("A", "sb", 64)
    assert not one.is_overloaded("A", "s", 32)
    assert not one.is_overloaded("D", "s", 64)
    assert one.is_overloaded("D", "s", 64, "parallel")


@pytest.mark.parametrize(("best", "expected"), [(64, True), (32, False), (128, False)])
def test_the_best_buffer_is_compared_only_where_the_paper_names_it(
    best: int, expected: bool
) -> None:
    one = study(
        {
            (f"mean_{way}{at}_ms", (workload, "tsb", best)): 70.0
            for way in ("read", "write")
            for at in ("", "_ncq")
            for workload in "ABCD"
        }
    )
    found = [each for each in one.statements() if "buffer of the best" in each.result]
    titles = [
        f"{workload}, {way}s from {since}: buffer of the best {basis} gain of TSB (MiB)"
        for workload in "ABCD"
        for way in ("read", "write")
        for since in ("arrival", "NCQ entry")
        for basis in ("relative", "absolute")
    ]
    assert [each.result for each in found] == titles
    for each in found:
        relative = "relative" in each.result
        known = each.result.startswith("A, reads")
        right = expected if relative else best == 32
        assert each.comes_out is (right if known else None)
        assert each.published == (("64 MiB" if relative else "32 MiB") if known else "")
        assert each.model_value == best
        gain = "30%" if "relative" in each.result else "30.00 ms"
        assert each.remark == f"{best} MiB, {gain}"


def test_a_best_buffer_that_is_too_close_to_call_is_neither_right_nor_wrong() -> None:
    one = study(overloaded=[("A", "fcfs", 8), ("A", "tsb", 16)])
    title = "A, reads from arrival: buffer of the best relative gain of TSB (MiB)"
    found = statement(one, title)
    assert found.comes_out is None and math.isnan(found.model_value)
    assert found.remark == (
        "too close to call: 32 and 64 MiB, about 0%; 2 overloaded omitted: 8, 16 MiB"
    )
    (row,) = [row for row in one.rows() if row["result"] == title]
    assert (row["model"], row["comes out"], row["paper"]) == ("–", "", "64 MiB")
    other = statement(one, title.replace("A, ", "B, "))
    assert other.remark == "too close to call: 8 and 16 MiB, about 0%"


def test_small_buffers_name_where_writes_are_worse_than_under_fcfs() -> None:
    one = study(
        {
            ("mean_write_ncq_ms", ("C", "ts", 8)): 125.0,
            ("mean_write_ncq_ms", ("C", "ts", 32)): 101.0,
            ("mean_write_ncq_ms", ("C", "tsb", 8)): 75.0,
            ("mean_write_ms", ("C", "tsb", 8)): 300.0,
        }
    )
    found = [each for each in one.statements() if "mean write from NCQ entry at 8" in each.result]
    assert [each.result for each in found] == [
        f"{workload}, {policy}: mean write from NCQ entry at 8 MiB, share of FCFS"
        for workload in "ABCD"
        for policy in ("TS", "TSB")
    ]
    assert {(each.published, each.comes_out) for each in found} == {("", None)}
    assert [each.model_value for each in found] == [1, 1, 1, 1, 1.25, 0.75, 1, 1]
    assert found[4].remark == "worse than FCFS at 8, 32 MiB"
    assert {each.remark for each in (*found[:4], *found[5:])} == {"worse than FCFS at no MiB"}


# Where all values are equal, only one of the paper's statements holds: that the rate is the same.
PLAIN = """\
Simulated: 2 of 18 statements of the paper are reproduced.

                paper  model  statement
no               0.41   1.00  A, 64 MiB, mean read of S, share of FCFS, α = 0.9"""


def test_the_terminal_counts_and_lists_what_was_compared() -> None:
    one = study()
    lines = one.lines()
    assert lines[:4] == PLAIN.splitlines()
    judged = [row for row in one.rows() if row["comes out"]]
    assert [row["comes out"] for row in judged].count("yes") == 2
    assert "yes  “hardly changes”   1.00  A, 64 MiB, IOPS of TSB, share of FCFS" in lines
    assert lines[-1] == "41 more figures without a number in the paper are on the page."
    assert max(map(len, lines)) <= 80
    narrow = one.lines(62)
    assert max(map(len, narrow)) <= 62
    cannot = one.cannot()
    assert len(cannot) == len(judged) - 2
    title = "A, 64 MiB, mean read of S, share of FCFS, α = 0.9"
    assert cannot[0] == f"{title}: the paper has 0.41, here it is 1.00."
    assert {row["model"] for row in judged} == {"1.00"}


def test_statements_in_words_follow_their_figures() -> None:
    """Each comes out with figures as the paper has them, and not with the opposite."""

    def words(changes: dict[Any, float]) -> list[bool | None]:
        one = study({("mean_read_ms", cell): value for cell, value in changes.items()})
        return [each.comes_out for each in one._in_words()][:3]

    falling = {
        (workload, policy, buffer): 1000.0 / buffer / (2 if policy == "tsb" else 1)
        for workload in "ABCD"
        for policy in POLICIES
        for buffer in BUFFERS
    }
    assert words(falling) == [True, True, True]
    assert words(falling | {("C", "ts", 128): 500.0}) == [False, True, True]
    assert words(falling | {("D", "tsb", 16): 500.0}) == [False, False, True]
    assert words(falling | {("D", "tsb", 64): 500.0}) == [False, False, False]


def test_the_basis_names_seeds_requests_and_overloaded_cells() -> None:
    one = study(overloaded=[("D", "tsb", 128), ("A", "sb", 8), ("A", "s", 8)])
    text = one.basis(20_000, 8)
    assert text.startswith("8 seeds of 20,000 requests, means over the seeds, serial service, ")
    assert "α = 0.9 and dispatch-overtake aging unless" in text
    assert text.endswith(" Overloaded under some policy: A at 8 MiB, D at 128 MiB.")
    assert study().basis(1, 2).endswith("only the numbers in its text are known.")


def figure(of: Study, title: str) -> Figure:
    (found,) = [each for each in figures(of) if each.title == title]
    return found


def test_figures_come_in_the_order_of_the_page() -> None:
    axes = [(each.title, each.kind, each.x, each.y, each.by, each.log) for each in figures(study())]
    share, longest = "share of FCFS", "longest response (ms)"
    size, mean = "buffer (MiB)", "mean read (ms)"
    over = "Mean read response over the size of the buffer"
    assert axes == [
        ("Mean read response, share of FCFS (64 MiB)", "bar", "workload", share, "policy", False),
        ("Mean write response, share of FCFS (64 MiB)", "bar", "workload", share, "policy", False),
        ("Longest response over α (A, TSB, 32 MiB)", "line", "α", longest, "direction", False),
        (f"{over} (A)", "line", size, mean, "policy", True),
        (f"{over} (B)", "line", size, mean, "policy", True),
        ("D from NCQ entry, share of FCFS (32 MiB)", "bar", "direction", share, "policy", False),
        ("I/O operations per second (64 MiB)", "bar", "workload", "IOPS", "policy", False),
    ]


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1, "stays within 5%"),
        (1.04, "stays within 5%"),
        (0.96, "stays within 5%"),
        (1.06, "grows 1.06×"),
        (0.94, "falls to 0.94"),
        (2.5, "grows 2.50×"),
        (0.04, "falls to 0.04"),
    ],
)
def test_a_change_is_a_growth_a_fall_or_none(ratio: float, words: str) -> None:
    assert change(ratio) == words


@pytest.mark.parametrize("way", ["read", "write"])
def test_shares_of_policies_with_the_papers_values(way: str) -> None:
    cells = [(workload, policy) for workload in "ABCD" for policy in POLICIES]
    values = {cell: 100.0 + place for place, cell in enumerate(cells)}
    changes = {(f"mean_{way}_ms", (*cell, 64)): value for cell, value in values.items()}
    changes[f"mean_{way}_ms", ("C", "sb", 64)] = 50.0
    one = study(changes, [("C", "s", 64), ("D", "tsb", 64), ("A", "s", 32)])
    drawn = figure(one, f"Mean {way} response, share of FCFS (64 MiB)")
    assert [(row["workload"], row["policy"]) for row in drawn.rows] == [
        (workload, policy.upper()) for workload, policy in cells
    ]
    paper = {("A", "S"): 0.41, ("A", "TS"): 0.27, ("A", "TSB"): 0.22, ("B", "TSB"): 0.35}
    for row, (workload, policy) in zip(drawn.rows, cells, strict=True):
        share = one.ratio(f"mean_{way}_ms", workload, policy, 64)
        assert row["share of FCFS"] == share
        expected = paper.get((row["workload"], row["policy"])) if way == "read" else None
        assert row["paper"] == expected
    assert drawn.note == (
        f"The smallest share is 0.45, SB on C. Black ticks: the {4 if way == 'read' else 0} values "
        "that the paper's text states. Overloaded under some policy: C, D."
    )
    assert figure(study(), drawn.title).note.endswith(" No workload overloads the device.")


def test_the_longest_response_over_alpha() -> None:
    alphas = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
    changes = {
        (f"max_{way}_ms", ("A", "tsb", 32, alpha, "serial")): start + 10 * place
        for way, start in (("read", 20.0), ("write", 200.0))
        for place, alpha in enumerate(alphas)
    }
    drawn = figure(study(changes), "Longest response over α (A, TSB, 32 MiB)")
    assert [tuple(row.values()) for row in drawn.rows] == [
        (alpha, start + 10 * place, way)
        for way, start in (("read", 20.0), ("write", 200.0))
        for place, alpha in enumerate(alphas)
    ]
    # 20 → 70 → 100, and 200 → 250 → 280.
    assert drawn.note == (
        "The longest read grows 3.50× from α = 0.1 to 0.9; the longest read grows 1.43× from "
        "α = 0.9 to 1.0; the longest write grows 1.25× from α = 0.1 to 0.9; the longest write "
        "grows 1.12× from α = 0.9 to 1.0."
    )


@pytest.mark.parametrize("workload", ["A", "B"])
def test_mean_reads_over_the_size_of_the_buffer(workload: str) -> None:
    values = {
        (policy, buffer): 100.0 + 10 * row + column
        for row, policy in enumerate(POLICIES)
        for column, buffer in enumerate(BUFFERS)
    }
    values["s", 128], values["tsb", 128] = 220.0, 35.0
    changes = {("mean_read_ms", (workload, *cell)): value for cell, value in values.items()}
    full = [(workload, "ts", 8), (workload, "fcfs", 16), ("C", "s", 32)]
    title = f"Mean read response over the size of the buffer ({workload})"
    drawn = figure(study(changes, full), title)
    assert [tuple(row.values()) for row in drawn.rows] == [
        (buffer, value, policy.upper()) for (policy, buffer), value in values.items()
    ]
    assert drawn.note == (
        "From 8 to 128 MiB: FCFS stays within 5%, S grows 2.00×, SB stays within 5%, TS stays "
        "within 5%, TSB falls to 0.25. Overloaded: 8, 16 MiB. Both axes are logarithmic."
    )
    plain = figure(study(), title).note
    assert "Overloaded" not in plain and plain.endswith(" stays within 5%. Both axes are "
                                                        "logarithmic.")  # fmt: skip


def test_shares_of_d_from_ncq_entry() -> None:
    changes = {
        ("mean_read_ncq_ms", ("D", "ts", 32)): 120.0,
        ("mean_write_ncq_ms", ("D", "tsb", 32)): 101.0,
        ("mean_write_ncq_ms", ("D", "s", 32)): 60.0,
    }
    title = "D from NCQ entry, share of FCFS (32 MiB)"
    drawn = figure(study(changes), title)
    shares = {(row["direction"], row["policy"]): row["share of FCFS"] for row in drawn.rows}
    assert list(shares) == [
        (way, policy.upper()) for way in ("read", "write") for policy in POLICIES
    ]
    changed = {("read", "TS"): 1.2, ("write", "TSB"): 1.01, ("write", "S"): 0.6}
    assert {cell: share for cell, share in shares.items() if share != 1} == changed
    paper = {(row["direction"], row["policy"]): row["paper"] for row in drawn.rows if row["paper"]}
    assert paper == {("write", "TSB"): 1.06}
    ticks = "Black ticks: the paper's text."
    assert drawn.note == f"Worse than FCFS: TS on reads, TSB on writes. {ticks}"
    assert figure(study(), title).note == f"Worse than FCFS: none. {ticks}"


def test_rates_and_their_largest_difference() -> None:
    changes = {
        ("iops", ("A", "s", 64)): 110.0,
        ("iops", ("A", "tsb", 64)): 88.0,
        ("iops", ("D", "sb", 64)): 102.0,
        ("iops", ("D", "sb", 32)): 300.0,
    }
    title = "I/O operations per second (64 MiB)"
    drawn = figure(study(changes, [("B", "fcfs", 64)]), title)
    rates = {(row["workload"], row["policy"]): row["IOPS"] for row in drawn.rows}
    assert len(rates) == len(drawn.rows) == 20
    changed = {("A", "S"): 110, ("A", "TSB"): 88, ("D", "SB"): 102}
    assert {cell: rate for cell, rate in rates.items() if rate != 100} == changed
    assert {row["paper"] for row in drawn.rows} == {None}
    assert drawn.note == (
        "Largest difference between policies: A 25.0%, B 0.0%, C 0.0%, D 2.0%. "
        "Overloaded under some policy: B."
    )
