"""Notes about files and directories of ours that a power failure would leave on a disk.

Journals live in RAM and die with the kernel, like the settings they hold; a file does not. What
has a name on a disk is noted in the lasting directory before it is made, and the note is removed
after it. A note whose session is gone is a left-over, for `recover` and `doctor`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SpecError
from schedlab.host.safety import journal
from schedlab.nouns import checked_line
from schedlab.nouns.reading import opened, read_text


@dataclass(frozen=True)
class Leftover:
    """A thing of a session that is gone: `what` is `file` or `directory`."""

    what: str
    path: str


def own(log: journal.Journal, what: str, path: str, **details: Any) -> None:
    """Announce that a session makes something; what a reboot would leave is noted on disk, too.

    HostError when it cannot be noted: then it must not be made.
    """
    if what in ("file", "directory"):
        _note(log.path.parent, log.path, what, path)
    log.append("own", what=what, path=path, **details)


def _note(state: Path, session: Path, what: str, path: str) -> None:
    file = _file(state, path)
    record = {"boot": journal.boot_id(), "session": str(session), "what": what, "path": path}
    temporary = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with temporary.open("w", encoding="ascii") as written:
            written.write(checked_line.encode(record) + "\n")
            written.flush()
            os.fsync(written.fileno())
        temporary.replace(file)
        with opened(file.parent, os.O_RDONLY | os.O_DIRECTORY) as directory:
            os.fsync(directory)
    except OSError as error:
        raise HostError(
            f"cannot write {file}: {error.strerror}; nothing was changed",
            f"free space there, or set {journal.LASTING_VARIABLE} to another directory",
        ) from error


def forget(state: Path, path: str) -> None:
    """The thing is gone, so is its note."""
    with contextlib.suppress(OSError):
        _file(state, path).unlink(missing_ok=True)


def stale(state: Path) -> list[Leftover]:
    """Leftovers of dead sessions of this state directory, oldest path first."""
    leftovers: list[Leftover] = []
    try:
        files = sorted(_directory(state).iterdir())
    except OSError:  # none, or of another user
        return leftovers
    for file in files:
        with contextlib.suppress(OSError, SpecError, ValueError, KeyError):
            record = checked_line.decode(read_text(file, "").removesuffix("\n").encode())
            at_work = record["boot"] == journal.boot_id() and Path(record["session"]).exists()
            if not at_work:
                leftovers.append(Leftover(str(record["what"]), str(record["path"])))
    return sorted(leftovers, key=lambda each: each.path)


def _directory(state: Path) -> Path:
    return journal.lasting_directory(state) / "leftovers"


def _file(state: Path, path: str) -> Path:
    return _directory(state) / (hashlib.sha256(path.encode()).hexdigest()[:32] + ".jsonl")
