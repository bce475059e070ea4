"""What a reader is told besides the answer: each flag on data made to raise it."""

import itertools
import math

import numpy as np
import pytest
import scipy
from support import answers

from schedlab.analyse import common_ramp, find_knee, losses, rule, steadiness
from schedlab.analyse.answer import answer
from schedlab.analyse.carry_over import carry_over
from schedlab.analyse.change_points import change_points, trend
from schedlab.analyse.contradictions import claims_of
from schedlab.analyse.flags import gates_p
from schedlab.analyse.limits import limits
from schedlab.analyse.residuals import aging, two_modes
from schedlab.errors import SpecError
from schedlab.nouns import METRICS, Samples

BLOCKS = 24
THROUGHPUT, P99 = METRICS["throughput_bytes_per_s"], METRICS["latency_ns_p99"]


def judged(columns, metric=THROUGHPUT, aa=None, **more):
    """The flags of one workload: one run of each candidate per block, None is missing."""
    rows = sorted(
        (block, i, label, value)
        for i, (label, values) in enumerate(columns.items())
        for block, value in enumerate(values)
        if value is not None
    )
    blocks, _, labels, values = zip(*rows, strict=True)
    rows = [Samples("w", metric, labels, blocks, values, **more)]
    return limits(answer(rows, baseline="none", aa=aa), rows, aa=aa, blocked=True)


def kinds(flags):
    return [flag.kind for flag in flags]


def flag_of(flags, kind):
    return next(flag for flag in flags if flag.kind == kind)


def noisy(level, n, seed, spread=0.003):
    return (level * np.exp(np.random.default_rng(seed).normal(0, spread, n))).tolist()


def quiet(n=BLOCKS, names=("none", "kyber", "bfq"), spread=0.005):
    return {name: noisy(1, n, seed, spread) for seed, name in enumerate(names)}


def times(values, rows, factor):
    return [v * factor if i in rows else v for i, v in enumerate(values)]


def test_two_stalls_are_counted():
    columns = quiet()
    columns["kyber"] = times(columns["kyber"], (3, 15), 0.01)
    flags = judged(columns)
    flag = flag_of(flags, "rare-stalls")
    assert flag.candidates == ("kyber",)
    assert (flag.values["runs"], flag.values["of"]) == (2, BLOCKS)
    assert flag.values["factor"] == pytest.approx(100, rel=0.25)
    columns["kyber"] = times(quiet()["kyber"], (3,), 0.01)
    assert "rare-stalls" not in kinds(judged(columns))


def test_two_modes_are_those_of_the_candidate_that_jumps():
    columns = quiet()
    columns["kyber"] = times(columns["kyber"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    flags = judged(columns)
    assert kinds(flags) == ["two-modes"]
    flag = flag_of(flags, "two-modes")
    assert flag.candidates == ("kyber",)
    assert (flag.values["low"], flag.values["high"]) == pytest.approx((1, 1.3), rel=0.01)
    assert flag.values["share_high"] == pytest.approx(7 / BLOCKS)


def test_both_runs_of_the_baseline_are_in_its_modes():
    columns = quiet(names=("none", "none (A/A)", "kyber", "bfq"))
    columns["none"] = times(columns["none"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    columns["none (A/A)"] = times(columns["none (A/A)"], (2, 4, 6, 9, 11, 18, 20), 1.3)
    flags = judged(columns, aa=("none", "none (A/A)"))
    flag = flag_of(flags, "two-modes")
    assert flag.candidates == ("none",)
    assert (flag.values["low"], flag.values["high"]) == pytest.approx((1, 1.3), rel=0.01)


def test_two_of_four_that_jump_are_both_named():
    columns = quiet(names=("none", "kyber", "bfq", "mq-deadline"))
    columns["kyber"] = times(columns["kyber"], (1, 4, 5, 9, 13, 18, 20), 1.3)
    columns["bfq"] = times(columns["bfq"], (0, 3, 5, 11, 12, 19), 1.8)
    flags = judged(columns)
    assert [f.candidates for f in flags if f.kind == "two-modes"] == [("bfq",), ("kyber",)]


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
    flags = judged(columns, metric)
    assert ("cold-first-run" in kinds(flags)) == is_flagged
    if is_flagged:
        flag = flag_of(flags, "cold-first-run")
        assert flag.candidates == slow
        expected = dict.fromkeys(slow, pytest.approx(abs(factor - 1), abs=0.01))
        assert flag.values["difference"] == expected


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
    assert flag.values["p"] == pytest.approx(
        scipy.stats.levene(*e.T, center="mean").pvalue, rel=1e-6
    )
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
    assert flag.values["p"] == pytest.approx(
        scipy.stats.levene(*e.T, center="median").pvalue, rel=1e-6
    )
    assert flag.values["ratio"] == pytest.approx(e.std(axis=0).max() / e.std(axis=0).min())


def test_a_candidate_that_ages_has_early_and_late_differences():
    n, rng = 16, np.random.default_rng(4)
    slope = np.linspace(-0.5, 0.5, n)
    columns = {
        "none": np.exp(rng.normal(0, 0.05, n)).tolist(),
        "kyber": np.exp(slope + rng.normal(0, 0.05, n)).tolist(),
    }
    values = flag_of(judged(columns), "candidate-time").values
    assert values["changes_sign"]
    assert values["early"]["better"] == "none" and values["late"]["better"] == "kyber"


@pytest.mark.parametrize(("candidates", "noisier"), [(2, 3.0), (4, 10.0)])
def test_a_candidate_that_scatters_more_does_not_age(candidates, noisier):
    """The F-test alone finds 0.05 to 0.13 of them."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(200):
        y = rng.normal(0, 0.01, (8, candidates + 1))
        y[:, 1] *= noisier
        aged = aging(rule.fit(y, np.arange(8), baseline=0), 0)
        found += bool(aged.pairs)
    assert found <= 8  # Once in a thousand at a rate of 0.014.


def test_only_the_pairs_of_the_candidate_that_ages_change():
    y = np.random.default_rng(3).normal(0, 0.01, (12, 4))
    y[:, 2] += np.linspace(-0.05, 0.05, 12)
    aged = aging(rule.fit(y, np.arange(12)), None)
    assert {1, 3, 5} == set(aged.pairs)  # (0, 2), (1, 2), (2, 3)
    first, second = rule.pair_index(4)
    slopes = np.abs(aged.slopes[first] - aged.slopes[second])[list(aged.pairs)]
    assert slopes.tolist() == sorted(slopes, reverse=True)


def test_a_candidate_that_slows_its_follower_is_found():
    rng = np.random.default_rng(1)
    n, effect = 12, math.log(0.9)
    position = np.array([rng.permutation(4) for _ in range(n)])
    y, before = rng.normal(0, 0.01, (n, 4)), np.full((n, 4), -1)
    for row, places in enumerate(position):
        for first, second in itertools.pairwise(np.argsort(places)):
            before[row, second] = first
    y += effect * (before == 1)
    estimate = carry_over(y, np.ones(y.shape, bool), before, None)
    assert estimate.p < 1e-6
    assert estimate.effects[1] - estimate.effects[0] == pytest.approx(effect, abs=0.02)
    assert abs(estimate.difference(0, 2)) < 0.02


def test_two_modes_need_a_wide_gap():
    rng = np.random.default_rng(3)
    assert two_modes(rng.normal(0, 1, 40)) is None
    both = np.concatenate([rng.normal(0, 1, 30), rng.normal(9, 1, 10)])
    modes = two_modes(both)
    assert (modes.low, modes.high) == pytest.approx((0, 9), abs=0.7)
    assert modes.share_high == pytest.approx(0.25)


def test_the_ramp_of_a_run_is_cut_and_a_steady_run_is_not():
    rng = np.random.default_rng(6)
    burst = np.concatenate([np.full(7, 20_000.0), rng.normal(250, 10, 93)])
    burst_steadiness = steadiness(burst)
    assert 7 <= burst_steadiness.cut <= 30 and burst_steadiness.mean == pytest.approx(250, rel=0.02)
    assert burst_steadiness.steady
    kernel = [21299, 19691, 13413, *rng.normal(240, 15, 57)]
    assert steadiness(kernel).mean == pytest.approx(240, rel=0.03)
    flat = [steadiness(rng.normal(100, 5, 60)) for _ in range(100)]
    assert sum(each.cut > 0 for each in flat) <= 11
    assert common_ramp([burst, rng.normal(250, 10, 100)])[0] == burst_steadiness.cut
    assert not steadiness(np.linspace(100, 200, 60) + rng.normal(0, 1, 60)).steady


def walk(n=12, arms=4, seed=2):
    """Residuals of a fit: candidates that wander, the last one far less than the first."""
    steps = np.random.default_rng(seed).normal(0, 1, (n, arms)) * (4, 2, 1, 1)
    e = np.cumsum(steps, axis=0)
    return e - e.mean(axis=0) - e.mean(axis=1, keepdims=True) + e.mean()


def lag_one(e):
    """Sum of products of neighbours over the sum of squares."""
    products = sum(float(e[i] @ e[i + 1]) for i in range(len(e) - 1))
    return products / float((e**2).sum())


def test_wandering_differences_by_their_definition():
    e = walk()
    n, k, r = 12, 4, lag_one(walk())
    assert rule.autocorrelation(e) == pytest.approx(r)
    shares = [float((column**2).sum()) for column in e.T]
    alike = sum(shares) ** 2 / sum(s * s for s in shares) / 4
    assert alike < 0.9
    phi = (r + 1 / n) * (1 + 4 / n) - 1 / math.sqrt(n * k * alike)
    assert 0 < phi < losses.PHI_MAX and losses.wandering(e, k) == pytest.approx(phi)
    assert losses.inflation_of(e, k) == pytest.approx((1 + phi) / (1 - phi))
    assert losses.inflation_of(e[: losses.UNITS_TO_WANDER - 1], k) == 1
    assert losses.wandering(np.repeat(e, 30, axis=0), k) == losses.PHI_MAX
    assert losses.wandering(e * (-1.0) ** np.arange(n)[:, None], k) == 0
    for spread, unsteady in ((0.001, True), (1000.0, False)):
        mixed = e + np.random.default_rng(1).normal(0, spread, e.shape)
        limit = -1 / n + 2.33 * (1 - 1 / n) / math.sqrt(n * k)
        assert rule.is_unsteady(mixed, k) == (lag_one(mixed) > limit) == unsteady


def test_the_widening_that_is_told_is_that_of_the_bounds():
    """One arm among eight that wanders alone is told only where it widens something."""
    rng, n, told = np.random.default_rng(7), 12, 0
    for steps in (0.0, 0.02, 0.2):
        columns = {name: np.exp(rng.normal(0, 0.01, n)) for name in ("none", *"abcdefg")}
        columns["g"] = columns["g"] * np.exp(np.cumsum(rng.normal(0, steps, n)))
        flags = judged({name: column.tolist() for name, column in columns.items()})
        y = np.log(np.array(list(columns.values())).T)
        widening = math.sqrt(losses.inflation_of(losses.centred(y), 8))
        found = [flag for flag in flags if flag.kind == "unsteady"]
        assert all(f.values["widening"] == pytest.approx(widening) and widening > 1 for f in found)
        told += len(found)
    assert told


def test_neighbours_in_other_sessions_are_no_neighbours():
    e, parts = walk(), np.repeat([0, 1, 2], 4)
    centred = np.concatenate([e[parts == i] - e[parts == i].mean(axis=0) for i in range(3)])
    inside = sum(lag_one(own) * float((own**2).sum()) for own in np.split(centred, 3))
    r = inside / float((centred**2).sum())
    assert rule.autocorrelation(e, parts) == pytest.approx(r)
    assert rule.is_unsteady(e, 4, parts) == (r > -1 / 4 + 2.33 * (3 / 4) / math.sqrt(48))


def test_an_arm_that_is_off_by_a_constant_does_not_wander():
    e = np.random.default_rng(1).normal(0, 1, (12, 3))
    e -= e.mean(axis=0)
    plain = float(rule.autocorrelation(e))
    error = float(e[:, 2].std()) / math.sqrt(11)
    far, near = (e + np.array([0, 0, errors * error]) for errors in (6.1, 5.9))
    assert float(rule.autocorrelation(far)) == pytest.approx(plain)
    assert float(rule.autocorrelation(near)) > plain + 0.1


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


def test_a_gate_that_fails_for_one_candidate_is_noticed():
    assert gates_p({}, {"a": 10, "b": 10}) is None
    table = [[8, 2], [10, 10]]
    kept = {"a": 10, "b": 10}
    expected = scipy.stats.fisher_exact(table).pvalue
    assert gates_p({"a": 8, "b": 2}, kept) == pytest.approx(min(1, 2 * expected), rel=1e-6)
    columns = {"none": noisy(1, 6, 1), "kyber": noisy(1, 6, 2)}
    counted = judged(columns, repeated={"kyber": 14}, kept={"none": 6, "kyber": 6})
    assert "gates-unbalanced" in kinds(counted)


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


def test_a_control_is_passed_failed_or_open():
    same = {name: noisy(1, 8, seed, 0.001) for seed, name in enumerate(("none", "kyber"))}
    assert "control-passed" in kinds(judged(same, negative_control=True))
    differ = {"none": noisy(1, 8, 1), "kyber": noisy(1.5, 8, 2)}
    failed = flag_of(judged(differ, negative_control=True), "control-failed")
    assert failed.candidates == ("none",)
    single = judged({"none": [1.0], "kyber": [1.1]}, negative_control=True)
    assert kinds(single) == ["single-run", "control-open"]
    values = flag_of(single, "control-open").values
    assert values == {"reach": 1.0, "margin": pytest.approx(0.02), "unbounded": True}


def test_a_candidate_without_runs_on_a_workload_is_named():
    """It may be the best there, so that "best on both workloads" is true of the others only."""
    samples = [
        Samples(work, METRICS["elapsed_s"], names * 3, (0, 0, 1, 1, 2, 2), (1.0, 2, 1.1, 2, 1, 2.1))
        for work, names in (("w", ("a", "b")), ("v", ("a", "c")), ("u", ("a", "c")))
    ]
    found = limits(answer(samples, baseline="a"), samples, aa=None, blocked=True)
    lacking = {f.candidates: f.values["workloads"] for f in found if f.kind == "lacks-workload"}
    assert lacking == {("b",): ["v", "u"], ("c",): ["w"]}


def test_a_candidate_without_a_name_is_not_taken_for_an_aa_arm():
    """A damaged line of a folder may have one."""
    columns = quiet(8, ("none", "kyber", ""))
    assert judged(columns) == judged(columns, aa=("none", "none (A/A)"))


def test_an_aa_arm_that_differs_is_named_with_the_far_end_of_its_interval():
    columns = quiet(8, ("none", "none (A/A)", "kyber"))
    columns["none (A/A)"] = [1.1 * v for v in columns["none (A/A)"]]
    values = flag_of(judged(columns, aa=("none", "none (A/A)")), "aa-differs").values
    d = np.log(columns["none (A/A)"]) - np.log(columns["none"])
    reach = scipy.stats.t.isf(0.025, 7) * scipy.stats.sem(d)
    assert values["ratio"] == pytest.approx(math.exp(d.mean()))
    assert values["far"] == pytest.approx(math.expm1(d.mean() + reach))


def test_a_claim_is_against_the_best_of_its_row():
    claims = claims_of(answers.TRADE)
    assert len({claim.row for claim in claims}) == len(answers.TRADE.counted) > 1
    for claim in claims:
        cells = answers.TRADE.cells[claim.row]
        assert cells[claim.ahead].loss == 0 and claim.effect == cells[claim.behind].loss > 0
