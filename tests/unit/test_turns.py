"""Which cases of a test that is marked `sampled` a run has."""

from dataclasses import dataclass

import pytest
from turns import taken


@dataclass(frozen=True)
class Item:
    path: str
    originalname: str
    number: int
    share: int

    def get_closest_marker(self, name):
        return pytest.mark.sampled(self.share).mark if self.share else None


def test_every_case_has_its_turn_and_other_tests_always_run():
    tests = {("a", "x"): 3, ("a", "y"): 2, ("b", "x"): 3, ("b", "z"): 0}
    items = [Item(*name, at, share) for name, share in tests.items() for at in range(7)]
    for name, share in tests.items():
        runs = []
        for turn in range(100, 100 + (share or 1)):
            those, others = taken(items, turn)
            assert len(those) + len(others) == len(items)
            runs.append([each.number for each in those if (each.path, each.originalname) == name])
        assert sorted(number for run in runs for number in run) == list(range(7)), runs
        assert all(7 // (share or 1) <= len(run) for run in runs)
