"""Of several processes, policies, workloads, guards or readings each counts: rooms that run."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_executor import executor, folder  # noqa: F401

from schedlab.app.fleet import boots
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import HostError, SchedlabError, SpecError
from schedlab.host import processes, queues
from schedlab.host.safety import journal
from schedlab.host.settings import settings
from schedlab.host.settings.settings import SettingScope
from schedlab.nouns import Candidate, GateFinding, Target
from schedlab.nouns.output_metrics import parse_output_metric
from schedlab.run.candidate_settings import CandidateSettings, of_queue
from schedlab.run.command import launch
from schedlab.run.command.launch import WorkGroup
from schedlab.run.command.metrics_from_output import Reader
from schedlab.run.cpu import cpu_notes, cpu_policy
from schedlab.run.executor import Executor
from schedlab.run.io import durability, io
from schedlab.run.io.io_commands import CommandCells
from schedlab.run.live import live_pilot
from schedlab.run.live.guard_rails import parse_guard
from schedlab.run.live.live_figures import Flow, Look, last_of
from schedlab.run.live.live_own_figure import OwnFigure


class Child:
    """A command that is kept, or a room of commands, by the number of its process."""

    def __init__(self, number, ended, has_walls=True):
        self.number, self.ended, self.walls = number, ended, lambda: has_walls
        self.keeper = self.pid = lambda: number

    def end(self):
        self.ended.append(self.number)

    def wait(self, seconds):
        return True


@pytest.fixture
def group(monkeypatch):
    """A group of two rooms and three commands, below which six processes run until they are sent
    a signal.
    """
    running = {10: [11], 20: [21], 1: [2], 3: [4], 5: []}
    ended, signals = [], []

    def kill(pid, number):
        signals.append((pid, number))
        for below in running.values():
            if pid in below:
                below.remove(pid)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(processes, "below", lambda path: running.setdefault(path, [int(path)]))
    monkeypatch.setattr(processes, "descendants",
                        lambda of: [pid for each in of for pid in running[each]])  # fmt: skip
    monkeypatch.setattr(processes, "name_of", lambda pid: f"p{pid}")
    group = WorkGroup(None, "command")
    group.paths = ["31", "30"]
    group._rooms = {("a",): Child(10, ended), ("b",): Child(20, ended)}
    group._kept = [Child(1, ended), Child(3, ended), Child(5, ended, has_walls=False)]
    group.ended, group.signals = ended, signals
    return group


def test_all_processes_of_a_group_are_its_members_and_are_ended(group):
    pids = [2, 4, 11, 21, 30, 31]
    assert group.members() == [(pid, f"p{pid}") for pid in pids]
    assert group.end() == [f"p{pid}" for pid in pids]
    assert group.signals == [(pid, signal.SIGTERM) for pid in pids]
    assert group.ended == [1, 3, 10, 20, 1, 3, 5]  # walls and rooms first, then all
    assert group.members() == []


def test_all_commands_that_have_ended_and_left_nothing_are_forgotten(group, monkeypatch):
    monkeypatch.setattr(processes, "descendants", lambda of: [4] if 3 in of else [])
    group.forget_ended()
    assert (group.ended, [child.number for child in group._kept]) == ([1, 5], [3])
    several = launch.paths_of(group, group)
    assert several == ("31", "30", "31", "30")


def test_notes_on_policies_are_of_all_policies_and_loads(tmp_path, monkeypatch):
    knob = tmp_path / "autogroup"
    knob.write_text("1")
    monkeypatch.setattr(cpu_notes, "AUTOGROUP_KNOB", knob)
    idle, loaded = SimpleNamespace(load=""), SimpleNamespace(load="2*spin")
    shared, own = CpuPolicy(autogroup="shared"), CpuPolicy(autogroup="own")
    for kinds in ([idle, loaded], [loaded, idle]):
        for policies in ([shared, own], [own, shared]):
            (note,) = cpu_notes._autogroup(policies, kinds)
            assert "the command has a session of its own" in note
        assert cpu_notes._autogroup([shared, shared], kinds) == []
    for policies in ([CpuPolicy(), CpuPolicy(nice=5)], [CpuPolicy(nice=5), CpuPolicy()]):
        (note,) = cpu_notes._autogroup(policies, [idle, idle])
        assert "a nice value acts only among" in note
    for name, text in (("sched_rt_runtime_us", "950000"), ("sched_rt_period_us", "1000000"),
                       ("runtime", "50"), ("period", "500")):  # fmt: skip
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cpu_notes, "PROC", tmp_path)
    monkeypatch.setattr(cpu_notes, "FAIR_SERVER", tmp_path)
    monkeypatch.setattr(cpu_notes.machine, "has_rt_throttling", lambda: True)
    (note,) = cpu_notes._real_time([CpuPolicy("rr"), CpuPolicy(), CpuPolicy("fifo")])
    assert note.startswith("fifo, rr: ordinary tasks keep a share of each CPU: 5% by RT throttl")
    assert note.endswith("(sched_rt_runtime_us = 950000), 10% by the fair server while they wait")


def test_all_settings_of_a_policy_have_to_be_there_and_a_cpu_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "SYSCTL", tmp_path)
    (tmp_path / "kernel").mkdir()
    for name in ("sched_a", "sched_b"):
        (tmp_path / "kernel" / name).write_text("1")
    both = {"knob.sched_a": 1, "knob.sched_b": 1}
    cpu_policy.check_here(CpuPolicy(knobs=both), "x")
    with pytest.raises(SchedlabError, match=r"candidate 'x': .*sched_c"):
        cpu_policy.check_here(CpuPolicy(knobs={"knob.sched_a": 1, "knob.sched_c": 1}), "x")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    with pytest.raises(SpecError) as error:
        cpu_policy.refuse_locked(CpuPolicy("fifo", apply_to="all"), {2, 0, 1}, 1)
    assert error.value.hint == "keep a CPU free: --cpus 0,1"


def test_every_setting_of_a_device_is_set_on_every_queue(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "scope_of", lambda name: "device" if name[0] == "d" else "queue")
    monkeypatch.setattr(
        settings,
        "resolve",
        lambda name, value, place: [(tmp_path / place.device / name, str(value))],
    )
    written, switched = [], []

    def set_scheduler(queue, scheduler, tunables, before):
        switched.append((queue, tunables))
        return SimpleNamespace(scheduler=scheduler, tunables=tunables)

    def write_knob(path, text):
        written.append(f"{path.relative_to(tmp_path)}={text}")
        return text

    control = SimpleNamespace(set_scheduler=set_scheduler, write_knob=write_knob)
    values = {"scheduler": "bfq", "d1": 1, "q1": 2, "d2": 3, "q2": 4}
    of = CandidateSettings(control, ("sda", "sdb"), [])
    effective, _ = of._set_queues(values)
    assert switched == [(queue, {"q1": 2, "q2": 4}) for queue in ("sda", "sdb")]
    assert written == ["sda/d1=1", "sda/d2=3", "sdb/d1=1", "sdb/d2=3"]
    assert effective == {"scheduler": "bfq", "d1": "1", "q1": 2, "d2": "3", "q2": 4}
    assert list(of_queue(values)) == ["q1", "q2"]
    for names in (("d1", "q1"), ("q1", "d1")):
        of = CandidateSettings(control, (), [Candidate("x", dict.fromkeys(names, 1))])
        assert of._sets_queues


def test_settings_of_a_group_are_resolved_for_every_device_and_noted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "scope_of", lambda name: "group")
    monkeypatch.setattr(
        settings, "resolve",
        lambda name, value, place: [(tmp_path / f"{name}-{place.device}-{n}", "1") for n in (1, 2)],
    )  # fmt: skip
    of = CandidateSettings(SimpleNamespace(), ("sda", "sdb"), [])
    found = [path.name for _, path, _ in of._knobs({"scheduler": "x", "a": 1, "b": 1})]
    assert found == [f"{name}-{device}-{n}" for name in "ab" for device in ("sda", "sdb")
                     for n in (1, 2)]  # fmt: skip
    assert SettingScope("sda").device == "sda"


def test_calls_on_all_file_systems_of_all_queues_count(monkeypatch):
    below = {"8:1": {"sda"}, "8:2": {"sda"}, "8:17": {"sdb"}, "8:33": {"sdc"}}
    mounts = [SimpleNamespace(number=number) for number in below]
    monkeypatch.setattr(durability, "mounts", lambda: mounts)
    monkeypatch.setattr(queues, "queues_of", lambda mount: below[mount.number])
    monkeypatch.setattr(durability, "_number_of", lambda queue: (8, 16 * (queue == "sdb")))
    places = durability.places_of(("sda", "sdb"))
    assert places.disks == ((8, 0), (8, 16))
    assert sorted(places.devices) == [(8, 0), (8, 1), (8, 2), (8, 16), (8, 17)]


def test_an_end_of_boots_is_after_the_last_and_its_unit_has_every_word(tmp_path, monkeypatch):
    plan = SimpleNamespace(plan=SimpleNamespace(ends=(2, 4)))
    with pytest.raises(SpecError, match="4 boots of each are planned") as error:
        boots.Boots.extend(plan, 3)
    assert error.value.hint == "--boots 6"
    for name in (journal.STATE_VARIABLE, journal.LASTING_VARIABLE):
        monkeypatch.setenv(name, f"/{name}")
    text = boots.unit_text(tmp_path, ["--with", "a b"])
    for name in (journal.STATE_VARIABLE, journal.LASTING_VARIABLE):
        assert f'\nEnvironment="{name}=/{name}"\n' in text
    assert text.splitlines()[-4].endswith('"--reboot" "--with" "a b"')


def test_ends_that_have_passed_stay_when_the_budget_ends_a_plan():
    cells = [SimpleNamespace(key=n, block=n) for n in range(9)]
    written = []
    fake = SimpleNamespace(
        folder=SimpleNamespace(plan=SimpleNamespace(ends=(2, 4, 8), cells=tuple(cells)),
                               write_plan=written.append),
        blocks=[[cell] for cell in cells], attempts={}, _read_plan=lambda: None,
        experiment=SimpleNamespace(stopping=SimpleNamespace(mode="fixed")),
    )  # fmt: skip
    Executor._end_before(fake, 5)
    assert (written[0].ends, written[0].cells) == ((2, 4, 5), tuple(cells[:5]))


@pytest.mark.parametrize("names", [("others", "late"), ("late", "others")])
def test_a_repeat_that_was_busy_by_any_gate_counts(folder, names):  # noqa: F811
    runs = executor(folder)
    gates = tuple(GateFinding(name, "x", fatal=False) for name in names)
    cell = runs.cells[0]
    run = SimpleNamespace(key=cell.key, workload=cell.workload, elapsed_s=1.0, gates=gates,
                          status="ok", attempt=2, metrics={})  # fmt: skip
    runs._note(run)
    assert runs.busy_repeats == 1


def test_every_name_of_a_guard_was_seen_under_some_candidate():
    looks = [Look(flows={(name, "read"): Flow(1) for name in names}) for names in ("ab", "cd")]
    seen = [live_pilot.Switched(str(n), 0.0, 0.0, 1.0, each, {}) for n, each in enumerate(looks)]
    live_pilot._check_names([parse_guard(f"{name}.read p99 > 1ms") for name in "abcd"], seen)
    for at, texts in enumerate((["x.read p99 > 1ms", "a.read p99 > 1ms"],
                                ["a.read p99 > 1ms", "x.read p99 > 1ms"])):  # fmt: skip
        with pytest.raises(SpecError, match="these did: a, b, c, d") as error:
            live_pilot._check_names(map(parse_guard, texts), seen)
        assert "nothing named x used" in str(error.value), at
    own = ("read p99 > 1ms for 9s", "write p99 > 2ms for 1s")
    assert [guard.text for guard in live_pilot._rails(own, 5.0, seen).guards] == list(own)
    assert [guard.for_s for guard in live_pilot._rails(own, 5.0, []).guards] == [5, 1]


def test_no_reading_of_a_period_is_lost():
    findings = [GateFinding(name, "x") for name in ("no-value", "late")]
    period = SimpleNamespace(_period=lambda: ({"a": 1.0, "b": 2.0}, findings))
    values, found = OwnFigure.end(period)
    assert values == {"a": 1.0, "b": 2.0}
    assert [(each.gate, each.fatal) for each in found] == [("no-value", False), ("late", False)]
    reader = Reader([parse_output_metric(f"v:1/s=stdout@jobs[*].v!{take}")
                     for take in ("sum",)])  # fmt: skip
    values, found = reader.read(b'{"jobs": [{"v": 1}, {"v": 2}, {"v": 4}]}', b"", lambda path: None)
    assert (values, found) == ({"v": 7.0}, [])
    assert last_of({"depth": {"limits": {"series": [[0, 1.0], [1, 2.0], [2, 5.0]]}}}, "limits") == 5


def test_the_device_that_is_written_to_is_the_one_that_was_given_up(monkeypatch):
    monkeypatch.setattr(io, "_device", lambda path, alone: (path, alone))
    consents = [SimpleNamespace(name=name, covers=lambda path, name=name: path == name)
                for name in ("/dev/sda", "/dev/sdb")]  # fmt: skip
    control = SimpleNamespace(write_to=lambda consent: consent.name)
    for name in ("/dev/sda", "/dev/sdb"):
        admitted = SimpleNamespace(
            experiment=SimpleNamespace(target=Target("device", name, 1 << 20)), kinds={},
            permission=SimpleNamespace(consents=consents),
        )  # fmt: skip
        assert io.resolve(admitted, control, print) == ((Path(name), True), None)


def test_of_queues_on_which_nothing_moved_each_is_named():
    cells = SimpleNamespace(session=SimpleNamespace(queues=("sda", "sdb")))
    kind, ended = SimpleNamespace(anyway=False), SimpleNamespace(usage={})
    with pytest.raises(HostError, match="w: moved nothing on sda, sdb: "):
        CommandCells._check_queues(cells, "w", kind, ended, {"sda": 0, "sdb": 0}, {})
    CommandCells._check_queues(cells, "w", kind, ended, {"sda": 0, "sdb": 1}, {})
