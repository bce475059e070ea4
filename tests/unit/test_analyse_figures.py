"""Figures of a verdict against truth that is known: power, levels, means, precision, sessions."""

import math
from dataclasses import replace

import numpy as np
import pytest

from schedlab.analyse import analyse, detectable, rule
from schedlab.analyse.decide import is_precise
from schedlab.analyse.doubts import aa_interval
from schedlab.analyse.looks import level_at
from schedlab.spec import AA_SUFFIX, METRICS, Pair, Samples, Stopping

RATE = METRICS["throughput_bytes_per_s"]
AA = ("none", f"none{AA_SUFFIX}")
DELTA = math.log1p(0.02)


def sample(columns, workload="w", sessions=(), **more):
    """A run of each candidate per block, in logs; `sessions` names the session of each block."""
    count = len(next(iter(columns.values())))
    rows = [(c, b, math.exp(logs[b])) for b in range(count) for c, logs in columns.items()]
    labels, blocks, values = zip(*rows, strict=True)
    named = tuple(sessions[block] for block in blocks) if sessions else ()
    return Samples(workload, RATE, labels, blocks, values, sessions=named, **more)


@pytest.mark.parametrize("alpha", [0.05, 0.0148, 0.0083])
def test_the_smallest_visible_difference_is_seen_four_times_in_five_at_every_level(alpha):
    """Also at the levels of interim analyses, where intervals are wider."""
    rng, blocks, spread = np.random.default_rng(1), 8, 0.05
    runs = rng.normal(0, spread, (1000, blocks, 5))  # four candidates and the A/A arm
    runs[..., 1] -= math.log1p(detectable(spread, blocks, 4, 0.02, alpha))
    fitted = rule.fit(runs, baseline=0)
    seen = fitted.mean[:, 0] - rule.half_width(fitted, alpha)[:, 0] > DELTA
    assert seen.mean() == pytest.approx(0.8, abs=0.06)


def test_the_mean_of_the_baseline_is_of_its_runs_under_both_names():
    columns = {"none": [0.0] * 6, AA[1]: [math.log(1.21)] * 6, "bfq": [1.0] * 6}
    rows = analyse([sample(columns)], baseline="none", aa=AA).workloads["w"].candidates
    assert (rows[0].candidate, rows[0].runs) == ("none", 12)
    assert rows[0].geometric_mean == pytest.approx(1.1)
    assert rows[1].runs == 6


def test_precise_is_an_experiment_whose_widest_interval_is_narrow():
    verdict = analyse([sample({"none": [0, 0.01] * 4, "bfq": [0.1] * 8})], baseline="none")
    narrow, wide = (Pair("none", "bfq", 1.0, 1 / w, w, "undecided") for w in (1.01, 1.1))
    verdict = replace(verdict, overall=replace(verdict.overall, pairs=(narrow, wide, narrow)))
    assert not is_precise(verdict, 0.05)
    assert is_precise(verdict, 0.101)


def test_sessions_with_opposite_signs_make_no_claim_however_few_blocks_one_has():
    noise = np.random.default_rng(3).normal(0, 0.12, 19)
    gain = [*(0.3 + noise - noise.mean()), -0.01]
    columns = {"none": [0.0] * 20, "bfq": gain}
    sessions = ["first"] * 19 + ["second"]
    pair = analyse([sample(columns, sessions=sessions)], baseline="none").overall.pairs[0]
    assert pair.verdict == "undecided" and "sessions-disagree" in pair.codes
    columns["bfq"][-1] = 0.01  # the same sign: a claim, and no F-test against it
    pair = analyse([sample(columns, sessions=sessions)], baseline="none").overall.pairs[0]
    assert pair.verdict == "worse" and not pair.codes


def test_the_interval_of_the_a_a_arm_is_simultaneous_over_the_workloads():
    rng = np.random.default_rng(4)
    works = []
    for number in range(5):
        columns = {name: rng.normal(0, 0.01, 10).tolist() for name in (*AA, "bfq")}
        works.append(sample(columns, f"w{number}"))
    verdict = analyse(works, baseline="none", aa=AA, stopping=Stopping("fixed", 10))
    of = verdict.workloads["w0"].noise
    logs = np.log(works[0].values).reshape(10, 3)[:, [0, 2, 1]]
    expected = aa_interval(logs, 0, np.zeros(10, np.intp), 0.05 / 5)
    assert math.log(of.aa_high / of.aa_low) / 2 == pytest.approx(expected.half_width)


def test_a_candidate_that_starves_in_one_block_has_finished_in_the_others():
    columns = {"none": [0.0] * 8, "bfq": [math.log(0.05)] * 8}
    for starved, code in ((1, "keep"), (8, "did-not-finish")):
        bounds = tuple("at-most" if i % 2 and i < 2 * starved else "" for i in range(16))
        verdict = analyse([sample(columns, bounds=bounds)], baseline="none")
        assert verdict.code == code
        assert verdict.workloads["w"].candidates[1].starved == starved


def test_an_early_look_is_judged_at_its_own_level_also_when_more_blocks_came():
    """At the level of the last look a decision would be found that was never made."""
    start, until = [0.9, 1.1, 1.0, 1.05, 0.95], Stopping("until-decided", 20)

    def judged(gains):
        columns = {"none": [0.0] * len(gains), "bfq": gains}
        return analyse([sample(columns)], baseline="none", stopping=until)

    low, high = 0.02, 0.5  # the size of the gain at which the fifth block has p = 0.012
    for _ in range(40):
        size = (low + high) / 2
        p = judged([size + 0.1 * (each - 1) for each in start]).overall.pairs[0].p
        low, high = (size, high) if p > 0.012 else (low, size)
    gains = [size + 0.1 * (each - 1) for each in start]
    assert level_at(5, until) < 0.012 < level_at(20, until)
    assert not judged(gains).decided
    later = judged([*gains, *([-0.4, 0.4] * 8)[:15]])
    assert (later.decided, later.stopping.frozen_at) == (False, None)
