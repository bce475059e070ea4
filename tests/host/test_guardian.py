"""SIGKILL of the owner, of the guardian, and of both, at any step of a session.

Afterwards no file under `queue/` differs, and no loop device, file, directory or cgroup is left.
KILLS=100 in the environment makes it a hundred kills of each kind; a failure names the step,
and STEP=N repeats it alone.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cgroups import remove_group
from dying import recovered
from processes import left_below, with_words

from schedlab.host.safety import guardian, journal, owned, shelter
from schedlab.host.settings import knobs

OWNER = Path(__file__).with_name("doomed_owner.py")
KILLS = int(os.environ.get("KILLS", "5"))


def start(device, directory, who, step):
    command = [sys.executable, str(OWNER), device, str(directory), who, str(step)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Scene:
    """A device with settings that no kernel has by default, and all that must not change."""

    def __init__(self, device, directory, state):
        self.device, self.directory, self.state = device, directory, state
        queue = knobs.queue_of(device)
        knobs.write_value(queue / "scheduler", "mq-deadline")
        odd = {"iosched/fifo_batch": "7", "nr_requests": "64", "read_ahead_kb": "96"}
        for name, value in {**odd, "wbt_lat_usec": "1500"}.items():
            knobs.write_value(queue / name, value)
        self.others = [d for d in knobs.SYS_BLOCK.iterdir() if not d.name.startswith("loop")]
        self.before = self.queues()

    def queues(self):
        devices = [*self.others, knobs.SYS_BLOCK / Path(self.device).name]
        return {device.name: knobs.snapshot(device / "queue") for device in devices}

    def left_over(self):
        files = [path.name for path in self.directory.glob(f"{owned.PREFIX}*")]
        return [*files, *(line for line in left_below(self.directory) if owned.PREFIX in line)]

    def assert_as_before(self, context):
        assert self.queues() == self.before, context
        assert self.left_over() == [], context
        assert journal.sessions(self.state) == [], context


@pytest.fixture
def scene(loop, state, tmp_path):
    return Scene(loop, tmp_path, state)


@pytest.fixture(autouse=True)
def no_cgroup_is_left():
    yield
    groups = list(Path("/sys/fs/cgroup").glob(f"**/{owned.PREFIX}doomed-*"))
    assert groups == []


def kill_steps(scene):
    """Steps to strike at, spread over a whole session, at random inside each part."""
    if "STEP" in os.environ:
        return [int(os.environ["STEP"])]
    output, errors = start(scene.device, scene.directory, "nobody", 0).communicate(timeout=60)
    assert errors == ""
    total = int(output)
    assert total > 500
    seed = random.randrange(1 << 30)
    print(f"{total} steps, seed {seed}")
    rng = random.Random(seed)
    width = total / KILLS
    return [1 + int((part + rng.random()) * width) for part in range(KILLS)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("who", ["owner", "both"])
def test_a_killed_session_leaves_nothing_changed(scene, who):
    for step in kill_steps(scene):
        process = start(scene.device, scene.directory, who, step)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, errors
        recovery = recovered(scene.state)
        assert recovery.failed == []
        assert recovery.foreign == [], f"step {step}"
        scene.assert_as_before(f"{who} killed at step {step}: {errors}{recovery}")


@pytest.mark.sampled(3)
def test_a_killed_guardian_is_replaced_or_the_session_ends_cleanly(scene):
    for step in kill_steps(scene):
        process = start(scene.device, scene.directory, "guardian", step)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 or "HostError" in errors, f"step {step}: {errors}"
        scene.assert_as_before(f"guardian killed at step {step}: {errors}")


@pytest.mark.sampled(3)
def test_a_guardian_killed_while_it_restores_leaves_work_for_recover(scene):
    rng = random.Random(7)
    for step in kill_steps(scene):
        process = start(scene.device, scene.directory, "owner", step)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.1)  # anywhere in what the guardian does, not a condition
        for process_id in with_words("schedlab.host.safety.guardian", scene.state):
            os.kill(process_id, signal.SIGKILL)
        process.communicate(timeout=60)
        assert recovered(scene.state).failed == []
        scene.assert_as_before(f"owner killed at step {step}, then the guardian")


PROGRAM = (
    "import sys\n"
    "from schedlab.host.safety.control import Control\n"
    "with Control() as control:\n"
    "    control.set_scheduler(sys.argv[1], 'kyber', {'nr_requests': 9})\n"
    "    control.scratch(1 << 20, sys.argv[2])\n"
    "    control.directory(sys.argv[2])\n"
    "    print(control._guardian.is_confined, control._guardian.process_id, flush=True)\n"
    "    sys.stdin.read()\n"
)


def hierarchies():
    """The mounted cgroup hierarchies in which a group can be made."""
    return [str(root) for root in shelter.groups_of() if os.access(root, os.W_OK)]


def kill_group(group):
    """What a container's stop does: `cgroup.kill`, or each process that the group lists."""
    if (group / "cgroup.kill").exists():
        (group / "cgroup.kill").write_text("1", encoding="ascii")
        return
    while processes := (group / "cgroup.procs").read_text(encoding="ascii").split():
        for process in map(int, processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("root", hierarchies(), ids=lambda root: Path(root).name)
def test_the_guardian_outlives_the_control_group_of_its_owner(scene, root):
    group = Path(root) / f"{owned.PREFIX}victim-{os.getpid()}"
    group.mkdir()
    if Path(root).name == "cpuset":
        for name in ("cpuset.cpus", "cpuset.mems"):
            (group / name).write_text((Path(root) / name).read_text())
    try:
        join = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        process = subprocess.Popen(
            [sys.executable, "-c", join + PROGRAM, scene.device, str(scene.directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout
        confined, guardian = process.stdout.readline().split()
        assert confined == "False"
        listed = (group / "cgroup.procs").read_text(encoding="ascii").split()
        assert (str(process.pid) in listed, guardian in listed) == (True, False)
        assert knobs.read_value(knobs.scheduler_file(scene.device)) == "kyber"
        kill_group(group)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        wait_for_no_journal(scene.state)
        scene.assert_as_before(errors)
    finally:
        remove_group(group)


def wait_for_no_journal(state):
    assert owned.wait_until(lambda: not journal.exists(state), 30.0)


# A system call and which of them: each write, fsync, rename, truncation and removal by which a
# state file changes, in the owner.
SYSTEM_CALLS = ("write", "fsync", "rename", "unlink", "ftruncate", "ioctl", "flock")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", SYSTEM_CALLS)
def test_a_kill_at_a_system_call_loses_no_setting(scene, call):
    """SIGKILL by strace as the n-th such call of the owner begins; then of its guardian, too."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace to kill at a system call")
    killed = 0
    for number in (1, 4, 12, 20):
        where = f"inject={call}:signal=SIGKILL:when={number}"
        command = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", where]
        program = [sys.executable, "-c", PROGRAM, scene.device, str(scene.directory)]
        result = subprocess.run(
            [*command, *program], input="", capture_output=True, text=True, timeout=60, check=False
        )
        killed += result.returncode != 0
        recovery = recovered(scene.state)
        assert recovery.failed == recovery.foreign == [], f"{call} {number}"
        scene.assert_as_before(f"{call} {number}: {result.stderr}{recovery}")
        if not result.returncode:
            break
    assert killed or call == "ftruncate"


def test_the_guardian_ignores_signals_and_restores_alone(scene):
    """Also when a child of the owner, which holds a copy of the pipe, lives on."""
    program = (
        "import os, sys, time\n"
        "from schedlab.host.safety.control import Control\n"
        "with Control() as control:\n"
        f"    control.set_scheduler({scene.device!r}, 'kyber')\n"
        f"    control.scratch(1 << 20, {str(scene.directory)!r})\n"
        "    child = os.fork()\n"
        "    if child: print(control._guardian.process_id, child, flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stderr
    guardian, child = map(int, process.stdout.readline().split())
    assert os.getsid(guardian) == guardian != os.getsid(process.pid)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        os.kill(guardian, ignored)
    try:
        assert knobs.read_value(knobs.scheduler_file(scene.device)) == "kyber"
        process.kill()
        process.wait()
        wait_for_no_journal(scene.state)
        scene.assert_as_before("the guardian restores alone")
    finally:
        os.kill(child, signal.SIGKILL)
    assert "its guardian reports" in process.stderr.read()
    with journal.held(scene.state, wait_s=5.0) as got:
        assert got


FED = (
    "import sys, time\n"
    "from schedlab.host.safety.control import Control\n"
    "with Control() as control:\n"
    "    control.set_scheduler(sys.argv[1], 'kyber')\n"
    "    control.expect_within(1)\n"
    "    for _ in range(20):\n"  # heard of in time, for longer than it would be killed after
    "        time.sleep(0.1)\n"
    "        control.expect_within(1)\n"
    "    control.expect_within(0)\n"
    "    print('free', flush=True)\n"
    "    time.sleep(1)\n"
    "    control.expect_within(0.5)\n"
    "    print('bound', flush=True)\n"
    "    time.sleep(60)\n"
)


def test_an_owner_that_is_stopped_is_ended_and_its_settings_return(scene):
    """SIGSTOP is Ctrl-Z that cannot be caught; one that only sleeps is as silent."""
    process = subprocess.Popen(
        [sys.executable, "-c", FED, scene.device], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout
    assert [process.stdout.readline() for _ in range(2)] == ["free\n", "bound\n"]
    assert knobs.read_value(knobs.scheduler_file(scene.device)) == "kyber"
    process.send_signal(signal.SIGSTOP)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL and "nobody watched its load" in errors
    wait_for_no_journal(scene.state)
    scene.assert_as_before(errors)


def test_the_last_of_several_announcements_counts(capfd):
    """No longer watched, after a short time was announced: nobody is missed."""
    watched, alive = os.pipe()
    os.write(alive, guardian.SECONDS.pack(1e-6) + guardian.SECONDS.pack(0.0))
    end = threading.Timer(0.2, os.close, [alive])
    end.start()
    guardian._await_end(watched, -1)
    end.join()
    os.close(watched)
    assert "nobody watched" not in capfd.readouterr().err
