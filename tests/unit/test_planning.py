"""From a pilot block and a budget to a plan."""

import math
from functools import partial

import numpy as np
import pytest

from schedlab.analyse import detectable
from schedlab.design.planning import (
    RUN_SHORTEST_S,
    PilotRun,
    batch_variance,
    best_run_s,
    plan_budget,
)

NAMES = ("none", "kyber", "bfq", "none (A/A)")


def sees(spread, blocks, candidates):
    return detectable(spread, blocks, candidates, 0.02)


def pilot(works, *, overhead=0.5, time=2.0, between=0.02, within=0.05, seed=1):
    """`works` maps workloads to the standard deviation of a 100 ms bin."""
    rng = np.random.default_rng(seed)
    runs = []
    for name, bin_sd in works.items():
        for candidate in NAMES:
            level = math.exp(rng.normal(0, between))
            bins = level * (100 + 100 * bin_sd * rng.normal(size=int(time * 10)))
            value = math.log(bins.mean())
            runs.append(PilotRun(name, candidate, value, overhead, time, tuple(bins)))
    return runs


def test_batch_means_see_the_variance_inside_a_run():
    rng = np.random.default_rng(0)
    found = [batch_variance((100 + rng.normal(0, 5, 200)).tolist()) for _ in range(50)]
    assert np.mean(found) == pytest.approx(0.05**2, rel=0.1)
    assert batch_variance([1.0] * 12) is None


def test_the_best_time_of_a_run_balances_its_overhead():
    assert best_run_s(1.0, 0.04, 0.01) == pytest.approx(2.0)
    assert best_run_s(1.0, 0.0, 0.01) == RUN_SHORTEST_S
    assert best_run_s(1.0, 0.04, 0.0) == 60.0


@pytest.mark.parametrize("budget", [80.0, 120.0, 300.0, 3000.0])
def test_a_plan_stays_within_its_budget_and_keeps_six_blocks(budget):
    plan = plan_budget(pilot(dict.fromkeys("abcde", 0.2)), budget, sees)
    assert plan.fits and not plan.ask
    assert plan.seconds <= budget * 1.001 and 6 <= plan.blocks <= 40
    assert {w.workload for w in plan.left_out} | set(plan.workloads) == set("abcde")
    assert all(0.5 <= t <= 60 for t in plan.run_s.values())
    assert plan.mdd is not None and plan.mdd > 0.02


def test_more_budget_shows_smaller_differences():
    runs = pilot(dict.fromkeys("abc", 0.2))
    found = [plan_budget(runs, budget, sees).mdd for budget in (60.0, 120.0, 600.0, 2000.0)]
    assert found == sorted(found, reverse=True)


def test_the_noisiest_workload_is_left_out_first_and_named():
    works = {"calm": 0.05, "wild": 1.5, "plain": 0.1}
    plan = plan_budget(pilot(works, between=0.0, time=4.0), 105.0, sees)
    assert [each.workload for each in plan.left_out] == ["wild"]
    assert plan.left_out[0].reason == "variance"


def test_a_small_budget_takes_four_blocks_and_asks():
    plan = plan_budget(pilot({"a": 0.3}, overhead=3.0, time=2.0), 64.0, sees)
    assert (plan.blocks, plan.ask, plan.fits) == (4, True, True)
    assert plan.mdd > 0.02
    assert plan.target_s is None or plan.target_s > plan.seconds
    none = plan_budget(pilot({"a": 0.3}, overhead=3.0, time=2.0), 30.0, sees)
    assert not none.fits and none.workloads == ("a",)


def test_runs_without_bins_keep_their_time():
    runs = [PilotRun("import", c, 0.01 * i, 0.1, 7.0) for i, c in enumerate(NAMES)]
    plan = plan_budget(runs, 400.0, partial(detectable, margin=0.02))
    assert plan.run_s == {"import": 7.0}


def test_what_a_pilot_promises_holds_four_times_in_five():
    """One block shows σ from a few A/A pairs only, so the plan uses a careful one."""
    true = 0.1 / math.sqrt(3)
    works = dict.fromkeys("abc", 0.0)
    kept = 0
    for seed in range(300):
        runs = [
            PilotRun(run.workload, run.candidate, run.log_value, 0.5, 1.0)
            for run in pilot(works, between=0.1, seed=seed)
        ]
        kept += plan_budget(runs, 200.0, sees).spread >= true
    assert 0.72 <= kept / 300 <= 0.88
