"""What is applied, kept and undone: choices, records, rules, profiles and files, as texts."""

import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from answers import NOTHING
from calls import refused

from schedlab.app.apply import applied, apply, undo
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.applied import HEADER, Applied
from schedlab.app.apply.apply import Request, ToApply, choice_of, choice_of_result, rule_text
from schedlab.app.apply.set_scheduler import set_scheduler
from schedlab.errors import HostError, SpecError
from schedlab.host.settings import knobs, setters, settings, udev
from schedlab.nouns import Candidate, Target
from schedlab.nouns.answer import Requirement
from schedlab.result import Result

RECORD = Applied(
    "sdx", "wwid:eui.1", "bfq:low_latency=0,slice_idle=2", "/r", "bfq is best", "2026-01-02",
    "boot", "schedlab apply",
)  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Records of this test alone."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SCHEDLAB_VAR_DIR", raising=False)
    return applied.directory()


def test_a_choice_is_typed(say):
    assert choice_of("bfq:low_latency=0", ["nr_requests=64", "x=a=b"]).candidate.settings == {
        "scheduler": "bfq", "low_latency": 0, "nr_requests": "64", "x": "a=b"
    }  # fmt: skip
    assert choice_of("sched_rr_timeslice_ms=20", ["nr_migrate=8"]).candidate == Candidate(
        "machine", {"sched_rr_timeslice_ms": "20", "nr_migrate": "8"}
    )  # fmt: skip
    say(choice_of, "none,bfq", [])
    assert choice_of("v1.2=bfq", []).candidate.label == "v1.2"
    assert choice_of("bfq:slice_idle=1", ["slice_idle=2"]).candidate.settings["slice_idle"] == "2"
    with pytest.raises(SpecError) as error:
        choice_of("vm.swappiness=1", [])
    assert "'sysctl.vm.swappiness'" in error.value.hint
    for text in ("x", "=4", "x="):
        say(choice_of, "bfq", [text])
    say(set_scheduler, "none,bfq", ["sdx"], print)


def result_of(monkeypatch, code="best", take="bfq", **changes):
    """The result that is loaded: bfq beside none, measured here."""
    usual = {
        "kind": "io", "target": Target("scratch"), "release": platform.release(),
    }  # fmt: skip
    usual |= changes
    candidates = tuple(Candidate(name, {"scheduler": name}) for name in ("none", "kyber", "bfq"))
    experiment = SimpleNamespace(
        kind=usual["kind"], target=usual["target"], candidates=candidates
    )  # fmt: skip
    answer = replace(NOTHING, code=code, take=take, base="none",
                     requirements=usual.get("requirements", ()))  # fmt: skip
    host = {"kernel": {"release": usual["release"]}} if usual["release"] else {}
    record = SimpleNamespace(experiment=experiment, host=host)
    result = SimpleNamespace(record=record, answer=answer, headline=lambda: "bfq is best",
                             reach=lambda: "in the next boot not known",
                             first_sentence=lambda lang: "Nothing is proven yet.")  # fmt: skip
    monkeypatch.setattr(Result, "load", lambda folder: result)


def test_the_winner_of_a_result_is_taken(monkeypatch, tmp_path, say):
    result_of(monkeypatch)
    found = choice_of_result(tmp_path, anyway=False)
    assert found == ToApply(
        Candidate("bfq", {"scheduler": "bfq"}),
        str(tmp_path),
        "bfq is best (in the next boot not known)",
    )  # fmt: skip
    (tmp_path / "experiment.toml").touch()
    assert choice_of(str(tmp_path), ["x=1"]).candidate.settings == {"scheduler": "bfq", "x": "1"}
    for code, take in (
        ("trade", "kyber"), ("same", "bfq"), ("keep", "none"), ("for-now", "none")
    ):  # fmt: skip
        result_of(monkeypatch, code, take)
        assert choice_of_result(tmp_path, anyway=False).candidate.label == take
    result_of(monkeypatch, kind="cpu", release="")
    say(choice_of_result, tmp_path, True)
    for take in ("", "other"):
        result_of(monkeypatch, take=take)
        say(choice_of_result, tmp_path, True)


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        ({"code": "for-now"}, "Nothing is proven yet"),
        *[
            ({"code": code, "take": "none"}, "Nothing is proven yet")
            for code in ("nothing", "one-run", "unbounded", "doubt")
        ],
        (
            {
                "code": "keep",
                "take": "none",
                "requirements": (Requirement("r", 9.0, True, {"none": "open"}),),
            },
            "Nothing is proven yet",
        ),
        ({"kind": "sim"}, "it is of kind 'sim', not measured on this kernel"),
        (
            {"target": Target("emulated")},
            "it was measured on an emulated device, which answers as its model does",
        ),
        ({"release": "1.2"}, f"it was measured on Linux 1.2, this is {platform.release()}"),
    ],
)
def test_objections_to_a_result(monkeypatch, tmp_path, changes, objection):
    result_of(monkeypatch, **changes)
    assert refused(choice_of_result, tmp_path, False) == (
        f"{tmp_path}: {objection}",
        "name a scheduler yourself, or add --anyway to apply its best candidate",
    )
    assert choice_of_result(tmp_path, True).candidate.label == changes.get("take", "bfq")


def test_what_a_result_sets_beyond_the_device_needs_a_yes(monkeypatch, tmp_path):
    """Each setting by its name, also the second; what is typed is allowed."""
    result_of(monkeypatch)
    experiment = Result.load(tmp_path).record.experiment
    more = {"sysctl.kernel.core_pattern": "|/bin/sh", "read_ahead_kb": 4, "thp": "never"}
    experiment.candidates = (Candidate("bfq", {"scheduler": "bfq", **more}),)
    (tmp_path / "experiment.toml").touch()
    names = ("sysctl.kernel.core_pattern", "thp")
    for allowed in ((), names[:1], names[1:], ("sysctl",)):
        with pytest.raises(SpecError, match="every program of this machine") as caught:
            choice_of(str(tmp_path), [], True, (), allowed)
        missing = [name for name in names if name not in allowed]
        assert ",".join(missing) in caught.value.hint and missing[0] in str(caught.value)
    assert choice_of(str(tmp_path), [], switch=names).candidate.settings["thp"] == "never"
    with pytest.raises(SpecError, match="--switch boost would change nothing"):
        choice_of(str(tmp_path), [], switch=(*names, "boost"))
    experiment.candidates = (Candidate("bfq", {"scheduler": "bfq"}),)
    assert choice_of(str(tmp_path), ["thp=never"]).candidate.settings["thp"] == "never"
    assert choice_of("x=bfq thp=never", []).candidate.settings["thp"] == "never"
    with pytest.raises(SpecError, match="--switch is for a RESULT"):
        choice_of("bfq", [], switch=("thp",))


def test_requests_that_cannot_be(tmp_path, say):
    bfq, cpu = choice_of("bfq", []), choice_of("sched_rr_timeslice_ms=20", [])
    say(apply.apply, bfq, Request(()), print)
    say(apply.apply, cpu, Request(("sdx",)), print)


def test_the_number_of_requests_is_written_last(tmp_path):
    """Other settings of a queue reset it."""
    for name in ("nr_requests", "read_ahead_kb", "wbt_lat_usec"):
        (tmp_path / name).write_text("1\n")
    written = []
    control = SimpleNamespace(write_knob=lambda path, value: written.append((path.name, value)))
    wanted = {"wbt_lat_usec": "2", "nr_requests": "3", "read_ahead_kb": "4"}
    undo._write_all(control, tmp_path, wanted)
    assert written == [("read_ahead_kb", "4"), ("wbt_lat_usec", "2"), ("nr_requests", "3")]


def test_a_second_apply_keeps_what_was_before_the_first(monkeypatch):
    monkeypatch.setattr(applied, "boot_id", lambda: RECORD.boot_id)
    queue = f"{knobs.SYS_BLOCK}/sdx/queue"

    def of(first, second):
        return {f"{queue}/nomerges": first, f"{queue}/read_ahead_kb": second}

    mine = replace(RECORD, originals=of("1", "50"), values=of("2", "50"), made=("x",))
    assert apply._onto(mine, None) == mine
    earlier = replace(RECORD, originals=of("0", "128"), values=of("1", "128"),
                      files={"f": None}, written={"f": "p"}, made=("d",))  # fmt: skip
    both = apply._onto(mine, earlier)
    # Another program set read_ahead_kb in between, and this apply left it alone.
    assert (both.originals, both.values) == (of("0", "50"), mine.values)
    assert (both.files, both.written, both.made) == ({"f": None}, {"f": "p"}, ("d",))
    ours = replace(mine, setting="bfq:read_ahead_kb=50")
    assert apply._onto(ours, earlier).originals == of("0", "128")
    for other in (replace(earlier, boot_id="before"), replace(earlier, instance="another disk")):
        old = apply._onto(mine, other)
        assert (old.originals, old.values) == (mine.originals, mine.values)
        assert (old.files, old.written, old.made) == ({"f": None}, {"f": "p"}, ("d",))


def test_a_disk_does_not_inherit_what_another_of_its_name_keeps(monkeypatch, tmp_path):
    """sda and sdb may swap names at a boot: the rule of the one is no rule of the other."""
    kept = replace(RECORD, files={"rules": None})
    other = replace(RECORD, identity="wwid:eui.2")
    assert apply._onto(other, kept) == other
    applied.store(kept)
    monkeypatch.setattr(applied, "identity", lambda name: other.identity)
    with pytest.raises(SpecError, match=r"sdx was another disk \(wwid:eui.1\)") as raised:
        apply._check("sdx", choice_of("bfq", []), Request(("sdx",)))
    assert raised.value.hint.startswith("schedlab undo sdx")
    applied.store(replace(kept, files={}))  # Nothing keeps that one at a boot: the next question.
    with pytest.raises(HostError, match="sdx"):
        apply._check("sdx", choice_of("bfq", []), Request(("sdx",)))


def test_a_rule_is_for_this_disk_alone():
    head = 'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
    others = 'KERNEL!="loop*|zram*|ram*|dm-*|md*|nbd*", ENV{DM_MULTIPATH_DEVICE_PATH}!="1", '
    assert rule_text(RECORD) == (
        f'{head}{others}ATTR{{wwid}}=="eui.1", ATTR{{queue/scheduler}}="bfq", '
        'ATTR{queue/iosched/low_latency}="0", ATTR{queue/iosched/slice_idle}="2"'
    )
    odd = replace(RECORD, identity='device/wwid:a"b*[c]|d?e\\f', setting="none")
    assert 'ATTR{device/wwid}=="a?b??c??d?e?f", ' in rule_text(odd)
    assert rule_text(odd).endswith('ATTR{queue/scheduler}="none"')
    named = replace(RECORD, identity="name:sdx", setting="none")
    assert rule_text(named) == f'{head}KERNEL=="sdx", ATTR{{queue/scheduler}}="none"'


def test_where_a_tunable_is(monkeypatch, tmp_path):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    queue = tmp_path / "sdx/queue"
    values = {f"{queue}/low_latency": "0", f"{queue}/iosched/slice_idle": "2"}
    away = replace(RECORD, values=values)
    assert 'ATTR{queue/low_latency}="0", ATTR{queue/iosched/slice_idle}="2"' in rule_text(away)
    assert 'ATTR{queue/iosched/low_latency}="0"' in rule_text(RECORD)
    (queue / "iosched").mkdir(parents=True)
    for name in ("iosched/low_latency", "low_latency", "slice_idle"):
        (queue / name).touch()
    text = rule_text(RECORD)
    assert 'ATTR{queue/iosched/low_latency}="0", ATTR{queue/slice_idle}="2"' in text


def setter(file, value, source="udev", certain=True):
    return setters.Setter(source, file, 3, value, certain)


def test_who_else_sets_the_scheduler(monkeypatch, tmp_path):
    found = []
    beside = []
    monkeypatch.setattr(setters, "setters_of", lambda disk, root, planned: found)
    monkeypatch.setattr(setters, "others", lambda disk, root: beside)
    monkeypatch.setattr(udev, "disk", lambda name: name)
    request = Request(("sdx",), root=tmp_path)

    def said(*lines):
        found[:] = lines
        return apply.warnings("sdx", "bfq", request)

    ours = setter(tmp_path / apply.RULES, "kyber")
    rule, unit = setter(Path("/a"), "none"), setter(Path("/b"), "kyber", "systemd unit")
    assert said() == said(ours) == []
    assert said(rule) == ["also sets it: /a:3 (none)",
                          "/a:3 wins at the next boot or hot-plug and sets none"]  # fmt: skip
    assert said(setter(Path("/a"), "bfq", certain=False)) == [
        "also sets it (perhaps): /a:3 (bfq)"
    ]  # fmt: skip
    assert said(rule, unit) == [
        "also sets it: /a:3 (none)",
        "also sets it: systemd unit, /b:3 (kyber)",
        "systemd unit, /b:3 wins at the next boot and sets kyber",
        "/a:3 wins at the next hot-plug and sets none",
    ]
    assert len(said(setter(Path("/a"), "bfq"), unit)) == 3
    assert said(ours, unit)[1:] == ["systemd unit, /b:3 wins at the next boot and sets kyber"]
    assert said(setter(Path("/c"), "deadline", "boot parameter"), setter(Path("/a"), "bfq")) == [
        "elevator=deadline on the kernel command line: Linux ignores it", "also sets it: /a:3 (bfq)"
    ]  # fmt: skip
    beside[:] = [replace(setter(Path("/d"), "64", certain=False), name="read_ahead_kb"),
                 replace(setter(Path("/e"), "0"), name="iosched/low_latency"),
                 replace(ours, name="nomerges")]  # fmt: skip
    assert apply.warnings("sdx", "bfq:low_latency=1", request)[-2:] == [
        "/d:3 sets read_ahead_kb to 64 (perhaps)", "/e:3 sets low_latency to 0, as this does"
    ]  # fmt: skip


def test_a_file_of_ours_is_known_by_its_head(tmp_path, say):
    file = tmp_path / "rule"
    applied.refuse_foreign(file)
    file.write_text(HEADER + "x\n")
    assert applied.is_ours(file.read_text()) and not applied.is_ours("# mine\n" + HEADER)
    applied.refuse_foreign(file)
    file.write_text("# mine\n")
    say(applied.refuse_foreign, file)
    assert len(applied.boot_id()) == 36


def test_what_a_disk_is_called_after_a_reboot(monkeypatch, tmp_path):
    for name, attribute, text in (("sda", "serial", "S1\n"), ("sdb", "device/wwid", " W2 "),
                                  ("sdb", "serial", "S2"), ("sdc", "wwid", " \n")):  # fmt: skip
        path = tmp_path / name / attribute
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(knobs, "CLASS_BLOCK", tmp_path)
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    assert [applied.identity(name) for name in ("sda", "sdb", "sdc", "sdd")] == [
        "serial:S1", "device/wwid:W2", "name:sdc", "name:sdd"
    ]  # fmt: skip
    moved = replace(RECORD, device="sda", identity="device/wwid:W2")
    assert applied.present_name(moved) == "sdb"
    assert applied.present_name(replace(moved, device="sdb")) == "sdb"
    assert applied.present_name(replace(moved, identity="wwid:gone")) == "sda"
    assert applied.present_name(replace(moved, device="sdz", identity="name:sdz")) == "sdz"


def test_records_are_stored_found_and_forgotten(state):
    assert applied.load_all() == [] and applied.find("sdx") is None
    other = replace(RECORD, device="a/b", made=("/m",), files={"/f": None})
    for record in (RECORD, other):
        applied.store(record)
    half = state / ".sdx.json.0123456789ab"
    no_half = state / ".sdx.json.0123456789abc"
    for file in (half, no_half):
        file.touch()
    applied.store(replace(RECORD, headline="new"))
    assert not half.exists() and no_half.exists()
    found = applied.find("sdx")
    assert found is not None and found.headline == "new"
    assert applied.find("a/b") == other and len(applied.load_all()) == 2
    half.touch()
    applied.remove_half_records()
    assert not half.exists()
    half.touch()
    assert applied.find("sdw") is None
    applied.forget("sdx")
    applied.forget("sdx")
    assert applied.find("sdx") is None and not half.exists()
    (state / "z.json").write_text("{")
    said, hint = refused(applied.load_all)
    assert said.startswith(f"{state}/z.json: ") and hint.endswith(f"rm {state}/z.json")


def test_files_are_named_before_they_are_written(tmp_path, monkeypatch):
    file = tmp_path / "etc/udev/90.rules"
    named = applied.with_file(RECORD, file)
    assert named.files == {str(file): None}
    assert named.made == (str(tmp_path / "etc/udev"), str(tmp_path / "etc"))
    applied.store(named)
    half = file.parent / f".{file.name}.0123456789ab"
    half.parent.mkdir(parents=True)
    halves = [half, *(half.with_suffix(f".{at}123456789ab") for at in "789")]
    for each in halves:
        each.touch()
    applied.write_file(file, "text")
    assert file.read_text() == "text" and not any(each.exists() for each in halves)
    second = applied.with_file(replace(RECORD, device="sdy", made=("/x",)), file)
    assert second.made == ("/x", str(tmp_path / "etc/udev"), str(tmp_path / "etc"))
    applied.store(replace(second, device="sdy", made=("/y",)))
    third = applied.with_file(replace(RECORD, device="sdz"), file)
    assert third.made == (*named.made, "/y")
    applied.forget("sdy")
    half.touch()
    applied.remove_traces(named)
    assert not half.exists() and file.exists()
    file.unlink()
    applied.remove_traces(named)
    assert not (tmp_path / "etc").exists() and tmp_path.exists()
    (tmp_path / "file").touch()
    for user, way in ((1000, applied.ROOT_HINT), (0, applied.OF_ROOT_HINT)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        said, hint = refused(applied.write_file, tmp_path / "file/x", "text")
        assert said.startswith(f"{tmp_path}/file/x: ") and hint == way


def test_settings_of_the_machine(say):
    values = apply_machine.values_of

    def of(**settings):
        return values(Candidate("c", settings))

    assert of(scheduler="bfq", nr_requests=4) == of() == {}
    assert of(sched_rr_timeslice_ms=20.0) == {"sched_rr_timeslice_ms": "20"}
    assert of(sched_x="-1", nr_migrate=8, governor="performance") == {
        "sched_x": "-1", "nr_migrate": "8", "governor": "performance"
    }  # fmt: skip
    assert of(sched_rr_timeslice_ms="1") == {"sched_rr_timeslice_ms": "1"}
    for value in ("0", "1.5", "x", "-1", "5ms"):
        say(of, sched_rr_timeslice_ms=value)


def test_a_choice_is_divided_among_the_machine_and_disks(say):
    def divided(**named):
        candidate = Candidate("c", {k.replace("__", "."): v for k, v in named.items()})
        machine, disks = apply._divided(ToApply(candidate))
        return machine, dict(disks.candidate.settings) if disks else None

    assert divided(scheduler="bfq", low_latency=0) == ({}, {"scheduler": "bfq", "low_latency": 0})
    assert divided(scheduler="bfq", sysctl__vm__swappiness=5) == (
        {"sysctl.vm.swappiness": "5"}, {"scheduler": "bfq"}
    )  # fmt: skip
    assert divided(scheduler="as-is", thp="never") == ({"thp": "never"}, None)
    said, hint = refused(divided, scheduler="bfq", cgroup__io__weight=5, run="x", undo="y")
    assert said.startswith("apply cannot set cgroup.io.weight, run, undo") and "systemd" in hint
    say(divided, thp="never", nr_requests="4")


def test_a_result_is_for_where_it_was_measured(monkeypatch):
    monkeypatch.setattr(knobs, "device_name", lambda device: Path(device).name)

    def doubts(target, *devices):
        return apply._measured_elsewhere(target, devices)

    scratch = Target("scratch")
    assert doubts(scratch) == [] and doubts(Target("none"), "sdb") == []
    assert doubts(scratch, "/dev/sdb") == [
        "it was measured on a temporary loop device, which answers unlike sdb"
    ]
    assert doubts(Target("device", "/dev/sdb"), "sdb") == []
    assert doubts(Target("device", "/dev/sda"), "sdb") == ["it was measured on sda, not on sdb"]
    switched = Target("directory", "/srv", switch=("sda", "sdb", "thp"))
    assert doubts(switched, "sdb", "sda") == []
    assert doubts(switched, "sda", "sdc") == ["it was measured on sda, sdb, not on sdc"]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Directories with the settings that this kernel shall have."""
    texts = {"sysctl/kernel/sched_x": "7", "sysctl/kernel/sched_a": "1",
             "debug/sched/nr_migrate": "8",
             "debug/sched/latency_ns": "5", "debug/sched/debug": "0"}  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(settings, "SYSCTL", tmp_path / "sysctl")
    monkeypatch.setattr(apply_machine, "SYSCTL", tmp_path / "sysctl")
    monkeypatch.setattr(settings, "DEBUG", tmp_path / "debug/sched")
    return tmp_path


def test_what_applying_to_the_machine_would_write(kernel, say):
    root, x, migrate = kernel / "root", f"{kernel}/sysctl/kernel/sched_x", "debug/sched/nr_migrate"
    values = {"sched_x": "4", "nr_migrate": "9"}
    assert apply_machine.planned(values, False, root) == [f"{x} = 4", f"{kernel}/{migrate} = 9"]
    assert apply_machine.planned(values, True, root)[2:] == [
        f"{root}/etc/sysctl.d/90-schedlab.conf: kernel.sched_x = 4",
        f"{root}/etc/tmpfiles.d/90-schedlab.conf: w {kernel}/{migrate} - - - - 9",
    ]
    assert list(apply_machine._file_texts({x: "4"}, root)) == [root / apply_machine.SYSCTL_FILE]
    say(apply_machine.planned, {"sched_y": "1"}, False, root)


def test_of_two_files_of_one_setting_one_is_kept():
    size, ratio = "/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"
    both = {size: "0", ratio: "20", "/x": "0"}
    assert knobs.one_of_each(both) == {ratio: "20", "/x": "0"}
    assert knobs.one_of_each({size: "5", ratio: "0"}) == {size: "5"}
    lines = "".join(apply_machine._file_texts(both, Path("/")).values())
    assert lines == "vm.dirty_ratio = 20\nw /x - - - - 0\n"
    assert apply_machine._setting({size: "5", ratio: "0"}) == "sysctl.vm.dirty_bytes=5"


def test_both_files_of_one_setting_hold_it(monkeypatch):
    size, ratio = "/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"
    now = {size: "0", ratio: "20", "/x": "1"}
    monkeypatch.setattr(knobs, "read_value", now.get)
    for other, holds in ((now, True), ({**now, size: "5"}, False), ({**now, ratio: "9"}, False)):
        record = replace(RECORD, values=other)
        assert [apply_machine._holds(record, knob) for knob in (size, ratio)] == [holds] * 2
        assert apply_machine._holds(record, "/x")


def test_a_second_setting_of_the_machine():
    mine = replace(RECORD, setting="b=2", originals={"/k/b": "1"}, values={"/k/b": "2"})
    assert apply_machine._onto(mine, None) == mine
    earlier = replace(RECORD, originals={"/k/a": "5", "/k/b": "0"}, files={"f": None}, made=("d",),
                      values={"/k/a": "6", "/k/b": "1"})  # fmt: skip
    both = apply_machine._onto(mine, earlier)
    assert both.originals == {"/k/b": "0", "/k/a": "5"}
    assert (both.values, both.setting) == ({"/k/a": "6", "/k/b": "2"}, "a=6,b=2")
    assert (both.files, both.made) == ({"f": None}, ("d",))
    old = apply_machine._onto(mine, replace(earlier, boot_id="before"))
    assert (old.originals, old.setting, old.files) == (mine.originals, "a=6,b=2", {"f": None})
    assert old.values == {"/k/a": "6", "/k/b": "2"}  # what a knob was in another boot is unknown
    gone = apply_machine._onto(mine, replace(earlier, boot_id="before", files={}))
    assert (gone.values, gone.setting) == ({"/k/b": "2"}, "b=2")


def test_the_last_file_sets_a_knob(kernel):
    root = kernel / "root"
    texts = {
        "usr/lib/sysctl.d/10.conf": "kernel.sched_x = 1\n",
        "etc/sysctl.d/10.conf": "# kernel.sched_x = 9\n -kernel/sched_x=2\nkernel.sched_xy = 5\n",
        "run/sysctl.d/50.conf": "kernel.sched_x = 3\n kernel.sched_x = 4\n",
        "etc/sysctl.d/60.txt": "kernel.sched_x = 8\n",
        "etc/tmpfiles.d/a.conf": f"w+ {kernel}/debug/sched/nr_migrate - - - - 6\nw x - - - - 1\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    knob = kernel / "sysctl/kernel/sched_x"
    assert apply_machine.settings_in(root, knob) == [
        (root / "etc/sysctl.d/10.conf", "2"),
        (root / "run/sysctl.d/50.conf", "3"),
        (root / "run/sysctl.d/50.conf", "4"),
    ]
    migrate = kernel / "debug/sched/nr_migrate"
    assert apply_machine.settings_in(root, migrate) == [(root / "etc/tmpfiles.d/a.conf", "6")]
    record = replace(RECORD, device="machine", values={str(knob): "7"})
    one = undo._machine_status(record, root)
    assert (one.drift, one.holds, one.after_reboot) == ((), True, "4 (50.conf)")
    gone = kernel / "sysctl/kernel/sched_z"
    values = {str(knob): "6", str(migrate): "8", str(gone): "1"}
    kept = replace(record, values=values, files={"f": None})
    some = undo._machine_status(kept, root)
    assert some.drift == (undo.Drift("sched_x", "6", "7"), undo.Drift("sched_z", "1", "absent"))
    assert not some.holds and some.after_reboot.startswith("sched_x: 4 (50.conf), nr_migrate: 6")
    old = undo._machine_status(replace(kept, files={}), root)  # RECORD is of another boot
    assert (old.holds, old.gone, old.drift) == (False, "it ended with the last boot", ())


@pytest.mark.parametrize(("user", "sudo"), [(0, ""), (1000, "sudo ")])
def test_where_nothing_is_applied_there_is_nothing_to_undo(monkeypatch, user, sudo):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert refused(undo.undo, ["sdx"], False, print) == (
        "sdx: schedlab applied nothing there", f"{sudo}schedlab status"
    )  # fmt: skip


def test_what_is_undone_where_the_device_is_gone(tmp_path):
    file = tmp_path / "90-schedlab.rules"
    other = replace(RECORD, device="sdy-gone", files={str(file): None})
    gone = replace(RECORD, device="sdx-gone", files={str(file): None})
    for record in (gone, other):
        applied.store(record)
    file.write_text(HEADER + "two\n")
    said = []
    assert undo.undo(["sdx-gone"], False, said.append) == ["sdx-gone"]
    assert said == ["note: sdx-gone is not present: only the files of schedlab were removed"]
    assert file.read_text() == HEADER + rule_text(other) + "\n"
    shown = undo.status_lines(undo.status(tmp_path))
    assert shown == [
        "sdy-gone: bfq:low_latency=0,slice_idle=2 since 2026-01-02, the device is not present",
        "  after a reboot: unknown",
        "  by /r: bfq is best",
    ]
    assert undo.undo([], True, said.append) == ["sdy-gone"]
    assert not file.exists() and undo.status_lines(undo.status()) == ["nothing is applied"]
    applied.store(gone)
    undo._remove_files(gone, said.append)
    assert said[-1] == f"note: {file} no longer exists"
    file.write_text("# mine\n")
    undo._remove_files(gone, said.append)
    assert said[-1] == f"note: {file} was changed by another program; it is kept"
    assert file.read_text() == "# mine\n"
    profile = tmp_path / "tuned.conf"  # of a version that kept settings by tuned
    profile.touch()
    old = replace(gone, files={str(profile): None}, written={"tuned_parent": "balanced"})
    applied.store(old)
    assert applied.find(old.device) == old
    undo._remove_files(old, said.append)
    assert said[-1] == f"note: {profile} stays: an earlier version of schedlab wrote it; remove it"
    holds = undo.Status(replace(RECORD, result=""), True, "the kernel's default")
    assert undo.status_lines([holds]) == [
        "sdx: bfq:low_latency=0,slice_idle=2 since 2026-01-02, holds",
        "  after a reboot: the kernel's default",
    ]


def test_records_that_cannot_be_kept(tmp_path, monkeypatch, say):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLAB_VAR_DIR", str(tmp_path / "file"))
    say(applied.store, RECORD)


def test_records_are_plain_json(state):
    applied.store(RECORD)
    document = json.loads((state / "sdx.json").read_text())
    assert (document["schema"], document["device"], document["made"]) == (2, "sdx", [])
