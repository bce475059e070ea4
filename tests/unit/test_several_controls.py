"""Of several queues, knobs, commands or signals of a session each is guarded, set, checked and
undone: plain files in the place of sysfs."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from schedlab.host import doctor, facts
from schedlab.host.safety import control, recover
from schedlab.host.settings import knobs


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session that holds nothing, with two queues of plain files in the place of sysfs."""
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    made = control.Control(state_directory=tmp_path / "state")
    made._guardian = SimpleNamespace(ensure=lambda: False)
    made.lines = []
    made._journal = SimpleNamespace(append=lambda kind, **of: made.lines.append((kind, of)))
    made.claims = []
    made.claim = lambda *names: made.claims.extend(names)
    made._allow = lambda name: None
    made.queues = [tmp_path / name / "queue" for name in ("sda", "sdb")]
    for at, place in enumerate(made.queues):
        (place / "iosched").mkdir(parents=True)
        (place / "scheduler").write_text("[none] bfq kyber\n")
        for number, name in enumerate(("nr_requests", "nomerges", "iosched/x")):
            (place / name).write_text(f"{10 * at + number}\n")
    return made


def test_each_queue_is_guarded_once_and_all_its_originals_are_known(session):
    for place in (*session.queues, *session.queues):
        session._guard(place)
    assert session.claims == ["sda", "sdb"] and session._queues == {*session.queues}
    assert [(kind, of["queue"]) for kind, of in session.lines] == [
        ("queue", str(place)) for place in session.queues
    ]
    names = ("scheduler", "nr_requests", "nomerges", "iosched/x")
    assert {*session._originals} == {
        f"{place}/{name}" for place in session.queues for name in names
    }
    assert session._originals[f"{session.queues[1]}/nomerges"] == "11"


def test_every_knob_that_another_program_changed_is_found(session, tmp_path):
    for place in session.queues:
        session._guard(place)
        session._expect(place, knobs.snapshot(place))
    elsewhere = [tmp_path / name for name in ("a", "b", "c")]
    for path in elsewhere:
        path.write_text("1\n")
        session._expected[str(path)] = "1"
    session._expect(session.queues[0], knobs.snapshot(session.queues[0]))
    assert session.check() == () and len(session._expected) == 4 + 4 + 3
    changed = [session.queues[0] / "nomerges", session.queues[0] / "iosched/x",
               session.queues[1] / "nr_requests", elsewhere[0], elsewhere[2]]  # fmt: skip
    for path in changed:
        path.write_text("99\n")
    session._set_in_queue = {queue: {"x"} for queue in session.queues}
    found = session.check()
    assert {each.detail.split(" is 99 ")[0] for each in found} == {*map(str, changed)}
    session.keep()
    assert session.check() == () and session.lines[-1] == ("keep", {})
    assert (session._expected, session._originals, session._queues, session._set_in_queue) == (
        {}, {}, set(), {}
    )  # fmt: skip


def test_all_settings_of_a_queue_are_set_and_undone_before_another_scheduler(session, monkeypatch):
    written = []

    def write(path, text):
        written.append((path.name, text))
        session._originals.setdefault(str(path), knobs.read_value(path))
        path.write_text(f"{text}\n" if path.name != "scheduler" else f"[{text}] none kyber\n")
        return text

    monkeypatch.setattr(session, "_write", write, raising=False)
    place = session.queues[0]
    monkeypatch.setattr(knobs, "queue_of", lambda name: place)
    monkeypatch.setattr(knobs, "canonical", lambda name, scheduler: scheduler)
    monkeypatch.setattr(knobs, "device_name", lambda device: "sda")
    monkeypatch.setattr(control.emulated, "dilated", lambda queue, factor: {"nr_requests": 4})
    tunables = {"nomerges": 2, "x": 5}
    paths = {"nomerges": place / "nomerges", "x": place / "iosched/x"}
    monkeypatch.setattr(knobs, "tunable_path", lambda queue, key: paths[key])
    made = session.set_scheduler("sda", "bfq", tunables, {"nomerges": "0", "nr_requests": "7"})
    assert made.tunables == {"nomerges": "2", "x": "5"}
    assert written == [("scheduler", "bfq"), ("nomerges", "0"), ("nr_requests", "7"),
                       ("nr_requests", "4"), ("nomerges", "2"), ("x", "5")]  # fmt: skip
    assert session._set_in_queue == {place: {str(place / "nomerges")}}
    for name in ("nr_requests", "nomerges"):
        session._set_in_queue[place].add(str(place / name))
    written.clear()
    session._make_fresh(place, "kyber")
    assert written == [("nomerges", "1"), ("nr_requests", "0"), ("scheduler", "kyber")]
    written.clear()
    (place / "scheduler").write_text("bfq [kyber] none\n")
    session._narrowed = {*session.queues}
    monkeypatch.setattr(knobs, "tag_steps", lambda *_: ("62", "128"))
    session._make_fresh(place, "kyber")
    assert written == [("scheduler", "none"), ("nr_requests", "62"), ("nr_requests", "128"),
                       ("scheduler", "kyber")]  # fmt: skip
    assert session._narrowed == {session.queues[1]}
    written.clear()
    (place / "scheduler").write_text("bfq [kyber] none\n")
    session._make_fresh(place, "kyber")
    assert written == [("scheduler", "none"), ("scheduler", "kyber")]
    monkeypatch.setattr(control, "hold", lambda device: {"/a": 5, "/b": 8}[device])
    assert [session.hold(device).name for device in ("/a", "/b")] == ["5", "8"]


def test_knobs_elsewhere_and_commands_are_all_known(session, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_write", lambda path, text: text, raising=False)
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text("1\n")
        assert session.write_knob(path, 3) == "3"
    assert session.claims == paths and session._expected == {str(path): "3" for path in paths}
    own = {queue: [queue / name for name in ("nr_requests", "nomerges")] for queue in
           session.queues}  # fmt: skip
    for path in (path for pair in zip(*own.values(), strict=True) for path in pair):
        session.write_knob(path, 5)
    assert session._set_in_queue == {queue: {*map(str, of)} for queue, of in own.items()}
    for place in session.queues:
        session._guard(place)
    monkeypatch.setattr(recover, "shell_line", lambda line: "")
    monkeypatch.setattr(recover, "undo_command", lambda log, number, undo: "")
    numbers = [session.run_command(f"run {n}", f"undo {n}") for n in range(3)]
    assert numbers == [1, 2, 3] and session._commands == {n + 1: f"undo {n}" for n in range(3)}
    places = {str(place / "nomerges") for place in session.queues}
    assert places <= {*session._expected}
    for place in session.queues:
        (place / "nomerges").write_text("77\n")
    session.undo_command(2)
    assert {session._expected[path] for path in places} == {"77"}


def test_every_signal_waits_until_all_is_restored():
    came, kinds = [], (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {kind: signal.signal(kind, lambda which, frame: came.append(which)) for kind in kinds}
    try:
        for first in kinds:
            own = [signal.getsignal(kind) for kind in kinds]
            with control._undisturbed():
                for kind in (first, *kinds):
                    os.kill(os.getpid(), kind)
                assert came == []
            assert came == [first] and [signal.getsignal(kind) for kind in kinds] == own
            came.clear()
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def test_both_steps_to_all_tags_of_a_device_are_told(monkeypatch):
    known = {"rotational": None, "driver_tags": 64, "driver_tags_in_use": 31, "hardware_queues": 2}
    monkeypatch.setattr(doctor.facts, "queue_facts", lambda name: known)
    monkeypatch.setattr(knobs, "queue_of", lambda name: Path("/q") / name)
    monkeypatch.setattr(knobs, "tag_steps", lambda queue: ("62", "128"))
    (fact,) = [each for each in doctor._queue("sda") if each.topic == "tags of sda"]
    assert fact.found == "64 in 2 hardware queues, narrowed to 31"
    assert fact.command == "echo 62, then 128 > nr_requests under none"


def test_every_library_has_its_version_or_is_known_to_be_missing(monkeypatch):
    monkeypatch.setattr(facts, "_LIBRARIES", ("numpy", "none-of-that-name", "click", "nor-this"))
    found = facts.versions()
    assert [bool(found[name]) for name in facts._LIBRARIES] == [True, False, True, False]
    assert found["numpy"] != found["click"]


def test_each_model_and_each_queue_keeps_its_own_time_and_throttling(session, monkeypatch):
    """One model is slowed down by 4; writeback is throttled otherwise on each, and not by bfq."""
    stretched, change = [], control.emulated
    session._models = {"sda": {"dilate": 1.0, "tags": 4}, "sdb": {"dilate": 4.0, "tags": 8}}
    monkeypatch.setattr(knobs, "queue_of", lambda name: session.queues["ab".index(name[-1])])
    monkeypatch.setattr(knobs, "canonical", lambda name, scheduler: scheduler)
    monkeypatch.setattr(knobs, "device_name", lambda device: device)
    monkeypatch.setattr(
        change, "dilated", lambda queue, by: stretched.append((queue.parent.name, by)) or {}
    )
    monkeypatch.setattr(session, "_make_fresh", lambda *_: None, raising=False)
    for name in ("sdb", "sda"):
        session.set_scheduler(name, "none")
    assert stretched == [("sdb", 4.0), ("sda", 1.0)]
    usual = {(place, bfq): f"{at}{int(bfq)}" for at, place in enumerate(session.queues, 1)
             for bfq in (False, True)}  # fmt: skip
    for (place, bfq), value in usual.items():
        (place / "scheduler").write_text("[bfq] none\n" if bfq else "[none] bfq\n")
        (place / "wbt_lat_usec").write_text(f"{value}\n")
        session._throttle(place)
    written = []
    monkeypatch.setattr(session, "_write", lambda *of: written.append(of), raising=False)
    session._throttled = {*session.queues}
    for place, bfq in usual:
        (place / "scheduler").write_text("[bfq] none\n" if bfq else "[none] bfq\n")
        (place / "wbt_lat_usec").write_text("7\n")
        session._throttle(place)
    assert written == [(place / "wbt_lat_usec", text) for (place, _), value in usual.items()
                       for text in ("0", value)]  # fmt: skip
