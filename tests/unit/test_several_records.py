"""Of several records, files, rules, settings or queues each counts: rooms that apply, keep, undo,
switch a live load, and show it."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_app_apply import RECORD, kernel, result_of, state  # noqa: F401
from test_live import flow

from schedlab.app.apply import applied, apply, recovering
from schedlab.app.apply.apply import Request
from schedlab.app.fleet import fleet
from schedlab.app.live import live
from schedlab.app.live.screen import LiveScreen, bands
from schedlab.cli.fleet import _play
from schedlab.errors import HostError, SpecError
from schedlab.host.emulated import keeper
from schedlab.host.queues import Node, QueueSet
from schedlab.host.safety import recover
from schedlab.host.settings import udev_service
from schedlab.run.live.live import Second
from schedlab.run.live.live_figures import Look


def named(*names, **changes):
    return [replace(RECORD, device=name, identity=f"name:{name}", **changes) for name in names]


def test_what_fails_leaves_every_file_and_record_as_it_was(tmp_path):
    files = [tmp_path / name for name in "abcd"]
    both = [
        replace(record, files={str(file): None for file in pair},
                values={f"/proc/{name}": "1" for name in ("z", "y", "x")})
        for record, pair in zip(named("sdx", "sdy"), (files[:2], files[2:]), strict=True)
    ]  # fmt: skip
    halves = [tmp_path / f".{file.name}.0123456789ab" for file in files]
    kept = []
    control = SimpleNamespace(keep_with=lambda path, text, of: kept.append((path.name, of)))
    for file in files[::2]:
        file.write_text("old")
    for half in halves:
        half.touch()
    with pytest.raises(KeyboardInterrupt), applied.stored(both, control):
        assert applied.load_all() == both
        for file in files:
            file.write_text("new")
        raise KeyboardInterrupt
    places = ["/proc/x", "/proc/y", "/proc/z"]
    assert kept == [("sdx.json", places), ("sdy.json", places)]
    assert [file.exists() and file.read_text() for file in files] == ["old", False] * 2
    assert applied.load_all() == [] and not any(half.exists() for half in halves)


@pytest.mark.parametrize("foreign", ["a", "b"])
def test_no_file_of_another_program_is_written(tmp_path, foreign):
    (tmp_path / foreign).write_text("theirs")
    pairs = zip(named("sdx", "sdy"), "ab", strict=True)
    records = [replace(record, files={str(tmp_path / name): None}) for record, name in pairs]
    with pytest.raises(HostError, match=f"{tmp_path / foreign}: schedlab did not write it"):
        apply._with_files(records, Request(()))
    one = [replace(records[0], files={str(tmp_path / name): None for name in "ab"})]
    with pytest.raises(HostError, match=f"{tmp_path / foreign}: schedlab did not write it"):
        apply._with_files(one, Request(()))


def test_udev_looks_at_every_disk_again(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(udev_service, "program", lambda: "udevadm")
    monkeypatch.setattr(udev_service, "CONTROL", tmp_path)

    def run(command):
        asked.append(command[-1])
        return SimpleNamespace(returncode=1, stderr="no\n")

    monkeypatch.setattr(udev_service, "_run", run)
    notes = []
    udev_service.reload(["sda", "sdb"], notes.append)
    assert asked[:3] == ["--reload", "/sys/block/sda", "/sys/block/sdb"]
    assert len(notes) == len(asked) == 4


def test_what_is_left_of_every_emulated_device_is_removed(tmp_path, monkeypatch):
    for name in ("one", "other", "up"):
        (tmp_path / keeper.DEVICES / name).mkdir(parents=True)
    monkeypatch.setattr(keeper, "_ask", lambda path, what: {} if path.name == "up" else None)
    monkeypatch.setattr(keeper, "Kept", lambda **of: "kept")
    monkeypatch.setattr(keeper, "_clear", lambda path: recover.Recovery(removed=[path.name]))
    done = recovering.recover_all(str(tmp_path), False)
    assert done.removed[-2:] == ["one", "other"]
    cleared = []
    monkeypatch.setattr(
        keeper, "_clear", lambda path: cleared.append(path.name) or recover.Recovery()
    )
    assert (keeper.kept(tmp_path), cleared) == (["kept"], ["one", "other"])


def test_every_queue_that_carries_more_is_to_be_named(tmp_path, monkeypatch):
    reasons = {"sda": ("it carries /", "it carries /srv"), "sdb": ("it carries /home",)}
    below = QueueSet(str(tmp_path), Node("x"), ("sda", "sdb"), ("/srv (ext4)", "/home (xfs)"),
                     reasons)  # fmt: skip
    monkeypatch.setattr(live.knobs, "device_name", lambda name: name)
    for switch, text, hint in (
        ((), "sda, .*: it carries /; it carries /srv", "--switch sda,sdb"),
        (("sda",), "sdb, .*: it carries /home", "--switch sda,sdb"),
    ):
        with pytest.raises(SpecError, match=text) as error:
            live._refuse_unnamed(tmp_path, below, switch)
        assert error.value.hint == hint
    live._refuse_unnamed(tmp_path, below, ("sda", "sdb"))
    assert below.lines()[1:] == [
        "it also affects /srv (ext4)", "it also affects /home (xfs)",
        "sda is switched only when named: it carries /; it carries /srv",
        "sdb is switched only when named: it carries /home",
    ]  # fmt: skip


def test_every_group_that_is_named_has_to_be_there(tmp_path, monkeypatch):
    def look(name):
        if name == "gone":
            raise HostError(name)

    monkeypatch.setattr(live, "io_group", look)
    with pytest.raises(HostError, match="gone"):
        live.question(tmp_path, (), {"metric": "", "groups": ("here", "gone")})


def test_the_screen_has_every_group_and_all_their_latencies():
    flows = {("db", "read"): flow(fast=9), ("cp", "read"): flow(slow=9),
             ("db", "write"): flow(fast=9)}  # fmt: skip
    screen = LiveScreen()
    for of in (flows, {}):
        screen.see(Second("bfq", 1.0, 60.0, False, Look(1.0, of, 1), None))
    rows = screen.text().splitlines()[2:5]
    assert [" ".join(row.split()[:2]) for row in rows] == ["cp read", "db read", "db write"]
    assert [row.split()[-1].count("█") for row in rows] == [1, 1, 1]
    assert sum(bands(Look(1.0, flows, 1)).values()) == 27
    assert sum((bands(Look(1.0, {key: of})) for key, of in flows.items()), Counter()) == bands(
        Look(1.0, flows)
    )


def test_a_failure_of_any_host_is_one_of_the_command(monkeypatch, tmp_path):
    ok, wrong = fleet.HostState(), fleet.HostState("failed: x", failed=True)
    for states in ({"a": wrong, "b": ok}, {"a": ok, "b": wrong}):
        monkeypatch.setattr(fleet, "play", lambda *of, states=states: states)
        with pytest.raises(SystemExit):
            _play("check", {"inventory": tmp_path}, False, {})
