"""From a pilot block and a budget to a plan."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy

from schedlab.analyse.advice import foreseen as sees
from schedlab.design.planning import (
    RUN_SHORTEST_S,
    PilotRun,
    batch_variance,
    best_run_s,
    plan_budget,
)
from schedlab.errors import SpecError

NAMES = ("none", "kyber", "bfq", "none (A/A)")


# Rates whose batches of five have the means 90 and 110 in turn.
WAVE = [*[90.0] * 5, *[110.0] * 5] * 2


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
    variances = [batch_variance((100 + rng.normal(0, 5, 200)).tolist()) for _ in range(50)]
    assert np.mean(variances) == pytest.approx(0.05**2, rel=0.1)
    assert batch_variance([1.0] * 12) is None


@pytest.mark.parametrize(
    ("bins", "variance"),
    [
        (WAVE, 1 / 15),  # four batches with the means 90 and 110: 400/3 · 5/100²
        ([*WAVE, 9e9, 9e9], 1 / 15),  # an unfinished batch does not count
        (WAVE[1:], None),
        ([0.0] * 20, None),
        ([-each for each in WAVE], None),
    ],
)
def test_the_variance_from_batch_means(bins, variance):
    assert batch_variance(bins) == (variance and pytest.approx(variance))


def test_the_best_time_of_a_run_balances_its_overhead():
    assert best_run_s(1.0, 0.04, 0.01) == pytest.approx(2.0)
    assert best_run_s(1.0, 0.0, 0.01) == RUN_SHORTEST_S
    assert best_run_s(1.0, 0.04, 0.0) == 60.0


@pytest.mark.parametrize("budget", [80.0, 120.0, 300.0, 3000.0])
def test_a_plan_stays_within_its_budget_and_keeps_all_workloads_that_fit(budget):
    plan = plan_budget(pilot(dict.fromkeys("abcde", 0.2)), budget, sees)
    assert plan.fits and plan.ask == (plan.blocks < 6)
    assert plan.seconds <= budget * 1.001 and 4 <= plan.blocks <= 40
    assert {*plan.left_out} | set(plan.workloads) == set("abcde")
    assert all(0.5 <= t <= 60 for t in plan.run_s.values())
    assert plan.bound is not None and plan.bound > 0.01


def test_more_budget_shows_smaller_differences():
    runs = pilot(dict.fromkeys("abc", 0.2))
    differences = [plan_budget(runs, budget, sees).bound for budget in (60.0, 120.0, 600.0, 2000.0)]
    assert differences == sorted(differences, reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_the_pilot_omits_nothing(seed):
    """A busy pilot omitted the row with the most variance, which the study was about."""
    rng = np.random.default_rng(seed)
    noise = dict(zip(("first", "second", "third"), rng.permutation([0.05, 1.5, 0.1]), strict=True))
    runs = pilot(noise, between=0.3, time=4.0, seed=seed)
    assert plan_budget(runs, 105.0, sees).blocks == 5  # Of all, before any is omitted.
    assert plan_budget(runs, 105.0, sees).left_out == {}
    short = plan_budget(runs, 85.0, sees)
    assert short.workloads == ("first", "second") and short.left_out == {"third": "others"}
    for last in ("controls", "unordered"):
        plan = plan_budget(runs, 85.0, sees, **{last: {"first"}})
        assert plan.workloads == ("second", "third")


def test_a_small_budget_takes_four_blocks_and_asks():
    plan = plan_budget(pilot({"a": 0.3}, overhead=3.0, time=2.0), 64.0, sees)
    assert (plan.blocks, plan.ask, plan.fits) == (4, True, True)
    assert plan.bound > 0.02
    assert plan.target_s is None or plan.target_s > plan.seconds
    none = plan_budget(pilot({"a": 0.3}, overhead=3.0, time=2.0), 30.0, sees)
    assert not none.fits and none.workloads == ("a",)


def test_runs_without_bins_keep_their_time():
    runs = [PilotRun("import", c, 0.01 * i, 0.1, 7.0) for i, c in enumerate(NAMES)]
    plan = plan_budget(runs, 400.0, sees)
    assert plan.run_s == {"import": 7.0}


def test_what_a_pilot_promises_holds_four_times_in_five():
    """One block shows σ from a few A/A pairs only, so the plan uses a careful one."""
    true = 0.1 / math.sqrt(3)
    works = dict.fromkeys("abc", 0.0)
    kept = 0
    for seed in range(150):
        runs = [
            PilotRun(run.workload, run.candidate, run.log_value, 0.5, 1.0)
            for run in pilot(works, between=0.1, seed=seed)
        ]
        kept += plan_budget(runs, 200.0, sees).spread >= true
    assert 0.72 <= kept / 150 <= 0.88


def plain(work="w", *, overhead=1.0, time=2.0):
    """Runs whose time is not free: 12 s for a block, which nothing changes."""
    times = (time - 0.5, time + 0.5, time, time)
    return [PilotRun(work, c, 0.1 * i, overhead, times[i]) for i, c in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("budget", "blocks", "fits"),
    [
        (47.9, 4, False), (48.0, 4, True), (59.9, 4, True), (60.0, 5, True), (72.0, 6, True),
        (83.9, 6, True), (84.0, 7, True), (479.9, 39, True), (480.0, 40, True), (1e6, 40, True),
    ],
)  # fmt: skip
def test_a_budget_becomes_four_to_six_blocks_and_then_up_to_forty(budget, blocks, fits):
    plan = plan_budget(plain(), budget, sees)
    assert (plan.blocks, plan.fits, plan.ask) == (blocks, fits, blocks < 6)
    assert (plan.seconds_per_block, plan.seconds) == (12.0, 12.0 * blocks)


@pytest.mark.parametrize(
    ("enough", "seconds"), [(4, 48.0), (10, 120.0), (399, 4788.0), (400, None)]
)
def test_the_time_for_a_difference_of_ten_percent_is_announced(enough, seconds):
    def shows(_, blocks, __):
        return 0.1 if blocks >= enough else 0.11 if blocks > 5 else None

    plan = plan_budget(plain(), 72.0, shows)
    assert plan.target_s == seconds
    assert plan.bound == shows(0.0, 6, 0)


def careful(variance, freedom):
    """σ with 80 % no larger; Wilson and Hilferty are 8 % off at one degree of freedom."""
    return math.sqrt(variance * freedom / float(scipy.stats.chi2.ppf(0.2, freedom)))


@pytest.mark.parametrize(
    ("weights", "share"), [({}, 1 / 2), ({"a": 3.0}, 10 / 16), ({"a": 0.0, "b": 0.0}, 0.0)]
)
def test_the_spread_comes_from_the_pairs_of_the_baseline(weights, share):
    """0.2 and 0.4 apart: σ² = (0.02 + 0.08)/2; what other candidates do is not noise."""
    logs = {"a": (0.0, 5.0, -3.0, 0.2), "b": (1.0, -2.0, 7.0, 0.6)}
    runs = [
        PilotRun(work, c, value, 1.0, 2.0)
        for work, values in logs.items()
        for c, value in zip(NAMES, values, strict=True)
    ]
    plan = plan_budget(runs, 200.0, sees, weights=weights)
    assert plan.spread == pytest.approx(careful(0.05 * share, 2), rel=0.03)
    alone = plan_budget(runs[:4] + runs[5:], 200.0, sees, weights={"b": 0.0})  # one pair is left
    assert alone.spread == pytest.approx(careful(0.02, 1), rel=0.08)


def test_without_a_second_baseline_the_spread_comes_from_what_fits_no_pattern():
    rng = np.random.default_rng(3)
    logs = rng.normal(0, 0.1, (4, 3)) + 5 * rng.normal(size=(4, 1)) + rng.normal(size=3)
    runs = [
        PilotRun(work, c, float(logs[i, k]), 1.0, 2.0)
        for i, work in enumerate("abcd")
        for k, c in enumerate(NAMES[:3])
    ]
    rest = logs - logs.mean(0) - logs.mean(1, keepdims=True) + logs.mean()
    seen = []

    def shows(spread, blocks, candidates):
        seen.append((blocks, candidates))
        return None

    plan = plan_budget(runs, 216.0, shows)
    assert plan.spread == pytest.approx(careful((rest**2).sum() / 6 / 4, 6), rel=0.01)
    assert seen[0] == (6, 3)


@pytest.mark.parametrize(
    ("logs", "variance"),
    [
        ({"a": (0.0, 0.0), "b": (0.0, 0.4)}, 0.4**2 / 4),
        # "c" has a run without a value, so that it shows no difference at all.
        ({"a": (0.0, 0.0), "b": (0.0, 0.4), "c": (9.0,)}, 0.4**2 / 4),
        ({"a": (0.0, 0.4, 0.1)}, 0.0),  # one workload: every difference may be of the candidates
        ({"a": (0.0,), "b": (0.3,)}, 0.0),
    ],
)
def test_without_a_second_baseline_at_least_two_by_two_show_a_spread(logs, variance):
    runs = [
        PilotRun(work, c, value, 1.0, 2.0)
        for work, values in logs.items()
        for c, value in zip(NAMES, values, strict=False)
    ]
    plan = plan_budget(runs, 200.0, sees)
    assert plan.spread == pytest.approx(careful(variance / len(logs), 1), rel=0.08)


def test_the_second_name_of_the_baseline_is_no_further_candidate():
    assert plan_budget(plain(), 72.0, lambda _, __, candidates: candidates).bound == 3
    assert plan_budget(plain()[::3], 72.0, lambda _, __, candidates: candidates).bound == 2


def test_what_is_left_out_is_said_with_its_reason():
    """Alone too long: "time"; else what comes before it has the time."""
    runs = [*plain("long", time=100.0), *plain("short")]
    plan = plan_budget(runs, 404 + 12 + 3 * 404.0 - 1, sees)
    assert plan.workloads == ("short",)
    assert plan.left_out == {"long": "time"}
    alone = plan_budget(runs, 404 + 12 + 3 * 404.0, sees)
    assert (alone.workloads, alone.left_out) == (("long",), {"short": "others"})
    assert plan_budget(runs, 4 * 416.0, sees).left_out == {}
    assert plan_budget(runs, 420.0, sees).workloads == ("short",)


def test_where_nothing_fits_one_workload_is_kept_and_the_others_are_left_out():
    runs = [*plain("long", time=9.0), *plain("short"), *plain("longer", time=10.0)]
    plan = plan_budget(runs, 100.0, sees)
    assert (plan.fits, plan.workloads, plan.blocks) == (False, ("short",), 4)
    assert {*plan.left_out.items()} == {
        ("long", "time"),
        ("longer", "time"),
    }


def waves(work="w", *, overhead, shortest=1.0):
    """σ_w² = 1/150 and σ_r² = 1/600, so that the best run takes 2√overhead seconds."""
    apart = math.sqrt(2 * (1 / 300 + 1 / 600))
    return [
        PilotRun(work, c, apart if c == NAMES[-1] else 0.0, overhead, 2.0, tuple(WAVE), shortest)
        for c in NAMES
    ]


@pytest.mark.parametrize(
    ("overhead", "seconds"), [(4.0, 4.0), (0.01, 1.0), (0.36, 1.2), (1600.0, 60.0)]
)
def test_with_time_enough_a_run_has_its_best_length(overhead, seconds):
    plan = plan_budget(waves(overhead=overhead), 1e6, sees)
    assert plan.run_s["w"] == pytest.approx(seconds, abs=0.0011)
    variance = 1 / 600 + 1 / 150 / seconds
    assert plan.spread == pytest.approx(careful(variance, 1), rel=0.08)


def test_runs_are_shortened_by_one_share_until_six_blocks_fit():
    """Best are 4 and 8 s, shortest 1 and 2 s: halfway between are 2.5 and 5 s."""
    runs = [*waves("a", overhead=4.0), *waves("b", overhead=16.0, shortest=2.0)]
    spent = 4 * (4 + 2) + 4 * (16 + 2)
    plan = plan_budget(runs, spent + 5 * 4 * (4 + 2.5 + 16 + 5), sees)
    assert plan.run_s == {"a": pytest.approx(2.5, abs=0.0011), "b": pytest.approx(5, abs=0.0011)}
    assert plan.blocks == 6


def test_controls_are_omitted_first_and_never_the_only_row():
    """The longest one was left out first, and the control was all that was measured."""
    runs = [*pilot({"work": 0.2}, time=4.0), *pilot({"control": 0.01}, time=1.0)]
    runs = [replace(run, bins=(), shortest_s=run.measured_s) for run in runs]
    spent = 4 * (4.5 + 1.5)
    both = plan_budget(runs, spent + 5 * spent, sees, controls={"control"})
    one = plan_budget(runs, spent + 5 * 4 * 4.5, sees, controls={"control"})
    assert set(both.workloads) == {"work", "control"} and one.workloads == ("work",)
    needed = math.ceil(spent + 3 * 4 * 4.5)
    with pytest.raises(SpecError) as error:
        plan_budget(runs, spent + 3 * 4 * 1.5, sees, controls={"control"})
    assert str(error.value).startswith(f"only the control fits into 42 s: {needed} s are needed")
