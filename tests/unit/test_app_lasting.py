"""What of a result can be kept after a reboot, and by which files and records."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_app_apply import RECORD, refused

from schedlab.app.apply import applied, apply, undo
from schedlab.app.apply import machine as apply_machine
from schedlab.app.apply.apply import Request
from schedlab.host.settings import knobs, udev_service
from schedlab.nouns import Candidate


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Records of this test alone."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("SCHEDLAB_VAR_DIR", raising=False)


def test_settings_of_a_record(monkeypatch):
    def of(**settings):
        return apply._setting("sdx", Candidate("x", settings))

    monkeypatch.setattr(knobs, "offered", lambda device: ("none", "mq-deadline", "bfq"))
    assert of(scheduler="bfq", a=1, b=2) == "bfq:a=1,b=2"
    assert of(scheduler="bfq") == "bfq"
    assert of(scheduler="deadline", a=1) == "mq-deadline:a=1"


def test_a_rule_that_was_interrupted_leaves_files_and_records_as_before(tmp_path, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    request = Request((), persist=True, root=tmp_path)
    file, control = tmp_path / apply.RULES, SimpleNamespace(keep_with=lambda *of: None)
    with monkeypatch.context() as patch:
        patch.setattr(udev_service, "objections", interrupted)
        with pytest.raises(KeyboardInterrupt):
            apply._keep_after_reboot([RECORD], request, print, control)
        assert applied.load_all() == [] and not (tmp_path / "etc").exists()
    apply._keep_after_reboot([RECORD], request, print, control)
    text, records = file.read_bytes(), applied.load_all()
    assert b'"bfq"' in text and [r.device for r in records] == ["sdx"]
    monkeypatch.setattr(udev_service, "objections", interrupted)
    both = [replace(RECORD, setting="kyber"), replace(RECORD, device="sdy")]
    with pytest.raises(KeyboardInterrupt):
        apply._keep_after_reboot(both, request, print, control)
    assert file.read_bytes() == text and applied.load_all() == records


def test_a_udev_that_does_not_answer_is_a_note(tmp_path, monkeypatch):
    slow, control = tmp_path / "udevadm", tmp_path / "control"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    control.touch()
    monkeypatch.setattr(udev_service, "program", lambda: str(slow))
    monkeypatch.setattr(udev_service, "CONTROL", control)
    monkeypatch.setattr(udev_service, "WAIT_S", 0.025)
    notes = []
    udev_service.reload((), notes.append)
    assert notes[0] == (
        f"note: {slow} control --reload: {slow} did not answer within 0.1 s"
    )  # fmt: skip
    rules = tmp_path / "90-schedlab.rules"
    rules.write_text("no rule\n")
    assert udev_service.objections(rules) == [f"{rules}:1: not understood"]


def test_of_a_cpu_result_the_settings_of_the_system_are_applied(say):
    def of(label, **settings):
        named = {key.replace("knob_", "knob."): value for key, value in settings.items()}
        return dict(apply_machine.of_result(Candidate(label, named)).settings)

    tasks = "a policy belongs to tasks: chrt, nice or systemd set it"
    slice_ms, autogroup = "sched_rr_timeslice_ms", "sched_autogroup_enabled"
    assert of("rr:20ms", policy="rr", slice_ms=20.0, priority=3) == {slice_ms: 20.0}
    assert of("rr:20ms", policy="rr", slice_ms=20.0, knob_sched_autogroup_enabled=0) == {
        slice_ms: 20.0, autogroup: 0
    }  # fmt: skip
    assert of("other", policy="other", knob_nr_migrate=8, apply_to="all") == {"nr_migrate": 8}
    assert of("off", autogroup="off") == {autogroup: 0}
    for policy in ("batch", "fifo", "other", "rr"):
        assert refused(of, policy, policy=policy, priority=9) == (
            f"{policy}: apply cannot set policy={policy}", tasks
        )  # fmt: skip
    assert refused(of, "other:slice=3ms", policy="other", slice_ms=3.0) == (
        "other:slice=3ms: apply cannot set slice_ms=3.0", tasks
    )  # fmt: skip
    say(of, "x", policy="fifo", knob_nr_migrate=8, knob_sched_x=1.0, max="1/2")


@pytest.mark.parametrize("name", [apply.RULES.name, "90-schedlab.conf"])
def test_a_file_that_this_user_may_not_remove_is_an_error(tmp_path, monkeypatch, name):
    def refuse(path, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(path))

    file = tmp_path / "etc" / name
    device = "cpu" if file.suffix == ".conf" else "sdx"
    record = replace(RECORD, device=device, files={str(file): None})
    applied.store(record)
    applied.write_file(file, applied.HEADER)
    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(applied.os, "geteuid", lambda: 1000)
    assert refused(undo.undo, [device], False, print) == (
        f"cannot remove {file}: Permission denied", applied.ROOT_HINT
    )  # fmt: skip
    assert file.exists() and applied.load_all() == [record]
    assert refused(applied.forget, device)[1] == applied.ROOT_HINT


def test_knobs_that_another_program_set():
    originals, ours = {"a": "1", "b": "2", "scheduler": "none"}, {"a": "032", "b": "6"}
    assert undo._foreign({"a": "32", "b": "2", "c": "9"}, (originals, ours)) == {}
    assert undo._foreign({"a": "3", "scheduler": "x"}, (originals, ours)) == {"a": "3"}
    assert undo._foreign({"a": "3"}, (originals, ours, {"a": "3"})) == {}
    assert undo.undo([], True, print) == []
