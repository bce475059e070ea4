"""SIGKILL at each system call by which `apply` and `undo` change a file or a setting.

strace strikes as the n-th such call begins. After `recover` and `undo` the queue, the rule
directories and the records are as before, byte by byte, also the directories and temporary files.
KILLS=all strikes at every call, not only at some.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dying import recovered

from schedlab.app.apply import applied
from schedlab.app.apply.undo import status, undo
from schedlab.host.safety import journal
from schedlab.host.settings import knobs

CALLS = ("write", "fsync", "renameat", "unlink", "unlinkat", "mkdir", "rmdir", "ftruncate")
SOME = (3, 11)
EVERY = os.environ.get("KILLS") == "all"
PROGRAM = """
import sys
from pathlib import Path
from schedlab.app.apply import applied as applying
from schedlab.app.apply.apply import ToApply, Request, apply
from schedlab.app.apply.undo import undo
from schedlab.nouns import Candidate
applying.UNLASTING = ()  # the loop device stands for a disk
what, device, root = sys.argv[1:]
if what == "undo":
    undo([], True, lambda line: None)
elif what == "second":
    choice = ToApply(Candidate("kyber", {"scheduler": "kyber", "read_lat_nsec": 3000000}))
    apply(choice, Request((device,), root=Path(root)), lambda line: None)
else:
    if what == "both":
        choice = ToApply(Candidate("cpu", {"sched_rr_timeslice_ms": 20}))
        apply(choice, Request((), persist=True, root=Path(root)), lambda line: None)
    choice = ToApply(Candidate("bfq", {"scheduler": "bfq", "low_latency": 0, "read_ahead_kb": 64}))
    apply(choice, Request((device,), persist=True, root=Path(root)), lambda line: None)
"""


class Scene:
    """A device with its own settings, a tree of rules, and the CPU's slice."""

    def __init__(self, device, root):
        self.device, self.root = device, root
        self.queue = knobs.queue_of(device)
        self.slice = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
        knobs.write_value(self.queue / "scheduler", "mq-deadline")
        knobs.write_value(self.queue / "iosched/fifo_batch", "7")
        knobs.write_value(self.queue / "read_ahead_kb", "96")
        root.mkdir()
        self.before = self.now()

    def now(self):
        tree = {
            str(path.relative_to(self.root)): path.is_file()
            and hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.root.rglob("*")
        }
        directory = applied.directory()
        records = sorted(p.name for p in directory.iterdir()) if directory.exists() else []
        return knobs.snapshot(self.queue), self.slice.read_text(), tree, records

    def run(self, what, call="", number=0):
        """0 if the program ended by itself."""
        command = [sys.executable, "-c", PROGRAM, what, self.device, str(self.root)]
        if call:
            inject = f"inject={call}:signal=SIGKILL:when={number}"
            strace = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
            command = [*strace, *command]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode in (0, -9, 137), result.stderr
        return result.returncode

    def recover(self):
        recovery = recovered(journal.state_directory())
        assert recovery.failed == recovery.foreign == []


@pytest.fixture
def scene(loop, state, tmp_path, monkeypatch):
    if shutil.which("strace") is None:
        pytest.skip("needs strace to kill at a system call")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    slice_file = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
    usual = slice_file.read_text()
    yield Scene(loop, tmp_path / "root")
    slice_file.write_text(usual)


def each_kill(scene, what, call, prepare=lambda: None):
    """Strike at one such call after another; each time nothing of what was applied stays."""
    for number in range(1, 1000) if EVERY else SOME:
        prepare()
        ended = scene.run(what, call, number) == 0
        scene.recover()
        lines = []
        undo([], True, lines.append)
        assert not any("another program" in line for line in lines), f"{call} {number}: {lines}"
        assert scene.now() == scene.before, f"{call} {number}"
        if ended:
            break


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", CALLS)
def test_a_killed_apply_is_undone_without_a_trace(scene, call):
    """To the CPU and then to a disk."""
    each_kill(scene, "both", call)


@pytest.mark.parametrize("call", CALLS if EVERY else CALLS[:3])
def test_after_a_killed_second_apply_the_record_is_true_and_undo_restores_all(scene, call):
    for number in range(1, 1000) if EVERY else SOME:
        assert scene.run("disk") == 0
        ended = scene.run("second", call, number) == 0
        scene.recover()
        (state,) = status(scene.root)
        assert state.holds, f"{call} {number}: {state}"
        lines = []
        undo([], True, lines.append)
        assert lines == [], f"{call} {number}: {lines}"
        assert scene.now() == scene.before, f"{call} {number}"
        if ended:
            break


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", CALLS)
def test_a_killed_undo_is_finished_by_the_next(scene, call):
    def applied_anew():
        assert scene.run("both") == 0

    each_kill(scene, "undo", call, applied_anew)
