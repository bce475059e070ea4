"""What a load shows of a device that stalls: times that only a quiet machine keeps."""

import threading

import pytest
from test_io_engine import (
    FIFREEZE,
    FITHAW,
    by_engine,
    engine,
    freezable,
    group,
    io_uring,
    rows,
    run,
)

__all__ = ["engine", "freezable", "io_uring"]
pytestmark = pytest.mark.machine

STALL_S = 0.4


def with_stall(freezable, load, **job):
    """Result of a load of 1 s during which the device stalls once for 0.4 s."""
    timers = [
        threading.Timer(0.3, freezable.control, [FIFREEZE]),
        threading.Timer(0.3 + STALL_S, freezable.control, [FITHAW]),
    ]
    try:
        for timer in timers:
            timer.start()
        return run(load, 1.2, **job)
    finally:
        for timer in timers:
            timer.join()


def share_slower_than(latency, limit_ns):
    slow = sum(count for low, _, count in latency["bins"] if low > limit_ns)
    return slow / float(latency["count"])


@by_engine("psync", "io_uring")
def test_an_open_loop_shows_a_stall_that_a_closed_loop_hides(freezable, engine):
    closed = group(freezable.device, engine, direction="write", direct=True)
    hidden = with_stall(freezable, closed)["groups"][0]
    assert hidden["arrivals"] == "closed"
    rate = {"kind": "poisson", "rate_per_s": 400}
    shown = with_stall(freezable, closed | {"workload": closed["workload"] | {"arrivals": rate}})
    latency = shown["groups"][0]["writes"]["latency"]
    assert shown["groups"][0]["arrivals"] == "poisson"
    # A third of the arrivals fell into the stall; half of those waited half of it and longer.
    assert share_slower_than(latency, STALL_S / 2 * 1e9) > 0.05
    assert share_slower_than(hidden["writes"]["latency"], STALL_S / 2 * 1e9) < 0.02


@by_engine("psync", "io_uring")
def test_who_is_not_served_at_all_has_a_result(freezable, engine):
    """A device that stalls for the whole window: rate 0, and how long the oldest waits."""
    rate = {"kind": "poisson", "rate_per_s": 200}
    load = group(freezable.device, engine, direction="write", direct=True, arrivals=rate)
    freezable.control(FIFREEZE)
    thaw = threading.Timer(1.0, freezable.control, [FITHAW])
    thaw.start()
    try:
        result = run(load, 0.5, process=True)["groups"][0]
    finally:
        thaw.join()
    if engine == "io_uring":  # the window ends on time; psync's with its only request
        assert result["writes"]["operations"] == 0
        assert all(row[1] == 0 for row in rows(result, "writes"))
        assert result["oldest_pending_ns"] > 0.4e9
    arrived = result["unanswered"] + result["writes"]["operations"]
    assert 60 <= arrived <= 200 * result["elapsed_ns"] / 1e9 + 50
    assert result["writes"]["latency"]["max"] > 0.4e9


def test_a_stall_that_begins_in_the_ramp_is_in_the_window(freezable, io_uring):
    load = group(freezable.device, "io_uring", 4, direction="write", direct=True)
    assert with_stall(freezable, load, ramp_seconds=0.4)["elapsed_ns"] > 1.1e9  # 0.3 s stalled
