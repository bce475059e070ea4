"""Flags from the rates inside runs, on series with known truth."""

import numpy as np

from schedlab.analyse.run_flags import run_flags


def runs_of(make, runs=12, candidates=("none", "bfq"), seed=1):
    rng = np.random.default_rng(seed)
    return {name: [[make(rng, name)] for _ in range(runs)] for name in candidates}


def kinds(flags):
    return [(flag.kind, flag.candidates) for flag in flags]


def test_steady_runs_have_no_flag():
    noisy = 0
    for seed in range(40):
        runs = runs_of(lambda rng, name: rng.normal(1000, 100, 40).tolist(), seed=seed)
        noisy += bool(run_flags("w", runs))
    assert noisy <= 2


def test_runs_that_slope_are_counted():
    def slope(rng, name):
        return (np.linspace(1000, 1600, 40) + rng.normal(0, 30, 40)).tolist()

    runs, level = runs_of(slope), [1000.0, 1001.0] * 20
    (flag,) = run_flags("w", runs)
    assert flag.kind == "not-steady" and flag.workload == "w" and flag.values["runs"] == 24
    for beside in (lambda run: [*run, level], lambda run: [level, *run]):  # any group of a run
        both = {name: [beside(run) for run in each] for name, each in runs.items()}
        (flag,) = (each for each in run_flags("w", both) if each.kind == "not-steady")
        assert flag.values["runs"] == 24


def test_a_candidate_that_jumps_between_two_levels_is_named():
    def jumps(rng, name):
        if name == "none":
            return rng.normal(210, 10, 40).tolist()
        return np.where(rng.random(40) < 0.4, rng.normal(20000, 200, 40), 210.0).tolist()

    flags = run_flags("w", runs_of(jumps))
    two_levels = [flag for flag in flags if flag.kind == "two-levels"]
    assert [flag.candidates for flag in two_levels] == [("bfq",)]
    assert two_levels[0].values["low"] < 220 and 19500 < two_levels[0].values["high"] < 20500


def test_scale_and_order_change_nothing():
    def slope(rng, name):
        return (np.linspace(1000, 1600, 40) + rng.normal(0, 30, 40)).tolist()

    runs = runs_of(slope)
    plain = run_flags("w", runs)
    scaled = {k: [[[x * 1e6 for x in bins] for bins in run] for run in v] for k, v in runs.items()}
    turned = {name: runs[name] for name in reversed(runs)}
    assert kinds(run_flags("w", scaled)) == kinds(plain) == kinds(run_flags("w", turned))
    assert run_flags("w", scaled)[0].values == plain[0].values


def test_short_runs_are_not_judged():
    assert run_flags("w", runs_of(lambda rng, name: [1.0, 5.0, 20.0, 80.0])) == ()
