"""From a pilot block and a budget to a plan."""

import math
from dataclasses import replace

import numpy as np
import pytest

from schedlab.analyse.advice import foreseen as sees
from schedlab.design.planning import (
    PilotRun,
    plan_budget,
)
from schedlab.errors import SpecError

NAMES = ("none", "kyber", "bfq", "none (A/A)")


# Rates whose batches of five have the means 90 and 110 in turn.
WAVE = [*[90.0] * 5, *[110.0] * 5] * 2


def pilot(works, *, overhead=0.5, time=2.0, between=0.02, within=0.05, seed=1):
    """`works` maps workloads to the standard deviation of a 100 ms bin."""
    rng = np.random.default_rng(seed)
    runs = []
    for name, bin_sd in works.items():
        for candidate in NAMES:
            level = math.exp(rng.normal(0, between))
            bins = level * (100 + 100 * bin_sd * rng.normal(size=int(time * 10)))
            value = math.log(bins.mean())
            runs.append(PilotRun(name, candidate, value, overhead, time, tuple(bins)))
    return runs


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_the_pilot_omits_nothing(seed):
    """A busy pilot omitted the row with the most variance, which the study was about."""
    rng = np.random.default_rng(seed)
    noise = dict(zip(("first", "second", "third"), rng.permutation([0.05, 1.5, 0.1]), strict=True))
    runs = pilot(noise, between=0.3, time=4.0, seed=seed)
    assert plan_budget(runs, 105.0, sees).blocks == 5  # Of all, before any is omitted.
    assert plan_budget(runs, 105.0, sees).left_out == {}
    short = plan_budget(runs, 85.0, sees)
    assert short.workloads == ("first", "second") and short.left_out == {"third": "others"}
    for last in ("controls", "unordered"):
        plan = plan_budget(runs, 85.0, sees, **{last: {"first"}})
        assert plan.workloads == ("second", "third")


def test_what_a_pilot_promises_holds_four_times_in_five():
    """One block shows σ from a few A/A pairs only, so the plan uses a careful one."""
    true = 0.1 / math.sqrt(3)
    works = dict.fromkeys("abc", 0.0)
    kept = 0
    for seed in range(150):
        runs = [
            PilotRun(run.workload, run.candidate, run.log_value, 0.5, 1.0)
            for run in pilot(works, between=0.1, seed=seed)
        ]
        kept += plan_budget(runs, 200.0, sees).spread >= true
    assert 0.72 <= kept / 150 <= 0.88


def plain(work="w", *, overhead=1.0, time=2.0):
    """Runs whose time is not free: 12 s for a block, which nothing changes."""
    times = (time - 0.5, time + 0.5, time, time)
    return [PilotRun(work, c, 0.1 * i, overhead, times[i]) for i, c in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("budget", "blocks", "fits"),
    [
        (47.9, 4, False), (48.0, 4, True), (59.9, 4, True), (60.0, 5, True), (72.0, 6, True),
        (83.9, 6, True), (84.0, 7, True), (479.9, 39, True), (480.0, 40, True), (1e6, 40, True),
    ],
)  # fmt: skip
def test_a_budget_becomes_four_to_six_blocks_and_then_up_to_forty(budget, blocks, fits):
    plan = plan_budget(plain(), budget, sees)
    assert (plan.blocks, plan.fits, plan.ask) == (blocks, fits, blocks < 6)
    assert (plan.seconds_per_block, plan.seconds) == (12.0, 12.0 * blocks)


def test_controls_are_omitted_first_and_never_the_only_row():
    """The longest one was left out first, and the control was all that was measured."""
    runs = [*pilot({"work": 0.2}, time=4.0), *pilot({"control": 0.01}, time=1.0)]
    runs = [replace(run, bins=(), shortest_s=run.measured_s) for run in runs]
    spent = 4 * (4.5 + 1.5)
    both = plan_budget(runs, spent + 5 * spent, sees, controls={"control"})
    one = plan_budget(runs, spent + 5 * 4 * 4.5, sees, controls={"control"})
    assert set(both.workloads) == {"work", "control"} and one.workloads == ("work",)
    needed = math.ceil(spent + 3 * 4 * 4.5)
    with pytest.raises(SpecError) as error:
        plan_budget(runs, spent + 3 * 4 * 1.5, sees, controls={"control"})
    assert str(error.value).startswith(f"only the control fits into 42 s: {needed} s are needed")
