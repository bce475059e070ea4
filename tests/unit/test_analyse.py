"""The verdict of blocked experiments with known answers."""

import json

import numpy as np
import pytest

from schedlab.analyse import analyse
from schedlab.errors import SpecError
from schedlab.spec import METRICS, Samples, Verdict, from_json, to_json

THROUGHPUT = METRICS["throughput_bytes_per_s"]
ELAPSED = METRICS["elapsed_s"]
TWIN = ("none", "none (A/A)")


def simulated(
    n=12, effects=None, noise=0.005, seed=1, metric=THROUGHPUT, workload="w", twin=True, **more
):
    """n random blocks; `effects` maps candidates to shares beside the baseline `none`."""
    rng = np.random.default_rng(seed)
    effects = {"none": 0.0, **(effects or {})} | ({TWIN[1]: 0.0} if twin else {})
    rows = []
    for block in range(n):
        for label in rng.permutation(list(effects)):
            value = 1e8 * (1 + effects[str(label)]) * np.exp(rng.normal() * noise)
            rows.append((str(label), block, float(value)))
    labels, blocks, values = zip(*rows, strict=True)
    return Samples(workload, metric, labels, blocks, values, **more)


def verdict_of(*samples, **more):
    order = ("none", "kyber", "bfq")
    return analyse(samples, baseline="none", aa=TWIN, candidates=order, **more)


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
    assert verdict.overall.reason == "winner" and verdict.decided
    assert verdict.statement.startswith("kyber is best of 3; it is faster than none by ")
    found = pair(verdict, "none", "kyber")
    assert found.low < 1 / 1.2 < found.high


def test_lower_is_better_turns_the_words_but_not_the_ratio():
    verdict = verdict_of(simulated(effects={"kyber": 0.2}, metric=ELAPSED))
    found = pair(verdict, "none", "kyber")
    assert found.ratio < 1 and found.verdict == "better"
    assert verdict.overall.best_set == ("none",)
    assert "lower elapsed time than kyber" in verdict.statement


def test_equal_candidates_are_tied_and_the_twin_is_no_candidate():
    verdict = verdict_of(simulated(effects={"kyber": 0.0, "bfq": 0.0}, n=16))
    assert verdict.statement == "none, kyber and bfq are tied within 2 %"
    assert verdict.overall.best_set == ("none", "kyber", "bfq")
    assert 0 <= verdict.overall.noise_floor < 0.01


def test_noise_hides_the_difference_and_the_sentence_says_how_much_more_it_takes():
    verdict = verdict_of(simulated(effects={"kyber": 0.06}, noise=0.03, n=8))
    assert verdict.overall.reason == "not-separated"
    assert "not separated yet: about " in verdict.statement
    low, high = verdict.overall.pairs[0].blocks_needed
    assert 1 <= low < high


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_blocks_give_no_or_wide_intervals(n):
    verdict = verdict_of(simulated(n=n, effects={"kyber": 0.03}, noise=0.02))
    found = verdict.overall.pairs[0]
    if n == 1:
        assert found.low is None and found.verdict == "undecided"
        assert "no interval can be given" in verdict.statement
        assert [flag.kind for flag in verdict.workloads["w"].flags] == ["single-run"]
    else:
        assert found.low < found.ratio < found.high


def test_overall_mixes_directions_as_performance():
    fast = simulated(effects={"kyber": 0.2}, workload="a")
    short = simulated(effects={"kyber": -0.2}, workload="b", metric=ELAPSED, seed=2)
    verdict = verdict_of(fast, short)
    assert verdict.overall.higher_is_better
    assert verdict.overall.best_set == ("kyber",)
    assert verdict.overall.best_everywhere == ("kyber",)
    assert pair(verdict, "none", "kyber").ratio == pytest.approx((1.2 * 1 / 0.8) ** -0.5, rel=0.01)


def test_verdict_survives_json():
    verdict = verdict_of(simulated(effects={"kyber": 0.2}))
    again = from_json(Verdict, json.loads(json.dumps(to_json(verdict))))
    assert again.overall.pairs == verdict.overall.pairs


def test_a_baseline_without_runs_and_nothing_at_all_are_errors():
    with pytest.raises(SpecError, match="baseline 'cfq' has no run"):
        analyse([simulated()], baseline="cfq")
    with pytest.raises(SpecError, match="nothing to analyse"):
        analyse([], baseline="none")
