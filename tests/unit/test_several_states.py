"""Of several captures, waits, guards, records, settings, gates or series each counts: rooms that
add up, keep and restore what they saw."""

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from captures import whole
from experiments import experiment
from test_app_apply import RECORD, state  # noqa: F401
from test_executor import executor, folder  # noqa: F401
from test_live import FAST, SLOW, rated, snapshot

from schedlab.app.apply import applied, undo
from schedlab.app.apply.undo import Drift, Status
from schedlab.app.compare import quanta
from schedlab.app.measure import count, measure
from schedlab.app.trace import block_io
from schedlab.host import scratch
from schedlab.host.safety import control, leftovers, recover, write_ahead
from schedlab.host.settings import settings
from schedlab.kinds import Outcome
from schedlab.nouns import Candidate, GateFinding, Target
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.io import io
from schedlab.run.io.durability import Durable, Places, Waits
from schedlab.run.live.guard_rails import Rails, parse_guard
from schedlab.run.live.live_figures import Flow, Look, look


def test_a_look_is_the_sum_of_all_devices_and_its_age_the_oldest():
    one, both = (look(1.0, [snapshot(30)] * count) for count in (1, 2))
    for name in ("in_flight", "lost", "errors", "held", "gap_sectors", "sectors", "requests"):
        assert getattr(both, name) == 2 * getattr(one, name) > 0, name
    several = snapshot(30)  # both groups have one total
    several["groups"][0]["total"]["bins"] = [[*FAST, 10], [*SLOW, 20]]
    assert look(1.0, [several]).flow("read").bins == {FAST: 20, SLOW: 40}
    ages = {("db", "read"): 5, ("cp", "read"): 9, ("rm", "read"): 7}
    assert Look(ages_ns=ages).age_ns("read") == 9
    assert Flow(3, bins=Counter({(3, 4): 1, (8, 9): 1, (1, 2): 1})).slowest_ns == 10


def test_the_distance_to_a_limit_is_that_of_the_nearest_guard():
    guards = [parse_guard(f"read p99 > {limit}") for limit in ("40ms", "10ms", "20ms")]
    shares = [Rails([guard]).distance(rated(100, 5_000_000)) for guard in guards]
    assert Rails(guards).distance(rated(100, 5_000_000)) == max(shares) == shares[1]


def test_the_longest_wait_and_the_sum_are_of_all_calls():
    calls = {("db", (7, 0), "fsync"): Waits(1, 20, bins=Counter({(20, 29): 1})),
             ("cp", (7, 0), "fsync"): Waits(2, 100, bins=Counter({(40, 59): 2}))}  # fmt: skip
    values, _ = Durable(Places(((7, 0),)), calls, Counter(), Counter()).metrics()
    assert (values["fsync_latency_ns_max"], values["fsync_latency_ns_mean"]) == (59, 40)


def test_the_status_has_every_record_and_every_drift(tmp_path):
    for name in ("sdx", "sdy"):
        applied.store(replace(RECORD, device=name, identity=f"name:{name}"))
    found = undo.status(tmp_path)
    assert [each.record.device for each in found] == ["sdx", "sdy"]
    drift = tuple(Drift(key, "1", "2") for key in ("a", "b"))
    lines = undo.status_lines([Status(each.record, False, "none", drift) for each in found])
    assert [line.partition(":")[0] for line in lines if line[0] != " "] == ["sdx", "sdy"]
    assert lines.count("  a: 1 was set, it is 2") == lines.count("  b: 1 was set, it is 2") == 2


def test_all_settings_of_a_candidate_are_set_and_all_others_put_back(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "SYSCTL", tmp_path)
    (tmp_path / "vm").mkdir()
    for name in "abc":
        (tmp_path / "vm" / name).write_text("0")
    writes = []
    control = SimpleNamespace(write_knob=lambda path, text: writes.append((path.name, text)))
    both = [Candidate("one", {"sysctl.vm.a": 1, "sysctl.vm.b": 1}),
            Candidate("other", {"sysctl.vm.c": 1})]  # fmt: skip
    of = CandidateSettings(control, (), both)
    for candidate, expected in (
        (both[0], [("c", "0"), ("a", "1"), ("b", "1")]),
        (both[1], [("a", "0"), ("b", "0"), ("c", "1")]),
    ):
        writes.clear()
        of.apply(candidate)
        assert writes == expected


@pytest.mark.parametrize("fatal", [(True, False), (False, True)])
def test_a_run_is_discarded_for_any_of_its_gates_and_keeps_all_its_series(folder, fatal):  # noqa: F811
    gates = tuple(GateFinding("device-bytes", "x", each) for each in fatal)
    kept = {"reads": [[1, 1, 1, 1]], "writes": [[2, 2, 2, 2]]}

    def measure(cell, workload, candidate):
        return Outcome({"iops": 1.0}, gates=gates, series=kept, latencies=kept)

    runs = executor(folder)
    runs.session, runs.watch = SimpleNamespace(measure=measure), lambda progress: None
    runs._run_block(runs.blocks[0][:1], 0)
    (*_, run) = folder.runs()
    assert run.status == "discarded"
    assert sorted(run.raw) == [
        f"{what} {name}" for what in ("latencies", "series") for name in kept
    ]
    busy = tuple(GateFinding(name, "x") for name in ("others", "steal"))
    runs.attempts[runs.cells[0].key] = 1
    assert [each.fatal for each in runs._softened(runs.cells[0], busy)] == [False, False]


def test_every_disk_that_is_named_may_be_touched(monkeypatch):
    named = []
    monkeypatch.setattr(
        control, "Control", lambda named_devices, **_: nullcontext(named.append(named_devices))
    )
    monkeypatch.setattr(io, "open_session", lambda *_: nullcontext("it"))
    for target in (Target("device"), Target("directory", switch=("sda", "sdb", "sdc"))):
        admitted = SimpleNamespace(experiment=experiment(target=target), kinds={}, place="/dev/x")
        with measure.opened(admitted, SimpleNamespace(report=print)) as session:
            assert session == "it"
    assert named == [("/dev/x",), ("sda", "sdb", "sdc")]


def test_each_slice_has_its_own_effective_quantum(monkeypatch):
    monkeypatch.setattr(control, "Control", lambda **_: nullcontext())
    monkeypatch.setattr(quanta, "held_crew", lambda asked, _: nullcontext(
        (None, SimpleNamespace(effective_ms=2 * asked.policy.slice_ms))))  # fmt: skip
    typed = SimpleNamespace(slices=(1.0, 5.0, 20.0), policy="rr", priority=1, cpus=(0,),
                            calculation="primes")  # fmt: skip
    assert quanta.effective_slices(typed, print) == {1.0: 2.0, 5.0: 10.0, 20.0: 40.0}


def test_the_work_of_each_process_is_told():
    told, row = [], SimpleNamespace
    count._account([row(cpu_ns=n * 1e6, calculation_cpu_ns=n * 1e9, count=n * n,
                        voluntary_switches=10 * n, involuntary_switches=20 * n)
                    for n in (1, 2, 3)], told.append)  # fmt: skip
    assert told == [f"process {n - 1}: {n}.0 ms CPU, {n}.00 calculations per CPU second, {10 * n} "
                    f"voluntary and {20 * n} involuntary switches" for n in (1, 2, 3)]  # fmt: skip


def test_each_second_is_shown_beside_the_one_before(monkeypatch):
    nothing, shown = {"classes": [], "groups": []}, []
    seconds = (json.dumps(whole({**nothing, "elapsed_ns": n})) for n in (1, 2, 3))
    capture = SimpleNamespace(snapshot=lambda: next(seconds), finish=None)
    monkeypatch.setattr("schedlab._core.BlockCapture", lambda _: capture)
    monkeypatch.setattr(block_io.knobs, "device_name", str)
    monkeypatch.setattr(block_io.durability, "watch", lambda _: (None, {}))
    monkeypatch.setattr(block_io, "second_line", lambda now, before: (now, before))
    monkeypatch.setattr(block_io, "_while", lambda *of: [of[-1]() for _ in range(3)] and ({}, 0))
    block_io.watch_device("x", None, (), shown.append)
    pairs = [(now["elapsed_ns"], before and before["elapsed_ns"]) for now, before in shown]
    assert pairs == [(1, None), (2, 1), (3, 2)]


def test_a_loop_device_that_is_taken_meanwhile_is_disowned_and_the_next_one_tried(
    tmp_path, monkeypatch
):
    (tmp_path / "loop0").mkdir()
    monkeypatch.setattr(scratch.owned, "SYS_BLOCK", tmp_path)
    monkeypatch.setattr(scratch.owned, "add_loop", lambda number: number == 3)
    lines = []
    log = SimpleNamespace(append=lambda kind, path, **_: lines.append((kind, path)))
    assert scratch.new_loop(log, "file") == 3
    assert lines == [("own", "/dev/loop1"), ("disown", "/dev/loop1"), ("own", "/dev/loop2"),
                     ("disown", "/dev/loop2"), ("own", "/dev/loop3")]  # fmt: skip


@pytest.mark.parametrize("foreign", ["scheduler nr_requests", "nr_requests x", "x scheduler", ""])
def test_tags_stay_as_they_are_where_another_program_set_them(tmp_path, monkeypatch, foreign):
    widened, number = [], str(tmp_path / "nr_requests")
    monkeypatch.setattr(recover, "_widen_tags", lambda *_: widened.append(1))
    changes = [recover.KnobChange(str(tmp_path / name), "1", "2") for name in foreign.split()]
    known = SimpleNamespace(originals={}, written={number, str(tmp_path / "x")})
    recover._restore_queue(tmp_path, known, SimpleNamespace(foreign=changes, dry_run=False))
    assert bool(widened) != ("nr_requests" in foreign)


def test_what_is_made_is_known_after_a_reboot_where_it_would_stay(tmp_path, monkeypatch):
    noted, log = [], SimpleNamespace(path=tmp_path / "log", append=lambda *_, **__: None)
    monkeypatch.setattr(leftovers, "_note", lambda *of: noted.append(of[-2:]))
    for what in ("file", "loop", "directory"):
        leftovers.own(log, what, f"/{what}")
    assert noted == [("file", "/file"), ("directory", "/directory")]


def test_all_that_a_write_caused_is_in_the_journal(monkeypatch):
    lines, caused = [], {"/a": "1", "/b": "2", "/c": "3"}
    for name, of in (("caused", lambda *_: caused), ("Path", str)):
        monkeypatch.setattr(write_ahead, name, of)
    monkeypatch.setattr(write_ahead.journalled, "is_knob", lambda _: True)
    for name in ("queue_above", "companion", "write_value"):
        monkeypatch.setattr(write_ahead.knobs, name, lambda *_: None)
    log = SimpleNamespace(append=lambda kind, **of: lines.append((kind, of.get("values"))))
    assert write_ahead.write(log, "/x", "0", "9") == caused
    assert lines == [("write", None), ("after", caused)]
