"""A command is interrupted: Ctrl-C, TERM, HUP, or SIGKILL of schedlab or its control group, in
each phase of a run and between them. No process of the command is left, no mount, no loop device,
no cgroup, and every scheduler is as before."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cgroups import remove_group
from processes import left_below, with_words

from schedlab.host.safety import owned

pytestmark = pytest.mark.usefixtures("root_with_loop")
WAIT_S = 60.0
KILLS = int(os.environ.get("KILLS", "4"))
SLEEPER = 86_399  # seconds that no other process sleeps


class Comparison:
    """`schedlab compare` of a command whose phases report themselves, in a separate process."""

    def __init__(self, home, device, number):
        self.home, self.marker = home, f"{SLEEPER}.{number}"
        self.queue = Path(f"/sys/block/{device.name}/queue/scheduler")
        self.before = self.queue.read_text()
        self.mounted = home / "mounted"
        self.mounted.mkdir()
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", device, self.mounted], check=True)
        self.device = device
        self.groups = set()
        self.environment = {**os.environ, "SCHEDLAB_STATE_DIR": str(home / "state")}

    def start(self, hangs_in, group="", **usual):
        """Run it until the phase that hangs, with a separate daemon.

        It joins the control group `group` first, if there is one. `usual` are lines of phases.
        """
        hang = (
            f"setsid sleep {self.marker} & (trap '' TERM INT; sleep {self.marker}) & "
            f"touch {self.home}/reached; sleep {self.marker}"
        )
        lines = dict.fromkeys(("setup", "prepare", "conclude", "cleanup", "work"), "true")
        if hangs_in == "cleanup":
            lines["setup"] = f"setsid sleep {self.marker} &"
        lines |= usual
        lines[hangs_in] = hang
        # The rehearsal passes; the second time around the phase hangs.
        if hangs_in in ("prepare", "conclude", "work"):
            once = f"{self.home}/rehearsed-{hangs_in}"
            lines[hangs_in] = f"if [ -e {once} ]; then {hang}; else touch {once}; fi"
        phases = [word for each in ("setup", "prepare", "conclude", "cleanup")
                  for word in (f"--{each}", lines[each])]  # fmt: skip
        command = [
            sys.executable, "-m", "schedlab", "compare", "--directory", str(self.mounted),
            "--switch", self.device.name, "--schedulers", "bfq,none", "--blocks", "1", "--no-aa",
            "--out", str(self.home / "out"), "--anyway", "--shell", *phases, "--", lines["work"],
        ]  # fmt: skip
        if group:
            joined = f'echo $$ > {group}/cgroup.procs; exec "$@"'
            command = ["/bin/sh", "-c", joined, "sh", *command]
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.home, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        reached = self.home / "reached"
        if not owned.wait_until(lambda: reached.exists() or process.poll() is not None, WAIT_S):
            process.kill()
        if not reached.exists():
            pytest.fail(f"it never came so far: {process.communicate(timeout=WAIT_S)[0]}")
        if hangs_in != "cleanup":
            assert owned.wait_until(lambda: len(self.sleepers()) == 3, WAIT_S)
        self.groups = groups_of(self.sleepers())
        assert self.groups
        return process

    def sleepers(self):
        """Processes of the command."""
        return with_words(f"sleep\0{self.marker}\0")

    def recover(self, *options):
        """What the guardian has left, if anything."""
        command = [sys.executable, "-m", "schedlab", "recover", *options]
        return subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True
        )

    def assert_unchanged(self):
        assert self.queue.read_text() == self.before

    def assert_restored(self):
        assert owned.wait_until(lambda: not self.sleepers(), WAIT_S), self.sleepers()
        self.assert_unchanged()
        assert [group for group in self.groups if group.exists()] == []

    def remove(self):
        """Unmount; a process that still works there fails the test."""
        subprocess.run(["umount", self.mounted], check=True)


def guardians_of(process):
    """The guardians of a session, which are its own children."""
    parent = f"PPid:\t{process.pid}\n"
    pids = with_words("schedlab.host.safety.guardian")
    return [pid for pid in pids if parent in Path(f"/proc/{pid}/status").read_text()]


def groups_of(pids):
    """The control groups of ours in which these processes are."""
    groups = set()
    for pid in pids:
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            root = Path("/sys/fs/cgroup") / controllers if controllers else owned.cgroup_root()
            if Path(path).name.startswith(owned.PREFIX):
                groups.add(root / path.lstrip("/"))
    return groups


@pytest.fixture
def comparison(tmp_path, new_loop):
    scene = Comparison(tmp_path, Path(new_loop(32 << 20)), os.getpid())
    yield scene
    scene.remove()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("phase", "number"),
    [("work", signal.SIGINT), ("work", signal.SIGTERM), ("work", signal.SIGHUP),
     *((phase, signal.SIGINT) for phase in ("setup", "prepare", "conclude", "cleanup"))],
)  # fmt: skip
def test_an_interrupted_command_ends_with_all_that_it_started(comparison, phase, number):
    process = comparison.start(phase)
    if phase == "work":
        assert "[bfq]" in comparison.queue.read_text() or "[none]" in comparison.queue.read_text()
    process.send_signal(number)
    text, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, text
    comparison.assert_restored()


@pytest.mark.sampled(3)
def test_sigkill_in_the_cleanup_leaves_nothing(comparison):
    process = comparison.start("cleanup")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    comparison.recover()
    comparison.assert_restored()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("phase", "who"),
    [("setup", "guardian"), ("prepare", "recover"), ("work", "guardian"), ("work", "recover"),
     ("conclude", "guardian")],
)  # fmt: skip
def test_the_cleanup_runs_after_sigkill_as_it_would_have_run(comparison, phase, who):
    """Beside the server of the setup, when the work has ended, and confined as everything is."""
    setup = f"setsid sleep 1000 & echo $! > {comparison.home}/server"
    seen = comparison.home / "seen"
    # What phases have started counts as servers of the setup.
    left = f"pgrep -fx 'sleep {comparison.marker}'; " if phase == "work" else ""
    cleanup = (
        f"(kill -0 $(cat {comparison.home}/server) && echo server; {left}"
        f"pwd; echo $SCHEDLAB_DIRECTORY $MARK; ls -d /dev/loop*) >> {seen} 2>/dev/null; true"
    )
    comparison.environment["MARK"] = "it's $(mine)"
    usual = {"cleanup": cleanup} if phase == "setup" else {"setup": setup, "cleanup": cleanup}
    process = comparison.start(phase, **usual)
    for pid in guardians_of(process) if who == "recover" else ():
        os.kill(pid, signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    comparison.recover()
    comparison.assert_restored()
    mounted = str(comparison.mounted)
    wanted = [] if phase == "setup" else ["server"]
    wanted += [mounted, f"{mounted} it's $(mine)"]
    # a directory is no block device, so no loop device can be seen
    assert seen.read_text().splitlines() == wanted
    comparison.recover()
    assert seen.read_text().splitlines() == wanted


@pytest.mark.sampled(3)
def test_a_cleanup_that_fails_after_sigkill_is_reported_and_stops_nothing(comparison):
    process = comparison.start("work", cleanup="echo because >&2; exit 3")
    for pid in guardians_of(process):
        os.kill(pid, signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    dry = comparison.recover("--dry-run").stdout.splitlines()
    assert [line for line in dry if "(would be run)" in line and "exit 3" in line]
    lines = comparison.recover().stdout.splitlines()
    assert [line for line in lines if "exited with status 3 (because): run it by hand" in line]
    assert comparison.recover().stdout == "nothing to restore\n"
    comparison.assert_restored()


@pytest.mark.sampled(3)
def test_after_sigkill_at_any_moment_as_many_cleanups_ran_as_setups(comparison):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    marks, out = comparison.home / "marks", comparison.home / "out"
    for number in range(KILLS):
        marks.write_text("")
        command = [
            sys.executable, "-m", "schedlab", "compare", "--directory", str(comparison.mounted),
            "--switch", comparison.device.name, "--schedulers", "bfq,none", "--blocks", "100",
            "--no-aa", "--out", f"{out}{number}", "--anyway", "--setup", f"echo setup >> {marks}",
            "--cleanup", f"echo cleanup >> {marks}", "--shell", "--", "sleep 0.1",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, env=comparison.environment, cwd=comparison.home, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if number % 2:
            assert owned.wait_until(lambda: "setup" in marks.read_text(), WAIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=rng.uniform(0.0, 3.0))  # the moment itself, not a condition
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        comparison.recover()
        lines = marks.read_text().split()
        # Between the journal's line and the setup, there is a cleanup without one.
        assert lines in (["setup", "cleanup"], ["cleanup"], []), f"kill {number}: {lines}"
        comparison.assert_unchanged()


@pytest.mark.sampled(3)
def test_killing_the_control_group_of_schedlab_leaves_nothing(comparison):
    """What systemd does to a service: everything in its control group is killed at once."""
    root = Path("/sys/fs/cgroup/pids")
    if not (root / "cgroup.procs").exists():
        root = owned.cgroup_root()
    group = root / f"test-{os.getpid()}"
    group.mkdir()
    try:
        process = comparison.start("work", str(group))
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(int(pid), signal.SIGKILL)
            process.poll()
        process.communicate(timeout=WAIT_S)
        comparison.recover()
        comparison.assert_restored()
    finally:
        remove_group(group)


def test_a_command_that_forks_without_end_is_ended(comparison):
    """New processes come as fast as old ones are killed; the limit of time ends all of them."""
    line = f"while :; do (sleep {comparison.marker}; :) & sleep 0.002; done"
    command = [
        sys.executable, "-m", "schedlab", "compare", "--directory", str(comparison.mounted),
        "--switch", comparison.device.name, "--schedulers", "none", "--blocks", "1", "--no-aa",
        "--anyway", "--timeout", "1s", "--shell", "--", line,
    ]  # fmt: skip
    result = subprocess.run(
        command, env=comparison.environment, cwd=comparison.home, text=True, check=False,
        capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    assert result.returncode == 2
    assert "was still running after its --timeout of 1 s" in result.stderr
    comparison.assert_restored()


@pytest.mark.sampled(3)
def test_sigkill_at_any_moment_of_a_scratch_device_leaves_nothing(tmp_path):
    """Between two phases, too: while it drains, switches, unmounts, formats, copies and syncs."""
    environment = {**os.environ, "SCHEDLAB_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(bytes(1 << 20))
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(KILLS):
        out = tmp_path / f"out{number}"
        command = [
            sys.executable, "-m", "schedlab", "compare", "--scratch", "32M",
            "--scratch-directory", str(tmp_path), "--schedulers", "none,bfq", "--no-aa",
            "--blocks", "100", "--copy-in", str(tmp_path / "tree"), "--fresh", "run",
            "--out", str(out), "--shell", "--", "dd if=/dev/urandom of=f bs=1M count=8 2>&1",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        runs = out / "runs.jsonl"
        assert owned.wait_until(runs.exists, WAIT_S), process.communicate(timeout=WAIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=rng.uniform(0.0, 2.0))  # a run takes about a second
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
        recover = [sys.executable, "-m", "schedlab", "recover"]
        subprocess.run(recover, env=environment, check=True, capture_output=True)
        assert left_below(tmp_path) == [], f"kill {number}"
        left = [p.name for p in tmp_path.iterdir() if p.name.startswith(owned.PREFIX)]
        assert left == [], f"kill {number}"
