"""SIGKILL and SIGSTOP of the parts of an emulated device, at random moments, with I/O in flight.

Afterwards, at the latest when the next command has cleaned up, there is no process, mount, loop
device, FUSE connection or directory of it. KILLS=50 in the environment makes it fifty moments for
each victim.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dying import recovered
from processes import left_below, with_words

from schedlab.host.emulated import emulated_removal
from schedlab.host.safety import journal, owned

OWNER = Path(__file__).with_name("doomed_emulation.py")
KILLS = int(os.environ.get("KILLS", "1"))
SEED = int(os.environ.get("SEED", str(random.randrange(1 << 30))))


pytestmark = pytest.mark.usefixtures("root_with_loop", "needs_fuse")


def left_over(state):
    """The remains of a session, by any sign."""
    remains = [f"process {pid}" for pid in with_words(f"{state}/")]
    return [*remains, *left_below(state), *map(str, state.glob(f"{owned.PREFIX}*"))]


def strike(victim, owner, state):
    targets = {
        "owner": [owner.pid],
        "guardian": with_words("schedlab.host.safety.guardian", state),
        "server": with_words(emulated_removal.SERVER_MODULE, f"{state}/"),
    }
    if victim == "stopped server":
        for process in targets["server"]:
            os.kill(process, signal.SIGSTOP)
        return
    everybody = [process for group in targets.values() for process in group]
    for process in everybody if victim == "all" else targets[victim]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.fixture
def group():
    """A cgroup of the test's own."""
    path = owned.cgroup_root() / owned.new_name("kill-test")
    path.mkdir()
    yield path
    owned.remove_cgroup(str(path))


def start(group=None):
    command = [sys.executable, str(OWNER)]
    if group:
        enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        command = ["/bin/sh", "-c", enter, "sh", *command]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )  # fmt: skip


def assert_clean(state, context):
    assert owned.wait_until(lambda: left_over(state) == [], 10.0), (context, left_over(state))
    assert not journal.exists(state), context


def kill_at_a_moment(number, moments, state, begin, kill):
    """Every other moment is certainly one with a mounted file system and I/O in flight, the others
    are anywhere between the start and that. What was done, in words."""
    owner = begin()
    try:
        if is_at_work := number % 2 == 0:
            assert owner.stdout and owner.stdout.readline() == "ready\n"
            assert any(" ext4 " in line for line in left_over(state))
        delay_s = moments.uniform(0.0, 0.5) if is_at_work else moments.uniform(0.1, 4.0)
        time.sleep(delay_s)  # the moment itself, not a condition
        kill(owner)
    finally:
        owner.kill()
        owner.wait()
    recovered(state, wait_s=60.0).raise_if_failed()
    return f"{delay_s:.3f} s after the {'mount' if is_at_work else 'start'}, SEED={SEED}"


@pytest.mark.parametrize("victim", ["owner", "guardian", "server", "stopped server", "all"])
def test_nothing_is_left_when_a_part_is_killed(victim, state):
    moments = random.Random(f"{SEED} {victim}")
    for number in range(KILLS):
        when = kill_at_a_moment(
            number, moments, state, start, lambda owner: strike(victim, owner, state)
        )
        assert_clean(state, f"{victim} killed {when}")


def test_nothing_is_left_when_the_cgroup_is_killed(state, group):
    moments = random.Random(SEED)
    for number in range(KILLS):
        when = kill_at_a_moment(
            number, moments, state, lambda: start(group),
            lambda owner: (group / "cgroup.kill").write_text("1"),
        )  # fmt: skip
        assert_clean(state, f"cgroup killed {when}")
