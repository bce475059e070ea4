"""Commands and their phases without a control group, where their keepers are how what they
started is found and ended."""

import json
import os
import pty
import pwd
import sys
from pathlib import Path

import pytest

from schedlab import _core
from schedlab.errors import HostError
from schedlab.host.safety import cleanup, owned
from schedlab.host.safety.control import Control
from schedlab.host.safety.journal import is_alive
from schedlab.kinds.command import Command
from schedlab.run.command import launch, phases


@pytest.fixture
def group():
    """A group without a cgroup, ended after the test."""
    made = launch.WorkGroup(None, "test")
    yield made
    made.end()


def run(line, group, directory, **options):
    """A shell line, run to its end."""
    argv, environment = ["/bin/sh", "-c", line], {"PATH": "/usr/bin:/bin"}
    return launch.run(launch.Launch(argv, directory, environment, **options), group)


def test_what_went_to_another_session_is_found(group, tmp_path):
    run("setsid setsid sleep 60 & (setsid sleep 60 &)", group, tmp_path)
    assert owned.wait_until(lambda: [name for _, name in group.members()] == ["sleep"] * 2, 10)
    assert group.end() == ["sleep"] * 2
    assert group.members() == []


def test_one_that_asks_to_be_traced_by_its_parent_ends_when_it_ends(group, tmp_path):
    program = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 28)"
    line = f"exec {sys.executable} -c '{program}; os._exit(7)'"
    assert run(line, group, tmp_path, timeout_s=20).status == 7


IN_THE_SESSION = """
import sys
from pathlib import Path
from schedlab.run.command import launch
program = "import os; print(os.getpid() == os.getpgrp(), os.getsid(0)); open('/dev/tty')"
group, words = launch.WorkGroup(None, "test"), [sys.executable, "-c", program]
ended = launch.run(launch.Launch(words, Path("/"), {}, same_session=True), group)
group.end()
Path(sys.argv[1]).write_bytes(ended.stdout + ended.stderr)
"""


def test_one_in_the_session_of_its_user_has_neither_its_terminal_nor_its_group(tmp_path):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", IN_THE_SESSION, str(tmp_path / "said")])
    os.waitpid(pid, 0)
    os.close(terminal)
    said = (tmp_path / "said").read_text()
    assert said.startswith(f"True {pid}\n") and "No such device or address" in said


def test_what_a_command_left_running_is_not_forgotten(group, tmp_path):
    run("sleep 60 &", group, tmp_path)
    run("true", group, tmp_path)
    assert len(group.members()) == 1
    assert len(group.end()) == 1
    assert group.members() == []


def test_what_its_starter_may_not_end_is_named_and_left_to_its_keeper(group, tmp_path, monkeypatch):
    """One that became another user's, such as a program started by sudo."""
    run("sleep 60 & echo $! > pid", group, tmp_path)

    def refused(pid, number):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refused)
        patch.setattr(launch.owned, "wait_until", lambda condition, patience_s: condition())
        assert len(group.end()) == 1
    assert not is_alive((tmp_path / "pid").read_text().strip())


def test_what_ignores_the_first_signal_is_killed(group, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "TERM_PATIENCE_S", 0.2)
    ended = run("trap '' TERM; (while :; do sleep 0.1; done) & echo $!", group, tmp_path)
    assert is_alive(ended.stdout.decode().strip())
    group.end()
    assert not is_alive(ended.stdout.decode().strip())


def test_in_one_hierarchy_a_command_is_below_the_group_that_it_joins(tmp_path):
    """Version 2 of control groups: a process is in one group only."""
    group = launch.WorkGroup(None, "test")
    group.path = tmp_path / "v2/own"
    group.paths = [group.path]
    files = [tmp_path / "v2/cpu/cgroup.procs", tmp_path / "v1/cpu/cgroup.procs"]
    for file in files:
        file.parent.mkdir(parents=True)
    moved = tmp_path / "v2/cpu/own/cgroup.procs"
    for _ in range(2):
        joining = launch.WorkGroup.joining(group, list(map(str, files)))
        assert joining.files == (str(moved), str(files[1]))
    moved.write_text(str(os.getpid()))
    assert [pid for pid, _ in group.members()] == [os.getpid()]
    assert launch.paths_of(group) == (group.path, moved.parent)


def test_of_a_dead_session_all_is_ended_but_the_servers_of_its_setup(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr("schedlab.host.safety.owned.remove_cgroup", ended.append)
    paths = [tmp_path / name for name in ("schedlab-command", "schedlab-work")]
    below = [paths[1] / name for name in ("schedlab-command", "schedlab-setup")]
    for path in (paths[0], *below):
        path.mkdir(parents=True)
    order = {"cgroups": [str(below[1] / "cgroup.procs")]}
    pending = [{"label": "l", "line": "x", "order": order}]
    things = [{"what": "cgroup", "path": str(path)} for path in paths]
    (line,) = cleanup.run_all(pending, things)
    assert "could not be started" in line
    assert ended == [str(paths[0]), str(below[0])]


def test_errors_count_as_output_and_another_user_may_open_both(group, tmp_path, monkeypatch):
    loud = "head -c 65536 /dev/zero >&2; sleep 60"
    assert run(loud, group, tmp_path, output_limit_bytes=8192, timeout_s=30).output_exceeded
    if os.geteuid() != 0:
        pytest.skip("needs root: to start as another user")
    monkeypatch.setattr(os, "getgrouplist", lambda user, group: [group, 7])
    line = "echo a >> /dev/stdout; echo b >> /dev/stderr; id -G >> /dev/stdout"
    ended = run(line, group, Path("/"), user="nobody")
    assert ended.stderr == b"b\n"
    assert ended.stdout.decode() == f"a\n{pwd.getpwnam('nobody').pw_gid} 7\n"


def test_real_time_signals_have_no_name(group, tmp_path):
    ended = run("kill -40 $$", group, tmp_path)
    assert (ended.signal, ended.failure()) == (40, "was killed by signal 40")


def phase(name, line, group, directory):
    """Run a phase of the command `w`."""
    kind = Command(shell="true", output_limit_bytes=8192, **{name: line})
    phases.run_phase("w", kind, name, tokens(directory), group)


def tokens(directory):
    """What a run that uses the directory is given."""
    return {"dir": directory, "device": "", "run": "000001", "seed": "0"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("echo no >&2; exit 3", "exited with status 3:\nno"),
        ("echo begun; sleep 60", "did not end in 2 s:\nbegun"),
        ("yes", "printed more than 8192 bytes"),
    ],
)
def test_a_phase_fails_with_its_status_at_its_limit_and_when_it_prints_too_much(
    line, why, group, tmp_path, monkeypatch
):
    if "sleep" in line:
        monkeypatch.setattr(phases, "PHASE_TIMEOUT_S", 2.0)
    with pytest.raises(HostError) as error:
        phase("setup", line, group, tmp_path)
    assert str(error.value).startswith(f"w: setup {line!r} {why}")
    assert "run it by hand" in error.value.hint
    assert group.members() == []


def test_every_cleanup_runs_and_servers_end_though_one_fails(group, tmp_path, state):
    phase("setup", "sleep 60 &", group, tmp_path)
    assert len(group.members()) == 1
    lines = {"a": "exit 3", "b": "touch cleaned", "c": "exit 4"}
    commands = [(label, Command(shell="true", cleanup=line), tokens(tmp_path))
                for label, line in lines.items()]  # fmt: skip
    work = launch.WorkGroup(None, "work")
    run("sleep 60 &", work, tmp_path)
    with Control() as control, pytest.raises(HostError) as error:
        phases.clean_up(control, commands, work, group)
    assert str(error.value).splitlines() == [
        "a: cleanup 'exit 3' exited with status 3", "c: cleanup 'exit 4' exited with status 4",
    ]  # fmt: skip
    assert (tmp_path / "cleaned").exists()
    assert group.members() == work.members() == []


def test_a_cleanup_that_fails_does_not_hide_why_the_work_ended():
    reported = []

    def close():
        raise HostError("the cleanup failed")

    closing = phases.closed_after(close, reported.append)
    with pytest.raises(HostError, match="the disk is gone"), closing:
        raise HostError("the disk is gone")
    assert reported == ["the cleanup failed"]
    closing = phases.closed_after(close, reported.append)
    with pytest.raises(HostError, match="the cleanup failed"), closing:
        pass
    assert len(reported) == 1


def test_a_path_is_an_absolute_one_by_the_time_of_the_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for directory in (".", "x", "../x", ""):
        order = {"program": "/bin/true", "argv": ["true"], "environment": [], "streams": [0, 1, 2]}
        for key, value in (("directory", directory), ("program", directory)):
            with pytest.raises(OSError, match="Invalid argument") as error:
                _core.Launched(json.dumps({"directory": "/", **order, key: value}))
            assert error.value.filename == key
        for confinement in ({"files": True, "writable": [directory]}, {"detached": [directory]}):
            words = {**order, "directory": "/", "confinement": confinement}
            with pytest.raises(OSError, match="Invalid argument"):
                _core.Launched(json.dumps(words))
