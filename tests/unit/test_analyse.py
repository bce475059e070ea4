"""The verdict of blocked experiments with known answers, in codes and numbers."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedlab.analyse import analyse
from schedlab.errors import SpecError
from schedlab.spec import METRICS, Fact, Samples, Verdict, from_json, to_json

THROUGHPUT = METRICS["throughput_bytes_per_s"]
ELAPSED = METRICS["elapsed_s"]
AA = ("none", "none (A/A)")


def simulated(
    n=12, effects=None, noise=0.005, seed=1, metric=THROUGHPUT, workload="w", aa=True, **more
):
    """n random blocks; `effects` maps candidates to shares beside the baseline `none`."""
    rng = np.random.default_rng(seed)
    effects = {"none": 0.0, **(effects or {})} | ({AA[1]: 0.0} if aa else {})
    rows = []
    for block in range(n):
        for label in rng.permutation(list(effects)):
            value = 1e8 * (1 + effects[str(label)]) * np.exp(rng.normal() * noise)
            rows.append((str(label), block, float(value)))
    labels, blocks, values = zip(*rows, strict=True)
    return Samples(workload, metric, labels, blocks, values, **more)


def verdict_of(*samples, **more):
    order = ("none", "kyber", "bfq")
    return analyse(samples, baseline="none", aa=AA, candidates=order, **more)


def pair(verdict, a, b):
    return next(p for p in verdict.overall.pairs if (p.a, p.b) == (a, b))


def test_a_clear_winner_and_every_pair_once_in_candidate_order():
    verdict = verdict_of(simulated(effects={"kyber": 0.2, "bfq": -0.1}))
    assert [(p.a, p.b) for p in verdict.overall.pairs] == [
        ("none", "kyber"),
        ("none", "bfq"),
        ("kyber", "bfq"),
    ]
    assert [p.verdict for p in verdict.overall.pairs] == ["worse", "better", "better"]
    assert verdict.overall.best_set == ("kyber",)
    assert verdict.code == "winner" and verdict.decided
    gain = Fact.of(verdict.headline.values["gain"])
    assert (gain.better, gain.worse) == ("kyber", "none")
    assert gain.low < 1.2 < gain.high and gain.ratio == pytest.approx(1.2, rel=0.01)
    assert Fact.of(verdict.headline.values["runner_up"]).worse == "none"


def test_lower_is_better_turns_the_words_but_not_the_ratio():
    verdict = verdict_of(simulated(effects={"kyber": 0.2}, metric=ELAPSED))
    comparison = pair(verdict, "none", "kyber")
    assert comparison.ratio < 1 and comparison.verdict == "better"
    assert verdict.code == "keep"
    loss = Fact.of(verdict.headline.values["loss"])
    assert (loss.better, loss.worse, loss.higher_is_better) == ("none", "kyber", False)
    assert loss.ratio == pytest.approx(1.2, rel=0.01) and 1 < loss.low < loss.ratio < loss.high


def test_equal_candidates_are_tied_and_the_aa_arm_is_no_candidate():
    verdict = verdict_of(simulated(effects={"kyber": 0.0, "bfq": 0.0}, n=16))
    assert verdict.code == "tied" and verdict.decided
    assert verdict.headline.values["names"] == ["none", "kyber", "bfq"]
    assert verdict.overall.mdd < 0.04
    assert verdict.overall.noise.aa_low < 1 < verdict.overall.noise.aa_high


def test_losers_of_a_tie_are_named_with_what_they_lose():
    verdict = verdict_of(simulated(effects={"kyber": 0.0, "bfq": -0.3}, n=16))
    assert verdict.code == "tied"
    (loss,) = verdict.headline.values["losers"]
    assert Fact.of(loss).worse == "bfq" and Fact.of(loss).ratio == pytest.approx(1 / 0.7, rel=0.02)


def test_a_tie_names_what_separates_its_members():
    slower = simulated(effects={"kyber": 0.0, "bfq": 0.2}, metric=ELAPSED, n=16)
    for noise, code in ((0.005, "tied"), (0.3, "no-difference-seen")):
        same = simulated(effects={"kyber": 0.0, "bfq": 0.0}, noise=noise, n=16)
        verdict = verdict_of(same, secondary=[slower])
        assert verdict.code == code
        cost = verdict.headline.values["cost"]
        fact = Fact.of(cost["fact"])
        assert (fact.better, fact.worse, fact.metric) == ("none", "bfq", ELAPSED.name)
        assert fact.ratio == pytest.approx(1.2, rel=0.01)
        assert (cost["names"], cost["more"], cost["actor"]) == (["bfq"], 0, "")
        alone = verdict_of(same, secondary=[simulated(metric=ELAPSED, n=16)])
        assert alone.headline.values["cost"] is None


def test_blocks_that_nobody_waits_for_are_not_advised():
    noisy = simulated(effects={"kyber": 0.0, "bfq": 0.0}, noise=0.02, n=6)
    verdict = verdict_of(noisy, seconds_per_block=900.0)
    assert verdict.overall.needed.blocks > 40
    assert verdict.code == "no-difference-seen"
    assert verdict_of(simulated(effects={"kyber": 0.06}, noise=0.03, n=8)).code == "too-early"


def test_too_early_says_what_more_blocks_would_show():
    verdict = verdict_of(simulated(effects={"kyber": 0.06}, noise=0.03, n=8), seconds_per_block=9.0)
    assert verdict.code == "too-early" and not verdict.decided
    values = verdict.headline.values
    assert values["names"] == ["none", "kyber"]
    assert 1 <= values["blocks_low"] <= values["blocks"] <= values["blocks_high"]
    assert values["time_s"] == 9.0 * values["blocks"]
    assert values["smaller"] < values["mdd"] == verdict.overall.mdd
    low, high = verdict.overall.pairs[0].blocks_needed
    assert 1 <= low <= high


def test_figures_that_jump_are_too_noisy():
    verdict = verdict_of(simulated(effects={"kyber": 0.1}, noise=0.8, n=4, seed=3))
    assert verdict.code == "too-noisy" and verdict.headline.values["mdd"] > 1


def test_few_blocks_are_too_early_and_not_noise():
    verdict = verdict_of(simulated(effects={"kyber": 0.1}, noise=0.1, n=2, seed=3))
    assert verdict.code == "too-early" and verdict.headline.values["mdd"] > 1
    assert verdict.headline.values["blocks"] <= 40


def test_one_block_gives_numbers_and_no_interval():
    verdict = verdict_of(simulated(n=1, effects={"kyber": 0.3}))
    comparison = verdict.overall.pairs[0]
    assert comparison.low is None and comparison.verdict == "undecided"
    assert verdict.code == "single"
    assert "single-run" in [flag.kind for flag in verdict.workloads["w"].flags]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_82_times_at_5_percent_noise_is_a_verdict_from_two_blocks(n):
    effects = {"kyber": 0.0, "mq-deadline": 0.0, "bfq": 81.0}
    verdict = verdict_of(simulated(n=n, effects=effects, noise=0.05, seed=n))
    assert verdict.code == "winner" and verdict.overall.best_set == ("bfq",)
    gain = Fact.of(verdict.headline.values["gain"])
    assert 1 < gain.low < 82 < gain.high


def test_82_times_at_10_percent_noise_is_a_verdict_from_three_blocks():
    effects = {"kyber": 0.0, "mq-deadline": 0.0, "bfq": 81.0}
    for seed in range(20):
        verdict = verdict_of(simulated(n=3, effects=effects, noise=0.1, seed=seed))
        assert verdict.code == "winner" and verdict.overall.best_set == ("bfq",)


def test_82_times_survives_the_widening_by_chance():
    effects = {"kyber": 0.0, "mq-deadline": 0.0, "bfq": 81.0}
    for seed in range(100):
        verdict = verdict_of(simulated(n=8, effects=effects, noise=0.1, seed=seed))
        assert verdict.code == "winner" and verdict.overall.best_set == ("bfq",)


def test_overall_mixes_directions_as_performance():
    fast = simulated(effects={"kyber": 0.2}, workload="a")
    short = simulated(effects={"kyber": -0.2}, workload="b", metric=ELAPSED, seed=2)
    verdict = verdict_of(fast, short)
    assert verdict.overall.higher_is_better and verdict.overall.metric is None
    assert verdict.overall.best_set == ("kyber",)
    assert verdict.overall.best_everywhere == "kyber"
    assert pair(verdict, "none", "kyber").ratio == pytest.approx((1.2 * 1 / 0.8) ** -0.5, rel=0.01)


def test_verdict_survives_json():
    verdict = verdict_of(simulated(effects={"kyber": 0.2}), secondary=[simulated(metric=ELAPSED)])
    again = from_json(Verdict, json.loads(json.dumps(to_json(verdict))))
    assert again.overall.pairs == verdict.overall.pairs
    assert Fact.of(again.headline.values["gain"]) == Fact.of(verdict.headline.values["gain"])


def test_a_baseline_without_runs_and_nothing_at_all_are_errors():
    with pytest.raises(SpecError, match="baseline 'cfq' has no run"):
        analyse([simulated()], baseline="cfq")
    with pytest.raises(SpecError, match="nothing to analyse"):
        analyse([], baseline="none")


def fingerprint(verdict, names=None):
    """Verdicts and bounds by pair of (renamed) candidates, the pair in alphabetical order."""
    result = {}
    for p in verdict.overall.pairs:
        a, b = ((names or {}).get(x, x) for x in (p.a, p.b))
        turned = a > b
        # One block has no interval.
        low, high = (math.nan if end is None else math.log(end) for end in (p.low, p.high))
        low, high = (-high, -low) if turned else (low, high)
        word = {"better": "worse", "worse": "better"}.get(p.verdict, p.verdict)
        result[min(a, b), max(a, b)] = (word if turned else p.verdict, low, high)
    return result


def same(one, other):
    assert one.keys() == other.keys()
    for key, (word, low, high) in one.items():
        assert other[key][0] == word
        assert other[key][1:] == pytest.approx((low, high), abs=1e-9, nan_ok=True)


@settings(max_examples=200, deadline=None)
@example(seed=328420, n=2, exponent=0.0, effect=0.0, share=0.06)  # misses runs of a block
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 9),
    exponent=st.floats(-9, 9),
    effect=st.floats(-0.3, 0.3),
    share=st.sampled_from([0.0, 0.06]),
)
def test_units_names_order_and_block_levels_change_nothing(seed, n, exponent, effect, share):
    rng = np.random.default_rng(seed)
    plain = simulated(n=n, effects={"kyber": effect, "bfq": 0.01}, noise=0.03, seed=seed)
    keep = [i for i in range(len(plain.values)) if rng.random() >= share or plain.blocks[i] == 0]

    def picked(order, values, names=lambda x: x):
        return Samples(
            "w",
            THROUGHPUT,
            tuple(names(plain.candidates[i]) for i in order),
            tuple(plain.blocks[i] for i in order),
            tuple(float(values[i]) for i in order),
        )

    values = np.array(plain.values)
    expected = fingerprint(verdict_of(picked(keep, values)))
    same(expected, fingerprint(verdict_of(picked(keep, values * 10**exponent))))
    levels = np.exp(rng.normal(0, 1, n))[list(plain.blocks)]
    same(expected, fingerprint(verdict_of(picked(keep, values * levels))))
    # Inside a block the order is that of the runs, and what a run leaves to the next one counts.
    place = rng.permutation(n)
    shuffled = picked(sorted(keep, key=lambda i: place[plain.blocks[i]]), values)
    same(expected, fingerprint(verdict_of(shuffled)))
    names = {"none": "x", "none (A/A)": "x (A/A)", "kyber": "b", "bfq": "z"}
    renamed = analyse(
        [picked(keep, values, names.get)],
        baseline="x",
        aa=("x", "x (A/A)"),
        candidates=("z", "b", "x"),
    )
    same(expected, fingerprint(renamed, {new: old for old, new in names.items()}))
    nudged = values * (1 + 1e-13 * rng.choice([-1, 1], len(values)))
    for key, (word, low, high) in fingerprint(verdict_of(picked(keep, nudged))).items():
        delta = math.log1p(0.02)
        near = min(abs(abs(low) - delta), abs(abs(high) - delta)) < 2e-9
        assert near or word == expected[key][0]
