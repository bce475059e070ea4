"""Standard input, output or errors closed, as daemons and job runners start programs: every command
does as usual without a traceback, nothing of what it prints is in a file that it has open, and what
it changed is restored, by itself or by its guardian.
"""

import os
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import click
import pytest
from commands import COMMANDS
from dying import new_journal

from schedlab.host.safety import journal, owned, recover
from schedlab.host.settings import knobs

CLOSED = [which for count in range(4) for which in combinations(range(3), count)]
RUN = [sys.executable, "-m", "schedlab"]
# Words that let a command do a little of its work; those that need none are not named.
QUICK = {
    "apply": ["bfq", "LOOP"], "compare": ["--scratch", "64M", "--dry-run"],
    "cpu compare": ["--dry-run"], "cpu cost": ["--cpu", "99999"],
    "cpu run": ["1", "0.1"], "cpu sweep": ["--dry-run"], "device up": ["no-such-model"],
    "docs": ["io-lab"], "init": ["FILE"], "io get": ["LOOP"], "io list": ["LOOP"],
    "io set": ["bfq", "LOOP"], "io sweep": ["--dry-run"], "lab run": ["block-size", "--dry-run"],
    "live": ["LOOP", "--dry-run"], "recommend": ["LOOP", "--seconds", "1"], "run": ["EMPTY"],
    "sim compare": ["--requests", "100", "--seeds", "2"],
    "trace cpu": ["true"], "trace io": ["LOOP", "--seconds", "0.1"],
    "tune": ["--scratch", "64M", "--dry-run"], "undo": ["--all"],
    "status": ["--watch", "LOOP", "--seconds", "0.1"],
}  # fmt: skip


def start(command, closed, **options):
    """A program without these descriptors."""
    shell = "".join(f" {number}>&-" for number in closed)
    words = ["/bin/sh", "-c", f'exec "$@"{shell}', "sh", *command]
    return subprocess.run(words, check=False, timeout=120, **options)


def required(command):
    """Something for each argument and option that a command cannot do without."""
    typed = []
    for parameter in command.params:
        if parameter.required:
            typed += [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
            choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
            typed.append(str(choices[0]) if choices else "EMPTY")
    return typed


@pytest.mark.sampled(37)  # no multiple of the eight combinations
@pytest.mark.parametrize(("words", "closed"), [*product(COMMANDS, CLOSED)], ids=str)
def test_a_command_without_standard_descriptors(loop, state, tmp_path, words, closed):
    (tmp_path / "empty").write_text("", encoding="ascii")
    places = {"LOOP": loop, "EMPTY": str(tmp_path / "empty"), "FILE": str(tmp_path / "file")}
    typed = QUICK.get(words, required(COMMANDS[words]))
    command = [*RUN, *words.split(), *(places.get(w, w) for w in typed)]
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    result = start(command, closed, cwd=tmp_path, capture_output=True, text=True)
    text = result.stdout + result.stderr
    assert result.returncode in (0, 1, 2), (command, text)
    assert "Traceback" not in text and "this is a bug" not in text, (command, text)
    if words in ("apply", "io set"):  # it stays; a guardian that fires would undo it
        assert (result.returncode, knobs.read_value(queue / "scheduler")) == (0, "bfq"), text
    else:
        assert knobs.snapshot(queue) == before, command
    assert journal.sessions(state) == []
    assert not list(state.rglob("*.damaged"))
    assert (tmp_path / "empty").read_bytes() == b"", "it wrote what it prints into an open file"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("closed", CLOSED[1:], ids=str)
def test_what_changes_the_host_does_so_without_standard_descriptors(loop, state, closed):
    queue = knobs.queue_of(loop)
    before = knobs.snapshot(queue)
    for words, scheduler in (
        (["io", "set", "bfq", loop], "bfq"),
        (["io", "set", before["scheduler"], loop], before["scheduler"]),
        (["apply", "bfq:low_latency=0", loop], "bfq"),
        (["undo", "--all"], before["scheduler"]),
    ):
        result = start([*RUN, *words], closed, capture_output=True, text=True)
        assert result.returncode == 0, (words, result)
        assert knobs.read_value(queue / "scheduler") == scheduler, words
    assert knobs.snapshot(queue) == before
    assert journal.sessions(state) == []


OWNER = """
import os, signal, sys, time
from schedlab.host.safety.control import Control
device, work = sys.argv[1:]
with Control() as control:
    control.set_scheduler(device, "bfq")
    control.write_knob(f"/sys/block/{device}/queue/read_ahead_kb", 32)
    if work == "journal deleted":
        control._journal.path.unlink()
    os.kill(os.getpid(), signal.SIGKILL) if work == "killed" else None
"""


@pytest.mark.sampled(3)
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
    log = new_journal(state)
    path = knobs.scheduler_file(loop)
    original = knobs.read_value(path)
    log.append("write", path=str(path), original=original, new="bfq")
    knobs.write_value(path, "bfq")
    null = os.open(os.devnull, os.O_RDWR)
    words = [str(log.path), str(log.descriptor), str(null), str(os.dup(1)), "-1"]
    guardian = [sys.executable, "-m", "schedlab.host.safety.guardian", *words]
    result = subprocess.run(guardian, pass_fds=[log.descriptor, null], check=False, stdin=null)
    assert result.returncode == 2
    assert knobs.read_value(path) == "bfq"
    log.release()
    assert recover.restore_all(state).failed == []
    assert knobs.read_value(path) == original
