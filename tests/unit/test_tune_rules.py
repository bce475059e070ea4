"""Rules of a search that cost time or truth when they are not kept: constraints, the seed."""

import math

import pytest

pytest.importorskip("optuna")

from schedlab.tune.goal import Constraint
from schedlab.tune.race import ASSUMED
from schedlab.tune.search import Observation, Search
from schedlab.tune.space import SchedulerSpace, Space, Tunable

DEFAULT = {"scheduler": "s"}


def search(seed=1, high=10**9):
    tunable = Tunable("t", 1, high, log=True, default=100)
    return Search(Space((SchedulerSpace("s", (tunable,)),)), DEFAULT, seed)


def test_two_runs_of_the_same_setting_that_differ_forbid_a_promotion():
    """The A/A runs show what a difference is worth: without them luck would be promoted."""
    for aa, incumbent in ((0.0, 1), (0.5, 0)):
        tried = search()
        for _ in range(2):
            tried.tell(tried.ask(), Observation(difference=0.4, aa=aa))
        assert tried.incumbent == incumbent
    assert tried.noise.freedom == ASSUMED.freedom + 2
    assert tried.noise.squares == pytest.approx(ASSUMED.squares + 2 * 0.5**2)


def test_another_seed_is_another_search_and_the_same_seed_the_same():
    """After both ends of the only tunable: proposals that the order of the ends does not fix."""

    def proposed(seed):
        tried = search(seed)
        for _ in range(5):
            tried.tell(tried.ask(), Observation(difference=-1.0))
        return [entry.settings["t"] for entry in tried.entries[1:]]

    runs = [proposed(seed) for seed in range(6)]
    assert all(set(run[:2]) == {1, 10**9} for run in runs)
    assert len({tuple(run[2:]) for run in runs}) == 6
    assert proposed(3) == runs[3]


@pytest.mark.parametrize(
    ("is_upper", "value", "missed"),
    [
        (True, 200.0, math.log(2)), (True, 50.0, -math.log(2)), (False, 50.0, math.log(2)),
        (False, 200.0, -math.log(2)), (True, 1e9, 3.0), (False, 1e9, -3.0), (True, 0.0, -3.0),
        (False, 0.0, 3.0), (True, -1.0, -3.0), (True, 1.0, -3.0), (False, 1.0, 3.0),
        (True, 100.0, 0.0),
    ],
)  # fmt: skip
def test_a_miss_is_the_log_of_its_ratio_up_to_a_bound(is_upper, value, missed):
    assert Constraint("iops", 100.0, is_upper, "").violation(value) == pytest.approx(missed)
    small = Constraint("iops", 0.01, is_upper, "").violation(value / 1e4)
    assert small == pytest.approx(missed)
