"""Of several streams, programs, processes, tasks or directions of a workload each counts."""

from dataclasses import replace
from pathlib import Path

import load_engine
import pytest
from msgspec.structs import replace as replace_struct

from schedlab.errors import SpecError
from schedlab.kinds import file_test, fio_files, fio_reading, readers_together, trace_replay
from schedlab.kinds.actors import Actors
from schedlab.kinds.command import Command
from schedlab.kinds.fio_reading import JobFile, JobSection, Option
from schedlab.kinds.launching import replaced_in_line
from schedlab.kinds.processes import Processes
from schedlab.kinds.trace_replay import TraceReplay

ORDERS = [1, -1]

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
        group("cp-3", (), (50, 4000, 100), series=load_engine.group("x")["series"]),
        group("cp-4", (30, 3000, 40)),
    )  # fmt: skip
    name = trace_replay.group_metric("db", "read")
    assert (made.metrics[name], made.bounds[name]) == (9e9, "at-least")
    assert [*made.series] == ["cp"] and [*made.latencies] == ["cp"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_table_that_got_nothing_done_waited_as_long_as_its_slowest(engine, order):
    row = {"name": "a", "record": "4k"}
    waits = (3, 5)[::order]
    engine.answers(*(load_engine.group(name, unanswered=1, oldest_pending_ns=wait * 10**9)
                     for name, wait in zip(("a", "a#2"), waits, strict=True)))  # fmt: skip
    made = Processes(processes=(row, row)).measure(load_engine.TARGET, "w", 1)
    assert made.metrics["a.latency_ns_mean"] == 5e9


def test_every_note_on_a_recording_is_of_its_workload(replay):
    notes = TraceReplay(trace="x.trace", reads_only=True).notes("w")
    assert [note.partition(": ")[0] for note in notes] == ["w"] * 4
    assert notes[0].startswith("w: 200 requests of 4 tasks in 1.0 s, recorded under bfq")


def test_every_recorded_group_has_one_of_its_own(replay):
    own = TraceReplay(trace="x.trace", cgroups=True)
    assert [each.name for each in own.groups()] == ["replay-30", "replay-50", "replay-60"]
    assert [*replay.own_metrics()] == [
        trace_replay.group_metric(name, way) for name in ("db", "cp") for way in ("read", "write")
    ]


def section(name, *options):
    made = tuple(Option(key, str(value), value if isinstance(value, int) else None)
                 for key, value in options)  # fmt: skip
    return JobSection(name, made, made)


def jobs_of(*sections):
    return JobFile(tuple(sections), (), (Path("one.fio"), Path("two.fio"), Path("three.fio")))


def test_jobs_of_a_file_run_in_groups_and_report_in_those_of_their_own(tmp_path, monkeypatch):
    shared, wait = ("group_reporting", 1), ("stonewall", 1)
    s = 1_000_000
    file = jobs_of(
        section("a", shared, ("rw", "read"), ("runtime", 3 * s), ("ramp_time", s)),
        section("b", shared, ("rw", "write"), ("runtime", 9 * s), ("startdelay", s)),
        section("c", shared, wait, ("rw", "read"), ("runtime", 2 * s), ("numjobs", 2)),
        section("c", ("rw", "write"), ("fsync", 1), ("runtime", s)),
        section("d", wait, ("rw", "randrw"), ("sync_file_range", 1), ("runtime", 5 * s)),
        section("e", ("rw", "read"), ("rw", "write"), ("runtime", 4 * s)),
    )
    assert file.seconds() == 10 + 2 + 5
    assert file.reported() == {
        "a": ("read", "write"), "c": ("read",), "c#2": ("write", "sync"),
        "d": ("read", "write", "sync"), "e": ("write",),
    }  # fmt: skip
    monkeypatch.setattr(fio_reading, "content_of", lambda path: path.name.encode())
    digests = {
        replace(file, files=tuple(map(Path, names))).digest()
        for names in (("x",), ("x", "y"), ("y", "x"), ("x", "y", "z"), ("x", "y", "w"))
    }
    assert len(digests) == 5
    (tmp_path / "three.fio").touch()
    with pytest.raises(SpecError, match=r"would include .*three.fio"):
        fio_files.check_includes("w", file, tmp_path)


def test_each_job_marks_what_it_changes_and_may_change_all_that_is_allowed(tmp_path, monkeypatch):
    for name in ("in", "out", "more", "x_bw.log", "mine"):
        (tmp_path / name).write_bytes(b"x" * 9)
    reader = section("r", ("rw", "read"), ("filename", "in"))
    writer = section("w", ("rw", "write"), ("filename", "out:more:/dev/schedlab-target"),
                     ("filename", "mine"), ("write_bw_log", "x"))  # fmt: skip
    marked = []
    monkeypatch.setattr(fio_files, "mark_made", lambda path: marked.append(path.name))
    for order in ORDERS:
        marked.clear()
        fio_files.mark(jobs_of(*(reader, writer)[::order]), tmp_path, [])
        assert sorted(marked) == ["mine", "more", "out", "x_bw.log"]
    names = ("out", "more", "x_bw.log", "mine")
    may = [str(tmp_path / name) for name in names]
    fio_files.check("w", jobs_of(reader, writer), tmp_path, may)
    for at, name in enumerate(names):
        with pytest.raises(SpecError, match=f"would overwrite .*{name}"):
            fio_files.check("w", jobs_of(reader, writer), tmp_path, may[:at] + may[at + 1 :])


@pytest.mark.parametrize("order", ORDERS)
def test_a_group_has_the_errors_of_both_ways_and_the_slowest_of_its_readers(order):
    sides = [load_engine.side(errors=at, short=2 + at) for at in (0, 1)][::order]
    of = load_engine.group("g", reads=sides[0], writes=sides[1])
    found = file_test.outcome_of(load_engine.result(of).groups[0], (0, 0), direct=True)
    assert (found.properties["errors"], found.properties["short"]) == (1, 5)
    assert "iops" not in found.metrics
    crowd = [{"bytes": size, "operations": 1} for size in (8, 2, 4)][::order]
    reads = load_engine.side(3, 14, bins=bins(1000, 3))
    job = load_engine.result(load_engine.group("readers", reads=reads, workers=crowd))
    equal = readers_together.outcome_of_equals(Actors(job), "readers", 4096)
    assert equal.properties["slowest_bytes_per_s"] == 1.0
    assert equal.metrics["fairness_jain"] == 14**2 / (3 * (64 + 4 + 16))
    late = [load_engine.group(name, unanswered=n, oldest_pending_ns=10 + n)
            for name, n in (("a", 0), ("b", 3), ("c", 5))][::order]  # fmt: skip
    facts = Actors(load_engine.result(*late)).properties()
    assert facts["oldest_pending_ns"] == {"b": 13.0, "c": 15.0}


def test_a_command_is_known_by_all_its_variables_quotes_and_metrics():
    environment = {"A": "1", "B": "2", "LANG": "C"}
    kind = Command(argv=("true",), environment=environment, clear_environment=True)
    shown = kind.environment_facts()["values"]
    assert {name: shown.get(name) for name in environment} == environment
    extract = tuple(f"{name}:1/s=stdout~{name} (x)" for name in "pqr")
    assert [*replace_struct(kind, extract=extract).own_metrics()] == [*"pqr"]
    line = 'a "$(b \'$(c)\' "@dir@" $(d "@dir@"))" \'@seed@\' @dir@'
    told = replaced_in_line(line, {"dir": "/x y", "seed": "7"})
    held = "${SCHEDLAB_DIRECTORY}"
    assert told == (f'a "$(b \'$(c)\' "{held}" $(d "{held}"))" \'7\' "{held}"')
    places = replace_struct(kind, confine="files", writable=("/", "/gone", "/tmp"))
    with pytest.raises(SpecError, match="there is no /gone"):
        places.check("w")
    both = ("a:1/s=stdout@x", "b:1/s=stdout~(x)(y)")
    for extract in (both, both[::-1]):
        with pytest.raises(SpecError, match=r"metric b: .* has 2 groups"):
            replace_struct(kind, extract=extract).check("w")


def test_recorded_programs_and_ways_have_figures_of_their_own(monkeypatch, replay):
    assert replay.commands() == ("db", "cp")
    groups = [{"name": "", "direction": way, "bytes": size, "mean_ns": size + 1, "bins": ()}
              for way, size in (("reads", 10), ("writes", 30))]  # fmt: skip
    for order in ORDERS:
        seen = SUMMARY | {"groups": groups[::order], "figures_ns": 5 * 10**9}
        monkeypatch.setattr(trace_replay, "_read", lambda *of, figures_ns=0, seen=seen: ({}, seen))
        assert replay.figures() == {
            "read_bytes_per_s": 2.0, "read_latency_ns_mean": 11, "write_bytes_per_s": 6.0,
            "write_latency_ns_mean": 31,
        }  # fmt: skip
    few = [
        stream("x-1", "x", 2, 0, BE),  # 2 % are those of both, and of neither alone
        stream("y-2", "y", 300, 0, BE),
        stream("x-3", "x", 5, 0, BE),
    ]
    monkeypatch.setattr(trace_replay, "_read", lambda *of: ({}, SUMMARY | {"streams": few}))
    assert replay.commands() == ("y", "x")
