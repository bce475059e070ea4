"""Of several workers, labels, sessions, metrics, words or signatures each counts: rooms that
measure, read what programs printed, and look at devices before."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import experiment, run_of

from schedlab.app import setting_checks, targets
from schedlab.app.apply import apply
from schedlab.app.fleet import boots
from schedlab.app.trace import command as traced
from schedlab.design.boots import BootKind, plan_boots
from schedlab.errors import GateError, HostError, SpecError
from schedlab.host import content, devices, doctor, facts, queues
from schedlab.host.safety import consent, guardian, journal, journalled
from schedlab.host.settings import knobs
from schedlab.host.settings.settings import SettingScope
from schedlab.kinds import Outcome, declared
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.command import Command
from schedlab.nouns import Candidate, Cell, GateFinding, Plan, Record, Require, Target, Workload
from schedlab.nouns.durability import METRICS
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.run.command import launch
from schedlab.run.command.metrics_from_output import Reader
from schedlab.run.cpu import cpu, cpu_calculations, cpu_flip, cpu_policies
from schedlab.run.io.io_commands import CommandCells
from schedlab.run.live import prometheus
from schedlab.store import bursts as cpu_bursts
from schedlab.store import history, table
from schedlab.store.exporters import iozone
from schedlab.store.importers import benchmark
from schedlab_sim import cpu_validate

ORDERS = [1, -1]
MS = 1_000_000


def test_the_workers_of_a_flip_tell_their_slices(monkeypatch):
    crew = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(cpu_flip, "FlipSession", lambda *_: None)
    told, held = [], nullcontext((crew, None))
    monkeypatch.setattr(cpu_flip, "held_crew", lambda of, _: told.append(of) or held)
    candidate = Candidate("a", {"policy": "rr", "slice_ms": 4, "effective_ms": 4})
    asked = SimpleNamespace(workloads=["w"], candidates=[candidate])
    admitted = SimpleNamespace(experiment=asked, kind=lambda *_: Calculation(flip=True))
    with cpu_flip.flips(admitted, None):
        assert told[0].tell_slices


@pytest.fixture
def flip(monkeypatch):
    """A session of two workers, each with marks from before; `marks` are those of a cell."""
    made = cpu_flip.FlipSession.__new__(cpu_flip.FlipSession)
    made.admitted, made.crew, made.longest_ms, made.reference_speed = None, None, 10.0, None
    made.neutral = SimpleNamespace(policy="neutral")
    made.control = SimpleNamespace(check=lambda: ("noted",))
    made.worker_slices = [cpu_flip.WorkerSlices([(n, 9, 9, 9, 9) for n in range(3)])
                          for _ in range(2)]  # fmt: skip
    made.marks = [[(20 * MS, 10, 10 * MS, 10, 10 * MS), (40 * MS, 40, 13 * MS, 30, 13 * MS),
                   (60 * MS, 80 * n, (16 + n) * MS, 60, 17 * MS)] for n in (1, 2)]  # fmt: skip
    times = iter([10 * MS, 50 * MS])
    made._flip = lambda policy, before=False: next(times)
    made.reached, made.slept = [], []

    def sleep(seconds):
        made.slept.append(seconds)
        for worker, marks in zip(made.worker_slices, made.marks, strict=True):
            worker.marks += marks

    made._sleep = sleep
    made._wait = lambda reached: made.reached.append(reached())
    quantum = SimpleNamespace(effective_ms=4.0, requested_ms=4.0, facts=lambda policy: {})
    monkeypatch.setattr(cpu_flip, "Quantum", SimpleNamespace(of=lambda *_: quantum))
    monkeypatch.setattr(
        cpu_flip, "_settings_in", lambda *_: SimpleNamespace(policy="rr", processes=2)
    )
    return made


def test_a_cell_of_a_quantum_has_the_slices_of_all_workers_and_none_from_before(flip):
    outcome = flip.measure(None, None, None)
    workers = outcome.properties["workers"]
    assert [(of["worker"], of["calculations"], of["cpu_burst_s"]) for of in workers] == [
        (0, 70, 0.007), (1, 150, 0.008)
    ]  # fmt: skip
    assert [worker.marks[0][0] for worker in flip.worker_slices] == [2, 2]
    assert outcome.gates == ("noted",) and flip.reached == [False, True]
    assert flip.slept == [2 * 6.0 / 1e3]


@pytest.mark.parametrize("at", [0, 1])
def test_any_worker_may_be_the_first_to_come_round_and_each_has_to_have_a_slice(flip, at):
    flip.worker_slices[at].marks.append((11 * MS, 9, 9, 9, 9))
    flip.marks[at] = flip.marks[at][-1:]
    with pytest.raises(GateError, match="no slice of a worker"):
        flip.measure(None, None, None)
    assert flip.reached == [True, True]


def test_a_cell_is_held_for_a_round_of_the_longest_quantum_and_the_shortest_is_between(monkeypatch):
    quanta = [SimpleNamespace(settings={"effective_ms": ms}) for ms in (4.0, 10.0, 1.0)]
    asked = SimpleNamespace(experiment=SimpleNamespace(candidates=quanta, workloads=["w"]))
    monkeypatch.setattr(cpu_flip, "_settings_in", lambda *of: SimpleNamespace(processes=2, of=of))
    made = cpu_flip.FlipSession(asked, None, None)
    assert (made.longest_ms, made.neutral.of) == (10.0, (asked, "w", quanta[2]))


@pytest.mark.parametrize("at", [0, 1])
def test_a_cell_waits_for_a_slice_of_each_worker_which_has_its_own_marks(flip, at):
    flip.marks[at] = flip.marks[at][:2]
    flip.reference_speed = 7.0  # of the first cell
    flip.measure(None, None, None)
    assert flip.reference_speed == 7.0
    assert flip.reached == [False, False]
    flip.crew = SimpleNamespace(take_preemptions=lambda: [(1, (5,)), (0, (6,)), (1, (7,))])
    flip._collect()
    assert [w.marks[-2:] for w in flip.worker_slices] == [[flip.marks[0][-1], (6,)], [(5,), (7,)]]
    rates, told = cpu_flip.at_one_speed([(1, 10**9, 4, 10**9), (4, 10**9, 1, 10**9)], 10.0)
    assert rates["calculations_per_cpu_s"] == pytest.approx(10.0)
    assert told["speed_per_cpu_s"] == pytest.approx(2.0)


def test_calls_of_all_labels_of_a_histogram_are_added_up():
    page = b"""x_bucket{a="1",le="0.5"} 3\nx_bucket{le="bad"} 5\nx_bucket{a="2",le="0.5"} 4
y_bucket{le="0.5"} 99\nx_bucket{a="1",le="+Inf"} 9\nx_bucket{a="2",le="+Inf"} 11\n"""
    found = prometheus.buckets(page, "x")
    assert found == {0.5: 7.0, math.inf: 20.0}
    rows = {1.0: 10.0, 2.0: 30.0, 4.0: 40.0}
    assert prometheus.quantile({1.0: 0.0, 2.0: 10.0}, rows, 0.375) == pytest.approx(1.5)


def test_each_session_of_a_history_has_the_means_of_each_candidate():
    runs = [
        SimpleNamespace(workload=work, session=session, candidate=arm, bounds=bounds,
                        metrics={"iops": math.exp(value)})
        for work, session, arm, value, bounds in (
            ("w", "s", "a", 1, {}), ("w", "s", "a", 3, {}), ("w", "s", "b", 5, {}),
            ("w", "t", "a", 7, {}), ("w", "t", "b", 9, {}), ("v", "s", "a", 90, {}),
            ("w", "t", "b", 99, {"iops": 1}), ("w", "", "b", 99, {}))
    ]  # fmt: skip
    found = history._sessions(SimpleNamespace(analysed_runs=runs),
                              Workload("w", "x", "iops"), "n")  # fmt: skip
    assert [one.means if hasattr(one, "means") else one.logs for one in found] == [
        pytest.approx({"a": 2.0, "b": 5.0}), pytest.approx({"a": 7.0, "b": 9.0})
    ]  # fmt: skip


def test_every_metric_whose_file_or_value_is_missing_is_named():
    metrics = [parse_output_metric(text) for text in (
        "a:1/s=file:one.txt~a ([0-9]+)", "b:1/s=file:two.txt~b ([0-9]+)", "c:1/s=stdout~c ([0-9]+)",
        "d:1/s=stderr~d ([0-9]+)", "e:1/s=file:three.txt~e ([0-9]+)")]  # fmt: skip
    values, findings = Reader(metrics).read(b"c 1", b"d x", {"three.txt": b"e 5"}.get)
    assert values == {"c": 1.0, "e": 5.0}
    assert [each.detail.partition(":")[0] for each in findings] == ["a", "b", "d"]


def test_all_words_of_a_program_are_its_line_and_all_its_groups_are_joined(tmp_path):
    kind = SimpleNamespace(shell="", command=lambda: ["a", "@dir@/b", "c"])
    assert launch._words(kind, "", {"dir": "/d"}) == ["a", "/d/b", "c"]
    group = launch.WorkGroup(None, "command")
    group.path = tmp_path / "own"
    group.paths = [group.path]
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        group.join(tmp_path / name)
        group.path = tmp_path / "own"
    group.join(Path("/other/z"))
    group.join(Path("/other/v"))
    assert group.paths == [tmp_path / "own", tmp_path / "x/own", tmp_path / "y/own"]
    assert group.files[-2:] == ("/other/z/cgroup.procs", "/other/v/cgroup.procs")


@pytest.mark.parametrize("order", ORDERS)
def test_each_metric_of_durable_data_that_is_required_of_a_workload_has_to_be_there(order):
    first, *others = sorted(METRICS)[:3]
    requires = [Require("v", first, 1.0), *(Require("w", each, 1.0) for each in others)][::order]
    cells = CommandCells.__new__(CommandCells)
    cells._no_syncs = ""
    asked = experiment(requires=tuple(requires))
    cells.session = SimpleNamespace(admitted=SimpleNamespace(experiment=asked))
    work = Workload("w", "command", "elapsed_s")
    both = dict.fromkeys(others, 1.0)
    for missing in others:
        with pytest.raises(HostError, match=f"w: the rehearsal gave no {missing}"):
            cells._check_syncs(work, Outcome({k: v for k, v in both.items() if k != missing}))
    cells._check_syncs(work, Outcome(both))
    with pytest.raises(HostError, match=f"gave no {first}"):
        cells._check_syncs(Workload("u", "command", first), Outcome(both))


def test_a_run_that_is_too_short_keeps_all_that_was_found():
    found = (GateFinding("a", "x"), GateFinding("b", "x"))
    cells = CommandCells.__new__(CommandCells)
    cells.runs = SimpleNamespace(outcome=lambda *_: Outcome({"elapsed_s": 0.001}, gates=found))
    cells.launch_cost_s, cells.place = 1.0, SimpleNamespace(directory=None)
    cells._no_syncs = ""
    ended = SimpleNamespace(timed_out=False, elapsed_s=0.001)
    ran = SimpleNamespace(ended=ended, synced_s=0.002, durable=None)
    outcome = cells._outcome(None, None, ran, 0.0)
    assert [each.gate for each in outcome.gates] == ["a", "b", "too-short"]
    assert outcome.metrics == {"elapsed_s": 0.001, "elapsed_synced_s": 0.002}


def test_every_task_of_every_process_of_a_command_is_looked_at():
    ended = threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        both = SimpleNamespace(members=lambda: [(os.getpid(), 0)] * 2)
        one = len([*cpu_policies._threads(SimpleNamespace(members=lambda: [(os.getpid(), 0)]))])
        assert one >= 4 and len([*cpu_policies._threads(both)]) == 2 * one
    finally:
        ended.set()
        for each in threads:
            each.join()


def test_each_run_below_another_line_than_the_first_of_its_kind_is_noted():
    def run(number, above, workload):
        return benchmark._OpenRun(f"f, line {number}", "p", number, "t", "c", above,
                                   workload=workload)  # fmt: skip

    seen = (("x", "v"), ("y", "w"), ("z", "v"), ("y", "w"), ("q", "w"))
    runs = [run(number, *of) for number, of in enumerate(seen, 1)]
    assert [*benchmark._other_titles(runs)] == [
        "f, line 3: 'z' is above it, 'x' above line 1: split the file where these are candidates",
        "f, line 5: 'q' is above it, 'y' above line 2: split the file where these are candidates",
    ]


def test_each_report_of_iozone_has_the_records_and_sizes_of_its_own_test():
    first, second = list(iozone._TITLES)[:2]
    tests = {first: {(1 << 20, 4096): [1.0, 3.0], (2 << 20, 8192): [5.0]},
             second: {(4 << 20, 16384): [7.0]}}  # fmt: skip
    lines = iozone._report("none", tests).splitlines()
    at = [lines.index(f'"{iozone._TITLES[name]} report"') for name in (first, second)]
    assert lines[at[0] + 1 : at[0] + 4] == [
        '        "4"  "8"', '"1024"   2.00  0.00', '"2048"   0.00  5.00'
    ]  # fmt: skip
    assert lines[at[1] + 1 : at[1] + 3] == ['        "16"', '"4096"   7.00']


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("wrong", "text"), [
    ({"device_commands": lambda: 5}, "w: sets the queue depth"),
    ({"used_bytes": lambda size: 2 * size}, "w: uses 2 MiB of a target of 1 MiB"),
    ({"record_bytes": 4 << 20}, "w: a record of 4 MiB does not fit"),
])  # fmt: skip
def test_every_kind_of_work_has_to_fit_a_target(order, wrong, text):
    usual = {"device_commands": lambda: 0, "used_bytes": lambda size: 0, "record_bytes": 4096}
    kinds = [SimpleNamespace(kind="v", **usual), SimpleNamespace(kind="w", **usual | wrong)]
    targets._check_sizes(Target("scratch", size_bytes=1 << 20), kinds[:1])
    with pytest.raises(SpecError, match=text):
        targets._check_sizes(Target("scratch", size_bytes=1 << 20), kinds[::order])


@pytest.mark.parametrize("order", ORDERS)
def test_no_kind_of_work_may_need_files_on_a_bare_device(order):
    plain = SimpleNamespace(kind="v", needs_files=False)
    for wrong, text in (
        (SimpleNamespace(kind="w", needs_files=True), "w needs a file system"),
        (Command(argv=["a"], copy_in="/x"), "no file system to copy to"),
    ):
        with pytest.raises(SpecError, match=text):
            targets._check_bare("/dev/x", [plain, wrong][::order])


@pytest.mark.parametrize("order", ORDERS)
def test_each_setting_of_each_candidate_is_looked_at_in_every_place(order, monkeypatch):
    looked = []

    def check(candidate, place, is_present):
        looked.append((candidate.label, place.device, is_present))
        if looked[-1][:2] == ("b", "sdb"):
            raise SpecError("it is wrong", "mend it")

    arms = [Candidate(name, {}) for name in "ab"][::order]
    places = [SimpleNamespace(device=name) for name in ("sda", "sdb")]
    monkeypatch.setattr(setting_checks, "_check", check)
    monkeypatch.setattr(setting_checks, "places_of", lambda queues, kinds: places)
    with pytest.raises(SpecError, match="candidate 'b': it is wrong"):
        setting_checks.check_settings(arms, Target("none"), ("sda",), ())
    both = {(name, *of) for name in "ab" for of in (("sda", True), ("sdb", False))}
    assert {*looked} == (both if order == 1 else {each for each in both if each[0] == "b"})
    monkeypatch.setattr(setting_checks, "_check", lambda *_: None)
    arms = [Candidate("a", {}), Candidate("b", {"thp": "never"}), Candidate("c", {"boost": "off"})]
    felt = Target("none", switch=("boost", "thp"))
    told = setting_checks.check_settings(arms[::order], felt, (), ())
    assert sorted(each.split(" is set for ")[0] for each in told) == ["boost", "thp"]
    of = ["boost", "thp"] if order == -1 else ["thp", "boost"]
    with pytest.raises(SpecError, match=f"{of[0]} is set for") as error:
        setting_checks.check_settings(arms[::order], Target("none", switch=("sda",)), (), ())
    assert error.value.hint.endswith(f"--switch sda,{','.join(of)}")


def test_all_disks_of_a_directory_and_no_other_are_switched(monkeypatch):
    below = SimpleNamespace(queues=("sda", "sdb", "sdc"), mounts=("/a", "/b"))
    monkeypatch.setattr("schedlab.host.queues.queues_below", lambda path: below)
    monkeypatch.setattr(targets.knobs, "device_name", str)
    for named, said in (
        ("sda,sdb", "/d: its files are on sdc too"),
        ("sdb,sdc", "on sda too"),
        ("sda,sdb,sdd,sdc", "--switch sdd: no file"),
        ("sdc,sda,sdb", ""),
    ):
        asked = Target("directory", "/d", switch=tuple(named.split(",")))
        if said:
            with pytest.raises(SpecError, match=said):
                targets._switched(asked)
    assert targets._switched(asked) == (
        ("sdc", "sda", "sdb"), ("it also affects /a", "it also affects /b")
    )  # fmt: skip


def test_every_user_and_every_state_of_a_disk_is_told(tmp_path, monkeypatch):
    for part in ("sda1", "sda2"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "partition").write_text("1\n")
        (tmp_path / part / "dev").write_text(f"8:{part[-1]}\n")
    (tmp_path / "dev").write_text("8:0\n")
    for name in ("ro", "size"):
        (tmp_path / name).write_text(f"{int(name == 'ro')}\n")
    ways = ("_mounted", "_loops_beside", "_opened")
    for name in ways:
        monkeypatch.setattr(devices, name, lambda numbers, name=name: [
            f"{name} {numbers[n]}" for n in ("8:1", "8:2", "8:0")])  # fmt: skip
    told = devices.reasons_in_use(tmp_path)
    assert sorted(told[:2]) == ["it has partition sda1", "it has partition sda2"]
    assert told[2:] == ["it is read-only", "it has no medium (size 0)", *(
        f"{name} {n}" for name in ways for n in ("sda1", "sda2", tmp_path.name))]  # fmt: skip


def test_a_device_is_known_by_all_its_names_and_each_signature_is_told(tmp_path, monkeypatch):
    keys = [consent.Identity("8:0", 9, *of).lasting_key for of in
            (("s", "w", "u"), ("s", "w", "v"), ("s", "x", "u"), ("t", "w", "u"), ())]  # fmt: skip
    assert len({*keys}) == 5 and keys[-1] == "8:0:9"
    monkeypatch.setattr(consent, "identity_of", lambda descriptor: consent.Identity("8:0", 9))
    monkeypatch.setattr(content, "signatures", lambda *_: ["a", "b"])
    assert consent._content(0, False, False) == ["it holds a", "it holds b"]
    monkeypatch.setattr(consent, "_examine", lambda *_: (["one", "two"], -1))
    assert consent.objections("/dev/x") == ("one", "two")
    for sector in (512, 4096):
        disk = tmp_path / str(sector)
        disk.write_bytes(bytes((1 << 16) - sector) + b"EFI PART" + bytes(sector - 8))
        with disk.open("rb") as file:
            assert "backup of a gpt" in content._backup_table(file.fileno(), 1 << 16)[0]
    places = [content._place(offset) for offset in (3 << 20, 5 << 10, 7, 0)]
    assert places == ["3 MiB", "5 KiB", "byte 7", "byte 0"]


def test_each_disk_whose_scheduler_is_unknown_is_named(monkeypatch, tmp_path):
    def scheduler(name, root_disks):
        if name != "sda":
            raise OSError(5, name)
        return doctor.Fact(name, "", "")

    monkeypatch.setattr(doctor.devices, "with_queues", lambda: ("sda", "sdb", "sdc"))
    monkeypatch.setattr(doctor, "_scheduler", scheduler)
    monkeypatch.setattr(doctor, "_queue", lambda name: [doctor.Fact(f"queue {name}", "", "")] * 2)
    monkeypatch.setattr(doctor, "scheduler_modules", lambda path: iter(()))
    assert [fact.topic for fact in doctor.schedulers()] == [
        "sda", "queue sda", "queue sda", "scheduler of sdb", "scheduler of sdc"
    ]  # fmt: skip
    (tmp_path / "current_clocksource").write_text("hpet\n")
    (tmp_path / "available_clocksource").write_text("hpet tsc acpi_pm\n")
    monkeypatch.setattr(doctor.facts, "CLOCK", tmp_path)
    (fact,) = doctor.clock()
    assert fact.found == "hpet (of hpet tsc acpi_pm)" and fact.command.startswith("echo tsc")


def test_a_lost_journal_is_in_memory_and_any_of_its_settings_may_be_foreign(tmp_path):
    log = journal.Journal.__new__(journal.Journal)
    log._written, log.is_gone = [{"n": 1}, {"n": 2}], lambda: True
    assert [each["n"] for each in log.content().entries] == [1, 2]
    queue = f"{knobs.SYS_BLOCK}/sda/queue"
    for name in ("../../x", "../y/queue/nr_requests"):
        values = {"nr_requests": "1", "nomerges": "2", name: "3"}
        entry = {"kind": "queue", "queue": queue, "values": values}
        assert journalled.foreign(entry) == f"{queue}/{name}"
    entry["values"].pop(name)
    assert journalled.foreign(entry) == ""


def test_every_check_and_every_source_of_bursts_that_was_passed_over_is_told():
    tasks = [{"task": n, "bursts": 1, "preempted": 0, "total_ns": n * MS,
              "histogram": [[0, n * MS, 1]]} for n in (1, 3, 2)]  # fmt: skip
    bursts = SimpleNamespace(passed_over=["a", "b"], method="bpf", lost=0, has_bursts=True,
                             tasks=tasks, untraced_starts=0, lost_tasks=0)  # fmt: skip
    checks = [SimpleNamespace(sentence=lambda n=n: f"check {n}") for n in (1, 2)]
    told = [*traced.lines(SimpleNamespace(bursts=bursts, checks=checks, account={}))]
    assert told[:2] == ["note: a", "note: b"]
    assert [line.split()[0] for line in told[4:7]] == ["3", "2", "1"]
    assert told[7:] == ["check 1", "check 2"]


@pytest.mark.parametrize("at", range(3))
def test_the_boot_loader_has_to_know_the_kernel_of_every_kind_of_boot(at, tmp_path, monkeypatch):
    class Loader:
        def check(self, label, kernel, cmdline):
            if label == f"k{at}":
                raise SpecError(f"{label} is not known", "name another")

    plan = plan_boots(experiment(), [BootKind(f"k{n}", str(n)) for n in range(3)], 2, "", "")
    monkeypatch.setattr(boots, "admit", lambda asked, _: SimpleNamespace(experiment=asked))
    monkeypatch.setattr(boots.loaders, "bootloader", lambda *_: Loader())
    with pytest.raises(SpecError, match=f"k{at} is not known"):
        boots.create(tmp_path / "b", plan, None)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("order", ORDERS)
def test_every_setting_beside_a_scheduler_that_is_not_set_is_refused(order):
    values = dict([("sysctl.vm.dirty_bytes", "1M"), ("slice_idle", 0)][::order])
    with pytest.raises(SpecError, match="slice_idle is set together with a scheduler"):
        setting_checks._check(Candidate("x", values), SettingScope("sda"), False)


@pytest.mark.parametrize("has_bursts", [True, False])
def test_each_worker_of_a_calculation_has_its_own_bursts(has_bursts, monkeypatch):
    rows = [SimpleNamespace(pid=n, count=n, cpu_ns=n * 10**9, voluntary_switches=n + 1,
                            involuntary_switches=n + 2) for n in (1, 2)]  # fmt: skip
    of = {n: {"total_ns": 10 * n * 10**9, "bursts": 100 * n} for n in (1, 2)}
    bursts = SimpleNamespace(of=of.get, has_bursts=has_bursts, method="bpf", lost=0,
                             untraced_starts=0)  # fmt: skip
    quantum = SimpleNamespace(facts=lambda policy: {}, effective_ms=4.0)
    asked = SimpleNamespace(policy=SimpleNamespace(policy="rr"), processes=3)
    checks = [SimpleNamespace(name=name, found=n, expected=n) for n, name in enumerate("xy")]
    monkeypatch.setattr(cpu_calculations, "check", lambda *_: checks)
    monkeypatch.setattr(cpu_calculations, "_account", lambda rows: (0, 0))
    told = cpu_calculations._facts(asked, quantum, bursts, rows)
    assert [tuple(worker.values()) for worker in told["workers"]] == [
        (number, n, 10.0 * n if has_bursts else n, 100 * n, n + 1, n + 2)
        for number, n in enumerate((1, 2))
    ]  # fmt: skip
    assert [each["name"] for each in told["checks"]] == ["x", "y"]
    assert told["longest_wait_ms"] == 8.0


def test_no_signal_of_a_terminal_ends_a_guardian(tmp_path):
    """It is told that its owner lives, then that it is gone; its journal is gone as well."""
    script = (
        "import sys; from schedlab.host.safety import guardian, shelter; "
        "shelter.leave_groups = lambda: True; sys.exit(guardian.main(sys.argv[1:]))"
    )
    watched, alive = os.pipe()
    ready, announce = os.pipe()
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    (tmp_path / "log").unlink()
    words = [tmp_path / "log", log, watched, announce, -1]
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, words)],
                               pass_fds=(log, watched, announce))  # fmt: skip
    for each in (watched, announce, log):
        os.close(each)
    os.write(alive, guardian.ALIVE)
    assert os.read(ready, 99) == guardian.READY
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE):
        process.send_signal(number)
    assert os.read(ready, 1) == b""  # it has closed its end, and lives
    os.close(alive)
    assert process.wait(60) == 0
    os.close(ready)


def test_a_device_is_of_the_kind_that_its_name_begins_with():
    kinds = {"md127": "md", "dm-3": "dm", "loop9": "loop", "bcache0": "bcache", "sda": "disk"}
    assert {name: queues._kind(name) for name in kinds} == kinds


@pytest.mark.parametrize("order", ORDERS)
def test_each_candidate_of_a_cpu_experiment_is_looked_at_by_its_own_policy(order, monkeypatch):
    looked = []
    arms = tuple(Candidate(name, {}) for name in "ab")[::order]
    asked = experiment(candidates=arms, baseline=arms[0].label, aa_arm=False)
    monkeypatch.setattr(cpu, "policy_in", lambda kind, candidate: (kind, candidate.label))
    monkeypatch.setattr(cpu, "check_here", lambda policy, label: looked.append((*policy, label)))
    cpu.check_candidates(asked, {(work, arm): f"kind {work}" for work in "vw" for arm in "ab"})
    assert looked == [(f"kind {work}", arm, arm) for work in "vw" for arm in "ab"]


def test_the_metric_that_decides_on_another_workload_is_none_beside_it():
    works = (Workload("v", "file-test", "iops", secondary=("cpu_s",)),
             Workload("w", "file-test", "cpu_s", secondary=("iops", "user_s")))  # fmt: skip
    asked = experiment(workloads=works, aa_arm=False)
    runs = tuple(run_of(Cell(0, n, work, "none", 1), {"iops": 1.0, "cpu_s": 2.0, "user_s": 3.0})
                 for n, work in enumerate("vw"))  # fmt: skip
    primary, secondary = table.samples(Record(asked, Plan(()), runs))
    assert [(of.workload, of.metric.name) for of in primary] == [("v", "iops"), ("w", "cpu_s")]
    assert [(of.workload, of.metric.name) for of in secondary] == [
        ("v", "cpu_s"), ("w", "iops"), ("w", "user_s")
    ]  # fmt: skip


def test_every_check_of_bursts_that_fails_is_a_note(monkeypatch):
    of = (("ns", 9.0), ("bursts", 0.1), ("bursts", -9.0))
    checks = [SimpleNamespace(unit=unit, deviation=off, sentence=lambda n=n: f"check {n}")
              for n, (unit, off) in enumerate(of)]  # fmt: skip
    monkeypatch.setattr(cpu_calculations, "check", lambda *_: checks)
    monkeypatch.setattr(cpu_calculations, "_account", lambda rows: (0, 4))
    found = [*cpu_calculations._trouble(SimpleNamespace(lost=2), [1, 2])]
    assert [each.detail for each in found] == ["check 0", "check 2", "2 records were lost"]
    assert not any(each.fatal for each in found)


@pytest.mark.parametrize("order", ORDERS)
def test_any_metric_of_two_workloads_may_disagree(order):
    one = ["a:1/s=stdout~a ([0-9]+)", "b:1/s=stdout~b ([0-9]+)"]
    other = [one[0], "b:s=stdout~b ([0-9]+)"]
    works = [Workload(name, "command", "elapsed_s", {"argv": ["true"], "extract": of[::order]})
             for name, of in (("u", one), ("v", one), ("w", other))]  # fmt: skip
    assert sorted(declared(works[:2])) == ["a", "b"]
    with pytest.raises(SpecError, match="'b' has another unit"):
        declared(works)


@pytest.mark.parametrize("names", [["A", "B", "C"], ["C", "A", "B"], ["B", "C"]])
def test_each_process_of_a_trace_is_the_task_of_its_name(names, tmp_path):
    file = tmp_path / "x.jsonl"
    rows = [{"process": name, "start_ns": 10 * n + 5, "duration_ns": n + 1}
            for n, name in enumerate("ABAB")]  # fmt: skip
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    kept = [row for row in rows if row["process"] in names]
    assert cpu_bursts.read_bursts(file, names) == [
        {"task": names.index(row["process"]), "start_ns": row["start_ns"] - kept[0]["start_ns"],
         "duration_ns": row["duration_ns"]} for row in kept
    ]  # fmt: skip
    matched = cpu_bursts.read_bursts(file, ["x", "y"])
    assert [row["task"] for row in matched] == [0, 1, 0, 1]


def test_what_a_candidate_writes_is_told_of_every_place_and_each_once(monkeypatch):
    def planned(values, place):
        return [("/machine", "1"), (f"/{place}/a", "2"), (f"/{place}/b", "3")]

    monkeypatch.setattr(setting_checks, "_planned", planned)
    monkeypatch.setattr(setting_checks, "host_settings", lambda candidate: {})
    assert setting_checks.planned_writes(Candidate("x", {}), ["sda", "sdb"]) == [
        ("/machine", "1"), ("/sda/a", "2"), ("/sda/b", "3"), ("/sdb/a", "2"), ("/sdb/b", "3")
    ]  # fmt: skip


def test_each_device_of_a_plan_to_apply_has_its_own_writes_and_warnings(monkeypatch, tmp_path):
    records = {name: SimpleNamespace(device=name, setting=f"of {name}", files={})
               for name in ("sdx", "sdy")}  # fmt: skip
    monkeypatch.setattr(apply, "_record", lambda name, *_: records[name])
    monkeypatch.setattr(apply, "_onto", lambda record, _: record)
    monkeypatch.setattr(apply.applied, "find", lambda name: None)
    monkeypatch.setattr(apply, "planned_writes", lambda of, places: [(places[0].device, "1")])
    monkeypatch.setattr(apply, "warnings", lambda device, setting, *_: [f"{device} {setting}"])
    asked = apply.Request(("sdx", "sdy"), root=tmp_path)
    assert apply.planned(["sdx", "sdy"], apply.ToApply(Candidate("x", {})), asked) == [
        "sdx = 1", "sdy = 1", "sdx of sdx", "sdy of sdy"
    ]  # fmt: skip


def test_options_of_a_kernel_are_those_of_every_prefix(monkeypatch):
    names = [f"{prefix}{n}" for prefix in facts._CONFIG_PREFIXES for n in (1, 2)]
    text = "\n".join([*(f"{name}=y" for name in names), "CONFIG_XYZ_OTHER=y", "# comment"])
    monkeypatch.setattr(facts.gzip, "decompress", lambda data: text.encode())
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"")
    assert len(facts._CONFIG_PREFIXES) > 1
    assert facts.config() == dict.fromkeys(names, "y")


def test_every_session_of_a_directory_is_found_the_latest_first(tmp_path):
    names = [journal.SESSIONS.replace("*", str(n)) for n in range(3)]
    for name in (*names, "other"):
        (tmp_path / name).touch()
    assert [path.name for path in journal.sessions(tmp_path)] == names[::-1]
    assert journal.sessions(tmp_path / "absent") == []


def test_a_task_that_slept_between_any_two_of_its_stays_is_a_light_sleeper():
    """It slept once, between its last two; the others were preempted each time."""

    def stays(task, length, *preempted):
        return [cpu_validate.Stay(task, 1000 * n, 1000 * n + length, each, None, None)
                for n, each in enumerate(preempted)]  # fmt: skip

    light = stays(1, 1, True, True, False, True)
    busy, awake = stays(2, 900, True, True, True, True), stays(3, 1, True, True, True, True)
    kept = cpu_validate.without_light_sleepers([*light, *busy, *awake])
    assert {stay.task for stay in kept} == {2, 3}
