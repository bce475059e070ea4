"""The NCQ study on figures that are known: every statement on both sides of its limit, every note.

All cells have the value 100 at every seed; a test changes the cells that its statement is about.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from golden import Golden

from schedlab.sim.ncq_figures import Figure, change, figures
from schedlab.sim.ncq_study import POLICIES, Statement, Study, study_sweep
from schedlab.spec.intervals import half_width

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


def around(percent: float, within: float) -> dict[float, bool]:
    """What comes out of values at, near and beyond the limits of a published share."""
    sides = {0: True, 0.95: True, -0.95: True, 1.05: False, -1.05: False}
    return {percent + 100 * within * away: expected for away, expected in sides.items()}


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


# Of each statement: the cell that changes, and values on both sides of its limit.
LIMITS = [
    *(
        (f"A, 64 MiB, mean read of {policy.upper()}, share of FCFS, α = {alpha}",
         ("mean_read_ms", ("A", policy, 64, alpha, "serial")), around(at, 0.04))
        for policy, at in (("s", 41), ("ts", 27), ("tsb", 22))
        for alpha in (0.9, 0.95)
    ),
    *(
        (f"B, {buffer} MiB, mean read of TSB, share of FCFS",
         ("mean_read_ms", ("B", "tsb", buffer)), around(35, 0.06))
        for buffer in (32, 128)
    ),
    ("D, 32 MiB, mean write of TSB from NCQ entry, share of FCFS",
     ("mean_write_ncq_ms", ("D", "tsb", 32)), around(106, 0.04)),
    ("A, 32 MiB, TSB: longest write at α = 1 over that at 0.9",
     ("max_write_ms", ("A", "tsb", 32, 1.0, "serial")), {199: False, 200: True, 900: True}),
    ("D, 32 MiB, mean read from NCQ entry: TSB over TS",
     ("mean_read_ncq_ms", ("D", "tsb", 32)), {99: False, 100: False, 101: True, 200: True}),
    ("A, 64 MiB, IOPS of TSB, share of FCFS",
     ("iops", ("A", "tsb", 64)), {98.9: False, 99.1: True, 100.9: True, 101.1: False}),
]  # fmt: skip


@pytest.mark.parametrize(("title", "cell", "expected"), LIMITS)
def test_a_statement_comes_out_within_its_limits(
    title: str, cell: tuple[str, Cell], expected: dict[float, bool]
) -> None:
    for value, comes_out in expected.items():
        found = statement(study({cell: value}), title)
        assert (found.comes_out, found.model_value) == (comes_out, pytest.approx(value / 100))


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


@pytest.mark.parametrize("metric", ["mean_read_ms", "mean_write_ms"])
@pytest.mark.parametrize("workload", ["A", "D"])
def test_the_smallest_share_of_the_parallel_device_is_found_wherever_it_is(
    metric: str, workload: str
) -> None:
    one = study({
        (metric, (workload, "sb", 64, 0.9, "parallel")): 80.0,
        (metric, (workload, "sb", 64)): 10.0,
    })  # fmt: skip
    title = "64 dies in parallel: the smallest share of FCFS of any policy"
    assert statement(one, title).model_value == 0.8


@pytest.mark.parametrize("best", [32, 64, 128])
def test_the_best_buffer_is_compared_only_where_the_paper_names_it(best: int) -> None:
    metrics = [f"mean_{way}{at}_ms" for way in ("read", "write") for at in ("", "_ncq")]
    one = study({(metric, (w, "tsb", best)): 70.0 for metric in metrics for w in "ABCD"})
    found = [each for each in one.statements() if "buffer of the best" in each.result]
    for each in found:
        published = 64 if "relative" in each.result else 32
        is_named = each.result.startswith("A, reads")
        assert each.comes_out is (best == published if is_named else None)
        assert (each.published == f"{published} MiB") == is_named and each.model_value == best
    assert len(found) == 32


def known() -> Study:
    """Other values in every cell, metric and seed; some cells are overloaded."""
    cells = list(dict.fromkeys(cell_of(point.settings) for point in study_sweep(50, 3).points))
    values = random.Random(1)
    changes = {
        (metric, cell): [values.uniform(20, 120)] * 2 + [values.uniform(20, 120)]
        for metric in METRICS
        for cell in cells
    }
    full = [("D", "tsb", 128), ("A", "sb", 8), ("A", "s", 8), ("B", "fcfs", 64), ("C", "ts", 16)]
    return study(changes, full)


def drawn(figure: Figure) -> list[str]:
    """All of a figure, its rows in one line each."""
    axes = f"{figure.kind}: {figure.y} over {figure.x} by {figure.by}, log: {figure.log}"
    rows = [
        "  " + ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values())
        for row in figure.rows
    ]
    return ["", figure.title, axes, *rows, figure.note]


def test_the_page_of_the_study(golden: Golden) -> None:
    """Every statement, figure and note of cells that all differ."""
    one = known()
    table = (" | ".join(row.values()) for row in one.rows())
    figured = (line for each in figures(one) for line in drawn(each))
    texts = (*one.lines(), "", *one.cannot(), "", one.basis(20_000, 8), "", *table, *figured)
    golden("ncq-study.txt", "\n".join(texts))
    assert max(map(len, one.lines())) <= 80 and max(map(len, one.lines(62))) <= 62


def test_notes_where_nothing_differs_and_nothing_is_overloaded(golden: Golden) -> None:
    one = study()
    notes = (
        one.basis(1, 2),
        *(row["remark"] for row in one.rows()),
        *(f.note for f in figures(one)),
    )
    golden("ncq-study-notes.txt", "\n".join(dict.fromkeys(notes)))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1, "stays within 5%"), (1.04, "stays within 5%"), (0.96, "stays within 5%"),
        (1.06, "grows 1.06×"), (0.94, "falls to 0.94"), (2.5, "grows 2.50×"),
    ],
)  # fmt: skip
def test_a_change_is_a_growth_a_fall_or_none(ratio: float, words: str) -> None:
    assert change(ratio) == words
