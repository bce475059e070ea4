"""Of several streams, programs, processes, tasks or directions of a workload each counts."""

from pathlib import Path

import pytest
from msgspec.structs import replace as replace_struct

from schedlab.errors import SpecError
from schedlab.kinds import fio_files, trace_replay
from schedlab.kinds.command import Command
from schedlab.kinds.fio_reading import JobFile, JobSection, Option
from schedlab.kinds.launching import replaced_in_line
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


def test_every_note_on_a_recording_is_of_its_workload(replay):
    notes = TraceReplay(trace="x.trace", reads_only=True).notes("w")
    assert [note.partition(": ")[0] for note in notes] == ["w"] * 4
    assert notes[0].startswith("w: 200 requests of 4 tasks in 1.0 s, recorded under bfq")


def section(name, *options):
    made = tuple(Option(key, str(value), value if isinstance(value, int) else None)
                 for key, value in options)  # fmt: skip
    return JobSection(name, made, made)


def jobs_of(*sections):
    return JobFile(tuple(sections), (), (Path("one.fio"), Path("two.fio"), Path("three.fio")))


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
        marked.clear()
        fio_files.mark(jobs_of(reader, writer), tmp_path, [tmp_path / "out", tmp_path / "more"])
        assert sorted(marked) == ["mine", "x_bw.log"]
    names = ("out", "more", "x_bw.log", "mine")
    may = [str(tmp_path / name) for name in names]
    fio_files.check("w", jobs_of(reader, writer), tmp_path, may)
    for at, name in enumerate(names):
        with pytest.raises(SpecError, match=f"would overwrite .*{name}"):
            fio_files.check("w", jobs_of(reader, writer), tmp_path, may[:at] + may[at + 1 :])


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
