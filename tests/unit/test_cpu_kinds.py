"""CPU workloads that need no kernel: tasks, limits of options, and figures of made-up results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import pytest
from golden import Golden

from schedlab.errors import SpecError
from schedlab.kinds import KINDS, WorkloadKind, typed
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.cpu_command import CpuCommand
from schedlab.kinds.cpu_fork_storm import ForkStorm
from schedlab.kinds.cpu_groups import Groups
from schedlab.kinds.cpu_messaging import Messaging, Pipe
from schedlab.kinds.cpu_mix import CpuMixKind, quantiles
from schedlab.kinds.cpu_mixed import MixedWork
from schedlab.kinds.cpu_wakeup import Wakeup
from schedlab.nouns import Workload, latency
from schedlab.nouns.load_result import CrewResult
from schedlab_sim.kinds import SimulatedDisk, SimulatedHost, SimulatedSsd

MIXES: tuple[type[CpuMixKind], ...] = (Wakeup, MixedWork, Messaging, Pipe, ForkStorm, Groups)
WINDOW_S = 2.5
LOAD = {"units": 450}
AT_LEAST = "at-least"
# 1000 values: the middles of the bins are 1100, 2300, 9000 and 71 000, their sum is 3 052 000.
ROWS = ((1000, 1200, 500), (2000, 2600, 400), (9000, 9000, 89), (70_000, 72_000, 11))
FIGURES = {"p50": 1100.0, "p90": 2300.0, "p99": 71_000.0, "mean": 3052.0, "max": 72_000.0}
# The true p99.9 of 1000 is above the 997th with 95 %: P(Binomial(1000, 0.999) >= 997) is 0.981.
BOUND_P99_9 = {"p99_9": 70_000.0}


def made(kind: str, **parameters: Any) -> WorkloadKind:
    """A workload as an experiment file gives it."""
    return typed(Workload("mine", kind, "elapsed_s", parameters))


def group(**figures: Any) -> dict[str, Any]:
    """What the engine says of a group."""
    nothing: Sequence[Sequence[int]] = ()
    return {"units": 0, "unfinished": 0, "response": nothing, "wakeup": nothing,
            "elapsed_ns": None, "cpu_ns": 0, **figures}  # fmt: skip


def named(name: str, figures: Mapping[str, float]) -> dict[str, float]:
    """The figures as metrics."""
    return {f"{name}_ns_{word}": value for word, value in figures.items()}


# ---- tasks

WORK = (
    Wakeup(messengers=3, workers=5, rate=70.5, work_us=250.5),
    MixedWork(tasks=7, period_us=2500.5, work_us=0.75, load=5),
    Messaging(pairs=3, rounds=11, message_bytes=64),
    Messaging(sockets=True, load=1),
    Pipe(rounds=77, load=0),
    ForkStorm(slots=3, children=9, work_us=1.5),
    ForkStorm(exec=True, load=0),
    Groups(weights=(100, 250), period_us=3000.0, work_us=70.0),
    Groups(load=5),
)


def test_tasks_of_three_cpus_and_the_load_beside_them(golden: Golden) -> None:
    lines = []
    for work in WORK:
        lines += [repr(work), *(f"  {group}" for group in work.task_groups(3))]
    golden("jobs/cpu-tasks.txt", "\n".join(lines))


# ---- options


def test_a_kind_without_tasks_says_its_name() -> None:
    class Nothing(CpuMixKind, frozen=True):
        kind = "nothing"
        metrics = ()

    with pytest.raises(NotImplementedError, match="nothing"):
        Nothing().work(2)
    with pytest.raises(NotImplementedError, match="nothing"):
        Nothing().outcome(CrewResult(10**9, []))


def test_what_each_kind_needs() -> None:
    every: tuple[type[WorkloadKind], ...]
    every = (*MIXES, CpuCommand, Calculation, SimulatedSsd, SimulatedDisk, SimulatedHost)
    assert {each.kind: each.family for each in every} == {
        "wakeup": "cpu", "mixed": "cpu", "messaging": "cpu", "pipe": "cpu", "fork-storm": "cpu",
        "groups": "cpu", "cpu-command": "cpu", "calculation": "cpu",
        "ssd": "sim", "disk": "sim", "host-queue": "sim",
    }  # fmt: skip
    for each in every:
        assert KINDS[each.kind] is each
        with pytest.raises(AttributeError, match="immutable"):
            each().kind = "another"  # type: ignore[misc]
        assert each().writes() is False, each
    # No target: no byte of one of 4096 is used.
    for each in every[: len(MIXES) + 1]:
        assert each().used_bytes(4096) == 0, each
    assert {each.kind for each in MIXES if each.is_finite} == {"messaging", "pipe", "fork-storm"}
    assert {each.kind for each in MIXES if each.forks} == {"fork-storm"}


def test_a_command_beside_nothing_runs_on_all_cpus() -> None:
    work = made("cpu-command", argv=["/bin/true"])
    assert isinstance(work, CpuCommand)
    assert (work.directory, work.load, work.cpus) == ("", 0, ())


def test_one_group_has_nothing_to_share() -> None:
    Groups(weights=(1, 1)).check("mine")
    for weights in ((), (100,)):
        with pytest.raises(SpecError, match=r"^mine: weights need two or more groups") as refused:
            Groups(weights=weights).check("mine")
        assert refused.value.hint == "weights = [100, 300]"


# ---- figures of results


def shared(*used: Sequence[int], weights: tuple[int, ...], unfinished: int = 0) -> Any:
    """Groups of which hogs and sleepers used so many milliseconds; pieces of each that wait."""
    groups = {}
    for number, (hogs, sleepers) in enumerate(used):
        rows = ((1000, 1200, 10 + number), (3000 + 2000 * number, 5000 + 2000 * number, 30))
        groups[f"hogs {number}"] = group(cpu_ns=hogs * 1_000_000)
        groups[f"sleepers {number}"] = group(
            cpu_ns=sleepers * 1_000_000, response=rows, unfinished=unfinished
        )  # fmt: skip
    return Groups(weights=weights), groups


def ended(work: CpuMixKind, elapsed_ns: int | None, load: Any = LOAD) -> Any:
    """Finite work, 0.75 s of CPU, beside a load."""
    groups = {"work": group(elapsed_ns=elapsed_ns, cpu_ns=750_000_000), "load": load}
    return work, {name: of for name, of in groups.items() if of}


POSTED = group(units=1000, unfinished=5, response=ROWS, wakeup=((400, 600, 25),),
               cpu_ns=1_500_000_000)  # fmt: skip
# Nothing is less late than a microsecond. Of the 1200, 13 may be the slowest hundredth.
LATE = group(units=1200, response=((1_400_000, 1_500_500, 600), (2_000_000, 2_600_000, 600)),
             cpu_ns=1_800_000_000)  # fmt: skip
# Relative to their weights 1.5, 1.0 and 0.8: Jain's index is 3.3² / (3 · 3.89).
USED = ((2900, 100), (2950, 50), (3800, 200))
FINITE = (
    Messaging(seconds=45.5), Pipe(rounds=300, seconds=45.5),
    ForkStorm(slots=3, children=50, seconds=45.5),
)  # fmt: skip
RESULTS = [
    (Wakeup(), {"work": POSTED, "load": LOAD}),
    # Starved messengers have no rate.
    (Wakeup(), {"work": group(unfinished=3, response=((700, 900, 3),), cpu_ns=1000)}),
    (MixedWork(work_us=1500.0), {"work": LATE, "load": LOAD}),
    (MixedWork(work_us=1500.0), {"work": {**LATE, "unfinished": 13}}),
    shared(*USED, weights=(200, 300, 500)),
    shared(*USED, weights=(200, 300, 500), unfinished=5),
    # Relative to their weights 0.4 and 1.2, and exactly as requested.
    shared((90, 10), (800, 100), weights=(100, 300)),
    shared((200, 50), (700, 50), weights=(100, 300)),
    # At its end, at once by a clock with a coarse step, and not within the limit.
    *(ended(work, elapsed) for work in FINITE for elapsed in (2_500_000_000, 0, None)),
    ended(Messaging(), 2_500_000_000, None), ended(Messaging(), 2_500_000_000, {"units": 0}),
]  # fmt: skip


def test_figures_of_results_and_which_of_them_are_bounds(golden: Golden) -> None:
    lines = []
    for work, groups in RESULTS:
        rows = [{"name": name, **of} for name, of in groups.items()]
        found = msgspec.convert({"window_ns": int(WINDOW_S * 1e9), "groups": rows}, CrewResult)
        outcome = asdict(work.outcome(found))
        assert set(outcome["metrics"]) <= set(work.metrics)
        shown = (f"  {part}: {json.dumps(of)}" for part, of in outcome.items() if of)
        lines += ["", repr(work), *shown]
    golden("jobs/cpu-figures.txt", "\n".join(lines))


# ---- quantiles


@pytest.mark.parametrize(
    ("unfinished", "extra"),
    [
        (0, ()),
        (9, ("mean", "max")),
        (11, ("p99", "mean", "max")),
        (99, ("p99", "mean", "max")),
        (101, ("p90", "p99", "mean", "max")),
        (500, ("p90", "p99", "mean", "max")),
        (501, ("p50", "p90", "p99", "mean", "max")),
    ],
)
def test_requests_that_still_wait_make_the_slowest_bounds(
    unfinished: int, extra: Sequence[str]
) -> None:
    metrics, bounds = quantiles(ROWS, "x", unfinished)
    assert metrics == named("x", {**FIGURES, **BOUND_P99_9})
    assert bounds == {f"x_ns_{word}": AT_LEAST for word in ("p99_9", *extra)}


def test_nothing_is_faster_than_a_nanosecond() -> None:
    assert quantiles([], "x", 3) == ({}, {})
    words = ("p50", "p90", "p99", "p99_9", "mean", "max")
    for count in (1, 100):
        assert quantiles([[0, 0, count]], "x")[0] == named("x", dict.fromkeys(words, 1.0))
    assert quantiles([[1, 2, 1]], "x")[0]["x_ns_mean"] == 1.5


# By scipy.stats.binom: the true quantile is above this rank with 95 %, with 60 %.
RANKS = {
    (0.5, 7): (1, 3), (0.5, 19): (6, 9), (0.9, 60): (50, 54), (0.99, 300): (294, 297),
    (0.99, 900): (886, 890), (0.999, 2500): (2495, 2497),
}  # fmt: skip


@pytest.mark.parametrize(("q", "count"), RANKS)
def test_the_bound_is_the_rank_that_the_binomial_law_gives(q: float, count: int) -> None:
    rows = [[1000 * rank, 1000 * rank + 7, 1] for rank in range(1, count + 1)]
    bounds = tuple(latency.bound(rows, q, confidence) for confidence in (0.95, 0.6))
    assert bounds == tuple(1000.0 * rank for rank in RANKS[q, count])
    assert latency.bound(rows, q) == bounds[0]
