"""Of several streams, programs, processes, tasks or directions of a workload each counts."""

import load_engine
import pytest

from schedlab.kinds import trace_replay
from schedlab.kinds.trace_replay import TraceReplay

BE, IDLE = 2 << 13, 3 << 13
# Name, program, reads, writes, priority: the second of a program differs from the first.
STREAMS = (
    ("db-1", "db", 60, 0, BE | 4),
    ("db-2", "db", 40, 20, BE | 7),
    ("cp-3", "cp", 0, 50, IDLE),
    ("cp-4", "cp", 30, 0, 0),
)


def stream(name, command, reads, writes, ioprio, **more):
    return {
        "name": name, "command": command, "requests": reads + writes, "reads": reads,
        "writes": writes, "depth": 2 + reads, "record": 4096 * (1 + writes), "ioprio": ioprio,
        "cgroup": reads + writes, "first_read_ns": 0 if reads else None,
        "first_write_ns": 0 if writes else None, **more,
    }  # fmt: skip


SUMMARY = {
    "streams": [stream(*each) for each in STREAMS],
    "groups": [{"name": name, "direction": way} for name in ("", "db", "cp", "other")
               for way in ("reads", "writes")],
    "requests": 200, "scheduler": "bfq", "period_ns": 10**9, "discards": 3, "moved": 1,
    "widened": 2, "ambiguous_share": 0.5,
}  # fmt: skip


@pytest.fixture
def replay(monkeypatch):
    monkeypatch.setattr(trace_replay, "_read", lambda *of: ({}, SUMMARY))
    return TraceReplay(trace="x.trace", seconds=2.0, ramp_seconds=0.0)


def bins(mean_ns, count):
    return [[mean_ns, mean_ns + 10, count]]


def group(name, reads=(), writes=(), **more):
    """A group of which `reads` and `writes` are (operations, bytes, mean latency)."""
    sides = {}
    for way, of in (("reads", reads), ("writes", writes)):
        count, size, mean = of or (0, 0, 0)
        one = load_engine.side(count, size, bins=bins(mean, count) if count else ())
        one["latency"]["mean"] = float(mean)
        sides[way] = one
    rows = [[0, 1, 2, 3], [100, 4, 5, 6]] if reads or writes else []
    series = {"bin_ms": 100, "window_ms": [500.0, 2500.0], "reads": rows if reads else [],
              "writes": rows if writes else [],
              "latencies": [[100 * len(name), 1, 2, 7]] if reads or writes else []}  # fmt: skip
    lag = {"start_lag": {"bins": bins(1000 * int(name[-1]), 1000)}}
    return load_engine.group(name, **{**sides, "series": series, **lag, **more})


def measured(monkeypatch, replay, *groups):
    jobs = []
    monkeypatch.setattr(
        trace_replay,
        "run_groups",
        lambda of, *a, **b: jobs.extend(of) or load_engine.result(*groups),
    )
    return replay.measure(load_engine.TARGET, "w", 5), jobs


def test_a_replay_is_the_sum_and_the_mean_of_all_its_streams(monkeypatch, replay):
    made, jobs = measured(
        monkeypatch, replay,
        group("db-1", (60, 6000, 10)), group("db-2", (40, 8000, 20), (20, 1000, 50), unissued=3),
        group("cp-3", (), (50, 4000, 100), unissued=2), group("cp-4", (30, 3000, 40)),
    )  # fmt: skip
    assert replay.commands() == ("db", "cp")
    values = made.metrics
    assert values["read_latency_ns_mean"] == pytest.approx((600 + 800 + 1200) / 130)
    assert values["write_latency_ns_mean"] == pytest.approx((1000 + 5000) / 70)
    assert values["read_bytes_per_s"] == 17000 / 2 and values["write_bytes_per_s"] == 5000 / 2
    assert values["requests_per_s"] == 200 / 2
    assert values[trace_replay.group_metric("db", "read")] == pytest.approx(14)
    assert values[trace_replay.group_metric("db", "write")] == 50
    assert values[trace_replay.group_metric("cp", "read")] == 40
    assert values[trace_replay.group_metric("cp", "write")] == 100
    assert made.bounds == {}
    assert sum(row[2] for row in made.histograms["latency_ns"]) == 200
    assert made.properties["unissued"] == 5 and made.properties["streams"] == 4
    assert made.properties["late_ns_p99"] == pytest.approx(4005, rel=0.01)
    assert made.series == {"db": [[0, 3, 6, 9], [100, 12, 15, 18]],
                           "cp": [[0, 2, 4, 6], [100, 8, 10, 12]]}  # fmt: skip
    assert made.latencies == {name: [[400, 1, 2, 7]] * 2 for name in ("db", "cp")}
    assert [job["name"] for job in jobs] == [each[0] for each in STREAMS]
    assert [job["replay"]["stream"] for job in jobs] == [0, 1, 2, 3]
    assert [job.get("ioprio") for job in jobs] == [
        {"class": "be", "level": 4}, {"class": "be", "level": 7},
        {"class": "idle", "level": 0}, None,
    ]  # fmt: skip
    assert [job["workload"]["seed"] for job in jobs] == [5, 6, 7, 8]
    assert [job["workload"]["direction"] for job in jobs][:3] == [
        trace_replay.READ, trace_replay.MIXED, trace_replay.WRITE
    ]  # fmt: skip


@pytest.mark.parametrize("late", ["db-1", "db-2"])
def test_any_stream_that_was_not_served_makes_a_bound(monkeypatch, replay, late):
    waits = {"unanswered": 1, "oldest_pending_ns": 9 * 10**9}
    made, _ = measured(
        monkeypatch, replay,
        *(group(name, **(waits if name == late else {})) for name in ("db-1", "db-2")),
        group("cp-3", (), (50, 4000, 100)), group("cp-4", (30, 3000, 40)),
    )  # fmt: skip
    name = trace_replay.group_metric("db", "read")
    assert (made.metrics[name], made.bounds[name]) == (9e9, "at-least")
    assert [*made.series] == ["cp"] and [*made.latencies] == ["cp"]


def test_every_note_on_a_recording_is_of_its_workload(replay):
    notes = TraceReplay(trace="x.trace", reads_only=True).notes("w")
    assert [note.partition(": ")[0] for note in notes] == ["w"] * 4
    assert notes[0].startswith("w: 200 requests of 4 tasks")


def test_every_recorded_group_has_one_of_its_own(replay):
    own = TraceReplay(trace="x.trace", cgroups=True)
    assert [each.name for each in own.groups()] == ["replay-30", "replay-50", "replay-60"]
    assert [*replay.own_metrics()] == [
        trace_replay.group_metric(name, way) for name in ("db", "cp") for way in ("read", "write")
    ]
