"""Of several findings, queues, files, processes or replays each counts: conditions of a run."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import Clock, experiment

from schedlab.errors import GateError
from schedlab.run import (
    cache,
    drain,
    fidelity,
    gates,
    neighbours,
)
from schedlab.run.other_programs import Process, UserProcesses, _ended, other_s
from schedlab.spec import Candidate, Workload

TRACE = Path(__file__).parents[1] / "data" / "traces" / "tpcc-small.trace"
A, B, C = (Candidate(name, {"scheduler": name}) for name in ("none", "bfq", "kyber"))


def test_each_condition_that_broke_is_a_finding(monkeypatch):
    before = gates.Snapshot(0.0, 0.0, 0.0, 0, 0, 0, 0, frequency_khz=2e6)
    after = replace(
        before, at_s=1.0, swapped_pages=3, throttled=2, io_errors=1, written_bytes=1 << 30,
        too_hot=("nvme0 is hot", "nvme1 is hot"), stolen_s=0.9, busy_s=0.9, frequency_khz=1e6,
        processes=UserProcesses({(1, 1): Process(0, 0.8, 0.0)}),
    )  # fmt: skip
    found = gates.findings(before, after, (1 << 30, 0), 1 << 30)
    broken = ["swap", "thermal", "thermal", "thermal", "io-errors", "not-cold", "device-bytes",
              "device-bytes"]  # fmt: skip
    assert [each.gate for each in found] == broken
    assert [each.detail for each in found[2:4]] == ["nvme0 is hot", "nvme1 is hot"]
    assert [each.detail.split()[2] for each in found[-2:]] == ["read", "written"]
    assert [each.gate for each in gates.neighbour_findings(before, after)] == ["steal", "others"]
    watch = gates.Watch()
    monkeypatch.setattr(gates, "snapshot", lambda device: before)
    for _ in range(gates.FREQUENCY_READINGS_MIN):
        start = watch.before(0)
    monkeypatch.setattr(gates, "snapshot", lambda device: after)
    seen = watch.findings(start, (1 << 30, 0), 1 << 30)
    assert [each.gate for each in seen] == [*broken, "steal", "others", "frequency"]
    assert "usually 2000 MHz" in seen[-1].detail


def test_the_usual_frequency_is_that_of_all_readings():
    before = gates.Snapshot(0.0, 0.0, 0.0, 0, 0, 0, 0, frequency_khz=1e6)
    late = [1e6, *[2e6] * gates.FREQUENCY_READINGS_MIN]
    assert gates.frequency_findings(before, before, late)
    assert not gates.frequency_findings(before, before, [2e6, *[1e6] * len(late)])


def test_either_kind_of_pages_and_either_device_keep_a_machine_from_settling(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "BLOCK", tmp_path)
    monkeypatch.setattr(gates, "vmstat", dict)
    for device, text in (("sda", "0 0"), ("sdb", "0 2"), ("sdc", "1 0")):
        (tmp_path / device).mkdir()
        (tmp_path / device / "inflight").write_text(text)
    assert gates._unquiet(["sda"]) == ""
    assert gates._unquiet(["sda", "sdb"]) == "sdb has 0 + 2 requests in flight"
    assert gates._unquiet(["sda", "sdc"]) == "sdc has 1 + 0 requests in flight"
    for name, word in (("nr_writeback", "being written back"), ("nr_dirty", "dirty")):
        monkeypatch.setattr(gates, "vmstat", lambda name=name: {name: 1 << 20})
        assert gates._unquiet([]).endswith(word)


def test_what_each_process_had_used_before_it_ended_is_with_those_that_waited_for_it():
    before = UserProcesses(
        {(1, 0): Process(0, 0, 0), (2, 0): Process(1, 1.0, 0), (3, 0): Process(2, 2.0, 0.5),
         (5, 0): Process(1, 0, 0)},
        {(4, 0): Process(5, 4.0, 0)},
    )  # fmt: skip
    after = UserProcesses({(1, 0): Process(0, 0, 3.6), (5, 0): Process(1, 0.25, 4.5)})
    assert sorted(_ended(before, after)) == [(1.0, [1]), (2.5, [2, 1]), (4.0, [5])]
    assert other_s(before, after) == pytest.approx(0.25 + (3.6 - 1.0 - 2.5) + (4.5 - 4.0))
    # What the nearest has waited for is not with those above it as well.
    family = {(1, 0): Process(0, 0, 0), (2, 0): Process(1, 0, 0), (3, 0): Process(2, 0, 0)}
    left = UserProcesses({(1, 0): Process(0, 0, 9.0), (2, 0): Process(1, 0, 5.0)})
    assert other_s(UserProcesses(family | {(4, 0): Process(3, 5.0, 0)}), left) == 9.0


def test_a_target_is_quiet_when_all_its_queues_are(tmp_path, monkeypatch):
    moved = {"sda": iter([0] * 99), "sdb": iter([0, 0, 1, *[2] * 96])}
    flying = {"sda": iter([0] * 99), "sdb": iter([0] * 3 + [1] + [0] * 95)}
    seen = []
    monkeypatch.setattr(drain, "flush", lambda target: None)
    monkeypatch.setattr(drain, "device_bytes", lambda queue: next(moved[queue]))
    monkeypatch.setattr(drain, "_in_flight", lambda queues: sum(next(flying[q]) for q in queues))
    clock = Clock(0.0)
    monkeypatch.setattr(drain, "time", clock)
    clock.sleep = lambda s: seen.append(s) or setattr(clock, "now_s", clock.now_s + s)
    drain.drain(tmp_path, ["sda", "sdb"], 9.0)
    quiet = math.ceil(drain.QUIET_S / drain.POLL_S - 1e-9)
    assert len(seen) == 6 + quiet  # a request was in flight in the sixth look
    moved |= {"sdb": iter(range(999))}
    flying |= {name: iter([0] * 999) for name in flying}
    moved["sda"] = iter([0] * 999)
    with pytest.raises(GateError, match="sda, sdb: still busy"):
        drain.drain(tmp_path, ["sda", "sdb"], 1.0)


def test_requests_in_flight_are_those_of_all_queues_both_ways(tmp_path, monkeypatch):
    for queue, text in (("sda", " 1 20"), ("sdb", " 300 4000")):
        (tmp_path / queue).mkdir()
        (tmp_path / queue / "inflight").write_text(text)
    monkeypatch.setattr(drain, "Path", lambda path: tmp_path / path.removeprefix("/sys/block/"))
    assert drain._in_flight(["sda", "sdb"]) == 4321


def test_every_file_below_a_directory_is_read_or_evicted(tmp_path, monkeypatch):
    for name in ("a", "b", "sub/c", "sub/d", "more/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(5000))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = {str(path.relative_to(tmp_path)) for path in cache._files(tmp_path)}
    assert found == {"a", "b", "sub/c", "sub/d", "more/e"}
    opened, names = cache.opened, []

    def noted(path, flags):
        names.append(path.name)
        return opened(path, flags)

    monkeypatch.setattr(cache, "opened", noted)
    assert cache.evict(tmp_path) == 5 and sorted(names) == list("abcde")
    names.clear()
    read = []
    monkeypatch.setattr(cache.os, "read", lambda handle, size: read.append(handle) or b"x" * 5000
                        if len(read) % 2 == 0 else read.append(0) or b"")  # fmt: skip
    cache.read_files(tmp_path, 1 << 20)
    assert len(read) == 10 and sorted(names) == list("abcde")
    read.clear()
    cache.read_files(tmp_path, 10_000)
    assert len(read) == 3  # of the second file the end was not looked for
    libraries = [tmp_path / "b", tmp_path / "sub/c", tmp_path / "more/e"]
    monkeypatch.setattr(cache, "shared_libraries", lambda program: libraries)
    touched = []
    monkeypatch.setattr(Path, "read_bytes", lambda self: touched.append(self.name))
    cache.touch_program(str(tmp_path / "a"), tmp_path / "sub")
    assert touched == ["a", "b", "e"]


def test_bytes_of_all_processes_were_read(tmp_path, monkeypatch):
    for pid, count in ((11, 300), (22, 40), (33, 5)):
        (tmp_path / f"{pid}").mkdir()
        (tmp_path / f"{pid}" / "io").write_text(f"rchar: 9\nread_bytes: {count}\nwrite_bytes: 7\n")
    monkeypatch.setattr(neighbours, "Path", lambda path: tmp_path / path.removeprefix("/proc/"))
    assert neighbours.read_bytes_of([11, 22, 44, 33]) == 345
    found = neighbours.foreign_reads({"sda": 1 << 20, "sdb": 3 << 20}, 1 << 20, True)
    assert [each.detail for each in found] == [
        "sda, sdb read 4096 KiB, of which the command read 1024 KiB"
    ]


def test_every_replay_is_rehearsed_and_every_figure_told(monkeypatch):
    kinds = {
        label: fidelity.TraceReplay(trace=str(TRACE), timing="open") for label in ("one", "two")
    }
    works = tuple(Workload(label, "trace-replay", "x") for label in ("one", "load", "two"))
    admitted = SimpleNamespace(experiment=experiment(workloads=works),
                               kind=lambda workload, _: kinds.get(workload.label))  # fmt: skip
    session = SimpleNamespace(admitted=admitted, queues=("sda", "sdb"), described={"one", "two"})
    name = kinds["one"].summary()["scheduler"]
    offers = {"sda": (name,), "sdb": (name,)}
    monkeypatch.setattr(fidelity.knobs, "offered", lambda queue: offers[queue])
    cells, lines = [], []
    monkeypatch.setattr(fidelity, "_figures", lambda session, cell, workload, candidate: (
        cells.append(workload.label) or dict.fromkeys(
            ("read_latency_ns_mean", "write_latency_ns_mean", "requests_per_s"), 1.0)))  # fmt: skip
    found = fidelity.rehearse(session, lines.append)
    if name:
        assert cells == list(found) == ["one", "two"] and not session.described
        rows = sum(len(of["rows"]) for of in found.values())
        assert rows == len(lines) >= 4
        offers["sdb"] = ()
    lines.clear()
    again = fidelity.rehearse(session, lines.append)
    assert [line.split(":")[0] for line in lines] == list(again) == ["one", "two"]
