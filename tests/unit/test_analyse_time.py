"""Differences that change with time, and sessions: what forbids or widens a verdict."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from test_analyse_steps import THROUGHPUT, flag_of, kinds, noisy, sample

from schedlab.analyse import analyse, common_ramp, diff_sessions, rule, session_means, steadiness
from schedlab.analyse.residuals import aging, carry_over, two_modes
from schedlab.analyse.sessions import components, session_headline
from schedlab.spec import Pair


def test_differences_that_wander_give_no_verdict():
    n, rng = 20, np.random.default_rng(4)
    wave = 0.4 * np.sin(np.arange(n) / 3)
    columns = {
        "none": np.exp(rng.normal(0, 0.01, n)).tolist(),
        "kyber": np.exp(wave + 0.1 + rng.normal(0, 0.01, n)).tolist(),
    }
    verdict = analyse([sample(columns)], baseline="none")
    assert verdict.code == "unsteady" and "unsteady" in kinds(verdict)
    assert flag_of(verdict, "unsteady").values["phi"] >= 0.5


def test_a_candidate_that_ages_has_early_and_late_differences():
    n, rng = 16, np.random.default_rng(4)
    slope = np.linspace(-0.5, 0.5, n)
    columns = {
        "none": np.exp(rng.normal(0, 0.05, n)).tolist(),
        "kyber": np.exp(slope + rng.normal(0, 0.05, n)).tolist(),
    }
    values = flag_of(analyse([sample(columns)], baseline="none"), "candidate-time").values
    assert values["changes_sign"]
    assert values["early"]["better"] == "none" and values["late"]["better"] == "kyber"


@pytest.mark.parametrize(("candidates", "noisier"), [(2, 3.0), (4, 10.0)])
def test_a_candidate_that_scatters_more_does_not_age(candidates, noisier):
    """The F-test alone finds 0.05 to 0.13 of them."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(400):
        y = rng.normal(0, 0.01, (8, candidates + 1))
        y[:, 1] *= noisier
        aged = aging(rule.fit(y, baseline=0), 0)
        found += bool(aged.pairs)
    assert found <= 15  # Once in a thousand at a rate of 0.018.


def test_only_the_pairs_of_the_candidate_that_ages_change():
    y = np.random.default_rng(3).normal(0, 0.01, (12, 4))
    y[:, 2] += np.linspace(-0.05, 0.05, 12)
    aged = aging(rule.fit(y), None)
    assert {1, 3, 5} == set(aged.pairs)  # (0, 2), (1, 2), (2, 3)
    first, second = rule.pair_index(4)
    slopes = np.abs(aged.slopes[first] - aged.slopes[second])[list(aged.pairs)]
    assert slopes.tolist() == sorted(slopes, reverse=True)


def test_a_candidate_that_slows_its_follower_is_found():
    rng = np.random.default_rng(1)
    n, effect = 12, math.log(0.9)
    position = np.array([rng.permutation(4) for _ in range(n)])
    y = rng.normal(0, 0.01, (n, 4))
    for row, places in enumerate(position):
        order = np.argsort(places)
        for before, after in itertools.pairwise(order):
            y[row, after] += effect * (before == 1)
    estimate = carry_over(y, np.ones(y.shape, bool), position, None)
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
    assert burst_steadiness.before > 5000 and burst_steadiness.steady
    kernel = [21299, 19691, 13413, *rng.normal(240, 15, 57)]
    assert steadiness(kernel).mean == pytest.approx(240, rel=0.03)
    flat = [steadiness(rng.normal(100, 5, 60)) for _ in range(100)]
    assert sum(each.cut > 0 for each in flat) <= 11
    assert common_ramp([burst, rng.normal(250, 10, 100)])[0] == burst_steadiness.cut
    assert not steadiness(np.linspace(100, 200, 60) + rng.normal(0, 1, 60)).steady


def sessions_of(n, sessions, level, seed, between=0.0):
    rng = np.random.default_rng(seed)
    rows = {"none": [], "kyber": []}
    for _ in range(sessions):
        shift = rng.normal(0, between)
        rows["none"] += np.exp(rng.normal(0, 0.02, n)).tolist()
        rows["kyber"] += (level * np.exp(shift + rng.normal(0, 0.02, n))).tolist()
    names = [f"s{i // n}" for i in range(n * sessions) for _ in rows]
    return sample(rows, sessions=tuple(names))


def test_four_sessions_are_the_units_and_two_must_agree():
    verdict = analyse([sessions_of(6, 4, 2.0, 1, 0.1)], baseline="none")
    judged = verdict.workloads["w"]
    assert (judged.unit, judged.units, judged.blocks) == ("sessions", 4, 24)
    assert verdict.population.claims_sessions and verdict.population.sessions == 4
    assert len(judged.pairs[0].by_session) == 4 and judged.noise.session > 0.02
    rows = {"none": noisy(1, 12, 1), "kyber": [*noisy(1.3, 6, 2), *noisy(0.95, 6, 3)]}
    names = tuple(f"s{i // 6}" for i in range(12) for _ in rows)
    verdict = analyse([sample(rows, sessions=names)], baseline="none")
    assert verdict.overall.pairs[0].verdict == "undecided"
    assert verdict.code in ("sessions-disagree", "unsteady")


@pytest.mark.parametrize(("boots", "claims"), [(1, False), (3, False), (4, True)])
def test_sessions_of_few_boots_claim_nothing_about_boots(boots, claims):
    rows = {"none": noisy(1, 8, 1), "kyber": noisy(1.3, 8, 2)}
    names = tuple(f"boot{i % 4 % boots}-layout{i % 4}" for i in range(8) for _ in rows)
    of = analyse([sample(rows, sessions=names)], baseline="none").population
    assert (of.sessions, of.boots) == (4, boots)
    assert of.claims_sessions and of.claims_boots == claims


def test_diff_takes_sessions_as_units():
    one = diff_sessions([0.3], [0.0], margin=0.02, higher_is_better=True)
    assert one.verdict == "undecided" and math.isinf(one.half_width)
    two = diff_sessions([0.30, 0.31, 0.29], [0.0, 0.01, 0.02], margin=0.02, higher_is_better=True)
    assert two.verdict == "better"
    loose = diff_sessions([0.5, 0.1], [0.0, 0.4], margin=0.02, higher_is_better=True)
    assert loose.verdict == "undecided"
    levels = ([5.0, 9.0], [1.0, 3.0])
    fixed = diff_sessions(
        [5.3, 9.31], [1.0, 3.01], margin=0.02, higher_is_better=True, baseline=levels
    )
    assert fixed.difference == pytest.approx(0.3) and fixed.relative
    means = session_means([math.e, math.e, 1.0], ["a", "a", "b"], [0, 0, 1])
    assert means == pytest.approx({"a": 1.0, "b": 0.0})


def test_components_tell_sessions_from_blocks():
    rng = np.random.default_rng(9)
    parts = [rng.normal(rng.normal(0, 1), 0.5, 40) for _ in range(40)]
    estimate = components(parts)
    assert estimate.within == pytest.approx(0.5, rel=0.1)
    assert estimate.between == pytest.approx(1.0, rel=0.3)


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
    assert 0 < phi < 0.95 and rule.wandering(e, k) == pytest.approx(phi)
    assert rule.wandering(np.repeat(e, 30, axis=0), k) == 0.95
    assert rule.wandering(e * (-1.0) ** np.arange(n)[:, None], k) == 0
    for spread, unsteady in ((0.001, True), (1000.0, False)):
        mixed = e + np.random.default_rng(1).normal(0, spread, e.shape)
        limit = -1 / n + 2.33 * (1 - 1 / n) / math.sqrt(n * k)
        assert rule.is_unsteady(mixed, k) == (lag_one(mixed) > limit) == unsteady


def test_neighbours_in_other_sessions_are_no_neighbours():
    e, parts = walk(), np.repeat([0, 1, 2], 4)
    centred = np.concatenate([e[parts == i] - e[parts == i].mean(axis=0) for i in range(3)])
    inside = sum(lag_one(own) * float((own**2).sum()) for own in np.split(centred, 3))
    r = inside / float((centred**2).sum())
    assert rule.autocorrelation(e, parts) == pytest.approx(r)
    shares = (e**2).sum(axis=0)
    alike = shares.sum() ** 2 / (shares**2).sum() / 4
    phi = (r + 1 / 4) * (1 + 4 / 4) - 1 / math.sqrt(12 * 4 * alike)
    assert rule.wandering(e, 4, parts) == pytest.approx(min(max(phi, 0), 0.95))
    assert rule.is_unsteady(e, 4, parts) == (r > -1 / 4 + 2.33 * (3 / 4) / math.sqrt(48))


def test_an_arm_that_is_off_by_a_constant_does_not_wander():
    e = np.random.default_rng(1).normal(0, 1, (12, 3))
    e -= e.mean(axis=0)
    plain = float(rule.autocorrelation(e))
    error = float(e[:, 2].std()) / math.sqrt(11)
    far, near = (e + np.array([0, 0, errors * error]) for errors in (6.1, 5.9))
    assert float(rule.autocorrelation(far)) == pytest.approx(plain)
    assert float(rule.autocorrelation(near)) > plain + 0.1


@pytest.mark.parametrize("phi", [0.1, 0.6, 0.95])
def test_the_widening_by_its_definition(phi):
    n, alpha, pairs = 10, 0.05, 6
    inflation = (1 + phi) / (1 - phi)
    effective = max(3.0, n / inflation)
    scale = math.sqrt(inflation * (n - 1) / n / (1 - 1 / effective))
    level = 0.4 * alpha / pairs / 2
    ratio = stats.t.isf(level, effective - 1) / stats.t.isf(level, n - 1)
    assert rule.widening(np.asarray(phi), n, alpha, pairs) == pytest.approx(scale * ratio)
    assert rule.widening(np.zeros(1), n, alpha, pairs) == 1


def test_variance_components_by_hand():
    parts = [np.array([1.0, 3.0]), np.array([5.0, 9.0, 7.0])]
    estimate = components(parts)
    within = (2 + 8) / 3
    size = 2 / (1 / 2 + 1 / 3)
    assert estimate.within == pytest.approx(math.sqrt(within))
    assert estimate.between == pytest.approx(math.sqrt(25 / 2 - within / size))
    assert estimate.error(4, 6) == pytest.approx(
        math.sqrt((25 / 2 - within / size + within / 6) / 4)
    )
    assert components(parts[:1]) is None and components([parts[0], parts[1][:1]]) is None
    assert components([parts[0], parts[0]]).between == 0


def test_sessions_that_decide_nothing_say_what_would_have_shown():
    difference = diff_sessions([0.5, 0.1], [0.0, 0.4], margin=0.02, higher_is_better=True)
    means = ([0.5, 0.1], [0.0, 0.4])
    half = stats.t.isf(0.025, 2) * math.hypot(*(stats.sem(side) for side in means))
    assert difference.half_width == pytest.approx(half)
    pair = Pair("a", "b", math.exp(0.1), None, None, "undecided")
    headline = session_headline(("a", "b"), difference, pair, THROUGHPUT, "w", 0.02)
    assert headline.values["mdd"] == pytest.approx(math.exp(0.1 + half) - 1)
    pairs = diff_sessions([0.5, 0.1], [0.0, 0.4], margin=0.02, higher_is_better=True, comparisons=5)
    assert pairs.half_width == pytest.approx(half * stats.t.isf(0.005, 2) / stats.t.isf(0.025, 2))
