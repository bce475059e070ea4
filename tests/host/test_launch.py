"""Commands without a control group: their sessions are how what they started is found and ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlab.run import launch


@pytest.fixture
def group() -> Iterator[launch.WorkGroup]:
    """A group without a cgroup, ended after the test."""
    made = launch.WorkGroup(None, "test")
    yield made
    made.end()


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else: the leader of its session."""
    with subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def run(line: str, group: launch.WorkGroup, directory: Path, **options: float) -> launch.Ended:
    """A shell line, run to its end."""
    argv, environment = ["/bin/sh", "-c", line], {"PATH": "/usr/bin:/bin"}
    return launch.run(launch.Launch(argv, directory, environment, **options), group)


def gets_the_number_of(
    foreign: subprocess.Popen[bytes], started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the foreign process have the number of the session that was started last."""
    session = launch._session
    monkeypatch.setattr(
        launch, "_session", lambda pid: started[-1] if pid == foreign.pid else session(pid)
    )


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_session_that_has_ended_is_forgotten_before_its_number_is_used_again(
    ends_first: bool, group: launch.WorkGroup, foreign: subprocess.Popen[bytes], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    started: list[int] = []
    note = group.started
    monkeypatch.setattr(group, "started", lambda pid: (started.append(pid), note(pid)))
    run("sleep 60 &" if ends_first else "true", group, tmp_path)
    if ends_first:
        assert group.end() == ["sleep"]
    gets_the_number_of(foreign, started, monkeypatch)
    assert group.end() == []
    assert foreign.poll() is None


def test_what_a_command_left_running_is_not_forgotten(
    group: launch.WorkGroup, tmp_path: Path
) -> None:
    run("sleep 60 &", group, tmp_path)
    run("true", group, tmp_path)
    assert [name for _, name in group.members()] == ["sleep"]
    assert group.end() == ["sleep"]
    assert group.members() == []


def test_a_process_that_may_not_be_ended_is_left(
    group: launch.WorkGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that became another user's, such as a program started by sudo."""
    run("sleep 60 & echo $! > pid", group, tmp_path)

    def refused(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refused)
        patch.setattr(launch.owned, "wait_until", lambda condition, patience_s: condition())
        assert group.end() == ["sleep"]
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_real_time_signals_have_no_name(group: launch.WorkGroup, tmp_path: Path) -> None:
    ended = run("kill -40 $$", group, tmp_path)
    assert (ended.signal, ended.failure()) == (40, "was killed by signal 40")
