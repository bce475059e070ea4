"""Rates of error of the whole procedure on simulated experiments, within binomial bounds.

The scenarios of `benches/analyse/calibration.py`, which publishes them with 2,000 experiments
each; here there are fewer, and the bounds are those that a sound procedure breaks once in a
thousand runs. Seeds are fixed: a failure is a change of the procedure, not bad luck.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

BENCH = Path(__file__).parents[2] / "benches" / "analyse" / "calibration.py"
spec = importlib.util.spec_from_file_location("calibration", BENCH)
calibration = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = calibration
spec.loader.exec_module(calibration)
Scenario = calibration.Scenario


def at_most(rate, of):
    """The count that a true rate exceeds once in a thousand."""
    return binom.ppf(0.999, of, rate)


def check(scenario, experiments):
    tally = calibration.run(scenario, experiments)
    said = f"{scenario}: {tally}, seeds from 1"
    assert tally.false_difference <= at_most(0.05, experiments), said
    assert experiments - tally.covered <= at_most(0.06, experiments), said
    assert tally.equivalent - tally.equivalent_right <= at_most(0.05, tally.equivalent), said
    assert tally.false_claim <= at_most(0.01, experiments), said
    assert tally.wrong <= at_most(0.05, experiments), said
    return tally


@pytest.mark.parametrize("noise", calibration.NOISES)
@pytest.mark.parametrize(("candidates", "blocks"), [(3, 5), (6, 8), (4, 12)])
def test_equal_candidates_are_not_called_different(noise, candidates, blocks):
    check(Scenario(noise, candidates, blocks, equal=True), 150)


@pytest.mark.parametrize("noise", calibration.NOISES)
def test_intervals_cover_the_truth_and_large_differences_are_found(noise):
    tally = check(Scenario(noise, 3, 12, spread=0.01), 120)
    assert tally.different_found >= 0.8 * tally.different_pairs


@pytest.mark.parametrize("equal", [True, False])
def test_stopping_early_keeps_the_error_rates(equal):
    tally = check(Scenario("no drift", 3, 0, equal, spread=0.01), 80)
    assert tally.decided == tally.experiments


def test_a_truth_at_the_edge_of_the_margin_is_seldom_misjudged():
    check(Scenario("no drift", 3, 12, spread=0.01, effects=calibration.EDGE), 150)


@pytest.mark.parametrize(("candidates", "workloads", "share"), [(2, 1, 0.55), (4, 4, 0.4)])
def test_until_decided_takes_half_of_a_fixed_design(candidates, workloads, share):
    """5 % difference, 3 % noise. 2,000 experiments give the shares; 40 scatter by 0.03."""
    scenario = Scenario(
        "no drift", candidates, 0, spread=0.03, effects=(0.0, 0.05, 0.0, 0.0), workloads=workloads
    )
    tally = calibration.run(scenario, 40)
    assert tally.blocks / tally.experiments <= share * calibration.LARGEST, tally
    assert tally.decided >= 0.9 * tally.experiments
    assert tally.wrong <= at_most(0.05, 40)
