"""Sessions that die together with their guardian, and the commands that find their journals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from schedlab.host.safety import journal, recover


def die(loop: str, work: str, directory: Path | None = None, *, with_guardian: bool = True) -> str:
    """A session that does `work` and is killed, usually with its guardian; what it prints."""
    program = (
        "import os, signal\n"
        "from schedlab.host.safety.control import Control\n"
        f"device, directory = {loop!r}, {str(directory)!r}\n"
        "control = Control()\n"
        "control.__enter__()\n"
        f"{work}\n"
        f"if {with_guardian}: os.kill(control._guardian.process_id, signal.SIGKILL)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == -9, result.stderr
    return result.stdout


def journal_of(state: Path) -> Path:
    """The one journal of a state directory."""
    (path,) = journal.sessions(state)
    return path


def schedlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "schedlab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def new_journal(state: Path) -> journal.Journal:
    """A journal of this process, locked."""
    journal.prepare(state)
    return journal.Journal.create(state)


def recovered(state: Path, wait_s: float = 30.0) -> recover.Recovery:
    """What `schedlab recover` does: wait for a running guardian, then restore the rest."""
    journal.prepare(state)
    with journal.held(state, wait_s=wait_s) as got:
        assert got, "the lock is still held"
        return recover.restore_all(state)
