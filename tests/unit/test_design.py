"""Orders, plans and candidates as typed."""

import itertools
import random
from collections import Counter

import experiments
import pytest

from schedlab.design.candidates import parse_candidates
from schedlab.design.orders import Orders, williams_square
from schedlab.design.plan import blocks_of, make_plan
from schedlab.nouns import Stopping, Workload


def experiment(names="none,bfq,kyber", workloads=2, blocks=6, **changes):
    works = tuple(Workload(f"w{i}", "file-test", "iops") for i in range(workloads))
    stopping = Stopping(blocks=blocks)
    return experiments.experiment(
        candidates=parse_candidates(names), workloads=works, stopping=stopping, **changes
    )


@pytest.mark.parametrize("n", range(1, 8))
def test_a_williams_square_balances_positions_and_neighbours(n):
    square = williams_square(n)
    positions = Counter((i, item) for row in square for i, item in enumerate(row))
    assert set(positions.values()) == {len(square) // n}
    follows = Counter(pair for row in square for pair in itertools.pairwise(row))
    assert len(follows) == n * (n - 1)
    assert len(set(follows.values())) <= 1


@pytest.mark.parametrize("n", range(2, 9))
def test_chained_orders_let_each_follow_each_and_itself_equally_often(n):
    for seed in range(5):
        orders = Orders(n, random.Random(seed), chained=True)
        rows = [orders.of_block(block) for block in range(6 * n)]
        assert all(sorted(row) == list(range(n)) for row in rows)
        assert all(last[-1] == following[0] for last, following in itertools.pairwise(rows))
        for start in (0, 2 * n, 4 * n):  # From the first run on, and from any whole design on.
            part = rows[start : start + 2 * n]
            positions = Counter(place for row in part for place in enumerate(row))
            assert len(positions) == n * n and set(positions.values()) == {2}
        runs = [item for row in (*rows, orders.of_block(6 * n)) for item in row][: 6 * n * n + 1]
        follows = Counter(itertools.pairwise(runs))
        assert len(follows) == n * n and set(follows.values()) == {6}


def test_the_blocks_of_a_single_workload_are_chained():
    for workloads, chained in ((1, True), (2, False)):
        plan = make_plan(experiment(workloads=workloads, blocks=9))
        own = [[c.candidate for c in cells if c.workload == "w0"] for cells in blocks_of(plan)]
        joined = all(last[-1] == following[0] for last, following in itertools.pairwise(own))
        assert joined == chained


def test_orders_are_permutations_and_seeded():
    def orders(seed):
        design = Orders(5, random.Random(seed))
        return [design.of_block(block) for block in range(13)]

    assert all(sorted(order) == list(range(5)) for order in orders(3))
    assert orders(3) == orders(3)
    assert orders(3) != orders(4)


def test_the_orders_of_a_square_come_shuffled_and_under_new_names():
    many = Orders(4, random.Random(1))
    assert len({tuple(many.of_block(block)) for block in range(40)}) > len(williams_square(4))
    steps = set()
    for seed in range(20):
        design = Orders(4, random.Random(seed))
        first, second = design.of_block(0), design.of_block(1)
        steps.add(tuple(first.index(item) for item in second))
    assert len(steps) > 1


def test_a_plan_mixes_the_workloads_and_orders_each_for_itself():
    plan = make_plan(experiment(workloads=3, blocks=20))
    workloads, alike = set(), 0
    for cells in blocks_of(plan):
        workloads.add(tuple(dict.fromkeys(cell.workload for cell in cells)))
        orders = {w: [c.candidate for c in cells if c.workload == w] for w in ("w0", "w1", "w2")}
        alike += orders["w0"] == orders["w1"]
    assert len(workloads) > 1
    assert alike < 20
