"""The figures of several processes, of calls and of timings, and how the load engine is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from load_engine import MIB, group, result, side

from schedlab import _core
from schedlab.errors import HostError, SpecError
from schedlab.kinds.actors import (
    Actors,
    added,
    load_depth,
    regions,
    served,
)
from schedlab.kinds.engine import (
    DOCTOR,
    run_groups,
    run_job,
    watching_jobs,
)
from schedlab.kinds.readers_together import jain
from schedlab.nouns import latency


def test_regions_are_whole_mib_and_a_mib_for_each_process_is_enough():
    assert regions(3 * MIB, (1, 2)) == [(0, MIB), (MIB, 2 * MIB)]
    assert regions(27 * MIB, (2, 5, 1)) == [(0, 6 * MIB), (6 * MIB, 15 * MIB), (21 * MIB, 3 * MIB)]
    assert regions(5 * MIB + 7, (1,)) == [(0, 5 * MIB)]
    assert regions(77, (1, 9), shared=True) == [(0, 77), (0, 77)]
    with pytest.raises(SpecError, match="8388607 bytes are too few for 8 processes") as error:
        regions(8 * MIB - 1, (2, 5, 1))
    assert error.value.hint == "use a target of at least 8 MiB"


@pytest.mark.parametrize(
    ("requested", "tags", "workers", "depth"),
    [
        (0, 20, 3, 14), (0, 20, 4, 10), (0, 1, 3, 1), (0, 0, 1, 256), (0, 1024, 1, 2048),
        (0, 1025, 1, 2048), (0, 1000, 1, 2000), (9, 20, 3, 9), (9, 20, 0, 9), (0, 20, 0, 1),
    ],
)  # fmt: skip
def test_the_depth_of_each_worker(requested, tags, workers, depth):
    assert load_depth(requested, tags, workers) == depth


def two_groups():
    """A group that reads and one that writes, with figures of which no two are the same."""
    read = group(
        "reader", engine="psync", reads=side(8, 4097, errors=1, short=10), writes=side(errors=2),
        device_bytes_read=1000, device_bytes_written=1, unanswered=3, oldest_pending_ns=70,
        prepared={"primed_bytes": 500},
        series={"window_ms": [502.5, 2500.0], "reads": [[0, 1, 2, 3], [101, 4, 5, 6]],
                "writes": []},
    )  # fmt: skip
    write = group(
        "writer", reads=side(errors=4, short=20), writes=side(9, 300, errors=8, short=40),
        device_bytes_read=20, device_bytes_written=3000, elapsed_ns=1_500_000_000,
        prepared={"primed_bytes": 7}, load_generator_bottleneck=True,
        series={"window_ms": [501.0, 2600.0], "reads": [], "writes": []},
    )  # fmt: skip
    return Actors(result(read, write, inflight={"mean": 3.5, "max": 9}), depth=6, tags=4)


@pytest.mark.parametrize("seen", [None, {"error": "no such device", "mean": 1.0, "max": 1}])
def test_facts_that_are_unknown_are_left_out(seen):
    plain = Actors(result(group("a"), inflight=seen), depth=3)
    assert plain.properties() == {
        "engine": "io_uring", "errors": 0, "short": 0, "claimed_bytes": [0, 0], "load_depth": 3,
        "driver_tags": 0,
    }  # fmt: skip
    assert set(Actors(result(group("a"))).properties()) == {
        "engine", "errors", "short", "claimed_bytes",
    }  # fmt: skip


def test_both_directions_of_a_series_are_added_up():
    one, other = [[0, 1, 10, 100], [100, 2, 20, 200]], [[0, 4, 40, 400], [100, 8, 80, 800]]
    assert added(one, other) == [[0, 5, 50, 500], [100, 10, 100, 1000]]
    assert added(one, other[:1]) == [[0, 5, 50, 500]]
    assert added(one, []) == added([], one) == one
    assert added([], []) == []


def test_what_was_not_served_waited_for_its_age_or_for_the_window():
    for pending_ns, waited in ((3_000_000_000, 3e9), (1_000_000_000, 2e9), (0, 2e9)):
        one = Actors(result(group("a", oldest_pending_ns=pending_ns)), seconds=9.0)
        metrics, bounds = served(one, "a", "reads", "x_")
        assert metrics == dict.fromkeys(bounds, waited)
        assert set(bounds.values()) == {"at-least"}
    names = ("mean", "p50", "p90", "p99", "p99_9", "p99_99")
    assert set(metrics) == {f"x_latency_ns_{name}" for name in names}
    assert one.waiting_ns("a") == 2e9
    assert Actors(result(group("a", elapsed_ns=0)), seconds=9.0).window_s("a") == 9.0
    assert Actors(result(group("a", elapsed_ns=0))).window_s("a") == 0.0


def test_fairness_of_nothing_and_of_unequal_shares():
    assert jain([0, 0]) == 1.0
    assert jain([3, 1]) == 0.8
    assert jain([6, 2, 2]) == pytest.approx(100 / 132)


def test_a_job_as_the_engine_gets_it(engine):
    engine.answers(group("a"), group("b"))
    groups = run_job([{"name": "a"}, {"name": "b"}], 1.5, 0.25, should_end=lambda: True)
    assert list(groups) == ["a", "b"]
    assert engine.jobs == [
        {"seconds": 1.5, "ramp_seconds": 0.25, "process": False, "device": None,
         "groups": [{"name": "a"}, {"name": "b"}]}
    ]  # fmt: skip
    engine.answers()
    run_job([], None)
    assert engine.jobs[-1] == {"seconds": None, "ramp_seconds": 0.0, "process": False,
                               "device": None, "groups": []}  # fmt: skip
    engine.answers(elapsed_ns=7)
    assert run_groups([], 0.5).elapsed_ns == 7
    assert [engine.jobs[-1][key] for key in ("seconds", "ramp_seconds")] == [0.5, 0.0]


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        (OSError("a\nhint: b"), "a", "b"),
        (RuntimeError("no ring"), "no ring", DOCTOR),
        (ValueError("w: depth\nhint: 1 to 9"), "w: depth", "1 to 9"),
        (HostError("sda: open: gone"), "sda: open: gone", DOCTOR),
        (HostError("no ring", "allow io_uring"), "no ring", "allow io_uring"),
    ],
)
def test_what_the_engine_refuses_has_a_hint(monkeypatch, fault, message, hint):
    def fails(*_):
        raise fault

    monkeypatch.setattr(_core, "run_io_job", fails)
    with pytest.raises(HostError) as error:
        run_groups([], None)
    assert (str(error.value), error.value.hint) == (message, hint)


class Watcher:
    """Notes what it is told of jobs."""

    def __init__(self):
        self.told: list[Any] = []

    def prepare(self, names):
        self.told.append(list(names))

    def begin(self, workers):
        self.told.append(workers)

    def see(self, groups):
        self.told.append([each.name for each in groups])


def test_a_watcher_is_told_of_the_jobs_of_its_time(monkeypatch):
    calls = []

    def run(text, end, ready, replay):
        calls.append(ready)
        if ready:
            ready('[{"name": "a", "ids": [7]}]')
        return json.dumps({"interrupted": False, "groups": [{"name": "done"}]})

    monkeypatch.setattr(_core, "run_io_job", run)
    watcher = Watcher()
    with watching_jobs(watcher):
        run_groups([{"name": "a"}], None)
    run_groups([{"name": "b"}], None)
    assert watcher.told == [["a"], [{"name": "a", "ids": [7]}], ["done"]]
    assert calls[0] is not None and calls[1] is None


ROWS = [[n * 1000, n * 1000 + 500, 1] for n in range(1, 101)]


@pytest.mark.parametrize(
    ("rows", "q", "value"),
    [
        (ROWS, 0.5, 50_250.0),  # the 50th of 100: the middle of 50,000 and 50,500
        (ROWS, 0.9, 90_250.0),  # ten lie beyond, which is just enough
        (ROWS[:99], 0.9, None),
        (ROWS[:20], 0.5, 10_250.0),
        (ROWS[:19], 0.5, None),
        ([], 0.5, None),
        ([[8, 11, 21]], 0.5, 9.5),
        ([[8, 10, 10], [20, 30, 10]], 0.5, 9.0),
        ([[8, 10, 9], [20, 30, 11]], 0.5, 25.0),
        ([[7, 9, 999], [20, 30, 9001]], 0.999, 25.0),
    ],
)
def test_quantiles_are_the_middle_of_their_bin(rows, q, value):
    assert latency.quantile(rows, q) == value


@pytest.mark.parametrize(
    ("rows", "q", "confidence", "value"),
    [
        # P(Binomial(5, 1/2) >= k): 31/32 for 1, 26/32 for 2, 16/32 for 3, 6/32 for 4, 1/32 for 5.
        (ROWS[:5], 0.5, 0.95, 1000.0),
        (ROWS[:5], 0.5, 0.9, 1000.0),
        (ROWS[:5], 0.5, 0.8125, 2000.0),
        (ROWS[:5], 0.5, 0.81, 2000.0),
        (ROWS[:5], 0.5, 0.49, 3000.0),
        (ROWS[:5], 0.5, 0.18, 4000.0),
        (ROWS[:5], 0.5, 0.03, 5000.0),
        # P(Binomial(10, 0.9) >= k): 0.349 for 10, 0.736 for 9, 0.930 for 8, 0.987 for 7.
        (ROWS[:10], 0.9, 0.95, 7000.0),
        (ROWS[:10], 0.9, 0.929, 8000.0),
        (ROWS[:10], 0.9, 0.74, 8000.0),
        (ROWS[:10], 0.9, 0.73, 9000.0),
        ([[7, 8, 6], [20, 30, 1], [40, 50, 3]], 0.9, 0.95, 20.0),
        ([[7, 8, 7], [40, 50, 3]], 0.9, 0.95, 7.0),
        ([[7, 8, 1]], 0.99, 0.95, 7.0),
        ([], 0.9, 0.95, None),
    ],
)
def test_a_bound_is_the_largest_value_that_is_likely_enough_to_be_exceeded(
    rows, q, confidence, value
):
    assert latency.bound(rows, q, confidence) == value


def test_a_bound_is_exceeded_with_95_percent_unless_another_share_is_asked():
    assert latency.bound(ROWS[:10], 0.9) == 7000.0


def test_histograms_are_added_up_in_order():
    assert latency.merge([[[5, 6, 1], [1, 2, 3]], [[5, 6, 10]], []]) == [[1, 2, 3], [5, 6, 11]]
    names = ["p50", "p90", "p99"]
    assert list(latency.metrics([[8, 10, 1000]])) == [f"latency_ns_{name}" for name in names]
    assert latency.metrics([[8, 10, 100_000]], "x_") == dict.fromkeys(
        (f"x_latency_ns_{name}" for name in (*names, "p99_9", "p99_99")), 9.0
    )
    assert latency.metrics(ROWS[:20]) == {"latency_ns_p50": 10_250.0}
