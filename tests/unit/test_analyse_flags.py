"""What a reader is told besides the verdict: each flag and code on data made to raise it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_analyse_steps import P99, READER, THROUGHPUT, WRITES, flag_of, kinds, noisy, sample

from schedlab.analyse import analyse, next_decision
from schedlab.analyse.pairs import mirrored
from schedlab.spec import METRICS, Fact, Pair, Samples, Stopping

BLOCKS = 24


def judged(columns, **more):
    return analyse([sample(columns, **more)], baseline="none")


def quiet(n=BLOCKS, names=("none", "kyber", "bfq"), spread=0.005):
    return {name: noisy(1, n, seed, spread) for seed, name in enumerate(names)}


def pair_of(verdict, a, b):
    return next(p for p in verdict.overall.pairs if (p.a, p.b) == (a, b))


def times(values, rows, factor):
    return [v * factor if i in rows else v for i, v in enumerate(values)]


@pytest.mark.parametrize(("whole", "is_flagged"), [(0.3, True), (-0.3, True), (0.015, False)])
def test_a_drift_beyond_the_margin_is_told_and_takes_no_claim(whole, is_flagged):
    level = np.exp(np.linspace(0, whole, 16))
    columns = {
        "none": (level * noisy(1, 16, 1, 0.0005)).tolist(),
        "kyber": (level * noisy(1.1, 16, 2, 0.0005)).tolist(),
    }
    verdict = judged(columns)
    assert pair_of(verdict, "none", "kyber").verdict == "worse"
    assert ("drift" in kinds(verdict)) == is_flagged
    if is_flagged:
        change = flag_of(verdict, "drift").values["change"]
        assert change == pytest.approx(math.expm1(whole), rel=0.02)


@pytest.mark.parametrize("first", [0, 1, 40])
def test_blocks_are_numbered_from_one_whatever_the_rows_say(first):
    columns = {name: times(v, range(8, 16), 0.8) for name, v in quiet(16).items()}
    columns["kyber"][12] /= 50

    def moved(columns):
        rows = sample(columns)
        blocks = tuple(block + first for block in rows.blocks)
        return analyse([replace(rows, blocks=blocks)], baseline="none")

    wild = flag_of(moved(columns), "outlier")
    assert (wild.candidates, wild.values["block"], wild.values["run"]) == (("kyber",), 13, 2)
    columns["kyber"][12] *= 50
    values = flag_of(moved(columns), "change-point").values
    assert values["block"] == 9 and values["change"] == pytest.approx(-0.2, abs=0.01)


def test_two_stalls_are_counted_and_forbid_equality_alone():
    columns = quiet()
    columns["kyber"] = times(columns["kyber"], (3, 15), 0.01)
    verdict = judged(columns)
    flag = flag_of(verdict, "rare-stalls")
    assert flag.candidates == ("kyber",)
    assert (flag.values["runs"], flag.values["of"]) == (2, BLOCKS)
    assert flag.values["factor"] == pytest.approx(100, rel=0.25)
    assert pair_of(verdict, "none", "bfq").verdict == "equivalent"
    columns["kyber"] = times(quiet()["kyber"], (3,), 0.01)
    assert "rare-stalls" not in kinds(judged(columns))


def test_two_modes_are_those_of_the_candidate_that_jumps():
    columns = quiet()
    columns["kyber"] = times(columns["kyber"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    verdict = judged(columns)
    assert kinds(verdict) == ["two-modes"]
    flag = flag_of(verdict, "two-modes")
    assert flag.candidates == ("kyber",)
    assert (flag.values["low"], flag.values["high"]) == pytest.approx((1, 1.3), rel=0.01)
    assert flag.values["share_high"] == pytest.approx(7 / BLOCKS)
    assert pair_of(verdict, "none", "bfq").verdict == "equivalent"


def test_both_runs_of_the_baseline_are_in_its_modes():
    columns = quiet(names=("none", "none (A/A)", "kyber", "bfq"))
    columns["none"] = times(columns["none"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    columns["none (A/A)"] = times(columns["none (A/A)"], (2, 4, 6, 9, 11, 18, 20), 1.3)
    verdict = analyse([sample(columns)], baseline="none", aa=("none", "none (A/A)"))
    flag = flag_of(verdict, "two-modes")
    assert flag.candidates == ("none",)
    assert (flag.values["low"], flag.values["high"]) == pytest.approx((1, 1.3), rel=0.01)


def test_two_of_four_that_jump_are_both_named():
    columns = quiet(names=("none", "kyber", "bfq", "mq-deadline"))
    columns["kyber"] = times(columns["kyber"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    columns["bfq"] = times(columns["bfq"], (0, 3, 5, 11, 12, 19), 1.8)
    flags = judged(columns).workloads["w"].flags
    assert [f.candidates for f in flags if f.kind == "two-modes"] == [("bfq",), ("kyber",)]


@pytest.mark.parametrize(
    ("blocks", "verdict", "codes", "flags"),
    [
        (5, "undecided", ("few-blocks",), []),
        (6, "equivalent", (), ["steady-assumed"]),
        (7, "equivalent", (), ["steady-assumed"]),
        (8, "equivalent", (), []),
    ],
)
def test_few_blocks_are_not_equal_and_steadiness_is_assumed_below_eight(
    blocks, verdict, codes, flags
):
    analysis = judged(quiet(blocks, ("none", "kyber"), 0.0005))
    pair = pair_of(analysis, "none", "kyber")
    assert (pair.verdict, pair.codes, kinds(analysis)) == (verdict, codes, flags)
    assert analysis.population.steady_assumed == (blocks < 8)


def test_what_a_candidate_does_to_its_follower_is_no_claim_about_that():
    """mq-deadline nearly always follows kyber, which slows it down by a fifth."""
    rng, rows = np.random.default_rng(1), []
    for block in range(BLOCKS):
        order = ["kyber", "mq-deadline", "none", "bfq"]
        if block % 6 == 0:
            order = rng.permutation(order).tolist()
        elif block % 2:
            order = ["none", "bfq", "kyber", "mq-deadline"]
        for before, name in zip(["", *order], order, strict=False):
            slowed = 0.8 if before == "kyber" else 1.0
            rows.append((name, block, slowed * float(np.exp(rng.normal(0, 0.005)))))
    labels, blocks, values = zip(*rows, strict=True)
    verdict = analyse([Samples("w", THROUGHPUT, labels, blocks, values)], baseline="none")
    flag = flag_of(verdict, "carry-over")
    assert flag.values["effects"]["kyber"] == pytest.approx(math.log(0.8), abs=0.01)
    assert abs(flag.values["effects"]["none"]) < 0.01
    differences = {(a, b): (d, error) for a, b, d, error in flag.values["adjusted"]}
    assert len(differences) == 6 and all(abs(d) < 3 * error for d, error in differences.values())
    pair = next(p for p in verdict.overall.pairs if {p.a, p.b} == {"none", "mq-deadline"})
    assert (pair.verdict, pair.codes) == ("undecided", ("carry-over",))


@pytest.mark.parametrize(("level", "changes"), [(1.0, True), (3.0, False)])
def test_a_difference_that_changes_its_sign_is_no_verdict(level, changes):
    columns = {
        "none": noisy(1, 16, 1, 0.01),
        "kyber": (level * np.exp(np.linspace(-0.5, 0.5, 16)) * noisy(1, 16, 2, 0.01)).tolist(),
    }
    verdict = judged(columns)
    assert ("changes-sign" in pair_of(verdict, "none", "kyber").codes) == changes
    values = flag_of(verdict, "candidate-time").values
    assert values["changes_sign"] == changes
    assert values["slopes"]["kyber"] - values["slopes"]["none"] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("metric", "word"), [(THROUGHPUT, "worse"), (P99, "better")])
def test_a_claim_that_ranks_do_not_see_is_fragile(metric, word):
    """2 of 12 runs are as much off as the others, in the other direction."""
    columns = {"none": noisy(1, 12, 1, 0.001), "kyber": noisy(math.exp(0.2), 12, 2, 0.001)}
    columns["kyber"] = times(columns["kyber"], (4, 11), math.exp(-0.4))
    pair = pair_of(judged(columns, metric=metric), "none", "kyber")
    assert (pair.verdict, pair.codes) == (word, ("fragile",))
    columns["kyber"] = noisy(math.exp(0.2), 12, 2, 0.001)
    pair = pair_of(judged(columns, metric=metric), "none", "kyber")
    assert (pair.verdict, pair.codes) == (word, ())


@pytest.mark.parametrize(
    ("metric", "factor", "slow", "is_flagged"),
    [
        (METRICS["elapsed_s"], 2.0, ("none", "kyber"), True),
        (METRICS["elapsed_s"], 2.0, ("none",), False),
        (METRICS["elapsed_s"], 0.5, ("none", "kyber"), False),
        (METRICS["elapsed_s"], 1.04, ("none", "kyber"), False),
        (THROUGHPUT, 0.5, ("none", "kyber"), True),
        (THROUGHPUT, 2.0, ("none", "kyber"), False),
    ],
)
def test_a_cold_first_run_is_a_worse_one_of_half_of_the_candidates(
    metric, factor, slow, is_flagged
):
    columns = quiet(6, spread=0.001)
    columns |= {name: times(columns[name], (0,), factor) for name in slow}
    verdict = analyse([sample(columns, metric)], baseline="none")
    assert ("cold-first-run" in kinds(verdict)) == is_flagged
    if is_flagged:
        flag = flag_of(verdict, "cold-first-run")
        assert flag.candidates == slow
        expected = dict.fromkeys(slow, pytest.approx(abs(factor - 1), abs=0.01))
        assert flag.values["difference"] == expected


def test_sessions_that_disagree_are_named_with_their_ratios():
    rows = {"none": noisy(1, 12, 1), "kyber": [*noisy(1.3, 6, 2), *noisy(1.05, 6, 3)]}
    names = tuple(f"s{i // 6}" for i in range(12) for _ in rows)
    verdict = judged(rows, sessions=names)
    flag = flag_of(verdict, "sessions-disagree")
    d = np.log(rows["none"]) - np.log(rows["kyber"])
    means = {f"s{i}": math.exp(d[6 * i : 6 * i + 6].mean()) for i in (0, 1)}
    assert flag.values["ratios"] == pytest.approx(means)
    assert flag.values["p"] == pytest.approx(stats.f_oneway(d[:6], d[6:]).pvalue, rel=1e-6)
    spread = np.std(np.log(list(means.values())), ddof=1)
    assert verdict.workloads["w"].noise.session == pytest.approx(spread)


def test_a_workload_with_one_candidate_is_named_and_does_not_count():
    both, alone = sample(quiet(6), workload="a"), sample({"none": noisy(1, 6, 1)}, workload="b")
    verdict = analyse([both, alone], baseline="none")
    assert [(f.kind, f.workload, f.candidates) for f in verdict.flags] == [
        ("only-one", "b", ("none",))
    ]
    assert verdict.overall.workloads == ("a",)
    assert verdict.workloads["b"].code == "nothing-to-compare"


@pytest.mark.parametrize("metric", [THROUGHPUT, P99])
def test_a_bound_on_one_of_two_workloads_is_one_way_over_both(metric):
    """Runs that starved are worse than they look: bfq may lose over all, but never win."""
    level = 0.05 if metric.higher_is_better else 20.0
    columns = {"none": noisy(1, 8, 1), "bfq": [level] * 8}
    bounds = tuple("at-most" if label == "bfq" else "" for _ in range(8) for label in columns)
    starved = sample(columns, metric, "a", bounds=bounds)
    fine = sample(quiet(8, ("none", "bfq")), metric, "b")
    pair = pair_of(analyse([starved, fine], baseline="none"), "none", "bfq")
    assert (pair.verdict, pair.codes) == ("better", ("one-way",))
    open_, closed = (pair.high, pair.low) if metric.higher_is_better else (pair.low, pair.high)
    assert open_ is None and abs(math.log(closed)) > 1
    assert pair.open_end == ("high" if metric.higher_is_better else "low")


def test_best_on_a_workload_where_the_mean_is_open():
    rng = np.random.default_rng(5)

    def work(name, spread, **means):
        columns = {label: rng.lognormal(mean, spread, 8) for label, mean in means.items()}
        return sample({k: v.tolist() for k, v in columns.items()}, workload=name)

    works = [
        work("a", 0.03, none=0, kyber=0, bfq=0.7),
        work("b", 0.6, none=0, kyber=0, bfq=0),
        work("c", 0.0005, none=0, kyber=0, bfq=0),
        work("d", 0.02, none=0, kyber=0.3, bfq=0),
    ]
    verdict = analyse(works, baseline="none")
    assert verdict.code == "best-on"
    values = verdict.headline.values
    best, (also,) = Fact.of(values["best"]), map(Fact.of, values["also"])
    assert (values["name"], values["won"], best.workload) == ("bfq", ["a"], "a")
    assert best.ratio == pytest.approx(math.exp(0.7), rel=0.05)
    assert (also.better, also.worse, also.workload) == ("kyber", "none", "d")
    assert (values["same"], values["others"]) == (["c"], ["b"])
    assert values["within"] < 0.005 and values["mdd"] == verdict.workloads["b"].mdd
    assert values["price"]["kind"] == "rival"


def test_a_candidate_is_shown_with_its_own_student_interval():
    columns = quiet(6, ("none", "kyber"), 0.05)
    row = next(s for s in judged(columns).workloads["w"].candidates if s.candidate == "kyber")
    logs = np.log(columns["kyber"])
    low, high = stats.t.interval(0.95, 5, logs.mean(), stats.sem(logs))
    assert (row.low, row.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert row.mean == pytest.approx(np.mean(columns["kyber"]))
    assert row.geometric_mean == pytest.approx(math.exp(logs.mean())) and row.runs == 6


@pytest.mark.parametrize(
    ("stopping", "seconds", "used"),
    [
        (Stopping("fixed", 8), 9.0, False),
        (Stopping("fixed", 8, budget_s=80.0), 9.0, True),
        (Stopping("fixed", 8, budget_s=81.0), 9.0, False),
        (Stopping("until-decided", 8), 0.0, True),
        (Stopping("until-decided", 20), 0.0, False),
    ],
)
def test_the_budget_is_used_when_no_block_fits_or_all_are_done(stopping, seconds, used):
    verdict = analyse(
        [sample(quiet(8, spread=0.05))],
        baseline="none",
        stopping=stopping,
        seconds_per_block=seconds,
    )
    assert verdict.stopping.budget_used == used


@pytest.mark.parametrize(("cold", "is_flagged"), [(2, False), (3, True)])
def test_half_of_the_candidates_are_enough_to_call_the_first_run_cold(cold, is_flagged):
    names = ("none", "kyber", "bfq", "mq-deadline", "adios", "sio")
    columns = quiet(6, names, 0.001)
    columns |= {name: times(columns[name], (0,), 0.5) for name in names[:cold]}
    assert ("cold-first-run" in kinds(judged(columns))) == is_flagged


def test_one_that_scatters_far_more_in_few_blocks_is_named():
    names = ("none", "kyber", "bfq", "mq-deadline", "adios", "sio")
    columns = quiet(5, names, 0.001) | {"bfq": [1.0, 1.5, 0.6, 1.4, 0.7]}
    flag = flag_of(judged(columns), "uneven-noise")
    assert flag.candidates[0] == "bfq" == flag.values["noisiest"]
    logs = np.log([columns[name] for name in names]).T
    e = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    assert flag.values["p"] == pytest.approx(stats.levene(*e.T, center="mean").pvalue, rel=1e-6)
    assert flag.values["ratio"] == pytest.approx(e.std(axis=0).max() / e.std(axis=0).min())
    assert "uneven-noise" not in kinds(judged(quiet(5, names)))


def test_one_that_scatters_far_more_in_many_blocks_is_named_but_a_spike_is_not():
    names = ("none", "kyber", "bfq", "mq-deadline", "adios", "sio")
    columns = quiet(12, names, 0.001)
    spiked = columns | {"bfq": times(columns["bfq"], (4,), 1.5)}
    assert "uneven-noise" not in kinds(judged(spiked))
    columns |= {"bfq": noisy(1, 12, 3, 0.3)}
    flag = flag_of(judged(columns), "uneven-noise")
    logs = np.log([columns[name] for name in names]).T
    e = logs - logs.mean(axis=0)
    e -= np.median(e, axis=1, keepdims=True)
    assert flag.values["p"] == pytest.approx(stats.levene(*e.T, center="median").pvalue, rel=1e-6)
    assert flag.values["ratio"] == pytest.approx(e.std(axis=0).max() / e.std(axis=0).min())


def test_a_control_without_an_interval_is_open_and_a_single_run_has_one_flag():
    columns = {"none": [1.0], "kyber": [1.1]}
    control = judged(columns, negative_control=True)
    assert kinds(control) == ["single-run", "control-open"]
    values = flag_of(control, "control-open").values
    assert values == {"reach": 1.0, "margin": pytest.approx(0.02), "unbounded": True}
    single = judged(columns)
    assert kinds(single) == ["single-run"]
    assert single.headline.values == {"candidates": ["none", "kyber"], "blocks": 3}


def test_a_baseline_that_mostly_fails_takes_its_aa_arm_along():
    columns = quiet(8, ("none", "none (A/A)", "kyber", "bfq"))
    columns["none"][1:] = [None] * 7
    verdict = analyse([sample(columns)], baseline="none", aa=("none", "none (A/A)"))
    work = verdict.workloads["w"]
    assert [s.candidate for s in work.candidates] == ["kyber", "bfq"]
    assert kinds(verdict) == ["left-out"] and work.noise.aa is None
    assert [(p.a, p.b) for p in work.pairs] == [("kyber", "bfq")]


def test_candidates_that_lack_a_workload_are_compared_once_where_both_were_run():
    def work(name, **levels):
        columns = {c: noisy(level, 8, seed) for seed, (c, level) in enumerate(levels.items())}
        return sample(columns, workload=name)

    full = work("a", none=1, kyber=1.1, bfq=1.3, adios=1.2)
    verdict = analyse([full, work("b", none=1, kyber=1.2)], baseline="none")
    ratios = {(p.a, p.b): p.ratio for p in verdict.overall.pairs}
    assert len(ratios) == len(verdict.overall.pairs) == 6
    assert ratios["none", "kyber"] == pytest.approx((1.1 * 1.2) ** -0.5, rel=0.01)
    assert ratios["kyber", "bfq"] == pytest.approx(1.1 / 1.3, rel=0.01)
    assert ratios["adios", "bfq"] == pytest.approx(1.2 / 1.3, rel=0.01)
    lacking = [(f.candidates, dict(f.values)) for f in verdict.flags]
    assert lacking == [((c,), {"workloads": ["b"]}) for c in ("bfq", "adios")]
    rows = {s.candidate: s for s in verdict.overall.candidates}
    assert rows["bfq"].codes == ("lacks-workload",) and rows["bfq"].runs == 0
    assert rows["bfq"].ratio == pytest.approx(1.3, rel=0.01)


def test_runs_without_blocks_have_an_mdd_of_their_own_and_claim_no_sessions():
    rng = np.random.default_rng(3)
    columns = {name: np.exp(rng.normal(0, 0.05, 6)).tolist() for name in ("none", "kyber")}
    sessions = tuple(f"s{i // 3}" for i in range(12))
    rows = sample(columns, sessions=sessions)
    verdict = analyse([rows], baseline="none", blocked=False)
    (pair,) = verdict.overall.pairs
    half = math.log(pair.high / pair.low) / 2
    exponent = half + stats.norm.ppf(0.8) * pair.standard_error + math.log1p(0.02)
    assert verdict.overall.mdd == pytest.approx(math.expm1(exponent), rel=1e-4)
    assert (verdict.overall.unit, verdict.workloads["w"].unit) == ("runs", "runs")
    assert not verdict.population.claims_sessions and verdict.population.sessions == 4
    assert verdict.overall.needed is None and verdict.stopping.mode == "none"


def test_a_pair_seen_from_the_other_side_twice_is_the_same():
    pair = Pair("a", "b", 2.0, 1.6, None, "better", open_end="high", hodges_lehmann=1.75,
                by_session=(1.5, 2.5))  # fmt: skip
    turned = mirrored(pair)
    assert (turned.a, turned.b, turned.ratio, turned.verdict) == ("b", "a", 0.5, "worse")
    assert (turned.low, turned.high, turned.open_end) == (None, 1 / 1.6, "low")
    assert turned.hodges_lehmann == 1 / 1.75 and turned.by_session == (1 / 1.5, 1 / 2.5)
    assert mirrored(turned) == pair


def test_an_aa_arm_that_never_ran_changes_nothing():
    rows = sample(quiet(8))
    assert analyse([rows], baseline="none", aa=("none", "none (A/A)")) == judged(quiet(8))


def test_a_block_with_one_run_compares_nothing():
    columns = quiet(8)
    columns["none"][3] = columns["bfq"][3] = None
    verdict = judged(columns)
    assert verdict.workloads["w"].blocks == 7 and "missing-cells" not in kinds(verdict)


@pytest.mark.parametrize(
    ("causes", "kind", "more"),
    [
        (("actor", "rival", "metric"), "actor", 2),
        (("rival", "metric"), "rival", 1),
        (("metric",), "metric", 0),
    ],
)
def test_the_price_of_the_winner_is_of_the_first_kind_that_has_one(causes, kind, more):
    def work(metric, name, **levels):
        columns = {c: noisy(level, 8, seed) for seed, (c, level) in enumerate(levels.items())}
        return sample(columns, metric, name)

    primary = [
        work(READER, "a", none=82, kyber=82, bfq=1),
        work(THROUGHPUT, "b", none=1, kyber=1.5 if "rival" in causes else 1, bfq=1),
    ]
    further = [
        work(WRITES, "a", none=1, kyber=1, bfq=0.6 if "actor" in causes else 1),
        work(P99, "b", none=1, kyber=1, bfq=3 if "metric" in causes else 1),
    ]
    verdict = analyse(primary, baseline="none", secondary=further)
    price = verdict.headline.values["price"]
    assert (verdict.code, price["kind"], price["more"]) == ("winner-price", kind, more)
    fact, size = Fact.of(price["fact"]), {"actor": 1 / 0.6, "rival": 1.5, "metric": 3}[kind]
    assert fact.worse == "bfq" and fact.ratio == pytest.approx(size, rel=0.01)
    assert price["actor"] == ("writers" if kind == "actor" else "")
    example = Fact.of(verdict.headline.values["example"])
    assert (example.workload, example.better) == ("a", "bfq")
    assert example.ratio == pytest.approx(82, rel=0.01)


def test_a_baseline_that_stays_names_the_nearest_first():
    columns = {c: noisy(level, 8, i) for i, (c, level) in enumerate(
        {"none": 3, "bfq": 1, "kyber": 2, "adios": 1.5}.items())}  # fmt: skip
    verdict = judged(columns)
    values = verdict.headline.values
    assert (verdict.code, values["next"]) == ("keep", "kyber")
    losers = [Fact.of(each) for each in values["losers"]]
    assert [fact.worse for fact in losers] == ["kyber", "adios", "bfq"]
    assert [fact.ratio for fact in losers] == pytest.approx([1.5, 2, 3], rel=0.01)
    assert losers[0].values() == values["loss"]
    both = [sample(columns, workload="a"), sample(quiet(8, tuple(columns)), workload="b")]
    assert analyse(both, baseline="none").code == "keep"


def test_a_control_asks_for_no_more_runs():
    until = Stopping("until-decided", 20)
    works = [
        sample(quiet(4, ("none", "kyber"), 0.01) | {"kyber": noisy(2, 4, 2)}, workload="a"),
        sample(quiet(4, ("none", "kyber"), 0.05), workload="b"),
        sample(quiet(4, ("none", "kyber"), 0.05), workload="c", negative_control=True),
    ]
    decision = next_decision(works, baseline="none", stopping=until, seconds_per_block=3.0)
    assert (decision.stop, decision.reason, decision.next_look) == (False, "go on", 5)
    assert decision.workloads == ("b",)
    open_ = next_decision(works[1:], baseline="none", stopping=until, seconds_per_block=3.0)
    needed = open_.verdict.overall.needed
    assert open_.workloads == ("b", "c") and needed.time_s == 3.0 * needed.blocks
    assert open_.more_blocks == (needed.blocks_low, needed.blocks_high)
