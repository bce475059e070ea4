"""Changes of settings as `watch` reports them: one line each, with who made it."""

from __future__ import annotations

import errno

import pytest

from schedlab.app.apply import watch
from schedlab.host.settings import knobs, settings, writers


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A directory with the only setting of the machine; nothing is applied."""
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "sysctl/kernel").mkdir(parents=True)
    (tmp_path / "sysctl/kernel/sched_x").write_text("7")
    monkeypatch.setattr(settings, "SYSCTL", tmp_path / "sysctl")
    monkeypatch.setattr(settings, "DEBUG", tmp_path / "debug/sched")
    return tmp_path


class Hand:
    """A clock whose sleep lets somebody change files of the kernel."""

    def __init__(self, steps):
        self.steps, self.now_s = steps, 40.0
        self.slept: list[float] = []

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += 1.5
        step = next(self.steps, None)
        if step is not None:
            step()


class Told(writers.Writers):
    """Writers of a kernel that names none, and whose waiting is the hand's."""

    def __init__(self, hand, by):
        self.hand, self.by, self._descriptor = hand, by, -1
        self.marked = []

    def mark(self, paths):
        self.marked += [path.name for path in paths]

    def wait(self, patience_s):
        self.hand.sleep(patience_s)
        return False

    def take(self):
        return self.by


def test_changes_are_noticed_with_who_made_them(kernel, monkeypatch):
    first, new = kernel / "sysctl/kernel/sched_x", kernel / "sysctl/kernel/sched_b"
    hand = Hand(iter([None, lambda: (first.write_text("9\n"), new.write_text("1")), first.unlink]))
    by = {}
    monkeypatch.setattr(watch, "time", hand)
    writing = Told(hand, by)
    monkeypatch.setattr(watch, "Writers", lambda: writing)
    told = []
    changes = list(watch.watch("cpu", 6.0, report=told.append))
    assert writing.marked == ["sched_x", "sched_b"]  # also what is new
    assert told == ["watching machine; who writes is not seen: only root is told"]
    assert [(c.setting, c.before, c.after) for c in changes] == [
        ("sched_b", "(absent)", "1"), ("sched_x", "7", "9"), ("sched_x", "9", "(absent)")
    ]  # fmt: skip
    assert changes[0].line()[8:] == " machine: sched_b (absent) -> 1, writer not seen"
    assert hand.slept == [0.2] * 4
    nothing = list(watch.watch("machine", 0.0, 0.5, lambda: hand.now_s > 60.0))
    assert nothing == [] and hand.slept[-1] == 0.5
    # What was not written itself is an effect of what was.
    hand.steps = iter([lambda: (first.write_text("3"), new.write_text("4"))])
    by[str(first)] = writers.Writer(5, "echo 3")
    (change,) = watch.watch("machine", 2.0)
    assert change.line()[8:] == " machine: sched_x (absent) -> 3, by echo 3 (process 5)"


def test_a_switch_of_the_scheduler_is_one_change(tmp_path, monkeypatch):
    monkeypatch.setattr(knobs, "SYS_BLOCK", tmp_path)
    queue = tmp_path / "sdx" / "queue"
    names = ("scheduler", "nr_requests", "nomerges", "iosched/low_latency")
    before = {queue / name: "0" for name in names}
    now = {queue / name: "1" for name in names[:3]}
    changes = list(watch._changes("sdx", before, now, {}))
    assert [change.setting for change in changes] == ["nomerges", "scheduler"]


def test_a_write_to_a_file_that_is_gone_is_an_event(monkeypatch):
    """The kernel cannot open what it tells of: read(2) gives ENODEV, and the next event."""
    answers = [OSError(errno.ENODEV, "No such device"), BlockingIOError()]

    def read(descriptor, size):
        raise answers.pop(0)

    told = writers.Writers()
    monkeypatch.setattr(writers.os, "read", read)
    assert told._read() and not answers
    assert told.take() == {}
    answers.append(OSError(errno.EBADF, "closed"))
    with pytest.raises(OSError, match="closed"):
        told._read()
