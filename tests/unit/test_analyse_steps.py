"""The steps behind the verdict one by one, against hand-computed cases and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from schedlab.analyse import analyse, find_knee, next_decision
from schedlab.analyse.change_points import change_points, trend
from schedlab.analyse.intervals import compare_blocked, hodges_lehmann
from schedlab.analyse.noise_floor import Margins
from schedlab.analyse.pairs import best_set, blocks_needed, classify
from schedlab.analyse.sensitivity import holm, signed_rank_p
from schedlab.analyse.sequential import LOOKS, SPENT_ALPHA, is_look, levels_at, next_look
from schedlab.analyse.statement import Effort, compare_words, state
from schedlab.analyse.unblocked import compare_unblocked
from schedlab.errors import SpecError
from schedlab.spec import METRICS, Pair, Samples, Stopping

TWO = Margins(0.02, 0.02)
THROUGHPUT, P99 = METRICS["throughput_bytes_per_s"], METRICS["latency_ns_p99"]


def sample(columns, metric=THROUGHPUT, workload="w", **more):
    """One run of each candidate per block; None is a cell that is missing."""
    rows = [
        (label, block, value)
        for label, values in columns.items()
        for block, value in enumerate(values)
        if value is not None
    ]
    rows.sort(key=lambda row: row[1])
    labels, blocks, values = zip(*rows, strict=True)
    return Samples(workload, metric, labels, blocks, values, **more)


def noisy(level, n, seed, spread=0.003):
    return (level * np.exp(np.random.default_rng(seed).normal(0, spread, n))).tolist()


def kinds(verdict, workload="w"):
    return [flag.kind for flag in verdict.workloads[workload].flags]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.021, 0.03, "better"),
        (-0.03, -0.021, "worse"),
        (-0.019, 0.019, "equivalent"),
        (0.001, 0.05, "undecided"),
        (-0.05, 0.05, "undecided"),
    ],
)
def test_an_interval_beyond_the_margin_inside_it_or_neither(low, high, word):
    assert classify(low, high, TWO) == word


def test_margin_is_symmetric_between_a_and_b():
    assert classify(math.log(1.0201), 0.1, TWO) == "better"
    assert classify(-0.1, -math.log(1.0201), TWO) == "worse"


def test_five_blocks_by_hand():
    y = np.array([[0.1, 0.0], [0.2, 0.0], [0.1, 0.0], [0.3, 0.0], [0.1, 0.0]])
    comparison = compare_blocked(y, ("a", "b"))
    d = y[:, 0]
    assert comparison.mean[0] == pytest.approx(0.16)
    assert comparison.standard_error[0] == pytest.approx(d.std(ddof=1) / math.sqrt(5))
    signs = 1 - 2 * ((np.arange(16)[:, None] >> np.arange(5)) & 1)
    flipped = signs * (d - d.mean())
    t = np.abs(flipped.mean(1) / (flipped.std(1, ddof=1) / math.sqrt(5)))
    student = stats.t.ppf(0.975, 4)
    assert comparison.critical[0] == pytest.approx(max(t.max(), student))


def test_one_critical_value_keeps_the_correlation_of_the_pairs():
    y = np.random.default_rng(3).normal(0, 1, (12, 5))
    together = compare_blocked(y, tuple("abcde"))
    alone = compare_blocked(y[:, :2], ("a", "b"))
    assert together.critical[0] > alone.critical[0]
    assert together.critical[0] < stats.t.ppf(1 - 0.025 / 10, 11) * 1.15


def test_unblocked_standard_error_is_welchs():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 6), rng.normal(0.5, 3, 9)
    comparison = compare_unblocked([[a, b]], ("a", "b"))
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert comparison.mean[0] / comparison.standard_error[0] == pytest.approx(expected.statistic)
    assert comparison.critical[0] >= stats.t.ppf(0.975, expected.df) - 1e-9


def test_hodges_lehmann_is_the_median_of_the_walsh_averages():
    d = np.array([[1.0], [2.0], [10.0]])
    assert hodges_lehmann(d)[0] == pytest.approx(np.median([1, 1.5, 5.5, 2, 6, 10]))


def test_signed_ranks_agree_with_scipy():
    d = np.random.default_rng(7).normal(0.2, 1, (15, 4))
    expected = stats.wilcoxon(d, alternative="greater", method="exact").pvalue
    assert signed_rank_p(d) == pytest.approx(expected)
    large = np.random.default_rng(8).normal(0.1, 1, (90, 2))
    expected = stats.wilcoxon(large, alternative="greater", method="approx", correction=True)
    assert signed_rank_p(large) == pytest.approx(expected.pvalue, rel=1e-6)


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_a_verdict_that_signed_ranks_do_not_confirm_is_fragile():
    fast = [1.10, 1.09, 1.11, 1.10, 1.12, 1.08, 1.10, 1.09, 1.11, 1.10, 1.10, 1.09]
    verdict = analyse([sample({"none": [1.0] * 12, "kyber": fast})], baseline="none")
    assert verdict.overall.pairs[0].verdict == "worse" and not verdict.overall.pairs[0].fragile
    two_kinds = [1.0212, 1.0213, 1.0211, 1.0212, 1.0214, *noisy(1, 7, 1, 0.0001)]
    verdict = analyse([sample({"none": [1.0] * 12, "kyber": two_kinds})], baseline="none")
    pair = verdict.overall.pairs[0]
    assert pair.verdict == "equivalent" and pair.fragile
    assert "fragile" in kinds(verdict)


def test_best_set_is_whom_nobody_beats():
    pairs = [
        Pair("a", "b", 1.1, 1.05, 1.15, "better"),
        Pair("a", "c", 1.0, 0.99, 1.01, "equivalent"),
        Pair("b", "c", 0.9, 0.85, 0.95, "worse"),
    ]
    assert best_set(("a", "b", "c"), pairs) == ("a", "c")


def test_blocks_needed_follow_the_formula_and_end_where_nobody_would_run_them():
    half, mean, n = 0.04, 0.05, 8
    total = math.ceil(n * (half / (mean - math.log1p(0.02))) ** 2)
    assert blocks_needed(mean, half, TWO, n) == (
        max(1, math.ceil(0.6 * total) - n),
        math.ceil(2.6 * total) - n,
    )
    assert blocks_needed(math.log1p(0.02), half, TWO, n) is None


def test_a_step_is_a_change_point_and_splits_but_a_slope_is_a_drift():
    rng = np.random.default_rng(2)
    step = np.concatenate([np.zeros(10), np.full(14, 0.2)]) + rng.normal(0, 0.01, 24)
    assert change_points(step) == (10,)
    slope = np.linspace(0, 0.3, 24) + rng.normal(0, 0.01, 24)
    assert change_points(slope) == ()
    found = trend(slope)
    assert found.change == pytest.approx(0.3, abs=0.02) and found.p < 1e-6
    assert change_points(rng.normal(0, 0.01, 24)) == ()


def test_a_change_of_the_machine_is_reported_with_both_parts():
    level = [100.0] * 8 + [80.0] * 8
    columns = {
        "none": [a * b for a, b in zip(level, noisy(1, 16, 1), strict=True)],
        "kyber": [a * b for a, b in zip(level, noisy(1.1, 16, 2), strict=True)],
    }
    verdict = analyse([sample(columns)], baseline="none").workloads["w"]
    assert verdict.change_points == (8,)
    assert [(s.first_block, s.last_block) for s in verdict.segments] == [(0, 7), (8, 15)]
    assert [s.pairs[0].verdict for s in verdict.segments] == ["worse", "worse"]
    assert "change-point" in [flag.kind for flag in verdict.flags]


def test_incomplete_blocks_are_dropped_for_all_and_a_failing_candidate_alone():
    columns = {"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2), "bfq": noisy(1, 12, 3)}
    columns["kyber"][3] = None
    columns["bfq"][1:] = [None] * 11
    verdict = analyse([sample(columns)], baseline="none")
    judged = verdict.workloads["w"]
    assert judged.blocks == 11
    assert [s.candidate for s in judged.candidates] == ["none", "kyber"]
    assert {"dropped-block", "left-out"} <= set(kinds(verdict))


def test_zero_has_no_ratio_and_leaves_the_overall_verdict():
    starved = sample({"none": [1.0, 1.1, 1.0], "kyber": [0.0, 2.0, 0.0]}, workload="a")
    fine = sample({"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2)})
    verdict = analyse([starved, fine], baseline="none")
    assert verdict.workloads["a"].reason == "no-interval"
    assert verdict.workloads["a"].pairs == ()
    assert kinds(verdict, "a") == ["non-positive"]
    assert verdict.overall.best_set == ("kyber",)


def test_deterministic_runs_have_intervals_without_width_and_say_so():
    verdict = analyse([sample({"a": [2.0] * 5, "b": [1.0] * 5})], baseline="a")
    pair = verdict.overall.pairs[0]
    assert pair.low == pair.high == pytest.approx(2.0) and pair.verdict == "better"
    assert "identical" in kinds(verdict)


def test_a_control_that_differs_accuses_the_machine():
    control = sample(
        {"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2)},
        workload="cached",
        negative_control=True,
    )
    work = sample({"none": noisy(1, 12, 3), "kyber": noisy(1, 12, 4)})
    verdict = analyse([control, work], baseline="none")
    assert "control-failed" in kinds(verdict, "cached")
    assert verdict.overall.reason == "tied"
    calm = analyse(
        [sample({"none": noisy(1, 12, 1), "kyber": noisy(1, 12, 2)}, negative_control=True)],
        baseline="none",
    )
    assert "control-passed" in kinds(calm)


def test_a_twin_that_differs_raises_the_margin():
    columns = {
        "none": noisy(1, 12, 1),
        "none (A/A)": noisy(1.05, 12, 2),
        "kyber": noisy(1.03, 12, 3),
    }
    verdict = analyse([sample(columns)], baseline="none", aa=("none", "none (A/A)"))
    judged = verdict.workloads["w"]
    assert judged.noise_floor == pytest.approx(0.05, abs=0.005)
    assert judged.margin == judged.noise_floor
    assert judged.pairs[0].verdict == "equivalent"
    assert "noise-floor" in kinds(verdict)


def test_weights_decide_the_overall_ratio():
    a = sample({"none": [1.0] * 4, "kyber": noisy(1.2, 4, 1)}, workload="a", weight=3.0)
    b = sample({"none": [1.0] * 4, "kyber": noisy(0.9, 4, 2)}, workload="b", weight=1.0)
    pair = analyse([a, b], baseline="kyber").overall.pairs[0]
    assert pair.ratio == pytest.approx((1.2**3 * 0.9) ** 0.25, rel=0.005)


def test_looks_and_their_alpha():
    until = Stopping("until-decided", 40)
    assert [n for n in range(1, 60) if is_look(n, until)] == list(LOOKS)
    assert [levels_at(n, until).claim for n in LOOKS] == list(SPENT_ALPHA)
    assert levels_at(12, Stopping("fixed", 12)).claim == 0.05
    assert next_look(40, until) is None
    assert next_look(16, Stopping("until-decided", 18)) == 18
    assert [n for n in range(1, 30) if is_look(n, Stopping("precision", 40, 0.01))] == [
        12,
        16,
        20,
        24,
        28,
    ]


def test_an_experiment_stops_at_the_first_look_that_decides():
    until = Stopping("until-decided", 40)

    def after(n, level):
        columns = {"none": noisy(1, n, 1, 0.01), "kyber": noisy(level, n, 2, 0.01)}
        return next_decision([sample(columns)], baseline="none", stopping=until)

    early = after(5, 2.0)
    assert (early.stop, early.next_look, early.verdict) == (False, 12, None)
    assert after(12, 1.2).reason == "decided"
    close = after(12, 1.021)
    assert (close.stop, close.next_look) == (False, 16) and close.more_blocks is not None
    assert after(40, 1.021).stop


def test_precision_stops_by_width_alone():
    precise = Stopping("precision", 40, precision=0.03)
    columns = {"none": noisy(1, 12, 1, 0.02), "kyber": noisy(1.02, 12, 2, 0.02)}
    decision = next_decision([sample(columns)], baseline="none", stopping=precise)
    assert decision.reason == "precise"
    tight = Stopping("precision", 40, precision=0.001)
    decision = next_decision([sample(columns)], baseline="none", stopping=tight)
    assert not decision.stop


def test_time_that_is_left_is_told():
    even = [0.97, 1.03, 0.98, 1.02, 1.0, 0.97, 1.03, 1.0]
    columns = {"none": [1.0] * 8, "kyber": [1.04 * value for value in even]}
    verdict = analyse([sample(columns)], baseline="none", seconds_per_block=30.0)
    low, high = verdict.overall.pairs[0].blocks_needed
    assert f"about {low}–{high} more blocks (" in verdict.statement and " min)" in verdict.statement


def test_throughput_against_p99_and_the_goal():
    columns = {"none": noisy(1, 12, 1), "kyber": noisy(0.9, 12, 2), "bfq": noisy(0.8, 12, 3)}
    slow = {"none": noisy(5e6, 12, 4), "kyber": noisy(1e6, 12, 5), "bfq": noisy(4e6, 12, 6)}
    primary, p99 = sample(columns), sample(slow, P99)
    verdict = analyse([primary], baseline="none", secondary=[p99])
    points = {point.candidate: point.dominated_by for point in verdict.pareto["w"]}
    assert points == {"none": (), "kyber": (), "bfq": ("kyber",)}
    assert verdict.overall.best_set == ("none",)
    verdict = analyse([primary], baseline="none", secondary=[p99], goal="latency")
    assert verdict.overall.best_set == ("kyber",)
    assert [flag.kind for flag in verdict.flags] == ["goal"]
    verdict = analyse([primary], baseline="none", goal="fairness")
    assert [flag.kind for flag in verdict.flags] == ["goal-not-measured"]


def test_a_knee_has_an_interval_and_a_straight_line_has_none():
    depth = np.repeat([1, 2, 4, 8, 16, 32, 64, 128], 5).astype(float)
    rng = np.random.default_rng(4)
    speed = np.minimum(depth, 12.0) * np.exp(rng.normal(0, 0.05, len(depth)))
    knee = find_knee(depth, speed, "queue depth")
    assert knee.reason == "knee" and knee.low < 12 < knee.high and knee.high / knee.low < 1.5
    straight = depth**0.7 * np.exp(rng.normal(0, 0.05, len(depth)))
    assert find_knee(depth, straight, "queue depth").reason == "straight"
    with pytest.raises(SpecError, match="positive"):
        find_knee([0.0, 1.0], [1.0, 1.0])


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.95, 1.072, "the difference is within ±7.2 %"),
        (0.5, 1.2, "the difference is within ±100 %"),
        (0.003, 264.0, "these blocks cannot bound the difference"),
    ],
)
def test_a_bound_beyond_a_hundred_percent_is_none(low, high, words):
    pair = Pair("a", "b", 1.0, low, high, "undecided")
    reason, text = state(None, "ab", [pair], "ab", margin=0.02, effort=Effort(left=0))
    assert (reason, text) == (
        "cannot-separate",
        f"a and b cannot be separated within the budget; {words}",
    )


def test_an_upper_end_beyond_tenfold_is_not_printed():
    pair = Pair("a", "b", 5.0, 1.03, 265.0, "better")
    assert compare_words(None, pair) == "a is better than b by 400 % (95 % interval: 3.0 % or more)"
