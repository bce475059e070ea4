"""Headlines: what they say of a result, and what they must not say."""

import math

import numpy as np
import pytest
from test_analyse_steps import P99, THROUGHPUT, flag_of, noisy, sample

from schedlab.analyse import analyse
from schedlab.analyse.pairs import between
from schedlab.spec import Fact

NAMES = ("none", "mq-deadline", "bfq", "kyber")


def far_end(pairs):
    """The farthest end of the intervals of the open pairs, as a share."""
    open_pairs = [pair for pair in pairs if pair.verdict == "undecided"]
    return math.exp(max(abs(math.log(end)) for p in open_pairs for end in (p.low, p.high))) - 1


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_an_interval_allows_would_have_been_noticed(seed):
    columns = {c: noisy(1, 12, 10 * seed + i, 0.01) for i, c in enumerate(NAMES)}
    columns["kyber"] = noisy(1.2, 12, 10 * seed + 7, 0.25)
    verdict = analyse([sample(columns)], baseline="none")
    judged = verdict.workloads["w"]
    best = between(judged.pairs, judged.best_set)
    assert verdict.code in ("too-early", "no-difference-seen")
    mdd = verdict.headline.values["mdd"]
    assert mdd == judged.mdd >= far_end(best)
    assert far_end(best) > 0.2 and flag_of(verdict, "uneven-noise").values["noisiest"] == "kyber"
    if verdict.code == "too-early":
        assert verdict.headline.values["smaller"] < mdd


def test_the_blocks_that_a_noisy_candidate_needs_follow_from_its_own_noise():
    """Pooled over four candidates its noise looks half as large, and a quarter of the blocks."""
    columns = {c: noisy(1, 12, i, 0.01) for i, c in enumerate(NAMES)} | {
        "kyber": noisy(1.15, 12, 4, 0.25)
    }
    alone = analyse([sample({c: columns[c] for c in ("none", "kyber")})], baseline="none")
    pair = next(p for p in alone.overall.pairs if p.b == "kyber")
    together = analyse([sample(columns)], baseline="none")
    low, high = next(
        p.blocks_needed for p in together.overall.pairs if {p.a, p.b} == {"none", "kyber"}
    )
    assert pair.blocks_needed[0] <= low and pair.blocks_needed[1] <= high


def test_a_difference_below_that_of_the_baseline_from_itself_is_no_verdict():
    columns = {
        "none": noisy(1, 8, 1, 0.01), "bfq": noisy(1.25, 8, 2, 0.01), "aa": noisy(1.3, 8, 3, 0.01),
    }  # fmt: skip
    verdict = analyse([sample(columns)], baseline="none", aa=("none", "aa"))
    assert (verdict.code, verdict.headline.values["why"]) == ("no-verdict", "aa-differs")
    assert Fact.of(verdict.headline.values["gain"]).better == "bfq"
    assert verdict.overall.needed is None and verdict.overall.pairs[0].blocks_needed is None


def test_a_claim_that_many_workloads_forbid_is_named():
    works = []
    for i in range(6):
        rng = np.random.default_rng(i)
        columns = {c: (np.exp(rng.normal(0, 0.02, 8))).tolist() for c in ("none", "bfq", "kyber")}
        if not i:
            columns["bfq"] = (1.06 * np.array(columns["bfq"])).tolist()
        works.append(sample(columns, workload=f"w{i}"))
    verdict = analyse(works, baseline="none")
    withheld = [
        of for of in verdict.workloads.values() if any("not-after-W" in p.codes for p in of.pairs)
    ]
    assert withheld
    for of in withheld:
        assert (of.code, of.headline.values["why"]) == ("no-verdict", "not-after-W")
        assert of.needed is None


def test_a_candidate_that_starved_in_half_of_its_runs_is_named_with_their_number():
    columns = {"none": noisy(1, 8, 1, 0.05), "bfq": noisy(0.97, 8, 2, 0.05)}
    columns["bfq"] = [v * (0.9 if i % 2 else 1) for i, v in enumerate(columns["bfq"])]
    bounds = tuple("at-least" if c == "bfq" and b % 2 else "" for b in range(8) for c in columns)
    verdict = analyse([sample(columns, P99, bounds=bounds)], baseline="none")
    values = verdict.headline.values
    assert (verdict.code, values["why"], values["starved"]) == (
        "no-verdict", "one-way", [["bfq", 4, 8]],
    )  # fmt: skip
    assert verdict.workloads["w"].mdd is None and verdict.overall.needed is None


@pytest.mark.parametrize(("level", "helps"), [(1.06, True), (0.94, False)])
def test_more_blocks_decide_a_bound_only_where_it_looks_worse(level, helps):
    columns = {"none": noisy(1, 8, 1, 0.05), "bfq": noisy(level, 8, 2, 0.05)}
    bounds = tuple("at-least" if c == "bfq" and b == 3 else "" for b in range(8) for c in columns)
    (pair,) = analyse([sample(columns, P99, bounds=bounds)], baseline="none").overall.pairs
    assert pair.verdict == "undecided" and (pair.blocks_needed is not None) == helps
    turned = {name: [1 / v for v in column] for name, column in columns.items()}
    bounds = tuple("at-most" if bound else "" for bound in bounds)
    (pair,) = analyse([sample(turned, THROUGHPUT, bounds=bounds)], baseline="none").overall.pairs
    assert pair.verdict == "undecided" and (pair.blocks_needed is not None) == helps


@pytest.mark.parametrize("aa", [False, True])
@pytest.mark.parametrize(("wild", "times"), [("bfq", 60), ("bfq", 1 / 60), ("none", 60)])
def test_the_candidate_with_a_wild_run_is_named_and_not_called_slow(wild, times, aa):
    columns = {"none": noisy(1, 12, 1, 0.01), "bfq": noisy(0.8, 12, 2, 0.01)}
    columns |= {"aa": noisy(1, 12, 3, 0.01)} if aa else {}
    columns[wild][3] *= times
    arm = ("none", "aa") if aa else None
    verdict = analyse([sample(columns)], baseline="none", aa=arm)
    values = verdict.headline.values
    assert (verdict.code, values["a"]) == ("rare-run", "none")
    assert (values["of"], values["wild_blocks"], values["blocks"]) == (wild, 1, 12)
    assert values["factor"] == pytest.approx(60, rel=0.1)
    outliers = [f for f in verdict.workloads["w"].flags if f.kind == "outlier"]
    assert [f.candidates for f in outliers] == [(wild,)]


def test_of_two_candidates_that_both_jumped_none_is_blamed():
    columns = {"none": noisy(1, 12, 1, 0.01), "bfq": noisy(0.8, 12, 2, 0.01)}
    columns["none"][3] /= 60
    columns["bfq"][3] *= 60
    verdict = analyse([sample(columns)], baseline="none")
    assert (verdict.code, verdict.headline.values["of"]) == ("rare-run", "")


def test_a_candidate_is_unfinished_only_on_its_workload():
    works = []
    for workload, late in (("a", ("bfq",)), ("b", ("kyber",)), ("c", ("bfq", "kyber"))):
        columns = {
            c: noisy(50 if c in late else 1, 8, i, 0.02)
            for i, c in enumerate(("none", "bfq", "kyber"))
        }
        bounds = tuple("at-least" if c in late else "" for _ in range(8) for c in columns)
        works.append(sample(columns, P99, workload, bounds=bounds))
    verdict = analyse(works, baseline="none")
    values = verdict.headline.values
    assert (verdict.code, values["name"], values["workload"]) == ("did-not-finish", "bfq", "a")
    assert values["names"] == ["bfq"]
    assert values["elsewhere"] == [["b", ["kyber"]], ["c", ["bfq", "kyber"]]]


def work(name, **means):
    """A workload of 8 blocks; a candidate is its log mean, or (mean, spread)."""
    columns = {}
    for i, (label, mean) in enumerate(means.items()):
        level, spread = mean if isinstance(mean, tuple) else (mean, 0.01)
        columns[label] = noisy(math.exp(level), 8, 7 * len(name) + ord(name[0]) + i, spread)
    return sample(columns, workload=name)


def test_nothing_is_decided_only_where_no_pair_is():
    works = [
        work("a", none=0, bfq=0.3, kyber=0),
        work("b", none=0, bfq=(0, 0.5), kyber=-0.5),
        work("c", none=0, bfq=(0, 0.5), kyber=(0, 0.5)),
    ]
    verdict = analyse(works, baseline="none")
    values = verdict.headline.values
    assert (verdict.code, values["name"], values["won"]) == ("best-on", "bfq", ["a"])
    assert (values["others"], values["undecided"]) == (["c"], ["b"])


def test_a_candidate_is_best_only_where_no_other_one_is_better():
    works = [
        work("a", none=0, bfq=0.5, kyber=0),
        work("b", none=0, bfq=0.2, kyber=0.4),
        work("c", none=0, bfq=(0, 1.2), kyber=(0, 1.2)),
    ]
    verdict = analyse(works, baseline="none")
    values = verdict.headline.values
    assert (verdict.code, values["names"], values["won"]) == ("best-on", ["bfq"], ["a"])
    (also,) = map(Fact.of, values["also"])
    assert (also.better, also.worse, also.workload) == ("bfq", "none", "b")
    assert values["price"]["kind"] == "rival" and values["others"] == ["c"]


def test_those_that_share_the_lead_are_named_together():
    works = [
        work("a", none=0, bfq=0.3, kyber=0.301),
        work("b", none=0, bfq=(0, 1.2), kyber=(0, 1.2)),
        work("d", none=0, bfq=0.2, kyber=0),
    ]
    verdict = analyse(works, baseline="none")
    values = verdict.headline.values
    assert verdict.workloads["a"].best_set == ("bfq", "kyber")
    assert (verdict.code, sorted(values["names"]), values["won"]) == (
        "best-on", ["bfq", "kyber"], ["a"],
    )  # fmt: skip
    assert [(Fact.of(f).better, Fact.of(f).workload) for f in values["also"]] == [("bfq", "d")]


@pytest.mark.parametrize("where", ["a", "d"])
def test_a_loser_is_not_named_where_another_one_gains_as_much_without_a_loss(where):
    means = {"a": {"kyber": 0.3}, "b": {"bfq": (0, 0.5), "kyber": -0.5}, "d": {}}
    means[where]["bfq"] = 0.31
    works = [work(name, **({"none": 0, "bfq": 0, "kyber": 0} | means[name])) for name in means]
    verdict = analyse(works, baseline="none")
    assert "bfq" in verdict.overall.best_set
    assert (verdict.code, verdict.headline.values["name"]) == ("best-on", "bfq")


def test_a_small_gain_elsewhere_does_not_hide_that_it_depends_on_the_work():
    works = [
        work("a", none=0, bfq=0, kyber=3),
        work("b", none=0, bfq=(0, 0.5), kyber=-3),
        work("d", none=0, bfq=0.1, kyber=0),
    ]
    verdict = analyse(works, baseline="none")
    assert (verdict.code, verdict.headline.values["name"]) == ("depends", "kyber")
