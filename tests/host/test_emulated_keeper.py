"""`schedlab device up|list|down`: devices that outlive the command which made them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from dying import schedlab
from processes import with_words

from schedlab.errors import HostError, SpecError
from schedlab.host.emulated import keeper
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety import journal, owned

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_is_left(root_with_loop, needs_fuse, state):
    yield
    for each in keeper.kept(state):
        keeper.down(each.name, state)
    assert keeper.kept(state) == []
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert str(state) not in mounts
    assert not any((state / keeper.DEVICES).glob("*/schedlab-*"))


def test_up_list_down(state):
    result = schedlab("device", "up", "disk7200", "--size", "64M", "--queue-depth", "8")
    assert result.returncode == 0, result.stderr
    path, _, rest = result.stdout.strip().partition(": ")
    assert rest == "disk7200, 64 MiB, 8 tags, emulated"
    assert Path(path).is_block_device()
    Path(path).read_bytes()[:4096]
    listed = json.loads(schedlab("device", "list", "--json").stdout)["devices"]
    assert [(d["name"], d["path"]) for d in listed] == [("disk7200", path)]
    assert listed[0]["account"]["reads"] > 0
    assert schedlab("device", "down", "disk7200").returncode == 0
    assert schedlab("device", "list").stdout.strip() == "no emulated device is up"


@pytest.mark.sampled(3)
def test_two_of_a_kind_get_two_names(state, monkeypatch):
    free, both = keeper._free_name, threading.Barrier(2)

    def at_once(*place):
        name = free(*place)
        with contextlib.suppress(threading.BrokenBarrierError):  # where one waits for the other
            both.wait(1.0)
        return name

    monkeypatch.setattr(keeper, "_free_name", at_once)
    card = Emulation("sd-card", 64 * MIB, dilate=10)
    with ThreadPoolExecutor() as together:
        ups = list(together.map(lambda _: keeper.up(card, "", state), range(2)))
    assert sorted(each.name for each in ups) == ["sd-card", "sd-card-2"]
    for number in (signal.SIGINT, signal.SIGHUP):  # of the terminal that it was started in
        os.kill(ups[0].keeper, number)
    assert [each.name for each in keeper.kept(state)] == ["sd-card", "sd-card-2"]
    assert schedlab("device", "down", "--all").stdout.split() == (
        ["sd-card", "is", "down", "sd-card-2", "is", "down"]
    )


@pytest.mark.sampled(3)
def test_a_device_that_stays_up_does_not_hold_the_others(state, monkeypatch):
    ask = keeper._ask

    def busy(directory, question):
        if question == "down" and directory.name == "first":
            return {"stays": True, "lost": ["2 writes failed"], "keeper": 7}
        return ask(directory, question)

    for name in ("first", "second"):
        keeper.up(Emulation("sd-card", 64 * MIB, dilate=10), name, state)
    gone = []
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "_ask", busy)
        with pytest.raises(HostError, match=r"first stays up: .* 2 writes failed"):
            keeper.down_all(["first", "second"], state, gone.append)
    assert gone == ["second"]
    assert [each.name for each in keeper.kept(state)] == ["first"]


@pytest.mark.parametrize(("data", "lost"), [("memory", []), ("none", []), ("/a/file", ["8 KiB"])])
def test_only_what_belongs_into_a_file_can_be_lost_with_a_device(data, lost):
    assert (
        keeper._lost(SimpleNamespace(facts={"data": data}, write_back=lambda s: ["8 KiB"])) == lost
    )


@pytest.mark.sampled(3)
def test_a_mounted_file_system_does_not_hold_a_device_up(state, tmp_path):
    kept = keeper.up(Emulation("disk7200", 64 * MIB), "", state)
    subprocess.run(["mkfs.ext4", "-q", kept.path], check=True)
    where = tmp_path / "mounted"
    where.mkdir()
    subprocess.run(["mount", kept.path, where], check=True)
    with (where / "open").open("wb") as file:
        file.write(bytes(MIB))
        keeper.down(kept.name, state)
    assert not where.is_mount()
    # Its loop device was in use by the open file until now; idle it harms nobody.
    index = int(Path(kept.path).name.removeprefix("loop"))
    attached = owned.SYS_BLOCK / f"loop{index}" / "loop"
    assert owned.wait_until(lambda: not attached.exists(), 10.0)
    owned.remove_loop(index, "")


def test_mistakes_are_named(state):
    with pytest.raises(SpecError, match="shipped model"):
        keeper.up(Emulation("no-such-model"), "", state)
    with pytest.raises(SpecError, match="no name"):
        keeper.up(Emulation("disk7200"), "../x", state)
    keeper.up(Emulation("disk7200", 64 * MIB), "mine", state)
    for name in ("nothing", "", ".", "../devices/mine"):
        with pytest.raises(HostError, match=f"no emulated device {name}"):
            keeper.down(name, state)
    with pytest.raises(HostError, match="there is an emulated device mine"):
        keeper.up(Emulation("disk7200", 64 * MIB), "mine", state)
    result = schedlab("device", "up", "disk7200", "--set", "rpm")
    assert result.returncode == 2
    assert "KEY=VALUE" in result.stderr


def test_a_keeper_that_never_reports_is_ended(state, tmp_path, monkeypatch):
    stuck = tmp_path / "stuck"
    stuck.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    stuck.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "START_PATIENCE_S", 1.0)
        patch.setattr(sys, "executable", str(stuck))
        with pytest.raises(HostError, match="was not ready after 1 s") as error:
            keeper.up(Emulation("disk7200", 64 * MIB), "stuck", state)
    assert "schedlab device list" in error.value.hint
    process = (tmp_path / "pid").read_text().strip()
    assert owned.wait_until(lambda: not journal.is_alive(process), 10.0)
    assert keeper.kept(state) == []
    assert not (state / keeper.DEVICES / "stuck").exists()


@pytest.mark.parametrize("with_guardian", [False, True])
def test_a_killed_keeper_leaves_nothing(state, with_guardian):
    kept = keeper.up(Emulation("disk7200", 64 * MIB), "doomed", state)
    guardians = with_words("schedlab.host.safety.guardian", state / keeper.DEVICES / "doomed")
    assert guardians
    for process in guardians if with_guardian else []:
        os.kill(process, signal.SIGKILL)
    os.kill(kept.keeper, signal.SIGKILL)
    assert owned.wait_until(lambda: keeper.kept(state) == [], 30.0)
    backing = owned.SYS_BLOCK / Path(kept.path).name / "loop" / "backing_file"
    # Another process may have the number by now.
    assert not backing.exists() or str(state) not in backing.read_text()
