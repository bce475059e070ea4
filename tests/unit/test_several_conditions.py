"""Of several findings, queues, files, processes or replays each counts: conditions of a run."""

import json
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import answers
import pytest
from experiments import Clock, experiment

from schedlab import _core
from schedlab.errors import GateError, HostError
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import ATTEMPTS_MAX, Candidate, Cell, Target, Workload
from schedlab.run import candidate_settings, gates
from schedlab.run.admitted import OVERHEAD_S, Admitted, Permission
from schedlab.run.command import failures, launch, metrics_from_output, phases
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.launch import Ended, WorkGroup
from schedlab.run.cpu import cpu_ext
from schedlab.run.executor import Executor
from schedlab.run.io import cache, drain, durability, explain, fidelity, io, io_commands, neighbours
from schedlab.run.io.io import bounded, with_times
from schedlab.run.live import live, live_figures, live_pilot
from schedlab.run.other_programs import Process, UserProcesses, _ended, other_s

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
    with monkeypatch.context() as patch:  # below either bound they are no finding
        patch.setattr(gates, "_others_s", lambda *_: 0.03)
        assert not gates.neighbour_findings(before, replace(before, at_s=1.0))
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
         (5, 0): Process(1, 0, 0), (7, 0): Process(4, 0.5, 0)},
        {(4, 0): Process(5, 4.0, 0)},
    )  # fmt: skip
    after = UserProcesses({(1, 0): Process(0, 0, 3.6), (5, 0): Process(1, 0.25, 4.5)})
    assert sorted(_ended(before, after)) == [
        (0.5, [4, 5, 1]), (1.0, [1]), (2.5, [2, 1]), (4.0, [5])
    ]  # fmt: skip
    assert other_s(before, after) == pytest.approx(0.25 + (3.6 - 1.0 - 2.5) + (4.5 - 4.0 - 0.5))
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
    advised = []
    monkeypatch.setattr(cache.os, "posix_fadvise", lambda _, *advice: advised.append(advice))
    assert cache.evict(tmp_path) == 5 and sorted(names) == list("abcde")
    assert advised == [(0, 0, os.POSIX_FADV_DONTNEED)] * 5
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
    seen = kinds["one"].summary()
    monkeypatch.setattr(fidelity.TraceReplay, "summary", lambda kind: {**seen, "scheduler": "bfq"})
    monkeypatch.setattr(fidelity.TraceReplay, "fidelity", lambda kind, replayed: [
        {"metric": name, "recorded": 2.0, "replayed": value, "is_like": False}
        for name, value in replayed.items()])  # fmt: skip
    offers = {"sda": ("bfq", "none"), "sdb": ("bfq",)}
    monkeypatch.setattr(fidelity.knobs, "offered", lambda queue: offers[queue])
    cells, lines = [], []
    monkeypatch.setattr(fidelity, "_figures", lambda session, cell, workload, candidate: (
        cells.append(workload.label) or dict.fromkeys(
            ("read_latency_ns_mean", "write_latency_ns_mean", "requests_per_s"), 1.0)))  # fmt: skip
    found = fidelity.rehearse(session, lines.append)
    assert cells == list(found) == ["one", "two"] and not session.described
    assert sum(len(of["rows"]) for of in found.values()) == len(lines) == 6
    assert all("recorded 2, replayed 1 (-50%)  (differs)" in line for line in lines)
    offers["sdb"] = ()
    lines.clear()
    again = fidelity.rehearse(session, lines.append)
    assert [line.split(":")[0] for line in lines] == list(again) == ["one", "two"]


@pytest.mark.parametrize("order", [1, -1])
def test_each_candidate_of_each_workload_fails_on_its_own(order):
    counted = failures.Failures()
    kind = SimpleNamespace(ignore_exit=False, ok_exit=(0,))
    ended = Ended(1.0, 7, None, False, False, b"", b"no")
    pairs = [(work, arm) for work in ("v", "w") for arm in ("none", "bfq")][::order]
    for _ in range(ATTEMPTS_MAX - 1):
        for pair in pairs:
            counted.note(*pair, kind, ended)
    counted.note(*pairs[0], kind, replace(ended, status=0))
    counted.note(*pairs[0], kind, ended)
    with pytest.raises(failures.CommandFailed, match=f"{pairs[1][0]} .* under {pairs[1][1]}:"):
        counted.note(*pairs[1], kind, ended)


def test_the_workloads_that_are_worth_an_explanation_are_those_of_their_largest_row():
    rows = (replace(answers.primary("c", "elapsed_s"), control=True),
            answers.primary("w0", "elapsed_s"), replace(answers.primary("w0", "cpu_s"), name="o"),
            answers.primary("w1", "elapsed_s"), answers.primary("w2", "elapsed_s"))  # fmt: skip
    sizes = (99.0, 3.0, 9.0, 5.0, 1.1)
    cells = {row.name: {"a": answers.behind(1.0, 1, 1, 1), "b": answers.behind(1.0, size, 1, 99)}
             for row, size in zip(rows, sizes, strict=True)}  # fmt: skip
    found = explain.worth_explaining(replace(answers.BEST, rows=rows, cells=cells))
    assert found == ("w0", "w1")


def test_files_below_other_mounts_are_none_of_a_directory(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in/file").touch()
    device = tmp_path.stat().st_dev
    monkeypatch.setattr(cache, "_device", lambda path: device if path.name != "b" else -1)
    found = {path.relative_to(tmp_path).parts[0] for path in cache._files(tmp_path)}
    assert found == {"a", "c"}


def test_each_run_has_the_times_and_the_bounds_that_it_is_given():
    kind = ReaderBesideWriters(seconds=3.0, ramp_seconds=2.0)
    for seconds, ramp in ((0.0, 1.5), (4.0, 0.0), (4.0, 1.5)):
        cell = Cell(0, 0, "w", "none", 1, seconds=seconds, ramp_seconds=ramp)
        assert with_times(kind, cell) == ReaderBesideWriters(
            seconds=seconds or 3.0, ramp_seconds=ramp or 2.0)  # fmt: skip
    metrics = {"read_latency_ns_mean": 5.0, "rate": 1.0}
    before = {"rate": "at-most", "read_latency_ns_mean": "at-least"}
    found = bounded(Outcome(metrics, bounds=before), "read_latency_ns_p99")
    assert found.metrics == {**metrics, "read_latency_ns_p99": 5.0}
    assert found.bounds == {**before, "read_latency_ns_p99": "at-least"}


def test_a_rehearsal_sets_the_limit_of_each_workload_again():
    runs = CommandRuns.__new__(CommandRuns)
    runs.limits_s = {}
    free, own = SimpleNamespace(timeout_s=0.0), SimpleNamespace(timeout_s=7.0)
    rehearsed = (("a", free, 10.0, 200.0), ("b", free, 20.0, 400.0), ("c", own, 20.0, 7.0),
                 ("a", free, 5.0, 100.0))  # fmt: skip
    for label, kind, took_s, limit_s in rehearsed:
        assert runs.rehearsed(label, kind, took_s) == runs.limit_s(label, kind) == limit_s
    assert runs.limits_s == {"a": 100.0, "b": 400.0, "c": 7.0}


def test_cleanups_that_fail_have_the_hint_of_the_first(monkeypatch):
    def run_phase(label, kind, name, tokens, standing):
        raise HostError(f"{label} failed", f"mend {label}")

    monkeypatch.setattr(phases, "run_phase", run_phase)
    kind, group = SimpleNamespace(phases=lambda: {}), SimpleNamespace(end=lambda: [])
    with pytest.raises(HostError) as found:
        phases.clean_up(None, [(name, kind, {}) for name in "abc"], group, group)
    assert (str(found.value), found.value.hint) == ("a failed\nb failed\nc failed", "mend a")


def test_a_decided_workload_ends_at_its_first_block_without_a_run():
    made = Executor.__new__(Executor)
    made.workloads, made.ended = dict.fromkeys("uvw"), {"u": 1}
    runs = [SimpleNamespace(block=block, workload=work)
            for block, works in ((9, "uvw"), (3, "uw"), (5, "uw"), (7, "u"), (8, "u"))
            for work in works]  # fmt: skip
    made._find_ended(runs)
    assert made.ended == {"u": 1, "v": 3, "w": 7}
    made.blocks, made.rules = [[], [], [SimpleNamespace(block=6)]], SimpleNamespace(
        workloads=lambda number: ("q", "x"))  # fmt: skip
    made.workloads["x"] = made.workloads["y"] = None
    made._end_decided(2)
    assert made.ended == {"u": 1, "v": 3, "w": 7, "y": 6}


def test_a_figure_of_a_capture_counts_what_is_in_flight_at_its_end():
    seen = {"in_flight": 5, "entered": 10, "lost": 1}, {"in_flight": 3, "entered": 30, "lost": 4}
    first, last = (durability.Durable({}, {}, Counter(), Counter(of)) for of in seen)
    assert (last - first).identity == {"in_flight": 3, "entered": 20, "lost": 3}


def test_the_main_groups_are_those_of_reads_and_writes():
    flow = live_figures.Flow
    flows = {("a", "read"): flow(60), ("b", "write"): flow(50), ("c", "fsync"): flow(900),
             ("d", "write"): flow(40), ("e", "read"): flow(30)}  # fmt: skip
    seen = [SimpleNamespace(figures=live_figures.Look(flows=flows)) for _ in range(2)]
    assert live_pilot.main_groups(seen) == ("a", "b", "d")
    alone = SimpleNamespace(figures=live_figures.Look(flows={("a", "read"): flow(60)}))
    assert live_pilot.main_groups([alone]) == ()


def test_the_load_has_to_stop_for_several_periods_in_a_row_and_each_gap_is_told_once():
    made, told = live.LiveSession.__new__(live.LiveSession), []
    made.devices, made.report = SimpleNamespace(queues=("sda", "sdb")), told.append
    made._idle_periods = made._without_figure = 0
    for _ in range(live.IDLE_PERIODS_MOST):
        made._expect_load(False)
        made._expect_load(True)
    for _ in range(live.IDLE_PERIODS_MOST - 1):
        made._expect_load(False)
    with pytest.raises(HostError, match="nothing used sda, sdb in"):
        made._expect_load(False)
    for at, missing in enumerate((True, True, False, True)):
        made._report_missing([gates.GateFinding("no-value", f"why {at}")] if missing else [])
    assert [line.rpartition(": ")[2] for line in told] == ["why 0", "why 3"]


def test_the_last_ejection_of_all_records_of_the_log_is_the_reason(tmp_path, monkeypatch):
    log = tmp_path / "kmsg"
    lines = [f'sched_ext: BPF scheduler "s" disabled (reason {at})' for at in (1, 2)]
    log.write_text("\n".join([lines[0], lines[1], *["other"] * 30]))
    monkeypatch.setattr(cpu_ext, "KERNEL_LOG", log)
    monkeypatch.setattr(cpu_ext, "RECORD_BYTES_MAX", len(lines[0]) + 1)
    assert cpu_ext._reason() == "reason 2"
    told = []
    for state in ("enabled", "disabled"):
        (tmp_path / "state").write_text(state)
        told += [gate.detail for gate in cpu_ext.Loaded(tmp_path, "s", "1", "0", False).findings()]
    # The log may be of an earlier scheduler.
    assert told == ["the scheduler s was ejected, or refused tasks (state enabled)",
                    "the kernel ejected the scheduler: reason 2"]  # fmt: skip


def test_usual_frequencies_and_files_of_a_start_are_all_that_were_seen(monkeypatch):
    before, watch = gates.Snapshot(0.0, 0.0, 0.0, 0, 0, 0, 0), gates.Watch()
    for khz in (3e6, 1e6, 2.5e6):
        monkeypatch.setattr(gates, "snapshot", lambda device, khz=khz: replace(
            before, frequency_khz=khz))  # fmt: skip
        watch.before(0)
    assert watch._frequencies_khz == [3e6, 1e6, 2.5e6]
    group = SimpleNamespace(files=("a", "b"))
    order = launch.order_of(launch.Launch(["/bin/true"], Path("/"), {}, cgroups=("b", "c")), group)
    assert order["cgroups"] == ["a", "b", "c"]


def test_both_views_of_a_setting_are_found_and_late_ones_go_back_last(tmp_path, monkeypatch):
    paths = {name: tmp_path / name for name in ("dirty_ratio", "dirty_bytes", "late", "other",
                                                  "swap")}  # fmt: skip
    for at, path in enumerate(paths.values()):
        path.write_text(str(at))
    views = {paths["dirty_ratio"]: paths["dirty_bytes"], paths["other"]: paths["swap"]}
    monkeypatch.setattr(candidate_settings.knobs, "companion", views.get)
    monkeypatch.setattr(candidate_settings.knobs, "is_late", lambda path: path.name == "late")
    monkeypatch.setattr(candidate_settings.knobs, "one_of_each", lambda found: found)
    wrote = []
    control = SimpleNamespace(write_knob=lambda path, text: wrote.append((path.name, text)))
    made = candidate_settings.CandidateSettings(control, (), [])
    wanted = [("late", paths["late"], "9"), ("ratio", paths["dirty_ratio"], "8"),
              ("other", paths["other"], "7")]  # fmt: skip
    monkeypatch.setattr(made, "_knobs", lambda values: wanted)
    made._find({})
    assert {path.name for path in made._found} == {*paths}
    made._leave_alone(set())
    assert wrote[-1] == ("late", "2") and sorted(wrote) == [
        ("dirty_bytes", "1"), ("dirty_ratio", "0"), ("late", "2"), ("other", "3"),
        ("swap", "4")]  # fmt: skip
    wrote.clear()
    made._leave_alone({*views})
    assert wrote == [("late", "2")]


def test_what_a_candidate_sets_is_told_of_all_queues_and_the_longest_switch_counts(monkeypatch):
    clock, took = iter([0.0, 5.0, 5.0, 6.0, 6.0, 8.0]), iter([("a", "1"), ("b", "2"), ("c", "3")])
    monkeypatch.setattr(candidate_settings.time, "monotonic", lambda: next(clock))

    def set_scheduler(queue, scheduler, tunables, found):
        return SimpleNamespace(scheduler=scheduler, tunables=dict([next(took)]))

    control = SimpleNamespace(set_scheduler=set_scheduler)
    made = candidate_settings.CandidateSettings(control, ("x", "y", "z"), [])
    assert made._set_queues({"scheduler": "bfq"}) == (
        {"scheduler": "bfq", "a": "1", "b": "2", "c": "3"}, 5.0)  # fmt: skip


def test_memory_processes_and_devices_of_a_snapshot_count_both_ways(monkeypatch, tmp_path):
    monkeypatch.setattr(gates, "vmstat", lambda: {"pswpin": 3, "pswpout": 4})
    times = SimpleNamespace(user=1, system=2, children_user=4, children_system=8)
    monkeypatch.setattr(gates.os, "times", lambda: times)
    seen = gates.snapshot(None)
    assert (seen.swapped_pages, seen.own_s) == (7, 15)
    (tmp_path / "sdx").mkdir()
    (tmp_path / "sdx" / "stat").write_text("1 2 3 4 5 6 7 8 9 10 11\n")
    monkeypatch.setattr(gates, "BLOCK", tmp_path)
    assert gates.device_bytes("sdx") == (3 * 512, 7 * 512)
    text = b'{"jobs": [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "a", "v": 3}]}'
    assert metrics_from_output.json_values(text, "jobs[?n==a].v") == [1, 3]


@pytest.mark.parametrize("at", [1, 2])
def test_either_output_of_a_command_may_be_too_long(at):
    polls = iter([None, None])
    child = SimpleNamespace(wait=lambda _: next(polls))
    with launch._streams() as streams:
        os.write(streams[at], b"four")
        variables = {"PATH": "/bin", "C": "1", "A": "2", "B": "3"}
        order = launch.Launch(["true"], Path("/"), variables, output_limit_bytes=3)
        told = launch.order_of(order, WorkGroup(None, "x"))["environment"]
        assert told == ["PATH=/bin", "C=1", "A=2", "B=3"]
        assert launch._await(child, order, streams, lambda: None) == (False, True, None)


@pytest.mark.parametrize("disks", [("sdx", "sdy"), (), ("sdx",)])
def test_work_in_a_directory_is_on_a_device_only_where_it_is_one(tmp_path, monkeypatch, disks):
    for name in ("check_space", "fill"):
        monkeypatch.setattr(io.scratch, name, lambda *_: None)
    monkeypatch.setattr(io.devices, "disks_below", lambda _: [*disks])
    monkeypatch.setattr(io.devices, "size_bytes", lambda _: 5)
    monkeypatch.setattr(io, "logical_block_bytes", lambda _: 512)
    monkeypatch.setattr(io, "driver_tags", lambda _: 1)
    only = disks[0] if len(disks) == 1 else None
    asked = SimpleNamespace(target=Target("directory", str(tmp_path), 1 << 20))
    control = SimpleNamespace(directory=lambda path: path)
    for brings in (False, True):
        kinds = {("w", "none"): SimpleNamespace(brings_files=brings)}
        admitted = Admitted(asked, Permission(), kinds, queues=disks, place=str(tmp_path))
        target, _ = io.resolve(admitted, control, lambda _: None)
        raw_bytes = 5 if only and not brings else 1 << 20
        assert (target.device, target.raw_size_bytes) == (only, raw_bytes)


def test_every_group_and_every_device_is_captured(monkeypatch):
    captures, followed, finished = [], [], []

    def begun(text):
        captures.append(json.loads(text))
        return SimpleNamespace(finish=lambda: finished.append(text))

    monkeypatch.setattr(_core, "BlockCapture", begun)
    durability.Watched(SimpleNamespace(follow=followed.append), None).follow([3, 1, 2])
    assert followed == [3, 1, 2]
    explain.JobCapture("/dev/sdx").prepare(["c", "a", "b"])
    assert [each["name"] for each in captures.pop()["classes"]] == ["c", "a", "b"]
    devices = live.Devices(SimpleNamespace(expect_within=lambda _: None), (), ())
    devices.queues, devices._syncs = ("sdy", "sdx", "sdz"), None
    with devices.captured(1.0):
        assert finished == []
    assert len(finished) == 3
    assert [each["device"] for each in captures] == ["/dev/sdy", "/dev/sdx", "/dev/sdz"]
    paths = [Path(name) for name in "abc"]
    runs = CommandRuns.__new__(CommandRuns)
    runs.work, runs.standing = (SimpleNamespace(paths=of) for of in (paths[:2], paths[2:]))
    assert runs.groups == tuple(paths)


def test_the_time_of_a_workload_is_the_mean_of_its_runs_and_known_where_all_are():
    kinds = {(work, str(s)): SimpleNamespace(estimate_s=lambda s=s: s,
                                             knows_its_time=lambda s=s: s != 4)
             for work, times in (("v", (2, 4, 9)), ("w", (7, 1))) for s in times}  # fmt: skip
    admitted = Admitted(None, Permission(), kinds)
    assert [admitted.estimate_s(work) - OVERHEAD_S for work in "vw"] == pytest.approx([5, 4])
    known = [{key: kind for key, kind in kinds.items() if key[0] in of} for of in ("v", "w", "vw")]
    assert [replace(admitted, kinds=each).knows_its_time() for each in known] == [
        False,
        True,
        False,
    ]


def test_every_command_of_a_session_is_one_of_its_runs(monkeypatch):
    kinds = {name: Command(argv=(name,)) for name in ("cp", "ls", "dd")}
    monkeypatch.setattr(io_commands, "WorkPlace", lambda *_: SimpleNamespace(held=None))
    monkeypatch.setattr(io_commands, "Wall", lambda _: None)
    monkeypatch.setattr(io_commands, "CommandRuns", lambda control, wall, kinds: [*kinds])
    monkeypatch.setattr(launch, "launch_cost_s", lambda _: 0.0)
    asked = SimpleNamespace(workloads=[SimpleNamespace(label=name) for name in (*kinds, "read")],
                            candidates=["none"], target=None)  # fmt: skip
    admitted = SimpleNamespace(experiment=asked, kind=lambda work, _: kinds.get(work.label))
    session = SimpleNamespace(admitted=admitted, control=None, target=None)
    cells = io_commands.CommandCells(session, print)
    assert (cells.kinds, cells.runs) == (kinds, [*kinds.values()])


@pytest.mark.parametrize(("budget_s", "waits"), [(0, True), (1, False), (1 << 20, True)])
def test_only_a_short_budget_has_no_time_for_an_idle_machine(budget_s, waits):
    """A budget of 0 is none."""
    of = SimpleNamespace(target=Target(kind="path"), stopping=SimpleNamespace(budget_s=budget_s))
    target = SimpleNamespace(device=None)
    made = io.IoSession(SimpleNamespace(experiment=of, queues=()), target, None)
    assert bool(made._settle_s) is waits


def test_a_cache_is_warmed_with_no_more_than_half_of_the_memory(monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(cache, "read_files", lambda _, most: read.append(most))
    monkeypatch.setattr(cache, "_memory_bytes", lambda: 100)
    assert (cache.set_cache("warm", None, tmp_path, None), read) == ("warm", [50])


def test_a_server_that_stays_is_in_the_room_of_those_before_and_a_command_in_its_own():
    servers = WorkGroup(None, "setup")
    servers._room = lambda *_: 7
    beside = WorkGroup(None, "command", beside=servers)
    runs = CommandRuns(None, SimpleNamespace(), ())
    assert runs.work.beside is runs.standing
    rooms = [beside.room(Command(argv=("x",), keep_daemons=keep)) for keep in (True, False)]
    assert rooms == [7, None]


def test_a_run_has_the_figures_of_its_output_beside_those_of_fio_and_both_outputs(tmp_path):
    side = {"total_ios": 8, "iops": 4.0, "bw_bytes": 9, "lat_ns": {"N": 8, "mean": 7.0, "max": 9}}
    report = json.dumps({"fio version": "x", "jobs": [{"jobname": "j", "read": side}]})
    kind = FioJob(extract=("own:1/s=stdout~own ([0-9]+)", "more:1/s=stderr~more ([0-9]+)"))
    ended = Ended(2.0, 0, None, False, False, f"own 5\n{report}".encode(), b"more 6")
    runs = CommandRuns.__new__(CommandRuns)
    runs._readers = {}
    made = runs.outcome(Workload("w", "fio-job", "own"), kind, ended, tmp_path, 0.0)
    assert made.output == {"out": ended.stdout, "err": ended.stderr} and made.gates == ()
    assert made.metrics == {
        "elapsed_s": 2.0, "own": 5, "more": 6, "j.read.iops": 4, "j.read.bw_bytes": 9,
        "j.read.lat_ns_mean": 7, "j.read.lat_ns_max": 9,
    }  # fmt: skip


def test_each_workload_is_prepared_by_its_name_and_each_fact_of_a_device_is_told(
    tmp_path, monkeypatch
):
    prepared = []
    session = io.IoSession.__new__(io.IoSession)
    session.emulated, session.settings = None, SimpleNamespace(apply=lambda _: ({}, 0.0))
    session._with_groups = lambda kind: None
    kind = SimpleNamespace(prepare=lambda _, label: prepared.append(label))
    asked = experiment(workloads=tuple(Workload(name, "file-test", "iops") for name in "bac"))
    session.admitted = SimpleNamespace(experiment=asked, kind=lambda *_: kind)
    session.rehearse()
    assert prepared == [name for name in "bac" for _ in asked.candidates]
    monkeypatch.setattr(io.knobs, "queue_of", lambda _: tmp_path)
    monkeypatch.setattr(io, "driver_tags", lambda _: 31)
    for name, value in (("rotational", "1"), ("nr_requests", "64")):
        (tmp_path / name).write_text(value)
    assert io.device_facts("sdx") == {"driver_tags": 31, "rotational": 1, "nr_requests": 64}


def test_the_usual_frequency_is_that_in_the_middle_of_all_readings(monkeypatch):
    seen = replace(gates.snapshot(None), frequency_khz=1.5e6, in_states_s=0.0)
    for readings, is_slow in (((2e6, 2e6, 1e6), True), ((1e6, 1.2e6, 9e6), False)):
        assert bool(gates.frequency_findings(seen, seen, readings)) == is_slow
    (found,) = gates.findings(replace(seen, io_errors=3), replace(seen, io_errors=5), None)
    assert found.detail == "the device reports 2 errors"


def test_late_settings_of_a_candidate_are_its_last(monkeypatch):
    made = candidate_settings.CandidateSettings(SimpleNamespace(), (), [])
    scopes = {"q": "queue", "c": "machine", "late": "machine", "a": "group", "b": "work"}
    monkeypatch.setattr(candidate_settings.settings, "scope_of", scopes.get)
    monkeypatch.setattr(
        candidate_settings.settings, "resolve", lambda name, text, _: [(name, text)]
    )
    monkeypatch.setattr(candidate_settings.knobs, "is_late", lambda path: path == "late")
    found = made._knobs({"q": "0", "c": "1", "late": "2", "a": "3", "b": "4"})
    assert [name for name, *_ in found] == ["c", "a", "b", "late"]
