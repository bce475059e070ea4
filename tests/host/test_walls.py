"""Attacks of a started program on what it was not given (tests/support/attacks.py), through the
launcher and through the command line: with its files held and without, as root and as a user.

Truth is counted by the kernel: sectors written to a device that nobody named, files beside the
target, processes that are left.
"""

import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import attacks
import pytest
from device_states import written
from processes import ended, with_words

from schedlab.host.safety import owned
from schedlab.kinds.command import Command
from schedlab.run.command import launch
from schedlab.run.command.confinement import Wall
from schedlab.run.command.launch import WorkGroup

pytestmark = pytest.mark.usefixtures("root_with_loop", "state")
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
USER = "nobody"
SURVIVE = {"double_fork", "itself_in_another_group", "many_children"}
# Without --confine a command's files are its own affair.
OF_FILES = {"new_file_outside", "link_in_place_of_the_file", "hard_link",
            "file_by_roots_of_processes", "input_by_its_descriptor"}  # fmt: skip
MODES = [(confine, user) for confine in ("devices", "files") for user in ("", USER)]
BOTH = pytest.mark.parametrize(("confine", "user"), MODES)


class Scene:
    """A target on a file system of its own, a file beside it, a device that nobody named, and a
    process outside."""

    def __init__(self, mounted, victim, user):
        self.device, self.victim = victim, Path(victim)
        self.queue, where = mounted
        self.target, self.outside = where / "target", where / "outside" / "precious"
        for directory in (self.target, self.outside.parent):
            directory.mkdir()
            directory.chmod(0o777)
        self.outside.write_text("precious")
        self.outside.chmod(0o666)
        self.input = self.outside.with_name("input")
        self.input.write_text("input")
        shutil.chown(self.input, user or "root")
        self.victim.chmod(0o666)
        self.user, self.marker = user, f"86397.{os.getpid()}{time.monotonic_ns() % 10**6}"
        self.uid = pwd.getpwnam(user).pw_uid if user else 0
        self.process = subprocess.Popen(["/bin/sleep", "600"], user=self.uid)
        attacks.key_in_a_new_session(self.marker)
        shutil.copy(attacks.__file__, self.target / "attacks.py")
        self.before = written(victim), self.tree()

    def facts(self, only=()):
        number = self.victim.stat().st_rdev
        words = {"device": str(self.victim), "number": [os.major(number), os.minor(number)],
                 "outside": str(self.outside), "process": self.process.pid, "uid": self.uid,
                 "marker": self.marker, "only": list(only)}  # fmt: skip
        (self.target / "facts.json").write_text(json.dumps(words))
        return f"exec {PYTHON} attacks.py facts.json"

    def tree(self):
        files = [path for path in self.outside.parent.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def survivors(self):
        return with_words(f"sleep\0{self.marker}\0")

    def assert_unharmed(self, text, confine):
        shown = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        assert set(shown) == set(attacks.ATTACKS), text
        done = {name for name, how in shown.items() if how == "done"} - SURVIVE
        if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) <= 0:
            done.discard("events_of_all")
        assert done <= (OF_FILES if confine == "devices" else set())
        assert written(self.device) == self.before[0]
        assert confine == "devices" or self.tree() == self.before[1]
        assert self.process.poll() is None, "a process outside was killed"
        assert self.survivors() == []


@pytest.fixture
def scene(new_loop, request):
    """Its user is the test's parameter, if it has one, who may enter the directory."""
    user = request.node.callspec.params.get("user", "") if hasattr(request.node, "callspec") else ""
    device = new_loop(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        where = Path(name) / "it's mounted"
        where.mkdir()
        where.parent.chmod(0o755)
        subprocess.run(["mount", device, where], check=True)
        made = Scene((device, where), new_loop(), user)
        yield made
        made.process.kill()
        made.process.wait()
        subprocess.run(["umount", where], check=True)


def started(scene, line, group, **parameters):
    """A shell line as a user's command."""
    kind = Command(shell=line, user=scene.user, **parameters)
    tokens = {"dir": scene.target, "device": "", "run": "1", "seed": "1"}
    return launch.run(launch.launch_of(kind, "", tokens, group, timeout_s=120), group)


@BOTH
def test_no_attack_leaves_the_wall(scene, confine, user):
    group = WorkGroup(None, "test", Wall())
    result = started(scene, scene.facts(), group, confine=confine, stdin=str(scene.input))
    assert result.status == 0, result.stderr
    assert "sleep" in group.end()
    scene.assert_unharmed(result.stdout.decode(), confine)


@BOTH
def test_no_attack_leaves_the_wall_through_the_command_line(scene, confine, user, tmp_path):
    out = tmp_path / "out"
    words = ["--directory", scene.target, "--switch", Path(scene.queue).name, "--schedulers",
             "none", "--blocks", 1, "--no-aa", "--anyway", "--out", out, "--user", user or "root",
             "--stdin", scene.input, *(["--confine"] if confine == "files" else []),
             "--shell", "--"]  # fmt: skip
    code, _, err = ended("compare", *words, scene.facts())
    assert code in (0, 1), err
    (run,) = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()][-1:]
    assert "sleep" in json.dumps(run["properties"]["left_behind"])
    walls = {"process", "mount", "cgroup", "capabilities", *(["user"] if user else [])}
    assert walls <= set(run["properties"]["confinement"]["walls"])
    text = sorted((out / "raw/output").glob("*.out"))[-1].read_text()
    scene.assert_unharmed(text, confine)


def test_the_same_attacks_do_harm_where_nothing_holds_them(scene):
    """The tests above can fail."""
    only = ["device_by_its_path", "file_by_roots_of_processes", "handle_of_a_file",
            "keys_of_the_session", "settings", "memory", "clock", "process_by_its_number",
            "double_fork"]  # fmt: skip
    group = WorkGroup(None, "test", Wall())
    line = scene.facts([name for name in only if name != "process_by_its_number"])
    result = started(scene, line, group, confine="nothing")
    text = result.stdout.decode()
    for name in only[:5]:
        assert f"{name}: done" in text, text
    assert written(scene.device) > scene.before[0]
    assert scene.tree() != scene.before[1]
    assert owned.wait_until(lambda: len(scene.survivors()) == 1, 10)
    group.end()
    assert scene.survivors() == []


@pytest.mark.parametrize("user", ["", USER])
def test_servers_and_what_asks_them_share_a_room_that_ends_with_their_group(scene, user):
    servers = WorkGroup(None, "test", Wall())
    work = WorkGroup(None, "test", servers.wall, beside=servers)
    started(scene, f"sleep {scene.marker} & echo $! > pid", servers)
    assert owned.wait_until(lambda: len(scene.survivors()) == 1, 10)
    assert started(scene, "kill -0 $(cat pid) && ls -d /proc/$(cat pid)", servers).status == 0
    # Under another wall there is another room.
    assert started(scene, "kill -0 $(cat pid)", servers, confine="files").status != 0
    assert started(scene, "kill -0 $(cat pid)", work).status != 0
    line = f"sleep {scene.marker} & kill -0 $(cat pid)"
    assert started(scene, line, work, keep_daemons=True).status == 0
    assert len(scene.survivors()) == 2
    work.end()
    assert servers.end().count("sleep") >= 1
    assert scene.survivors() == []


@BOTH
def test_what_ends_at_its_limit_tells_what_it_used(scene, confine, user):
    kind = Command(shell="trap '' TERM; while :; do :; done", user=user, confine=confine)
    tokens = {"dir": scene.target, "device": "", "run": "1", "seed": "1"}
    group = WorkGroup(None, "test", Wall())
    result = launch.run(launch.launch_of(kind, "", tokens, group, timeout_s=1.0), group)
    assert result.timed_out
    assert result.usage["cpu_s"] > 0.05
    assert group.members() == []


@pytest.mark.parametrize("confine", ["devices", "files", "nothing"])
def test_a_status_and_a_signal_are_the_programs_own(scene, confine):
    group = WorkGroup(None, "test", Wall())
    assert started(scene, "exit 3", group, confine=confine).status == 3
    assert started(scene, "kill -9 $$", group, confine=confine).signal == 9
    assert group._kept == []


def test_a_link_that_takes_the_place_of_the_target_is_not_followed(scene):
    group = WorkGroup(None, "test", Wall())
    gone = scene.target.with_name("gone")
    scene.target.rename(gone)
    scene.target.symlink_to(scene.outside.parent)
    for confine in ("files", "devices", "nothing"):
        with pytest.raises(launch.HostError):
            started(scene, "echo x > precious", group, confine=confine)
    assert scene.tree() == scene.before[1]


@pytest.mark.parametrize("confine", ["files", "devices", "nothing"])
def test_an_input_that_becomes_a_link_is_not_followed(scene, confine):
    """A user's program would read what root alone may."""
    group, given = WorkGroup(None, "test", Wall()), scene.target / "given"
    given.write_text("given")
    words = {"confine": confine, "stdin": str(given)}
    line = "cat; ln -sf ../outside/precious given"
    assert started(scene, line, group, **words).stdout == b"given"
    with pytest.raises(launch.HostError, match="cannot read"):
        started(scene, "cat", group, **words)
    given.unlink()
    os.mkfifo(given)
    with pytest.raises(launch.HostError, match="cannot read"):
        started(scene, "cat", group, **words)


def entries_of_dev():
    """What is in /dev but for devices, which others make meanwhile."""
    return {path for path in Path("/dev").iterdir() if path.is_file() or path.is_dir()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("typed", [".", "x", "../x", "link", "a b's"])
@pytest.mark.parametrize("work", ["command", "fio"])
def test_a_path_means_what_it_meant_where_it_was_typed(scene, typed, work, tmp_path):
    """Every option that takes a path and reaches the launcher, and the program itself."""
    if work == "fio" and not shutil.which("fio"):
        pytest.skip("needs fio")
    here = scene.target / ("x" if typed in (".", "../x") else "here")
    where = {".": here, "x": here / "x", "../x": here, "link": scene.target / "linked",
             "a b's": here / typed}[typed]  # fmt: skip
    for directory in (here, where):
        directory.mkdir(exist_ok=True)
    if typed == "link":
        (here / "link").symlink_to(where)
    place, name = Path(typed), f"86396.{os.getpid()}"
    (where / "program").write_text("#!/bin/sh\ncat > read; pwd > where; echo x > $1/beside\n")
    (where / "program").chmod(0o755)
    (where / "given").write_text(name)
    (where / "beside").mkdir()
    (here / "from here").mkdir()
    (here / "from here" / "file").write_text(name)
    (where / "job.fio").write_text("[w]\nrw=write\nbs=4k\nsize=1m\nioengine=psync\n")
    before = entries_of_dev()
    words = ["--directory", typed, "--switch", Path(scene.queue).name, "--rehearse", "--anyway",
             "--schedulers", "none", "--user", "root"]  # fmt: skip
    if work == "fio":
        words += ["--fio", str(place / "job.fio")]
    else:
        words += ["--confine", "--stdin", str(place / "given"), "--writable", str(place / "beside"),
                  "--copy-in", f"../{here.name}/from here", "--", f"./{place}/program",
                  str(where / "beside")]  # fmt: skip
        if where == here:  # a copy of it would be itself
            del words[words.index("--copy-in") : words.index("--copy-in") + 2]
    code, _, err = ended("compare", *words, cwd=here)
    assert code == 0, err
    assert entries_of_dev() <= before
    if work == "command":
        assert (where / "where").read_text() == f"{where}\n"
        assert (where / "read").read_text() == name
        assert (where / "beside" / "beside").read_text() == "x\n"
        assert where == here or (where / "from here" / "file").read_text() == name
    else:
        assert [path for path in where.iterdir() if path.stat().st_size == 1 << 20]


@pytest.mark.parametrize("confine", ["devices", "nothing"])
@pytest.mark.parametrize("room", [False, True])
def test_all_ends_with_a_starter_that_is_killed(scene, room, confine):
    """Without a control group that a guardian could end."""
    line = f"(trap '' TERM; setsid sleep {scene.marker}) & sleep {scene.marker}"
    pid = os.fork()
    if pid == 0:
        group = WorkGroup(None, "test", Wall())
        beside = None if room else group
        work = WorkGroup(None, "test", group.wall, beside=beside)
        started(scene, line, work, confine=confine)
        os._exit(1)
    assert owned.wait_until(lambda: len(scene.survivors()) == 2, 20)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert owned.wait_until(lambda: not scene.survivors(), 20)


def test_nothing_holds_a_program_but_what_left_its_group_ends_with_that(scene, cgroup):
    """When its starter is killed: others in the group may be needed until a guardian removes it."""
    group = cgroup
    line = f"(echo 0 > {group.parent}/cgroup.procs; setsid sleep {scene.marker}) & exec sleep 1000"
    kind = Command(shell=line, confine="nothing")
    tokens = {"dir": scene.target, "device": "", "run": "1", "seed": "1"}
    pid = os.fork()
    if pid == 0:
        work = WorkGroup(None, "test", Wall())
        order = launch.launch_of(kind, "", tokens, work)
        launch.run(replace(order, cgroups=[str(group / "cgroup.procs")]), work)
        os._exit(1)
    procs = group / "cgroup.procs"
    assert owned.wait_until(lambda: len(scene.survivors()) == 1 and procs.read_text(), 20)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert owned.wait_until(lambda: not procs.read_text(), 20)
    assert len(scene.survivors()) == 1
    group.rmdir()
    assert owned.wait_until(lambda: not scene.survivors(), 20)
