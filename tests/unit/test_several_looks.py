"""Of several devices, sensors, CPUs, processes or calls each counts in what a run looks at."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import answers
import pytest
import reports
from calls import refused
from experiments import Clock, experiment
from test_app_apply import RECORD, state  # noqa: F401
from test_live import flow
from test_setters import write

from schedlab.analyse import answer_check
from schedlab.app import setting_checks, targets
from schedlab.app.apply import undo, watch
from schedlab.app.compare import comparison, difference
from schedlab.app.fleet import merge
from schedlab.app.measure import labs, virtual
from schedlab.app.measure.files import experiment_of
from schedlab.cpu import crew
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import HostError, SpecError
from schedlab.guest import kernels, machine
from schedlab.host import devices, doctor, kernel_paths, processes
from schedlab.host.emulated import emulated, emulated_removal
from schedlab.host.safety import journalled, owned
from schedlab.host.settings import knobs, setters, settings, udev
from schedlab.kinds import Outcome
from schedlab.nouns import Candidate, Flag, Population, Target
from schedlab.nouns.convert import convert
from schedlab.nouns.durability import OPERATION_OF
from schedlab.nouns.metrics import METRICS
from schedlab.nouns.results import LatencySeries
from schedlab.report import bursts as report_bursts
from schedlab.report import (
    difference_page,
    exchange,
    fleet_table,
    frame,
    notes,
    screen,
    sentences,
    steps,
    terminal,
    tune_page,
)
from schedlab.report.heat import Scale
from schedlab.run import gates, other_programs
from schedlab.run.admitted import Permission
from schedlab.run.command import metrics_from_output
from schedlab.run.executor import Executor
from schedlab.run.io import durability, io, io_commands
from schedlab.run.io.durability import Places
from schedlab.run.live import live_pilot
from schedlab.run.live.live_figures import Look
from schedlab.store import compiled
from schedlab.store.importers import iozone
from schedlab.tune.search import Search
from schedlab.tune.space import Range, SchedulerSpace, Space, Tunable, table_space


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """A directory in the place of /sys/block, for the knobs and for the gates."""
    monkeypatch.setattr(gates, "BLOCK", tmp_path / "block")
    for name in ("SYS_BLOCK", "CLASS_BLOCK"):
        monkeypatch.setattr(knobs, name, tmp_path / "block")
    return tmp_path / "block"


def test_all_devices_and_sensors_are_looked_at(blocks, tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "vmstat", dict)
    for name, counts in (("sda", "0 0"), ("sdb", "0 3"), ("sdc", "0 0")):
        write(blocks, f"{name}/inflight", f"  {counts}\n")
    assert gates._unquiet(["sda", "sdb", "sdc"]) == "sdb has 0 + 3 requests in flight"
    assert gates._unquiet(["sda", "sdc"]) == ""
    monkeypatch.setattr(gates, "vmstat", lambda: {"nr_writeback": 0, "nr_dirty": 1 << 30})
    assert gates._unquiet([]).endswith(" KiB are dirty")
    monkeypatch.setattr(gates, "HWMON", tmp_path / "hwmon")
    for number, (name, now) in enumerate((("nvme", 70), ("cpu", 99), ("nvme", 90), ("nvme", 85))):
        home = f"hwmon/hwmon{number}"
        (tmp_path / "devices" / f"nvme{number}").mkdir(parents=True)
        for file, text in (("name", name), ("temp1_input", f"{now}000"), ("temp1_max", "80000")):
            write(tmp_path, f"{home}/{file}", text)
        (tmp_path / home / "device").symlink_to(tmp_path / "devices" / f"nvme{number}")
    assert [each.split()[0] for each in gates._too_hot()] == ["nvme2", "nvme3"]


def test_the_figures_of_all_cpus_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr(gates, "CPU", tmp_path)
    monkeypatch.setattr(gates, "PROC", tmp_path)
    for number, khz in enumerate((1000, 2000, 6000)):
        write(tmp_path, f"cpufreq/policy{number}/scaling_cur_freq", str(khz))
        write(tmp_path, f"cpufreq/policy{number}/stats/time_in_state", f"{khz} 100\n10 300\n")
        for kind in ("core", "package"):
            write(tmp_path, f"cpu{number}/thermal_throttle/{kind}_throttle_count", f"{number + 1}")
    write(tmp_path, "vmstat", "nr_dirty 1\nnr_writeback 2\npgpgin 3\n")
    assert gates.vmstat() == {"nr_dirty": 1, "nr_writeback": 2, "pgpgin": 3}
    assert (gates._frequency_khz(), gates._throttled()) == (3000.0, 12)
    assert gates._time_in_states() == pytest.approx((9090.0, 12.0))


def test_bytes_are_those_of_every_queue_and_one_that_is_gone_is_named(monkeypatch):
    now = {"sda": (1, 2), "sdb": (3, 4), "sdc": (5, 6), "sdd": (7, 8)}
    monkeypatch.setattr(gates, "device_bytes", now.__getitem__)
    before = dict.fromkeys(now, (1, 1))
    moved = io_commands._moved_since(before, ["sda", "sdb"])
    assert moved == ({"sda": 1, "sdb": 5}, {"sdc": 9, "sdd": 13})

    def gone(queue):
        if queue == "sdb":
            raise OSError
        return now[queue]

    monkeypatch.setattr(gates, "device_bytes", gone)
    with pytest.raises(HostError, match="sdb was removed"):
        io_commands._moved_since(before, ["sda", "sdb"])


def test_calls_waits_and_writers_of_all_processes_and_devices_count():
    def call(process, device, name, bins):
        count = sum(of for *_, of in bins)
        return {"call": name, "process": process, "device": device, "returned": count,
                "sum_ns": 10 * count, "parts_ns": [count, 0, 0], "bins": bins}  # fmt: skip

    one, fsync = next(iter(OPERATION_OF.items()))
    calls = [call("db", [8, 0], one, [[5, 6, 4], [1, 2, 3]]), call("db", [8, 0], one, [[1, 2, 5]]),
             call("cp", [8, 16], one, [[1, 2, 7]])]  # fmt: skip
    writers = [{"calls": who == "db", "process": who, "bytes": n}
               for who, n in (("db", 1), ("cp", 2), ("cp", 4))]  # fmt: skip
    waiting = [["db", [8, 0], one, 5], ["db", [8, 0], one, 9], ["db", [8, 0], one, 7],
               ["cp", [8, 16], one, 3]]  # fmt: skip
    snapshot = {"calls": calls[:2], "commits": calls[2:], "writers": writers, "waiting": waiting,
                "accounting": {"lost": 1, "entered": 9}}  # fmt: skip
    seen = durability._read(json.dumps(snapshot), Places(((8, 0), (8, 16))))
    assert seen.calls["db", (8, 0), fsync].bins == {(1, 2): 8, (5, 6): 4}
    assert (seen.of(fsync).returned, len(seen.calls)) == (19, 2)
    assert seen.of(fsync).parts_ns == (19, 0, 0)
    other = next(
        name for name, of in OPERATION_OF.items() if of == durability.durability.SYNCED_WRITE
    )
    more = {**snapshot, "calls": [*calls, call("db", [8, 0], other, [[1, 2, 6]])], "commits": []}
    assert durability._read(json.dumps(more), seen.places).chain().calls == 25
    assert seen.written == {durability.OWN: 1, "cp": 6}
    assert seen.ages_ns == {("db", fsync): 9, ("cp", fsync): 3}
    assert [ns for name, ns in seen.metrics()[0].items() if name.endswith("_max")] == [6.0]
    assert seen.identity == {"lost": 1, "entered": 9}


def test_the_main_load_is_that_of_all_candidates():
    def seen(**reads):
        flows = {(name, "read"): flow(fast=n) for name, n in reads.items()}
        return live_pilot.Switched("x", 0.0, 0.0, 1.0, Look(flows=flows), {})

    write_ = replace(seen(), figures=Look(flows={("db", "write"): flow(fast=250)}))
    looks = [seen(db=100, cp=100), seen(db=100, cp=1), write_]
    assert live_pilot.main_operation(looks) == "read"
    assert live_pilot.main_operation(looks[1:]) == "write"
    assert live_pilot.main_groups(looks) == ("db", "cp")
    few = round(1.5 * live_pilot.GROUP_SHARE * 100)
    assert live_pilot.main_groups([seen(db=100), seen(cp=100, rm=few)]) == ("db", "cp")


def test_time_of_every_other_program_counts_and_ours_is_every_group(monkeypatch, tmp_path):
    def process(parent, own_s, waited_s=0.0):
        return other_programs.Process(parent, own_s, waited_s)

    before = other_programs.UserProcesses({(5, 1): process(1, 1.0), (6, 1): process(1, 2.0)})
    after = other_programs.UserProcesses({(5, 1): process(1, 2.0), (6, 1): process(1, 4.0),
                                          (7, 1): process(1, 8.0, 16.0)})  # fmt: skip
    assert other_programs.other_s(before, after) == 1 + 2 + 8 + 16
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 1}
    fields = {pid: ["S", str(parent), *["0"] * 40] for pid, parent in parents.items()}
    monkeypatch.setattr(processes, "every", lambda: list(parents))
    monkeypatch.setattr(processes, "stat_fields", fields.__getitem__)
    monkeypatch.setattr(processes, "below", lambda group: [int(group.name), 99])
    found = other_programs.user_processes(10, [tmp_path / "20", tmp_path / "30"])
    assert sorted(pid for pid, _ in found.others) == [1]
    assert sorted(pid for pid, _ in found.ours) == [10, 11, 12, 20, 21, 30]


def test_all_that_changed_is_told_and_all_that_differs_is_a_drift(blocks):
    queue = blocks / "sda/queue"
    for name in ("scheduler", "a", "b", "iosched/x"):
        write(queue, name, "1")
    before = {queue / name: "1" for name in ("a", "b", "iosched/x", "gone")}
    now = {queue / name: "2" for name in ("a", "b", "iosched/x", "new")}
    changes = watch._changes("sda", before, now, {})
    told = [(each.setting, each.before, each.after) for each in changes]
    assert told == [("a", "1", "2"), ("b", "1", "2"), ("gone", "1", "(absent)"),
                    ("iosched/x", "1", "2"), ("new", "(absent)", "2")]  # fmt: skip
    switched = {**now, queue / "a": "3", queue / "iosched/x": "3", queue / "scheduler": "bfq"}
    changes = watch._changes("sda", now, switched, {})
    assert [each.setting for each in changes] == ["a", "scheduler"]
    written = {str(queue.resolve() / name): None for name in ("b", "iosched/x")}
    changes = watch._changes("sda", before, now, written)
    assert [each.setting for each in changes] == ["b", "iosched/x"]
    wanted = {"b": "1", "a": "1", "c": "1", "scheduler": "bfq"}
    drift = undo._drift(wanted, {"a": "2", "b": "2", "c": "1", "scheduler": "bfq"})
    assert [(each.key, each.found) for each in drift] == [("a", "2"), ("b", "2")]
    drift = undo._drift({**wanted, "iosched/x": "1"}, {"a": "2", "scheduler": "none"})
    assert [each.key for each in drift] == ["scheduler", "a", "b", "c"]


def test_all_members_of_a_btrfs_partitions_and_holders_are_found(blocks, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "SYS_BTRFS", tmp_path / "btrfs")
    for pool, names in (("u1", "sda sdb"), ("u2", "sdc sdd")):
        for name in names.split():
            (tmp_path / "btrfs" / pool / "devices" / name).mkdir(parents=True)
    assert [devices.btrfs_members(f"sd{letter}") for letter in "bde"] == [
        ("sda", "sdb"), ("sdc", "sdd"), ()
    ]  # fmt: skip
    for number in (1, 2):
        write(blocks, f"sda/sda{number}/partition", str(number))
        for holder in ("dm-0", "dm-1"):
            (blocks / f"sda/sda{number}/holders" / f"{holder}{number}").mkdir(parents=True)
    write(blocks, "sda/size", "8")
    found = devices.reasons_in_use(blocks / "sda")
    for number in (1, 2):
        assert f"it has partition sda{number}" in found
        for holder in ("dm-0", "dm-1"):
            assert f"it is held by {holder}{number} (sda{number})" in found


@pytest.mark.parametrize(("made", "expected"), [
    (lambda: crew._listed([7, 0, 1, 2, 5, 4]), "0-2,4-5,7"),
    (lambda: crew.pids_of(SimpleNamespace(pids=lambda: [("b", 9), ("a", 3), ("c", 7)])), [9, 3, 7]),
    (lambda: knobs.accepts("x a=1", "a=1 x"), False),
    (lambda: knobs.accepts("a=1 b=2 c=3", "c=3 a=1"), True),
    (lambda: knobs.accepts("a=1 b=2", "a=1 b=3"), False),
    (lambda: CpuPolicy("rr", 1, slice_ms=20, autogroup="off", knobs={"knob.x": 1}).host_settings,
     {"knob.x": 1, "knob.sched_rr_timeslice_ms": 20, "knob.sched_autogroup_enabled": 0}),
    (lambda: journalled.is_whole({"kind": "queue", "queue": "q", "values": {"a": "1", "b": 2}}),
     False),
    (lambda: [*map(journalled.is_knob, (f"{settings.SYSCTL}/vm/x", f"{settings.DEBUG}/x",
                                        f"{settings.CPUFREQ}/policy0/x", "/etc/x"))],
     [True, True, True, False]),
    (lambda: refused(comparison.families_of, ["file-tests", "x"], None)[0].split("'")[1], "x"),
    (lambda: refused(virtual.check, experiment(kind="cpu", target=Target("none"), candidates=(
        Candidate("a", {"policy": "other"}), Candidate("b", {"policy": "ext"}))),
        SimpleNamespace(has=lambda _: False, release="6.1", schedulers=()))[0].split("'")[1],
     "b"),
    (lambda: targets._without_root(experiment(candidates=(
        Candidate("a", {"scheduler": "as-is"}), Candidate("b", {"scheduler": "bfq"})))),
     targets.SIMULATED_QUEUE),
    (lambda: merge._ends([SimpleNamespace(plan=SimpleNamespace(ends=ends, blocks=4))
                          for ends in ((6, 2), (), (5, 7))], 5), (31,)),
    (lambda: [setters._aims_at(f"/sys/{of}/block/sd*/queue/scheduler".replace("//", "/"), "sda")
              for of in ("", "class", "else")], [True, True, False]),
    (lambda: kernel_paths._decoded(rb"a\040b\011c\134"), "a b\tc\\"),
    (lambda: refused(experiment_of, {"parameters": 1, "fixed": 2}, "x")[0].split("'")[1], "fixed"),
])  # fmt: skip
def test_of_several_parts_each_has_its_place(made, expected):
    assert made() == expected


@pytest.mark.parametrize("order", [1, -1])
def test_pictures_are_as_long_as_the_longest_and_fronts_beat_the_best_so_far(order):
    timeline = [(0, 0, 900), (1, 100, 1500), (0, 950, 200)][::order]
    drawn = report_bursts.draw("T", timeline, [(1, 10, 3), (400, 900, 2), (20, 30, 9)][::order])
    assert "first 0.00 s" in drawn and drawn.count("2 bursts") == drawn.count("3 bursts") == 1
    metrics = (METRICS["iops"], METRICS["elapsed_s"])
    places = {"a": (9.0, 9.0), "b": (8.0, 7.0), "c": (7.0, 8.0), "d": (6.0, 3.0), "e": (5.0, 5.0)}
    trials = [tune_page.Trial(name, "", 1, 0.0, None, None, True, False, *at)
              for name, at in places.items()][::order]  # fmt: skip
    assert [trial.label for trial in tune_page.front(trials, metrics)] == ["a", "b", "d"]
    scales = {name: 0.1 * at for at, name in enumerate("xyzuvw")}
    known = [*tune_page.ranked(dict([*scales.items()][::order]))]
    assert [name for name, _ in known] == [*"wvuzyx"]


@pytest.mark.parametrize("order", [1, -1])
def test_equal_candidates_are_named_with_all_their_rows_and_shares_told_where_they_differ(order):
    of = answers.TRADE
    view = reports.view_of(of)
    both = {row.name: [("bfq", "mq-deadline"), ("none", "kyber")][: 2 - (row.name == answers.SEQ)]
            for row in of.rows}  # fmt: skip
    view.__dict__["identical"] = both
    second, first = sentences._identical(view)
    titles = [view.title_of(row) for row in view.chosen if row.name != answers.SEQ]
    assert first == view.texts("answer.identical", names="none and kyber",
                               rows=view.texts.listed(titles))  # fmt: skip
    assert "bfq" in second and view.title_of(answers.ROWS[2]) in second
    rows = tuple(replace(row, role="part", share=share) for row, share in
                 zip(answers.ROWS[:3], (0.3, 0.4, 0.3)[::order], strict=True))  # fmt: skip
    mixed = reports.view_of(replace(answers.SHARES, rows=(answers.SHARES.rows[0], *rows), cells={
        **dict.fromkeys((row.name for row in rows), answers.SHARES.cells["w0"]),
        answers.SHARES.rows[0].name: answers.SHARES.cells["w0"]}))  # fmt: skip
    assert "40 %" in sentences._mix(mixed)[0].replace("\u00a0", " ")


def test_facts_of_a_workload_are_in_its_runs_until_one_of_them_counts():
    made = io.IoSession.__new__(io.IoSession)
    made.described, made.emulated, made.commands = set(), None, None
    made.fidelity = {name: {"device": name} for name in "vw"}
    soft, hard = (gates.GateFinding("x", "", fatal=fatal) for fatal in (False, True))
    told = []
    for name, found in (("v", (soft, hard)), ("w", ()), ("v", (soft, soft)), ("v", ()), ("w", ())):
        of = made._with_description(Outcome({}, gates=found), None, name)
        told.append(of.properties.get("fidelity", {}).get("device", ""))
    assert told == ["v", "w", "v", "", ""]


def test_the_nearest_lines_differ_and_json_begins_with_either_bracket():
    text = b"total 5\ntotal 5\nother\nsubtotal 7\nzzz\nqqq\n"
    near = metrics_from_output._nearest("total (\\d+) x", text)
    assert near.count("'total 5'") == 1 and "'subtotal 7'" in near
    for text, path, found in ((b'x [{"a": 1}, {"a": 2}]', "[1].a", [2]),
                              (b'{"b": [3, 4]} [9]', "b[1]", [4])):  # fmt: skip
        assert metrics_from_output.json_values(text, path) == found


@pytest.mark.parametrize("order", [1, -1])
def test_processes_that_were_ours_and_spaces_of_all_schedulers_are_looked_at(order):
    process = other_programs.Process
    keys = [((pid, 1), process(1, float(pid), 0.0)) for pid in (3, 5, 7)][::order]
    before = other_programs.UserProcesses({}, {(5, 1): process(1, 1.0, 0.0)})
    after = other_programs.UserProcesses(dict(keys), {})
    assert other_programs.other_s(before, after) == 10.0
    space = table_space(["mq-deadline", "bfq", "kyber"][::order])
    assert space.size == sum(
        len(space.tunables_of(each)) for each in ("mq-deadline", "bfq", "kyber")
    )
    own = [Range("low_latency", 0, 1), Range("fifo_batch", 2, 3), Range("nomerges", 1, 1)][::order]
    named = {t.name: (t.low, t.high) for t in table_space(["mq-deadline"], own).tunables_of(
        "mq-deadline")}  # fmt: skip
    assert (named["fifo_batch"], named["nomerges"]) == ((2, 3), (1, 1))
    assert "low_latency" not in named


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_block_that_any_cell_began_is_no_end(at):
    made = Executor.__new__(Executor)
    cells = [SimpleNamespace(key=key, block=3) for key in "abc"]
    written = []
    made.folder = SimpleNamespace(plan=SimpleNamespace(ends=(2, 9), cells=cells),
                                  write_plan=written.append)  # fmt: skip
    made.experiment = SimpleNamespace(stopping=SimpleNamespace(mode="fixed"))
    made.blocks, made.attempts = [[], [], [], cells], {"abc"[at]: 1}
    made._end_before(3)
    made.attempts, made._read_plan = {}, lambda: None
    made._end_before(3)
    assert [(plan.cells, plan.ends) for plan in written] == [((), (2, 3))]


def test_every_process_of_a_name_every_server_and_every_group_is_found(monkeypatch):
    names = {1: "a", 2: "b", 3: "a", 4: "a"}
    monkeypatch.setattr(processes, "every", lambda: [*names])
    monkeypatch.setattr(processes, "name_of", names.get)
    assert processes.called("a") == [1, 3, 4]
    own = (emulated_removal.SERVER_MODULE.encode(), b"/x")
    lines = {1: [*own], 2: [b"/x"], 3: [*own, b"y"], 4: own[:1]}
    monkeypatch.setattr(emulated_removal, "Path", lambda path: SimpleNamespace(
        read_bytes=lambda: b"\0".join(lines[int(path.split("/")[2])])))  # fmt: skip
    assert emulated_removal.servers("/x") == [1, 3]
    ended = []
    monkeypatch.setattr(emulated_removal, "servers", lambda _: [])
    monkeypatch.setattr(emulated_removal, "end_servers", ended.append)
    kind = emulated_removal.KIND
    things = ("file", kind, "mount", kind)
    emulated_removal.quiesce([{"what": what, "path": what} for what in things])
    assert ended == [kind, kind]
    kinds = [SimpleNamespace(is_v2=root == "/b", root=root) for root in ("/a", "/b")]
    monkeypatch.setattr(owned.kernel_paths, "hierarchies", lambda: kinds)
    assert owned.cgroup_root() == "/b"
    monkeypatch.setattr(doctor.shelter, "confining_groups", lambda: ["/a", "/b"])
    monkeypatch.setattr(doctor.shelter, "has_systemd", lambda: False)
    assert next(doctor.guardian()).found == "stays in /a, /b"


@pytest.mark.parametrize("order", [1, -1])
def test_a_device_is_written_to_where_any_workload_writes(order, monkeypatch):
    monkeypatch.setattr(targets.knobs, "device_name", str)
    monkeypatch.setattr(targets, "_check_bare", lambda *_: None)
    kinds = [SimpleNamespace(writes=lambda of=of: of) for of in (False, True)][::order]
    asked = experiment(target=Target("device", "/dev/x"))
    assert "a workload writes" in refused(targets._device, asked, kinds, Permission())[0]


def test_kernels_are_those_that_can_be_read_by_their_numbers(tmp_path, monkeypatch):
    def kernel_of(image):
        if image.name.endswith("x"):
            raise SpecError("none", "")
        name = image.name.removeprefix("vmlinuz-")
        return SimpleNamespace(release=image.parent.name if name == "vmlinuz" else name)

    monkeypatch.setattr(kernels, "cache", lambda name: tmp_path / name)
    monkeypatch.setattr(kernels, "kernel_of", kernel_of)
    images = [tmp_path / f"vmlinuz-{name}" for name in ("1x", "6.2", "2x", "6.12", "6.1", "3x")]
    for image in images:
        image.touch()
    assert [each.release for each in kernels._readable(images)] == ["6.2", "6.12", "6.1"]
    for name in ("5.4/boot/vmlinuz-5.4", "6.9/boot/vmlinuz-6.9", "x/usr/lib/modules/6.7/vmlinuz",
                 "y/usr/lib/modules/6.13/vmlinuz"):  # fmt: skip
        (tmp_path / "kernels" / name).parent.mkdir(parents=True)
        (tmp_path / "kernels" / name).touch()
    assert [each.release for each in kernels.every(tmp_path)] == [
        "5.4", "6.1", "6.2", "6.7", "6.9", "6.12", "6.13"
    ]  # fmt: skip


def test_either_side_of_a_change_has_its_own_boots_and_every_candidate_counts(monkeypatch):
    sides = [SimpleNamespace(experiment=experiment(), analysed_runs=[
        SimpleNamespace(session=name) for name in names]) for names in ("aabc", "dd")]  # fmt: skip
    counted = []
    monkeypatch.setattr(difference, "changes", lambda *_: ({}, "blocks"))
    monkeypatch.setattr(difference, "_with_figures", lambda answers, _: answers)
    monkeypatch.setattr(difference, "boot_of", str)
    monkeypatch.setattr(difference.difference_page, "BootCounts", lambda *of: counted.append(of[0]))
    monkeypatch.setattr(difference.difference_page, "changed", lambda *_: None)
    difference._changed(*sides, ("x", "y"), {}, None)
    assert counted == [(3, 1)]
    cell = SimpleNamespace(low=0.2, loss=0.3, up=0.4, open=False)
    answer = SimpleNamespace(counted=["r", "s"], margin=0.1, cells={"r": {}, "s": {"y": cell}})
    of = SimpleNamespace(names=("x", "y"), record=sides[0], answers={"bfq": answer})
    assert [found[:2] for found in difference.Difference.decided(of)] == [("bfq", "s")]


def test_all_files_of_each_setting_are_planned_on_each_device(monkeypatch):
    monkeypatch.setattr(setting_checks.settings, "resolve", lambda name, value, place: [
        (f"/{place.device}/{name}{n}", f"{value}") for n in (1, 2)])  # fmt: skip
    places = [SimpleNamespace(device=name) for name in ("sda", "sdb")]
    found = setting_checks.planned_writes(Candidate("c", {"x": 3, "y": 4}), places)
    assert found == [(f"/{device}/{name}{n}", value) for device in ("sda", "sdb")
                     for name, value in (("x", "3"), ("y", "4")) for n in (1, 2)]  # fmt: skip


def test_a_lab_has_a_title_and_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr(labs, "PACKAGE", tmp_path)
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs/a.toml").write_text("title = 'x'\nstudy = 'y'\n")
    assert [*labs.labs.__wrapped__()] == ["a"]
    for own, missing in (("title = 'x'", "study"), ("study = 'x'", "title")):
        (tmp_path / "labs/b.toml").write_text(own)
        assert refused(labs.labs.__wrapped__)[0].endswith(f"b.toml: has no {missing}")


def test_a_group_is_found_by_the_first_controller_and_a_property_by_its_last_line(
    tmp_path, monkeypatch
):
    known = [SimpleNamespace(root=root, controllers=of, is_v2=not of)
             for root, of in (("/cpu", {"cpu", "y"}), ("/io", {"blkio"}), ("/v2", ()))]  # fmt: skip
    monkeypatch.setattr(kernel_paths, "hierarchies", lambda: known)
    monkeypatch.setattr(kernel_paths, "_texts", lambda _: ["4:blkio,x:/b", "3:cpu,z:/a", "0::/c"])
    assert kernel_paths.groups_of() == {"/io": "/b", "/cpu": "/a", "/v2": "/c"}
    write(tmp_path, "sys/block/sda/dev", "8:0\n")
    write(tmp_path, "run/udev/data/b8:0", "S:x\nE:A=1\nE:B=2\nE:A=3\n")
    stored = udev.disk("sda", tmp_path / "sys", tmp_path / "run").properties
    assert (stored["A"], stored["B"]) == ("3", "2")


def test_times_of_every_scheduler_are_stretched(tmp_path, monkeypatch):
    unit = min(emulated.TIME_UNITS)
    monkeypatch.setattr(emulated.knobs, "iosched", lambda: {
        name: {name: unit, f"{name}_count": "none"} for name in "abc"})  # fmt: skip
    for at, name in enumerate("abc", 1):
        write(tmp_path, f"iosched/{name}", f"{at}\n")
        write(tmp_path, f"iosched/{name}_count", "7\n")
    write(tmp_path, "wbt_lat_usec", "9\n")
    assert emulated.dilated(tmp_path, 4.0) == {
        "iosched/a": 4, "iosched/b": 8, "iosched/c": 12, "wbt_lat_usec": 36
    }  # fmt: skip


def test_a_machine_may_be_silent_after_each_line_and_tasks_of_all_groups_are_told(monkeypatch):
    monkeypatch.setattr(machine, "time", Clock(0.4 * machine._SILENCE_S))
    monkeypatch.setattr(machine.processes, "cpu_s", lambda _: 0.0)
    one = machine._Patience(1, "6.1")
    for _ in range(3):
        one.heard()
        one.check()
    one.check()
    assert "hangs" in refused(one.check)[0]

    def fails(_):
        raise OSError(1, "no")

    monkeypatch.setattr("schedlab._core.CpuCrew", fails)
    monkeypatch.setattr(crew, "explain", lambda _, policy, cpus, tasks: HostError(f"{tasks}"))
    job = {"cpus": [0], "groups": [{"tasks": count} for count in (2, 3, 4)]}
    with pytest.raises(HostError, match=r"^9$"), crew.held(job, CpuPolicy()):
        pass


@pytest.mark.parametrize("order", [1, -1])
def test_a_screen_and_a_table_have_what_comes_behind_a_gap(order, monkeypatch):
    both = (Flag("control-failed", answers.SEQ, ("none",)), Flag("no-baseline", values={
        "used": "x", "reason": "y"}))[::order]  # fmt: skip
    cells = {
        **answers.TRADE.cells,
        answers.SEQ: {
            name: cell for name, cell in answers.TRADE.cells[answers.SEQ].items() if name != "none"
        },
    }
    view = reports.view_of(replace(answers.TRADE, flags=both, cells=cells))
    titles = [line.partition(":")[0] for line in terminal._limits(view)][:2]
    assert titles == [notes.flag_title(view, flag) for flag in both]
    lines = [line.split(",") for line in exchange.csv_text(view).splitlines()[1:]]
    assert [words[6] for words in lines if words[0] == answers.SEQ] == [*answers.NAMES[1:]]
    told = ["one | two", "three", "four"]
    monkeypatch.setattr(exchange.why, "lines", lambda view: told)
    assert exchange._opening(view)[-1] == "* one \\| two\n* three\n* four"
    monkeypatch.setattr(steps, "recorded_device", lambda view: "/dev/x")
    named = dict(zip(answers.NAMES, ("none", "mq", "", "bfq")[::order], strict=True))
    monkeypatch.setattr(steps, "setting_of", lambda experiment, name: named[name])
    assert "live" not in steps.next_step(view).command
    named[answers.NAMES[2 if order == 1 else 1]] = "kyber"
    chosen = "none,mq,kyber,bfq" if order == 1 else "bfq,kyber,mq,none"
    assert steps.next_step(view).command == f"schedlab live /dev/x --schedulers {chosen}"


@pytest.mark.parametrize("order", [1, -1])
def test_a_map_is_as_long_as_what_is_beside_it_and_observed_values_have_their_own_default(order):
    short, long = (LatencySeries(0, "g", ((0, 10, 20, 1), (last, 10, 20, 1)))
                   for last in (900, 90_000))  # fmt: skip
    whole = Scale.of([long])
    assert Scale.of([short], [long, short][::order]) == whole and whole.width_ms > 100
    made, seen = Search.__new__(Search), []
    tunables = [Tunable("a", 1, 9, default=3), Tunable("b", 2, 50, default=40),
                Tunable("c", 5, 8), Tunable("d", 1, 4)][::order]  # fmt: skip
    made.space = Space((SchedulerSpace("s", tuple(tunables)),))
    made._study, made._frozen = SimpleNamespace(add_trial=seen.append), lambda *of: of
    made._observe(SimpleNamespace(settings={"scheduler": "s", "d": 99}), 0.5, 0.1)
    assert seen == [({"scheduler": "s", "s/a": 3, "s/b": 40, "s/c": 5, "s/d": 4}, 0.5, 0.1)]


def test_each_word_of_a_refusal_and_each_thread_of_the_kernel_is_known():
    hints = {"f, line 3: x": "--skip-bad-lines", "f, record 3: x": "--skip-bad-lines",
             "volumes, x": compiled.VOLUMES_HINT, "volumes = x": compiled.VOLUMES_HINT,
             "the device's end": compiled.FIT_HINT, "ending within the disk": compiled.FIT_HINT,
             "a second one begins": "split the file", "the clock starts again": "split the file",
             "use --event insert": "add --event insert", "other": "usual"}  # fmt: skip
    for text, hint in hints.items():
        assert hint in compiled._spec_error(ValueError(text), "usual").hint, text
    threads = {"kworker/u8:1": "write-back", "jbd2/sda1-8": "journal", "xfsaild/dm": "journal",
               "cat": "cat"}  # fmt: skip
    assert {name: durability._writer(name) for name in threads} == threads
    for at in range(3):
        values = [1, "x", 2.0]
        values[at] = 1 << 80
        with pytest.raises(SpecError, match=rf"^w\.k\[{at}\]: the number is too large"):
            convert(Any, {"k": values}, "w")
    header = [5, 10, 20, 30, 40, 50]
    for line in ("   64    4        18        28 29", "   64    4        18   19        40"):
        with pytest.raises(SpecError, match="below the header's columns"):
            [*iozone._by_column("p", line, header)]


@pytest.mark.parametrize("order", [1, -1])
def test_both_ends_of_a_fleet_every_contradiction_and_all_that_was_measured_are_told(order):
    view = reports.view_of(answers.BEST)
    hosts = [("h", (0.1, 0.12)), ("i", (0.5, 0.52)), ("j", (-0.3, -0.28)), ("k", (0.2, 0.22))]
    logs = {host: {"a": {0: 0.0, 1: 0.0}, "b": dict(enumerate(of))} for host, of in hosts[::order]}
    first, worse = fleet_table._against_baseline(view, answers.BEST.rows[0], "b", logs)
    figures = [view.texts.figure(math.exp(at), 2) for at in (-0.29, 0.51, 0.135)]
    about = {"name": "b", "base": "a", "row": "w0"}
    assert first == view.texts("fleet.differ", **dict(zip(("low", "high", "mean"), figures,
                                                          strict=True)), **about)  # fmt: skip
    assert worse == view.texts("fleet.worse", hosts="j", **about)
    wrong = replace(answers.ONE_RUN, take="b", bound=0.1)
    assert [line.partition(", ")[2] for line in answer_check._code(wrong)] == [
        "and yet b is taken", "and yet 0.1"]  # fmt: skip
    for of, word in (("sessions", "boots"), ("runs", "runs")):
        assert difference_page._scope(view.texts, (), of, None) == view.texts(f"text.diff_{word}")
    losses = {
        host: {"a": {0: 0.0}, "b": {0: -loss}} for host, loss in (("h", 0.0487), ("i", 0.0489))
    }
    best = answers.BEST.rows[0]
    assert "1 / 2" in fleet_table._cells(view, best, "b", losses)  # within 5 %
    runs = [SimpleNamespace(candidate="a", host="h", block=at, metrics={best.metric.name: at})
            for at in (0, 1)]  # fmt: skip
    with_zero = SimpleNamespace(names=("a",), runs_by_workload={best.workload: runs})
    assert fleet_table._logs(with_zero, best) == {"h": {"a": {1: 0.0}}}
    assert not frame._contents([("only", "Only", "")], view.texts)
    out = replace(answers.ONE_RUN, take="b", excluded=("z", "a")[::order])
    assert not [*answer_check._code(out)]
    flag = Flag("of no kind", candidates=("a", "b", "c")[::order])
    assert notes.flag_text(view, flag) == view.texts(
        "flag_text.other", names=view.texts.listed([*flag.candidates]))  # fmt: skip
    several = Population(1, 6, 5, "", 120.0, boots=3)
    told = screen.measured(reports.view_of(replace(answers.BEST, population=several)))
    parts = [view.texts.counted("scope.workloads", 1), view.texts.counted("measured.boots", 3),
             view.texts.counted("measured.layouts", 5)]  # fmt: skip
    assert [part in told for part in parts] == [True] * 3, told
