"""Of several settings, files, records or devices each is applied, kept, told and undone."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refused
from test_app_apply import RECORD

from schedlab.app.apply import applied, apply, machine, set_scheduler, undo, watch
from schedlab.errors import HostError, SpecError
from schedlab.host.settings import knobs, udev, udev_service
from schedlab.nouns import Candidate, to_json

ORDERS = [1, -1]


class Writing(SimpleNamespace):
    """A control that writes files, and keeps nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def write_knob(self, path, text):
        Path(path).write_text(f"{text}\n")

    def keep(self):
        pass

    def keep_with(self, *_):
        pass


DEFAULTS = {"none": {}, "kyber": {"read_lat_nsec": "2000000", "write_lat_nsec": "10000000"},
            "bfq": {"low_latency": "1", "slice_idle": "8", "timeout_sync": "124"},
            "mq-deadline": {"fifo_batch": "16", "writes_starved": "2"}}  # fmt: skip


class Kernel(Writing):
    """A control of plain files that switches as a kernel does: tunables begin with their defaults,
    and the number of requests with that of the scheduler."""

    def set_scheduler(self, name, scheduler, tunables=()):
        queue = knobs.queue_of(name)
        names = (each.strip("[]") for each in (queue / "scheduler").read_text().split())
        words = (f"[{each}]" if each == scheduler else each for each in names)
        (queue / "scheduler").write_text(" ".join(words))
        for file in (queue / "iosched").iterdir():
            file.unlink()
        (queue / "nr_requests").write_text("64" if scheduler == "none" else "256")
        for tunable, value in DEFAULTS[scheduler].items():
            (queue / "iosched" / tunable).write_text(value)
        for tunable, value in dict(tunables).items():
            knobs.tunable_path(queue, tunable).write_text(str(value))
        notes = [f"{tunable} is rounded" for tunable in tunables]
        return SimpleNamespace(notes=notes, queue=knobs.snapshot(queue), scheduler=scheduler,
                               tunables=knobs.tunables(queue))  # fmt: skip


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """The queues of three disks in a tree of their own, known by a WWID, a serial and a name."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SCHEDLAB_VAR_DIR", raising=False)
    block = tmp_path / "sys" / "block"
    for at, (name, identity) in enumerate({"sdzb": "wwid", "sdzc": "device/serial",
                                           "sdza": ""}.items(), 1):  # fmt: skip
        queue = block / name / "queue"
        (queue / "iosched").mkdir(parents=True)
        (block / name / "device").mkdir()
        (queue / "scheduler").write_text("[none] mq-deadline kyber bfq")
        for file, value in (("nr_requests", 60 + at), ("read_ahead_kb", 100 * at),
                            ("nomerges", at % 3), ("wbt_lat_usec", 2000 + at)):  # fmt: skip
            (queue / file).write_text(str(value))
        if identity:
            (block / name / identity).write_text(f"{name.upper()} {at}\n")
    for each in ("SYS_BLOCK", "CLASS_BLOCK"):
        monkeypatch.setattr(knobs, each, block)
    monkeypatch.setattr(udev, "disk", partial(udev.disk, sysfs=tmp_path / "sys", run=tmp_path))
    monkeypatch.setattr(udev_service, "program", lambda: None)
    for each in (apply, undo, set_scheduler):
        monkeypatch.setattr(each, "Control", Kernel)
    return block


def test_three_disks_are_applied_told_and_undone_whole(disks, tmp_path, golden):
    root, told = tmp_path / "root", []
    for name, text in {
        "etc/udev/rules.d/60-x.rules": 'KERNEL=="sdz[ac]", ATTR{queue/scheduler}="none"\n'
        'KERNEL=="sdzc", ATTR{queue/iosched/slice_idle}="3"\n',
        "usr/lib/udev/rules.d/70-y.rules": 'ATTR{queue/scheduler}="mq-deadline"\n'
        'ATTR{queue/read_ahead_kb}="7"\n',
        "etc/tmpfiles.d/a.conf": f"w {disks}/sdzb/queue/scheduler - - - - bfq\n"
        f"w {disks}/sdzb/queue/nomerges - - - - 2\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def applies(what, changes, devices, **more):
        told.append(f"== {what} {changes} {devices} {more}")
        chosen = replace(apply.choice_of(what, changes), result=f"/{what}", headline=f"{what} wins",
                         caveats=("one", "two"))  # fmt: skip
        apply.apply(chosen, apply.Request(devices, root=root, **more), told.append)
        if "dry_run" not in more:
            told.extend(f"{each.name}: {each.read_text()}" for each in root.glob("etc/udev/*/90-*"))
            told.extend(json.dumps(to_json(each), indent=1) for each in applied.load_all())

    def changed(name, file, value):
        (disks / name / "queue" / file).write_text(value)

    def states():
        told.extend(["== status", *undo.status_lines(undo.status(root))])

    applies("bfq:low_latency=0,slice_idle=2", ["nr_requests=99"], ("sdzc", "sdza"), persist=True)
    changed("sdza", "read_ahead_kb", "555")
    changed("sdza", "nomerges", "1")
    states()
    applies("kyber", ["wbt_lat_usec=9", "nomerges=0"], ("sdza", "sdzb"))
    changed("sdzc", "iosched/slice_idle", "5")
    changed("sdzc", "nr_requests", "77")
    changed("sdzb", "scheduler", "none [mq-deadline] kyber bfq")
    changed("sdzb", "nomerges", "2")
    states()
    applies("mq-deadline:fifo_batch=4,writes_starved=3", ["read_ahead_kb=8"],
            ("sdzb", "sdzc", "sdza"), persist=True, dry_run=True)  # fmt: skip
    told.append("== undone")
    told.extend(undo.undo([], True, told.append))
    told.extend(f"{name}: {knobs.snapshot(disks / name / 'queue')}"
                for name in ("sdza", "sdzb", "sdzc"))  # fmt: skip
    changed("sdzb", "read_ahead_kb", "31")
    changed("sdzb", "iosched/writes_starved", "6")
    changed("sdzb", "iosched/fifo_batch", "5")
    found = set_scheduler.set_scheduler("bfq:slice_idle=1,low_latency=0", ["sdzb", "sdzc"], print)
    told.extend(f"{name}: {of}" for name, of in found.items())
    assert not list(root.glob("etc/udev/*/90-*")) and applied.load_all() == []
    text = "\n".join(told).replace(str(tmp_path), "")
    text = re.sub(r'"(applied_at|boot_id|instance|command)": "[^"]*"', r'"\1": "…"', text)
    golden("whole/applied.txt", re.sub(r"since 20\d\d-\S+,", "since …,", text))


def test_udev_reads_its_rules_again_where_any_of_the_files_is_one(disks, tmp_path, monkeypatch):
    reloads = []
    monkeypatch.setattr(udev_service, "runs", lambda: True)
    monkeypatch.setattr(udev_service, "reload", lambda *_: reloads.append(1))
    rules, other = str(tmp_path / undo.RULES.name), str(tmp_path / "older.conf")
    for files, count in (([other, rules], 1), ([rules, other], 2), ([other], 2)):
        record = replace(RECORD, device="gone", files=dict.fromkeys(files))
        undo._undo(record, lambda _: None)
        assert len(reloads) == count
    said, again = [], replace(RECORD, device="sdza", instance="7", boot_id=applied.boot_id())
    undo._undo(again, said.append)
    assert said == ["note: sdza was connected again since: its former settings are gone"]


@pytest.fixture
def knobs_of(tmp_path, monkeypatch):
    """Two sysctls and two other files, each of which reads "old"."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SCHEDLAB_VAR_DIR", raising=False)
    files = {name: tmp_path / place / name for name, place in
             (("a", "sysctl/vm"), ("b", "sysctl/kernel"), ("c", "sys"), ("d", "sys"))}  # fmt: skip
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("old\n")
    for of in (machine, machine.settings):
        monkeypatch.setattr(of, "SYSCTL", tmp_path / "sysctl")
    monkeypatch.setattr(
        machine, "knobs_of", lambda values: {files[k]: v for k, v in values.items()}
    )
    monkeypatch.setattr(machine, "Control", Writing)
    monkeypatch.setattr(machine.settings, "name_of", lambda path: path.name)
    return files


def test_every_setting_is_kept_told_undone_and_noted_where_another_file_sets_it(
    knobs_of, tmp_path, monkeypatch
):
    values = {"a": "1", "b": "2", "c": "3", "d": "4"}
    root, told = tmp_path / "root", []
    for directory in ("etc", "usr/lib"):
        for kind, of in (("sysctl.d", ("vm.a", "kernel.b")), ("tmpfiles.d", "cd")):
            file = root / directory / kind / f"{directory[:3]}.conf"
            file.parent.mkdir(parents=True)
            file.write_text("".join(
                f"{each} = 7\n" if "." in each else f"w {knobs_of[each]} - - - - 8\n"
                for each in of))  # fmt: skip
    texts = [root / machine.SYSCTL_FILE, root / machine.TMPFILES_FILE]
    kept = [["vm.a = 1", "kernel.b = 2"],
            [f"w {knobs_of[name]} - - - - {values[name]}" for name in "cd"]]  # fmt: skip
    lines = [f"{knobs_of[name]} = {value}" for name, value in values.items()]
    assert machine.planned(values, False, root) == lines
    assert machine.planned(values, True, root) == [
        *lines, *(f"{path}: {line}" for path, of in zip(texts, kept, strict=True) for line in of)
    ]  # fmt: skip
    record = machine.apply(values, ("", ""), True, root, told.append)
    assert {name: file.read_text().strip() for name, file in knobs_of.items()} == values
    assert [*record.files] == [str(path) for path in texts]
    for path, of in zip(texts, kept, strict=True):
        assert path.read_text() == applied.HEADER + "\n".join([*of, ""])
    others = [line.split(": ")[1] for line in told if line.startswith("also sets it")]
    assert others == [
        f"{root / directory / kind}/{directory[:3]}.conf ({value}); the last file by name wins"
        for kind, value, times in (("sysctl.d", 7, 2), ("tmpfiles.d", 8, 2)) for _ in range(times)
        for directory in ("etc", "usr/lib")
    ]  # fmt: skip
    status = machine_status(root)
    assert status.holds and status.after_reboot == "a: 7 (usr.conf), b: 7 (usr.conf), " + (
        "c: 8 (usr.conf), d: 8 (usr.conf)"
    )
    for name in "bd":
        knobs_of[name].write_text("9\n")
    drift = [(d.key, d.wanted, d.found) for d in machine_status(root).drift]
    assert drift == [("b", "2", "9"), ("d", "4", "9")]
    told.clear()
    knobs_of["a"].write_text("old\n")  # as it was: nothing to restore, and the others follow
    monkeypatch.setattr(machine.knobs, "is_late", lambda path: Path(path).name == "b")
    machine.undo(record, told.append)
    assert {name: file.read_text().strip() for name, file in knobs_of.items()} == {
        "a": "old", "b": "9", "c": "old", "d": "9"
    }  # fmt: skip
    assert told == [f"{knobs_of[name]} is 9, which another program set: it is kept"
                    for name in "db"]  # fmt: skip
    assert not any(path.exists() for path in texts)


def machine_status(root):
    (status,) = undo.status(root)
    return status


@pytest.mark.parametrize("order", ORDERS)
def test_the_setting_that_sysctl_cannot_keep_is_told_wherever_it_stands(knobs_of, order, tmp_path):
    told, values = [], dict([("a", "1"), ("c", "3")][::order])
    machine.apply(values, ("", ""), False, tmp_path, told.append)
    assert told == [f"sysctl.d cannot keep {knobs_of['c']}; --persist uses tmpfiles.d"]


@pytest.mark.parametrize("order", ORDERS)
def test_each_value_is_held_to_the_rules_of_its_own_setting(order):
    values = [("sched_rr_timeslice_ms", "20"), ("sched_autogroup_enabled", "0")]
    of = machine.values_of(Candidate("x", dict(values[::order])))
    assert of == dict(values)
    named = {"scheduler": "bfq", **dict(values[::order])}
    assert machine.values_of(Candidate("x", named)) == dict(values)
    wrong = dict([values[1], ("sched_rr_timeslice_ms", "0")][::order])
    assert "sched_rr_timeslice_ms=0" in refused(machine.values_of, Candidate("x", wrong))[0]


def test_of_several_records_those_named_are_undone_and_the_first_that_is_missing_is_told(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path))
    undone = []
    monkeypatch.setattr(undo, "_undo", lambda record, _: undone.append(record.device))
    for name in ("sdx", "sdy", "sdz"):
        applied.store(replace(RECORD, device=name))
    message, hint = refused(undo.undo, [], False, print)
    assert (message, hint) == (
        "sdx, sdy, sdz are applied: name one", "schedlab undo sdx, or --all"
    )  # fmt: skip
    assert refused(undo.undo, ["sdx", "sdv", "sdw"], False, print)[0].startswith("sdv: ")
    assert undone == [] and len(applied.load_all()) == 3
    assert undo.undo(["sdz", "sdy"], False, print) == ["sdy", "sdz"] == undone
    assert [each.device for each in applied.load_all()] == ["sdx"]
    assert undo.undo([], False, print) == ["sdx"]


@pytest.mark.parametrize("order", ORDERS)
def test_each_file_of_a_device_is_removed_unless_others_are_in_it(order, tmp_path, monkeypatch):
    """Of three files of rules: one with another device in it, one of ours alone, one foreign."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    files = [tmp_path / name / undo.RULES.name for name in ("both", "own", "foreign")][::order]
    for file in files:
        file.parent.mkdir()
        file.write_text("theirs" if file.parent.name == "foreign" else f"{undo.HEADER}x")
    shared, own, foreign = files[::order]
    for name in ("sdy", "sdz"):
        applied.store(replace(RECORD, device=name, files={str(shared): None}))
    gone, older = tmp_path / "gone" / undo.RULES.name, tmp_path / "older.conf"
    older.touch()
    record, told = replace(RECORD, files=dict.fromkeys(map(str, (*files, gone, older)))), []
    undo._remove_files(record, told.append)
    assert shared.read_text() == undo.HEADER + "".join(
        f"{applied.rule_text(each)}\n" for each in applied.load_all()
    )
    assert not own.exists() and foreign.read_text() == "theirs"
    assert [line.split()[1] for line in told] == [str(each) for each in (foreign, gone, older)]


def test_a_tunable_that_another_changed_is_kept_with_the_scheduler(disks):
    """It ends with ours where that was another."""
    for name, before in (("sdza", "kyber"), ("sdzb", "none")):
        words = (f"[{each}]" if each == before else each for each in ("none", "kyber", "bfq"))
        (disks / name / "queue/scheduler").write_text(" ".join(words))
        for tunable, value in DEFAULTS[before].items():
            (disks / name / "queue/iosched" / tunable).write_text(value)
    chosen = apply.choice_of("kyber:read_lat_nsec=5", [])
    apply.apply(chosen, apply.Request(("sdza", "sdzb")), print)
    told = []
    for name in ("sdza", "sdzb"):
        (disks / name / "queue/iosched/write_lat_nsec").write_text("77")
    undo.undo([], True, told.append)
    assert [line.partition(" was changed")[0] for line in told if "was changed" in line] == [
        f"{disks}/sdza/queue/iosched/write_lat_nsec"
    ]


def test_a_setting_of_the_machine_is_there_before_a_disk_is_changed(disks):
    chosen = apply.choice_of("a=bfq sysctl.no.such=1", [])
    before = (disks / "sdza/queue/scheduler").read_text()
    with pytest.raises((HostError, SpecError)):
        apply.apply(chosen, apply.Request(("sdza",)), print)
    assert (disks / "sdza/queue/scheduler").read_text() == before


def test_every_objection_to_a_result_is_told(tmp_path, monkeypatch):
    asked = SimpleNamespace(kind="sim", target=SimpleNamespace(kind="emulated"), candidates=())
    answer = SimpleNamespace(keeps=False, code="x", open_requirements=(), applies=False)
    result = SimpleNamespace(
        record=SimpleNamespace(experiment=asked, host={"kernel": {"release": "1.2.3"}}),
        answer=answer, first_sentence=lambda _: "No winner.",
    )  # fmt: skip
    monkeypatch.setattr(apply.Result, "load", lambda folder: result)
    message = refused(apply.choice_of_result, tmp_path, False)[0]
    said = [part.split(",")[0] for part in message.removeprefix(f"{tmp_path}: ").split("; ")]
    assert said == ["No winner", "it is of kind 'sim'",
                    "it was measured on an emulated device",
                    "it was measured on Linux 1.2.3"]  # fmt: skip


def test_all_files_of_the_machine_that_are_there_are_watched(tmp_path, monkeypatch):
    kernel = tmp_path / "sysctl" / "kernel"
    files = [kernel / "sched_x", kernel / "sched_y", tmp_path / "v", tmp_path / "w",
             *(tmp_path / "debug" / name for name in watch.settings.DEBUG_NAMES)]  # fmt: skip
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    monkeypatch.setattr(watch.settings, "SYSCTL", tmp_path / "sysctl")
    monkeypatch.setattr(watch.settings, "DEBUG", tmp_path / "debug")
    record = SimpleNamespace(values={str(file): "1" for file in files[2:4]})
    monkeypatch.setattr(applied, "find", lambda device: record)
    assert len(watch.settings.DEBUG_NAMES) > 1
    assert watch._of_machine() == {file: str(number) for number, file in enumerate(files)}
    monkeypatch.setattr(watch.knobs, "snapshot", lambda queue: {"a": "1", "b": "2"})
    assert watch._of_queue(Path("/q")) == {Path("/q/a"): "1", Path("/q/b"): "2"}


def test_the_later_of_several_files_is_also_as_before_where_applying_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    files = [tmp_path / name for name in "abc"]
    for file in files[:2]:
        file.write_text(file.name)
    record = replace(RECORD, files=tuple(map(str, files)))
    with pytest.raises(KeyError), applied.stored([record], Writing()):
        for file in files[1:]:
            file.write_text("new")
        raise KeyError
    assert [file.read_text() for file in files[:2]] == ["a", "b"] and not files[2].exists()
    assert applied.find(RECORD.device) is None


def test_preferences_are_set_last_and_all_others_in_their_order(monkeypatch):
    governor, preference = machine.knobs.GOVERNOR, machine.knobs.PREFERENCE
    files = {"p": [f"/0/{preference}", f"/1/{preference}"], "z": ["/z"],
             "g": [f"/1/{governor}", f"/0/{governor}"]}  # fmt: skip
    monkeypatch.setattr(machine.settings, "check", lambda *_: None)
    monkeypatch.setattr(
        machine.settings, "resolve", lambda name, value, _: [(Path(p), value) for p in files[name]]
    )
    found = machine.knobs_of({"p": "1", "z": "2", "g": "3"})
    assert [(str(path), text) for path, text in found.items()] == [
        (path, text) for name, text in (("z", "2"), ("g", "3"), ("p", "1")) for path in files[name]
    ]
