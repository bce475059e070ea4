"""The one door: numbers and settings of the CPU that cannot be meant are refused at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedlab.app.admit import admit
from schedlab.errors import SpecError
from schedlab.spec import Candidate, Experiment, Stopping, Target, Workload

WAKEUP = Workload("w", "wakeup", "response_ns_p99")
CALCULATION = Workload("c", "calculation", "calculations_per_cpu_s")
FLIP = replace(CALCULATION, parameters={"flip": True})


def experiment(
    works: tuple[Workload, ...], settings: dict[str, Any], stopping: Stopping | None = None
) -> Experiment:
    """One candidate, `a`."""
    candidates = (Candidate("a", settings),)
    return Experiment("t", "cpu", Target("none"), candidates, works, "a", 1, stopping or Stopping())


@pytest.mark.parametrize(
    ("stopping", "message"),
    [
        (Stopping(budget_s=float("nan")), "stopping.budget_s = nan"),
        (Stopping(budget_s=float("inf")), "stopping.budget_s = inf"),
        (Stopping(sessions=0), "stopping.sessions = 0: not between 1 and the 6 blocks"),
        (Stopping(sessions=-3), "stopping.sessions = -3: not between 1 and the 6 blocks"),
        (Stopping(blocks=2, sessions=3), "stopping.sessions = 3: not between 1 and the 2 blocks"),
        (Stopping("until-decided", sessions=3), "stopping.sessions = 3: sessions repeat a fixed"),
        (Stopping(may_extend=-1), "stopping.may_extend = -1: not a number of blocks"),
    ],
)
def test_stopping_rules_that_cannot_be_meant(stopping: Stopping, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        admit(experiment((WAKEUP,), {}, stopping))
    assert str(raised.value).startswith(message) and raised.value.hint
    admit(experiment((WAKEUP,), {}, Stopping(blocks=3, sessions=3, may_extend=6, budget_s=0.5)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, float("nan")), "workloads[1] (1): weight = nan"),
        ((1.0, float("inf")), "workloads[1] (1): weight = inf"),
        ((0.0, 0.0), "all workloads have the weight 0"),
        ((0.0, -1.0), "workloads[1] (1): weight = -1.0"),
    ],
)
def test_weights_that_cannot_be_meant(weights: tuple[float, ...], message: str) -> None:
    def weighted(*weights: float) -> tuple[Workload, ...]:
        return tuple(replace(WAKEUP, label=str(n), weight=w) for n, w in enumerate(weights))

    with pytest.raises(SpecError) as raised:
        admit(experiment(weighted(*weights), {}))
    assert str(raised.value).startswith(message) and raised.value.hint
    admit(experiment(weighted(0.0, 1.0), {}))
    # A negative control has no part in the overall verdict, so that its weight counts for nothing.
    control = replace(WAKEUP, label="c", negative_control=True)
    admit(experiment((replace(control, weight=0.0),), {}))
    with pytest.raises(SpecError, match="all workloads have the weight 0"):
        admit(experiment((control, *weighted(0.0)), {}))


@pytest.mark.parametrize(
    ("works", "settings", "message"),
    [
        ((WAKEUP,), {"policy": "foo"}, "candidate 'a': policy 'foo' is not known"),
        ((WAKEUP,), {"scheduler": "none"}, "candidate 'a': 'scheduler' is not a setting"),
        ((WAKEUP,), {"slice_ms": "abc"}, "candidate 'a': slice_ms = 'abc'"),
        ((CALCULATION,), {"policy": "foo"}, "candidate 'a': policy 'foo' is not known"),
        ((CALCULATION,), {"nice": 5}, "candidate 'a': 'nice' is not a setting of calculations"),
        ((CALCULATION,), {"slice_ms": -5}, "candidate 'a': slice_ms = -5"),
        ((CALCULATION,), {"policy": "rr", "slice_ms": 1.5}, "a slice of 1.5 ms for rr"),
        ((FLIP,), {"policy": "rr", "slice_ms": 4}, "candidate 'a': flip needs effective_ms"),
        ((WAKEUP, CALCULATION), {}, "a calculation cannot be measured together with other"),
    ],
)
def test_settings_of_the_cpu_are_checked_before_the_first_run(
    works: tuple[Workload, ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as raised:
        admit(experiment(works, settings))
    assert str(raised.value).startswith(message) and raised.value.hint


@pytest.mark.parametrize(
    ("work", "settings"),
    [
        (WAKEUP, {"policy": "batch", "slice_ms": 3, "group_idle": 1, "workload.load": 1}),
        (CALCULATION, {}),
        (CALCULATION, {"policy": "rr", "slice_ms": 4, "workload.processes": 3}),
        (FLIP, {"policy": "rr", "slice_ms": 4, "effective_ms": 4.0}),
    ],
)
def test_settings_of_the_cpu_that_pass(work: Workload, settings: dict[str, Any]) -> None:
    assert admit(experiment((work,), settings)).kinds
