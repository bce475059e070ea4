"""CPU workloads that need no kernel: tasks, limits of options, and figures of made-up results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from schedlab.errors import SpecError
from schedlab.kinds import KINDS, WorkloadKind, typed
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.cpu_command import CpuCommand
from schedlab.kinds.cpu_fork_storm import ForkStorm
from schedlab.kinds.cpu_groups import Groups
from schedlab.kinds.cpu_messaging import Messaging, Pipe
from schedlab.kinds.cpu_mix import CpuMixKind, Mixed, TaskGroup, quantiles
from schedlab.kinds.cpu_mixed import MixedWork
from schedlab.kinds.cpu_wakeup import Wakeup
from schedlab.kinds.resolved import Outcome
from schedlab.kinds.simulated import SimulatedDisk, SimulatedHost, SimulatedSsd
from schedlab.spec import GateFinding, Workload, latency

MIXES: tuple[type[CpuMixKind], ...] = (Wakeup, MixedWork, Messaging, Pipe, ForkStorm, Groups)
WINDOW_S = 2.5
LOAD = {"units": 450}
LOAD_PER_S = {"load_work_per_s": 180.0}
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


def only(groups: Sequence[TaskGroup]) -> TaskGroup:
    """The single group of the work."""
    (one,) = groups
    assert one == TaskGroup("work", one.role, one.tasks, is_load=False, weight=0, cgroup="")
    return one


# ---- tasks


def test_messengers_post_to_workers() -> None:
    one = only(Wakeup(messengers=3, workers=5, rate=70.5, work_us=250.5).work(2))
    assert one.tasks == 3
    assert one.role == {"kind": "wakeup", "workers": 5, "rate": 70.5, "work_ns": 250_500}


def test_periodic_tasks_want_the_cpu_at_fixed_times() -> None:
    one = only(MixedWork(tasks=7, period_us=2500.5, work_us=0.75).work(2))
    assert one.tasks == 7
    assert one.role == {"kind": "periodic", "period_ns": 2_500_500, "work_ns": 750}


@pytest.mark.parametrize("sockets", [False, True])
def test_senders_write_to_receivers(sockets: bool) -> None:
    one = only(Messaging(pairs=3, rounds=11, message_bytes=64, sockets=sockets).work(2))
    assert one.tasks == 3
    assert one.role == {"kind": "messaging", "rounds": 11, "bytes": 64, "sockets": sockets}


def test_a_pair_passes_a_byte() -> None:
    one = only(Pipe(rounds=77).work(2))
    assert (one.tasks, one.role) == (1, {"kind": "pipe", "rounds": 77})


@pytest.mark.parametrize(("execute", "program"), [(False, None), (True, "/bin/true")])
def test_slots_fork_children(execute: bool, program: str | None) -> None:
    one = only(ForkStorm(slots=3, children=9, work_us=1.5, exec=execute).work(2))
    assert one.tasks == 3
    assert one.role == {
        "kind": "fork-storm", "children": 9, "work_ns": 1500, "program": program,
    }  # fmt: skip


def test_every_group_has_hogs_and_a_sleeper() -> None:
    hog = {"kind": "hog", "work_ns": 100_000}
    sleeper = {"kind": "periodic", "period_ns": 3_000_000, "work_ns": 70_000}
    work = Groups(weights=(100, 250), period_us=3000.0, work_us=70.0)
    assert work.task_groups(3) == [
        TaskGroup("hogs 0", hog, 3, False, 100, "group0"),
        TaskGroup("sleepers 0", sleeper, 1, False, 100, "group0"),
        TaskGroup("hogs 1", hog, 3, False, 250, "group1"),
        TaskGroup("sleepers 1", sleeper, 1, False, 250, "group1"),
    ]


@pytest.mark.parametrize(("load", "hogs"), [(None, 6), (5, 5), (1, 1)])
@pytest.mark.parametrize("kind", MIXES)
def test_the_load_comes_after_the_work(kind: type[CpuMixKind], load: int | None, hogs: int) -> None:
    kept = kind(load=load)
    *work, last = kept.task_groups(3)
    assert last == TaskGroup("load", {"kind": "hog", "work_ns": 100_000}, hogs, is_load=True)
    assert work == kept.work(3)
    assert not any(each.is_load for each in work)


@pytest.mark.parametrize("kind", MIXES)
def test_without_a_load_there_is_the_work_alone(kind: type[CpuMixKind]) -> None:
    alone = kind(load=0)
    assert alone.task_groups(3) == alone.work(3)


# ---- options


def test_a_kind_without_tasks_says_its_name() -> None:
    class Nothing(CpuMixKind, frozen=True):
        kind = "nothing"
        metrics = ()

    with pytest.raises(NotImplementedError, match="nothing"):
        Nothing().work(2)
    with pytest.raises(NotImplementedError, match="nothing"):
        Nothing().outcome(Mixed(1.0, {}))


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


def latencies(name: str) -> list[str]:
    return [f"{name}_ns_{word}" for word in ("p99", "p50", "p90", "p99_9", "mean", "max")]


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


def test_requests_that_messengers_posted() -> None:
    waking = ((400, 600, 25),)
    work = group(units=1000, unfinished=5, response=ROWS, wakeup=waking, cpu_ns=1_500_000_000)
    outcome = Wakeup().outcome(Mixed(WINDOW_S, {"work": work, "load": LOAD}))
    # Of 25 wake-ups, the true p90 is above the 20th with 95 %; all are in one bin.
    few = {"p50": 500.0, "p90": 400.0, "p99": 400.0, "p99_9": 400.0, "mean": 500.0, "max": 600.0}
    assert outcome.metrics == {
        **named("response", {**FIGURES, **BOUND_P99_9}), **named("wakeup", few), **LOAD_PER_S,
        "requests_per_s": 400.0, "cpu_s": 1.5,
    }  # fmt: skip
    assert set(outcome.metrics) == set(Wakeup.metrics)
    bounds = [f"response_ns_{word}" for word in ("p99_9", "mean", "max")]
    bounds += [f"wakeup_ns_{word}" for word in ("p90", "p99", "p99_9")]
    assert outcome.bounds == dict.fromkeys(bounds, AT_LEAST)
    assert outcome.properties == {"unfinished": 5}
    assert outcome.histograms == {"latency_ns": ROWS, "wakeup_ns": waking}
    assert outcome.gates == ()


def test_messengers_that_starved_have_no_rate() -> None:
    work = group(unfinished=3, response=((700, 900, 3),), cpu_ns=1000)
    outcome = Wakeup().outcome(Mixed(WINDOW_S, {"work": work}))
    assert "requests_per_s" not in outcome.metrics
    assert outcome.properties == {"unfinished": 3}
    assert set(outcome.bounds) == {key for key in outcome.metrics if key.startswith("response")}


def test_lateness_is_the_response_beyond_the_work() -> None:
    response = ((1_400_000, 1_500_500, 600), (2_000_000, 2_600_000, 600))
    work = group(units=1200, response=response, cpu_ns=1_800_000_000)
    mixed = Mixed(WINDOW_S, {"work": work, "load": LOAD})
    outcome = MixedWork(work_us=1500.0).outcome(mixed)
    # Nothing is less late than a microsecond.
    late = {"p50": 1000.0, "p90": 800_000.0, "p99": 800_000.0, "p99_9": 500_000.0,
            "mean": 400_500.0, "max": 1_100_000.0}  # fmt: skip
    whole = {"p50": 1_450_250.0, "p90": 2_300_000.0, "p99": 2_300_000.0, "p99_9": 2_000_000.0,
             "mean": 1_875_125.0, "max": 2_600_000.0}  # fmt: skip
    assert outcome.metrics == {
        **named("lateness", late), **named("response", whole), **LOAD_PER_S, "cpu_s": 1.8,
    }  # fmt: skip
    assert set(outcome.metrics) == set(MixedWork.metrics)
    assert outcome.bounds == {"lateness_ns_p99_9": AT_LEAST, "response_ns_p99_9": AT_LEAST}
    assert outcome.histograms == {"latency_ns": response}
    assert outcome.properties == {"unfinished": 0}
    # Pieces that still wait at the end: 13 of 1200 may be the slowest hundredth.
    late_group = {**work, "unfinished": 13}
    behind = MixedWork(work_us=1500.0).outcome(Mixed(WINDOW_S, {"work": late_group}))
    assert named("lateness", late).items() <= behind.metrics.items()
    bounds = [f"{name}_ns_{word}" for name in ("lateness", "response")
              for word in ("p99", "p99_9", "mean", "max")]  # fmt: skip
    assert behind.bounds == dict.fromkeys(bounds, AT_LEAST)
    assert behind.properties == {"unfinished": 13}


def shared(*used: Sequence[int], weights: Sequence[int], unfinished: int = 0) -> Outcome:
    """Groups of which hogs and sleepers used so many milliseconds; pieces of each that wait."""
    groups = {}
    for number, (hogs, sleepers) in enumerate(used):
        rows = ((1000, 1200, 10 + number), (3000 + 2000 * number, 5000 + 2000 * number, 30))
        groups[f"hogs {number}"] = group(cpu_ns=hogs * 1_000_000)
        groups[f"sleepers {number}"] = group(
            cpu_ns=sleepers * 1_000_000, response=rows, unfinished=unfinished
        )  # fmt: skip
    return Groups(weights=tuple(weights)).outcome(Mixed(WINDOW_S, groups))


def test_shares_of_groups_per_weight() -> None:
    outcome = shared((2900, 100), (2950, 50), (3800, 200), weights=(200, 300, 500))
    metrics = outcome.metrics
    assert outcome.properties["shares"] == pytest.approx([0.3, 0.3, 0.4])
    assert outcome.properties["asked"] == pytest.approx([0.2, 0.3, 0.5])
    # Relative to their weights 1.5, 1.0 and 0.8: 3.3² / (3 · 3.89).
    assert metrics["weighted_jain"] == pytest.approx(1089 / 1167)
    assert metrics["share_error"] == pytest.approx(0.5)
    assert metrics["cpu_s"] == pytest.approx(10.0)
    rows = [[1000, 1200, 33], [3000, 5000, 30], [5000, 7000, 30], [7000, 9000, 30]]
    assert outcome.histograms == {"latency_ns": rows}
    # 123 of 4 bins: 33·1100 + 30·(4000 + 6000 + 8000) is 576 300.
    figures = {"p50": 4000.0, "p90": 8000.0, "p99": 7000.0, "p99_9": 7000.0, "max": 9000.0}
    assert named("response", figures).items() <= metrics.items()
    assert metrics["response_ns_mean"] == pytest.approx(576_300 / 123)
    few = {"response_ns_p99": AT_LEAST, "response_ns_p99_9": AT_LEAST}
    assert (outcome.bounds, outcome.properties["unfinished"]) == (few, 0)
    # 5 of each group still wait: 15 of 123 may be the slowest tenth.
    behind = shared(
        (2900, 100), (2950, 50), (3800, 200), weights=(200, 300, 500), unfinished=5
    )  # fmt: skip
    late = dict.fromkeys(named("response", {"p90": 0, "mean": 0, "max": 0}), AT_LEAST)
    assert (behind.bounds, behind.properties["unfinished"]) == ({**few, **late}, 15)
    assert set(metrics) == set(Groups.metrics)


def test_a_group_that_gets_too_little_is_an_error_as_well() -> None:
    outcome = shared((90, 10), (800, 100), weights=(100, 300))
    # Relative to their weights 0.4 and 1.2: 1.6² / (2 · 1.6).
    assert outcome.metrics["weighted_jain"] == pytest.approx(0.8)
    assert outcome.metrics["share_error"] == pytest.approx(0.6)
    exact = shared((200, 50), (700, 50), weights=(100, 300)).metrics
    assert (exact["weighted_jain"], exact["share_error"]) == (1.0, 1e-6)


def ended(work: CpuMixKind, elapsed_ns: int | None, *, load: Any = LOAD) -> Outcome:
    """The outcome of finite work, 0.75 s of CPU, beside a load."""
    groups = {"work": group(elapsed_ns=elapsed_ns, cpu_ns=750_000_000), "load": load}
    return work.outcome(Mixed(WINDOW_S, {k: v for k, v in groups.items() if v is not None}))


FINITE = {
    "messaging": (Messaging(seconds=45.5), {}),
    "pipe": (Pipe(rounds=300, seconds=45.5), {"rounds_per_s": 120.0}),
    "fork-storm": (ForkStorm(slots=3, children=50, seconds=45.5), {"children_per_s": 60.0}),
}


@pytest.mark.parametrize("name", FINITE)
def test_work_that_ended(name: str) -> None:
    work, rates = FINITE[name]
    outcome = ended(work, 2_500_000_000)
    assert outcome == Outcome({"elapsed_s": 2.5, "cpu_s": 0.75, **LOAD_PER_S, **rates})
    assert set(outcome.metrics) == set(work.metrics)
    # At once, by a clock with a coarse step: never after no time at all.
    assert ended(work, 0).metrics["elapsed_s"] == 1e-9


@pytest.mark.parametrize("name", FINITE)
def test_work_that_did_not_end_counts_with_its_limit(name: str) -> None:
    late = "it was still running after 45.5 s and counts with that time"
    assert ended(FINITE[name][0], None) == Outcome(
        {"elapsed_s": 45.5, **LOAD_PER_S},
        {"censored": True},
        (GateFinding("limit", late, fatal=False),),
        bounds={"elapsed_s": AT_LEAST},
    )


@pytest.mark.parametrize("load", [None, {"units": 0}])
def test_a_load_that_did_nothing_has_no_rate(load: Any) -> None:
    assert ended(Messaging(), 2_500_000_000, load=load).metrics == {
        "elapsed_s": 2.5, "cpu_s": 0.75,
    }  # fmt: skip


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
