"""The command line as processes of its own, and the processes of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def started(*words: object, under: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
    """`schedlab WORDS`, started by the words `under`; what it prints can be read."""
    command = [*under, sys.executable, "-m", "schedlab", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **options})


def ended(*words: object, timeout: float = 180, **options: Any) -> tuple[int, str, str]:
    """The exit code of `schedlab WORDS`, and what it printed to output and errors."""
    with started(*words, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return process.returncode, out, err


def with_words(*parts: object) -> list[int]:
    """The processes that have all these texts in their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue  # it has just ended
        if all(str(part).encode() in words for part in parts):
            found.append(int(entry.parent.name))
    return found


def left_below(directory: Path) -> list[str]:
    """Loop devices on files below a directory, and mounts there."""
    left = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            left.append(file.read_text())
        except OSError:
            continue
    return [line for line in left if str(directory) in line]
