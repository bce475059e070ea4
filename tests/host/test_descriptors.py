"""Standard input, output or errors closed, as daemons and job runners start programs: every command
does as usual, and what it changed is restored, by itself or by its guardian.
"""

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from schedlab.host import journal, knobs, owned, recover

CLOSED = [which for count in range(4) for which in combinations(range(3), count)]
RUN = [sys.executable, "-m", "schedlab"]


def start(command, closed, **options):
    """A program without these descriptors."""
    shell = "".join(f" {number}>&-" for number in closed)
    words = ["/bin/sh", "-c", f'exec "$@"{shell}', "sh", *command]
    return subprocess.run(words, check=False, timeout=120, **options)


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_every_command_does_its_work_without_standard_descriptors(loop, state, tmp_path, closed):
    name = Path(loop).name
    queue = knobs.queue_of(name)
    before = knobs.snapshot(queue)
    for command in (
        ["io", "get", loop],
        ["io", "set", "bfq", loop],
        ["io", "set", before["scheduler"], loop],
        ["apply", "bfq:low_latency=0", loop],
        ["watch", loop, "--seconds", "0.2"],
        ["undo", name],
        ["recover"],
        ["doctor"],
        ["device", "list"],
        ["compare", "--schedulers", "none,bfq", "--scratch", "64M", "--dry-run"],
        ["analyse", str(tmp_path)],
    ):
        result = start([*RUN, *command], closed, capture_output=True, text=True)
        wanted = 2 if command[0] == "analyse" else 0
        assert result.returncode == wanted, (command, result)
        if command[:2] == ["io", "set"] or command[0] == "apply":
            assert knobs.read_value(queue / "scheduler") == command[-2].partition(":")[0]
    assert knobs.snapshot(queue) == before
    assert journal.sessions(state) == []


OWNER = """
import os, signal, sys, time
from schedlab.host.control import Control
device, work = sys.argv[1:]
with Control() as control:
    control.set_scheduler(device, "bfq")
    control.write_knob(f"/sys/block/{device}/queue/read_ahead_kb", 32)
    if work == "journal deleted":
        control._journal.path.unlink()
    os.kill(os.getpid(), signal.SIGKILL) if work == "killed" else None
"""


@pytest.mark.parametrize("work", ["ends", "killed"])
@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_library_without_standard_descriptors_is_guarded_and_restored(loop, state, closed, work):
    """No `main` opens them here; the state in between would be seen as `nothing to restore`."""
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    command = [sys.executable, "-c", OWNER, Path(loop).name, work]
    result = start(command, closed, stderr=subprocess.PIPE)
    assert result.returncode == (0 if work == "ends" else -9), result
    assert owned.wait_until(lambda: not journal.sessions(state), 30.0)
    assert knobs.snapshot(queue) == before


def test_an_owner_without_its_journal_restores_from_memory_and_reports_it(loop, state):
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    program = OWNER.replace("Control()", "Control(report=print)")
    command = [sys.executable, "-c", program, Path(loop).name, "journal deleted"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "was deleted: restored from memory" in result.stdout
    assert knobs.snapshot(queue) == before


def test_a_guardian_that_never_saw_its_owner_restores_nothing(loop, state):
    """Its pipe is another file: at once readable, as /dev/null is under a closed number 0."""
    journal.prepare(state)
    log = journal.Journal.create(state)
    path = knobs.scheduler_file(loop)
    original = knobs.read_value(path)
    log.append("write", path=str(path), original=original, new="bfq")
    knobs.write_value(path, "bfq")
    null = os.open(os.devnull, os.O_RDWR)
    words = [str(log.path), str(log.descriptor), str(null), str(os.dup(1)), "-1"]
    guardian = [sys.executable, "-m", "schedlab.host.guardian", *words]
    result = subprocess.run(guardian, pass_fds=[log.descriptor, null], check=False, stdin=null)
    assert result.returncode == 2
    assert knobs.read_value(path) == "bfq"
    log.release()
    assert recover.restore_all(state).failed == []
    assert knobs.read_value(path) == original
