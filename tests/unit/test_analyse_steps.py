"""The steps behind the verdict one by one, against hand-computed cases and scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from schedlab.analyse import (
    analyse,
    detectable,
    extension,
    find_knee,
    next_decision,
    rule,
)
from schedlab.analyse.across import best_everywhere, passing
from schedlab.analyse.change_points import change_points, trend
from schedlab.analyse.comparison import compare_blocks
from schedlab.analyse.detectable import factor, total_needed, unit_half_width
from schedlab.analyse.flags import gates_p
from schedlab.analyse.looks import (
    LOOKS_20,
    LOOKS_40,
    boundaries,
    is_look,
    level_at,
    looks_of,
    next_look,
)
from schedlab.analyse.pairs import best_set, classify, fact_of
from schedlab.analyse.quantiles import range_quantile, range_tail
from schedlab.analyse.second_opinion import hodges_lehmann, signed_rank_p
from schedlab.analyse.unpaired import compare_unpaired
from schedlab.errors import SpecError
from schedlab.spec import METRICS, Fact, Pair, Samples, Stopping

DELTA = math.log1p(0.02)
THROUGHPUT, P99 = METRICS["throughput_bytes_per_s"], METRICS["latency_ns_p99"]
WRITES = METRICS["write_bytes_per_s"]
READER = METRICS["reader_latency_ns_mean"]


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


def flag_of(verdict, kind, workload="w"):
    return next(flag for flag in verdict.workloads[workload].flags if flag.kind == kind)


@pytest.mark.parametrize("groups", [2, 3, 6, 12])
@pytest.mark.parametrize("freedom", [1, 4, 13, 200])
def test_studentised_range_agrees_with_scipy(groups, freedom):
    for alpha in (0.2, 0.05, 0.002):
        q = float(range_quantile(alpha, groups, freedom))
        assert float(range_tail(q, groups, freedom)) == pytest.approx(alpha, rel=1e-6)
        expected = float(stats.studentized_range.sf(q, groups, freedom))
        assert expected == pytest.approx(alpha, rel=1e-4)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.021, 0.03, "better"),
        (-0.03, -0.021, "worse"),
        (-0.019, 0.019, "equivalent"),
        (0.001, 0.05, "undecided"),
        (-0.05, 0.05, "undecided"),
        (DELTA, 0.05, "undecided"),
        (-DELTA, DELTA, "undecided"),
    ],
)
def test_an_interval_beyond_the_margin_inside_it_or_neither(low, high, word):
    assert classify(low, high, DELTA) == word


def test_two_candidates_by_hand():
    y = np.array([[0.1, 0.0], [0.2, 0.0], [0.1, 0.0], [0.3, 0.0], [0.1, 0.0]])
    fit = rule.fit(y)
    d = y[:, 0]
    assert fit.mean[0] == pytest.approx(0.16)
    assert fit.own[0] == pytest.approx(d.std(ddof=1) / math.sqrt(5))
    assert fit.pooled[0] == pytest.approx(fit.own[0])
    expected = stats.ttest_1samp(d, 0).pvalue
    assert rule.p_value(fit)[0] == pytest.approx(expected, rel=1e-9)
    assert rule.half_width(fit)[0] == pytest.approx(stats.t.ppf(0.975, 4) * fit.own[0])


@pytest.mark.parametrize("n", [3, 5, 6, 9])
def test_the_rule_by_its_definition(n):
    k, y = 4, np.random.default_rng(n).normal(0, 1, (n, 5))
    steady = rule.fit(y, baseline=0).steady
    values = y[:, :4].copy()
    values[:, 0] = (y[:, 0] + y[:, 4]) / 2
    freedom = (n - 1) * k + 1
    fitted = y.mean(axis=1)[:, None] + values.mean(axis=0)[[0, 1, 2, 3, 0]]
    fitted = fitted - values.mean(axis=0)[[0, 1, 2, 3, 0]].mean()
    s = math.sqrt(((y - fitted) ** 2).sum() / freedom)
    assert float(steady.spread) == pytest.approx(s) and steady.freedom == freedom
    d = values[:, 1] - values[:, 2]
    pooled, own = s * math.sqrt(2 / n), d.std(ddof=1) / math.sqrt(n)
    pair = 3  # (1, 2)
    assert (steady.pooled[pair], steady.own[pair]) == pytest.approx((pooled, own))

    def guarded(alpha):
        q = stats.studentized_range.isf(alpha, k, freedom) / math.sqrt(2)
        return max(q * pooled, stats.t.isf(alpha / 3 / 2, n - 1) * own)

    expected = guarded(0.05)
    if n > 5:
        expected = min(guarded(0.04), stats.t.isf(0.02 / 6 / 2, n - 1) * own)
    assert rule.half_width(steady)[pair] == pytest.approx(expected, rel=1e-5)


def test_p_value_and_interval_say_the_same():
    rng = np.random.default_rng(3)
    for n in (3, 5, 6, 12):
        y = rng.normal(0, 1, (300, n, 5))
        y[..., 1] += 1.0
        fit = rule.fit(y, baseline=0)
        inside = np.abs(fit.mean) - rule.half_width(fit) <= 0.1
        assert ((rule.p_value(fit, 0.1) > 0.05) == inside).mean() > 0.999


def test_unpaired_is_welch_or_games_and_howell():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 6), rng.normal(0.5, 3, 9)
    comparison = compare_unpaired([[a, b]], (1.0,))
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert comparison.mean[0] / comparison.error[0] == pytest.approx(expected.statistic)
    assert not comparison.by_range
    assert comparison.half_width(0.05)[0] == pytest.approx(
        stats.t.ppf(0.975, expected.df) * comparison.error[0]
    )
    groups = [rng.normal(0, s, 12) for s in (1, 2, 3)]
    comparison = compare_unpaired([groups], (1.0,))
    q = stats.studentized_range.isf(0.05, 3, comparison.freedom[0]) / math.sqrt(2)
    assert comparison.by_range
    assert comparison.half_width(0.05)[0] == pytest.approx(q * comparison.error[0], rel=1e-5)


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


def test_holm_and_benjamini_hochberg_by_hand():
    assert passing([0.01, 0.04, 0.02], 0.05) == [True, True, True]
    assert passing([0.01, 0.04, 0.03], 0.05) == [True, False, False]
    many = [0.001, 0.008, 0.02, *[0.9] * 9]
    assert passing(many, 0.05) == [True, True, *[False] * 10]


def test_looks_spend_as_published():
    levels = dict(zip(LOOKS_20, boundaries(LOOKS_20), strict=True))
    assert {n: round(a, 4) for n, a in levels.items()} == {
        4: 0.0148, 5: 0.0086, 6: 0.0082, 7: 0.0083, 8: 0.0085, 9: 0.0088, 10: 0.0091,
        12: 0.0115, 14: 0.0122, 16: 0.0127, 20: 0.0161,
    }  # fmt: skip
    assert looks_of(20) == LOOKS_20 and looks_of(40) == LOOKS_40
    assert min(looks_of(6)) >= 4 and max(looks_of(33)) == 33


def test_boundaries_hold_on_random_walks():
    rng = np.random.default_rng(2)
    walk = np.cumsum(rng.normal(size=(40_000, 20)), axis=1)
    crossed = np.zeros(len(walk), bool)
    for n, alpha in zip(LOOKS_20, boundaries(LOOKS_20), strict=True):
        crossed |= np.abs(walk[:, n - 1]) / math.sqrt(n) > stats.norm.isf(alpha / 2)
    assert crossed.mean() == pytest.approx(0.05, abs=4 * 0.0011)


def test_what_an_extension_costs():
    fixed = Stopping("fixed", 8)
    terms = extension(fixed, 8, 16, may_extend=16)
    assert terms.code == "announced" and terms.first_alpha + terms.alpha > 0.05 > terms.first_alpha
    assert extension(fixed, 8, 20, may_extend=16).code == "refused"
    added = extension(fixed, 8, 16)
    assert (added.code, added.alpha, added.error) == ("unannounced", 0.025, 0.075)
    early = Stopping("until-decided", 20)
    assert extension(early, 8, 16).code == "continued"
    assert extension(early, 20, 24).code == "refused"


def test_an_end_between_two_looks_is_a_look_of_its_own():
    until = Stopping("until-decided", 20)
    assert level_at(20, until) == boundaries(LOOKS_20)[-1]
    assert level_at(11, until) == boundaries((4, 5, 6, 7, 8, 9, 10, 11, 20))[-2]
    assert level_at(3, until) == boundaries((3, 20))[0]


def test_claims_of_an_unannounced_extension_are_marked():
    columns = {"none": noisy(1, 12, 1, 0.03), "kyber": noisy(1.06, 12, 2, 0.03)}
    terms = extension(Stopping("fixed", 4), 4, 12)
    verdict = analyse([sample(columns)], baseline="none", extension=terms)
    for pairs in (verdict.overall.pairs, verdict.workloads["w"].pairs):
        assert pairs[0].verdict == "worse" and "added" in pairs[0].codes
    assert verdict.stopping.error == 0.075 and verdict.stopping.alpha == 0.025
    assert [flag.kind for flag in verdict.flags] == ["extension"]


def test_the_best_set_are_the_unbeaten_candidates():
    pairs = [
        Pair("a", "b", 1.1, 1.05, 1.15, "better"),
        Pair("a", "c", 1.0, 0.99, 1.01, "equivalent"),
        Pair("b", "c", 0.9, 0.85, 0.95, "worse"),
    ]
    assert best_set(("a", "b", "c"), pairs) == ("a", "c")


def test_a_fact_is_seen_from_the_better_side():
    pair = Pair("none", "bfq", 82.0, 61.0, 110.0, "worse")
    fact = fact_of(pair, "latency", higher_is_better=False)
    assert (fact.better, fact.worse, fact.ratio) == ("bfq", "none", 82.0)
    assert (fact.low, fact.high) == (61.0, 110.0)
    fact = fact_of(Pair("a", "b", 0.5, 0.4, 0.625, "worse"), "rate", higher_is_better=True)
    assert (fact.better, fact.ratio, fact.low, fact.high) == ("b", 2.0, 1.6, 2.5)


def test_smallest_visible_difference_and_blocks_needed():
    assert detectable(0.1, 6, 4, 0.02) == pytest.approx(1.02 * math.exp(0.244) - 1, rel=1e-6)
    assert factor(160, 4) == pytest.approx(factor(40, 4) / 2)
    assert factor(4, 4) < factor(4, 8) < factor(4, 12)
    total = total_needed(0.2, 0.1, 4, 0.02, 5)
    assert factor(total, 4) * 0.1 + DELTA <= 0.2 < factor(total - 1, 4) * 0.1 + DELTA
    tie = total_needed(0.0, 0.02, 2, 0.02, 6)
    assert unit_half_width(tie, 2) * 0.02 <= DELTA < unit_half_width(tie - 1, 2) * 0.02
    assert total_needed(DELTA, 0.1, 4, 0.02, 5) is None


def test_a_step_is_a_change_point_and_splits_but_a_slope_is_a_drift():
    rng = np.random.default_rng(2)
    step = np.concatenate([np.zeros(10), np.full(14, 0.2)]) + rng.normal(0, 0.01, 24)
    assert change_points(step) == (10,)
    for split in (5, 19):  # at least five blocks on either side
        edge = np.where(np.arange(24) < split, 0.0, 0.2) + rng.normal(0, 0.01, 24)
        assert change_points(edge) == (split,)
    slope = np.linspace(0, 0.3, 24) + rng.normal(0, 0.01, 24)
    assert change_points(slope) == ()
    drift = trend(slope)
    assert drift.change == pytest.approx(0.3, abs=0.02) and drift.p < 1e-6
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


def test_a_missing_cell_drops_nothing_else():
    columns = {"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2), "bfq": noisy(1, 12, 3)}
    complete = analyse([sample(columns)], baseline="none")
    columns["kyber"][3] = None
    verdict = analyse([sample(columns)], baseline="none")
    assert verdict.workloads["w"].blocks == 12
    assert flag_of(verdict, "missing-cells").values == {"cells": 1, "filled": {"kyber": 1}}
    for one, other in zip(complete.overall.pairs, verdict.overall.pairs, strict=True):
        assert one.verdict == other.verdict
        assert one.ratio == pytest.approx(other.ratio, rel=0.002)


def test_a_candidate_that_mostly_fails_is_left_out_there_and_compared_elsewhere():
    columns = {"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2), "bfq": noisy(1.2, 12, 3)}
    failing = columns | {"bfq": [1.2, *[None] * 11]}
    verdict = analyse(
        [sample(columns, workload="a"), sample(failing, workload="b")], baseline="none"
    )
    assert flag_of(verdict, "left-out", "b").values == {"cells": 11, "of": 12}
    assert [s.candidate for s in verdict.workloads["b"].candidates] == ["none", "kyber"]
    assert "lacks-workload" in [flag.kind for flag in verdict.flags]
    assert verdict.overall.best_set == ("bfq",)


def test_starved_runs_are_bounds_in_one_direction():
    columns = {"none": noisy(1, 8, 1), "kyber": noisy(1, 8, 2), "bfq": [0.05] * 8}
    bounds = ["at-most" if label == "bfq" else "" for _ in range(8) for label in columns]
    verdict = analyse([sample(columns, bounds=tuple(bounds), time_s=10.0)], baseline="none")
    pair = next(p for p in verdict.overall.pairs if (p.a, p.b) == ("none", "bfq"))
    assert pair.verdict == "better" and pair.high is None and pair.open_end == "high"
    assert pair.low > 15 and "one-way" in pair.codes
    assert verdict.code == "did-not-finish"
    values = verdict.headline.values
    assert (values["name"], values["time_s"], values["rest"]) == ("bfq", 10.0, "tied")
    assert flag_of(verdict, "starved").values["counts"] == {"bfq": 8}
    fast = {"none": noisy(1, 8, 1), "bfq": [2.0] * 8}
    bounds = ["at-most" if label == "bfq" else "" for _ in range(8) for label in fast]
    verdict = analyse([sample(fast, bounds=tuple(bounds))], baseline="none")
    assert verdict.overall.pairs[0].verdict == "undecided"


def test_zero_has_no_ratio_and_leaves_the_overall_verdict():
    starved = sample({"none": [1.0, 1.1, 1.0], "kyber": [0.0, 2.0, 0.0]}, workload="a")
    fine = sample({"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2)})
    verdict = analyse([starved, fine], baseline="none")
    assert verdict.workloads["a"].code == "nothing-to-compare"
    assert verdict.workloads["a"].pairs == ()
    assert kinds(verdict, "a") == ["non-positive"]
    assert verdict.overall.best_set == ("kyber",)
    counted = sample({"none": [1.0, 1.1, 1.0], "kyber": [0.0, 2.0, 0.0]}, workload="a", step=1e-6)
    assert flag_of(analyse([counted], baseline="none"), "starved", "a").values["runs"] == 3


def test_deterministic_runs_have_intervals_without_width_and_say_so():
    verdict = analyse([sample({"a": [2.0] * 5, "b": [1.0] * 5})], baseline="a")
    pair = verdict.overall.pairs[0]
    assert pair.low == pair.high == pytest.approx(2.0) and pair.verdict == "better"
    assert "identical" in kinds(verdict)


def test_coarse_values_have_no_narrower_interval_than_their_step():
    columns = {"a": [11.0] * 2, "b": [10.0] * 2}
    verdict = analyse([sample(columns, step=1.0)], baseline="a")
    pair = verdict.overall.pairs[0]
    assert pair.verdict == "undecided" and pair.low < 1 < pair.high


def test_a_control_that_differs_accuses_the_machine():
    control = sample(
        {"none": noisy(1, 12, 1), "kyber": noisy(1.1, 12, 2)},
        workload="cached",
        negative_control=True,
    )
    work = sample({"none": noisy(1, 12, 3), "kyber": noisy(1, 12, 4)})
    verdict = analyse([control, work], baseline="none")
    assert "control-failed" in kinds(verdict, "cached")
    assert verdict.overall.code == verdict.code == "tied"
    calm = analyse(
        [sample({"none": noisy(1, 12, 1), "kyber": noisy(1, 12, 2)}, negative_control=True)],
        baseline="none",
    )
    assert "control-passed" in kinds(calm)


def test_an_aa_arm_that_differs_forbids_smaller_claims():
    columns = {
        "none": noisy(1, 12, 1),
        "none (A/A)": noisy(1.06, 12, 2),
        "kyber": noisy(1.07, 12, 3),
        "bfq": noisy(2, 12, 4),
    }
    verdict = analyse([sample(columns)], baseline="none", aa=("none", "none (A/A)"))
    assert flag_of(verdict, "aa-differs").values["far"] == pytest.approx(0.06, abs=0.01)
    pairs = {(p.a, p.b): p for p in verdict.overall.pairs}
    assert pairs["none", "kyber"].verdict == "undecided"
    assert "aa-differs" in pairs["none", "kyber"].codes
    assert pairs["none", "bfq"].verdict == "worse"


def test_weights_decide_the_overall_ratio():
    a = sample({"none": [1.0] * 4, "kyber": noisy(1.2, 4, 1)}, workload="a", weight=3.0)
    b = sample({"none": [1.0] * 4, "kyber": noisy(0.9, 4, 2)}, workload="b", weight=1.0)
    pair = analyse([a, b], baseline="kyber").overall.pairs[0]
    assert pair.ratio == pytest.approx((1.2**3 * 0.9) ** 0.25, rel=0.005)


def test_it_depends_on_the_work_and_the_price_is_named():
    wait = {"none": noisy(82, 8, 1, 0.05), "bfq": noisy(1, 8, 2, 0.05)}
    other = {"none": noisy(1, 8, 3, 0.05), "bfq": noisy(0.7, 8, 4, 0.05)}
    writes = {"none": noisy(1, 8, 5, 0.05), "bfq": noisy(0.6, 8, 6, 0.05)}
    primary = [sample(wait, READER, "reader"), sample(other, workload="random")]
    verdict = analyse(primary, baseline="none", secondary=[sample(writes, WRITES, "reader")])
    assert verdict.code == "depends"
    values = verdict.headline.values
    assert (values["name"], values["won"], values["lost"]) == ("bfq", ["reader"], ["random"])
    assert Fact.of(values["best"]).ratio == pytest.approx(82, rel=0.1)
    assert values["price"]["kind"] == "actor" and values["price"]["actor"] == "writers"
    assert Fact.of(values["price"]["fact"]).worse == "bfq"
    alone = analyse(primary[:1], baseline="none", secondary=[sample(writes, WRITES, "reader")])
    assert alone.code == "winner-price"
    assert alone.secondary["reader"][0].actor == "writers"


def test_one_wild_run_hides_no_other_pair_and_is_named():
    columns = {c: noisy(1, 12, i, 0.03) for i, c in enumerate(("none", "kyber", "bfq"))}
    columns["kyber"] = noisy(1.5, 12, 7, 0.03)
    columns["bfq"][4] *= 1000
    verdict = analyse([sample(columns)], baseline="none")
    verdicts = {(p.a, p.b): p.verdict for p in verdict.overall.pairs}
    assert verdicts["none", "kyber"] == "worse"
    values = flag_of(verdict, "outlier").values
    assert values["block"] == 5 and values["factor"] > 500


def test_a_typical_run_that_is_better_beside_a_wild_one():
    columns = {"none": noisy(1, 12, 1, 0.02), "kyber": noisy(1.3, 12, 2, 0.02)}
    columns["kyber"][6] /= 200
    verdict = analyse([sample(columns)], baseline="none")
    assert verdict.code == "rare-run"
    values = verdict.headline.values
    assert (values["a"], values["of"], values["wild_blocks"], values["blocks"]) == (
        "kyber", "kyber", 1, 12,
    )  # fmt: skip
    assert Fact.of(values["gain"]).ratio == pytest.approx(1.3, rel=0.05)


def test_best_everywhere_needs_every_workload():
    rng, session = np.random.default_rng(3), np.zeros(12, np.intp)

    def comparison(gain):
        y = rng.normal(0, 0.01, (12, 3))
        y[:, 1] += gain
        return compare_blocks(y, "abc", baseline=None, session=session), 1.0

    good = [comparison(0.1) for _ in range(8)]
    assert best_everywhere("b", good, DELTA)
    assert not best_everywhere("b", [*good, comparison(-DELTA)], DELTA)


def test_a_gate_that_fails_for_one_candidate_is_noticed():
    assert gates_p({}, {"a": 10, "b": 10}) is None
    table = [[8, 2], [10, 10]]
    kept = {"a": 10, "b": 10}
    expected = stats.fisher_exact(table).pvalue
    assert gates_p({"a": 8, "b": 2}, kept) == pytest.approx(min(1, 2 * expected), rel=1e-6)
    columns = {"none": noisy(1, 6, 1), "kyber": noisy(1, 6, 2)}
    counted = sample(columns, repeated={"kyber": 14}, kept={"none": 6, "kyber": 6})
    assert "gates-unbalanced" in kinds(analyse([counted], baseline="none"))


def test_small_workload_claims_need_all_workloads_to_be_counted():
    rng = np.random.default_rng(0)
    works = []
    for w in range(20):
        level = 1.045 if w == 0 else 1.0
        columns = {
            "none": np.exp(rng.normal(0, 0.01, 8)),
            "kyber": level * np.exp(rng.normal(0, 0.01, 8)),
        }
        works.append(sample({k: v.tolist() for k, v in columns.items()}, workload=f"w{w}"))
    alone = analyse(works[:1], baseline="none").overall.pairs[0]
    among = analyse(works, baseline="none").workloads["w0"].pairs[0]
    assert alone.verdict == "worse"
    assert among.verdict == "undecided" and "not-after-W" in among.codes


def test_an_experiment_stops_at_the_first_look_that_decides():
    until = Stopping("until-decided", 40)

    def after(n, level):
        columns = {"none": noisy(1, n, 1, 0.01), "kyber": noisy(level, n, 2, 0.01)}
        return next_decision([sample(columns)], baseline="none", stopping=until)

    assert next_look(0, until) == 4 and not is_look(9, until)
    early = after(3, 2.0)
    assert (early.stop, early.next_look, early.verdict) == (False, 4, None)
    assert after(4, 1.3).reason == "decided"
    close = after(12, 1.021)
    assert (close.stop, close.next_look) == (False, 16)
    assert after(40, 1.021).stop


def test_the_overall_verdict_is_frozen_while_single_workloads_go_on():
    until = Stopping("until-decided", 20)
    clear = {"none": noisy(1, 4, 1, 0.01), "kyber": noisy(2.0, 4, 2, 0.01)}
    open_ = {"none": noisy(1, 4, 3, 0.05), "kyber": noisy(1.06, 4, 4, 0.05)}
    works = [sample(clear, workload="a"), sample(open_, workload="b")]
    decision = next_decision(works, baseline="none", stopping=until)
    assert (decision.stop, decision.workloads) == (False, ("b",))
    assert decision.verdict.stopping.frozen_at == 4
    more = {k: [*v, *noisy(0.5, 4, 9)] for k, v in open_.items()}
    later = analyse([works[0], sample(more, workload="b")], baseline="none", stopping=until)
    assert later.overall.pairs == decision.verdict.overall.pairs
    assert later.workloads["b"].blocks == 8


def test_precision_stops_by_width_alone():
    precise = Stopping("precision", 40, precision=0.03)
    columns = {"none": noisy(1, 12, 1, 0.02), "kyber": noisy(1.02, 12, 2, 0.02)}
    decision = next_decision([sample(columns)], baseline="none", stopping=precise)
    assert decision.reason == "precise"
    tight = Stopping("precision", 40, precision=0.001)
    assert not next_decision([sample(columns)], baseline="none", stopping=tight).stop


def test_throughput_against_p99_and_the_goal():
    columns = {"none": noisy(1, 12, 1), "kyber": noisy(0.9, 12, 2), "bfq": noisy(0.8, 12, 3)}
    slow = {"none": noisy(5e6, 12, 4), "kyber": noisy(1e6, 12, 5), "bfq": noisy(4e6, 12, 6)}
    primary, p99 = sample(columns), sample(slow, P99)
    verdict = analyse([primary], baseline="none", secondary=[p99])
    points = {point.candidate: point.dominated_by for point in verdict.pareto["w"]}
    assert points == {"none": (), "kyber": (), "bfq": ("kyber",)}
    assert verdict.overall.best_set == ("none",)
    assert verdict.headline.values["price"]["kind"] == "metric"
    verdict = analyse([primary], baseline="none", secondary=[p99], goal="latency")
    assert verdict.overall.best_set == ("kyber",)
    assert [flag.kind for flag in verdict.flags] == ["goal"]
    verdict = analyse([primary], baseline="none", goal="fairness")
    assert [flag.kind for flag in verdict.flags] == ["goal-not-measured"]


def test_a_knee_has_an_interval_and_a_straight_line_has_none():
    depth = np.repeat([1, 2, 4, 8, 16, 32, 64, 128], 5).astype(float)
    rng = np.random.default_rng(4)
    speed = np.minimum(depth, 12.0) * np.exp(rng.normal(0, 0.05, len(depth)))
    knee = find_knee(depth, speed)
    assert knee.reason == "knee" and knee.low < 12 < knee.high and knee.high / knee.low < 1.5
    straight = depth**0.7 * np.exp(rng.normal(0, 0.05, len(depth)))
    assert find_knee(depth, straight).reason == "straight"
    with pytest.raises(SpecError, match="positive"):
        find_knee([0.0, 1.0], [1.0, 1.0])


def test_what_the_winner_may_lose_unseen_is_the_far_end_of_an_interval():
    """Noise hides a loss of 3 % on one workload; the sentence says how large it could be."""
    rng = np.random.default_rng(3)
    quiet = sample({"none": rng.lognormal(0, 0.02, 8), "bfq": rng.lognormal(1, 0.02, 8)},
                   workload="a")  # fmt: skip
    noisy = sample({"none": rng.lognormal(0, 0.2, 8), "bfq": rng.lognormal(-0.03, 0.2, 8)},
                   workload="b")  # fmt: skip
    for scale in (1.0, 1e6):
        values = tuple(value * scale for value in noisy.values)
        scaled = replace(noisy, values=values)
        verdict = analyse([quiet, scaled], baseline="none")
        assert verdict.code == "winner"
        (pair,) = verdict.workloads["b"].pairs
        low = pair.low if pair.a == "bfq" else 1 / pair.high
        fact = Fact.of(verdict.headline.values["unseen"]["fact"])
        assert (fact.worse, fact.workload) == ("bfq", "b") and fact.ratio > 1.03
        assert fact.ratio == pytest.approx(1 / low, rel=1e-9)


def test_a_rival_that_beats_the_winner_somewhere_is_its_price():
    rng = np.random.default_rng(4)

    def levels(**means):
        return {name: rng.lognormal(mean, 0.03, 8) for name, mean in means.items()}

    one = sample(levels(none=0.0, kyber=0.0, bfq=3.0), workload="a")
    two = sample(levels(none=0.0, kyber=0.5, bfq=0.0), workload="b")
    verdict = analyse([one, two], baseline="none")
    price = verdict.headline.values["price"]
    assert verdict.code == "winner-price" and price["kind"] == "rival"
    fact = Fact.of(price["fact"])
    assert (fact.better, fact.worse, fact.workload) == ("kyber", "bfq", "b")
