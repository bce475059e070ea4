"""The write-ahead journal, the lock of the host, and the directory where both live.

A line is on disk (fsync) before what it announces is done, and carries the boot id: settings die
with the kernel, so the journal of another boot must never be replayed. One JSON object a line:

* `queue`: {queue, values} - the whole `queue/` of a device, before the first write to it;
* `write`: {path, original, new} - about to be written;
* `after`: {path, values} - what that write made of it and of its neighbours;
* `own`: {what, path, ...} - about to be made by us, to be removed; `disown`: {path};
* `keep`: {} - everything set so far shall stay as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, RestoreError

STATE_VARIABLE = "SCHEDLAB_STATE_DIR"
LASTING_VARIABLE = "SCHEDLAB_VAR_DIR"
JOURNAL_NAME = "journal.jsonl"
LOCK_NAME = "lock"
LOOK_S = 0.5
Entry = dict[str, Any]


def state_directory(option: str | Path | None = None) -> Path:
    """Where journal and lock live: the option, else $SCHEDLAB_STATE_DIR, else a place in RAM.

    That place is /run/schedlab for root, and for others a directory of their own.
    """
    if chosen := option or os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/run/schedlab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "schedlab" if runtime else Path(f"/tmp/schedlab-{os.geteuid()}")


def lasting_directory(state: str | Path | None = None) -> Path:
    """Where is kept what a reboot does not undo: $SCHEDLAB_VAR_DIR, else a place on disk.

    With a state directory of the user's choice it lies in there; otherwise it is
    /var/lib/schedlab for root, and for others below $XDG_STATE_HOME.
    """
    if chosen := os.environ.get(LASTING_VARIABLE):
        return Path(chosen)
    if chosen_state := state or os.environ.get(STATE_VARIABLE):
        return Path(chosen_state) / "lasting"
    if os.geteuid() == 0:
        return Path("/var/lib/schedlab")
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "schedlab"


def prepare(directory: Path) -> None:
    """Make the state directory; HostError unless it is ours alone to write.

    Whoever can write the journal decides what is written to the kernel in our name.
    """
    hint = f"set {STATE_VARIABLE} to a directory that you own"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise HostError(f"cannot make {directory}: {error.strerror}", hint) from error
    if found.st_uid != os.geteuid():
        raise HostError(f"{directory} belongs to user {found.st_uid}", hint)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(f"{directory} can be written to by others", f"chmod go-w {directory}")


def boot_id() -> str:
    """What tells this boot from every other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Journal:
    """The journal of one session, appended to and fsynced line by line."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / JOURNAL_NAME
        self.boot = boot_id()

    def append(self, kind: str, **content: Any) -> None:
        """Add a line; it is on disk when this returns. HostError when it cannot be."""
        line = json.dumps({"boot": self.boot, "kind": kind, **content}) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
            try:
                if os.write(descriptor, line.encode()) != len(line.encode()):
                    raise OSError(None, "the line was cut short")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HostError(
                f"cannot write the journal {self.path}: {error.strerror}; nothing was changed",
                f"free space there, or set {STATE_VARIABLE} to another directory",
            ) from error

    def clear(self) -> None:
        """Forget everything: all was put back."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Content:
    """A journal as read: its entries, whether another boot wrote it, and unreadable line numbers.

    A last line that was cut short is no damage: what it announces was never done.
    """

    entries: tuple[Entry, ...]
    other_boot: bool
    damaged_lines: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to put back and nothing wrong."""
        return not self.entries and not self.damaged_lines


def exists(directory: Path) -> bool:
    """Whether there is a journal; HostError where this user cannot see that."""
    path = directory / JOURNAL_NAME
    try:
        return path.is_file()
    except OSError as error:
        raise HostError(f"cannot look at {path}: {error.strerror}", "run it as root") from error


def read(directory: Path) -> Content:
    """The journal of a state directory; empty when there is none. RestoreError if unreadable."""
    path = directory / JOURNAL_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Content((), False, ())
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}; what it holds is not put back"
        raise RestoreError(message, "run it as root") from error
    entries: list[Entry] = []
    damaged: list[int] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip(b"\0 "):
            continue
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict) or "kind" not in entry or "boot" not in entry:
                raise ValueError("not an entry")
            entries.append(entry)
        except ValueError:
            if number < len(lines):  # the last line, without its newline, may be cut short
                damaged.append(number)
    boot = boot_id()
    of_this_boot = [entry for entry in entries if entry["boot"] == boot]
    if entries and not of_this_boot:
        return Content(tuple(entries), True, ())
    return Content(tuple(of_this_boot), False, tuple(damaged))


def is_alive(process: str) -> bool:
    """Whether a process of that id runs; a dead one whose parent has not noticed does not."""
    if not process.isdigit():
        return False
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


class HostLock:
    """One schedlab at a time changes a host: an flock that the guardian shares.

    It is held as long as the owner or its guardian lives, so whoever gets it finds either a
    clean journal or one that nobody is working on.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / LOCK_NAME
        self.descriptor = -1

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting at most `wait_s` seconds for a guardian to finish its work.

        HostError that names the holder when a living schedlab has it for longer than a look.
        """
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        start = time.monotonic()
        while not self._try():
            holder = self.holder()
            alive = is_alive(holder.partition(" ")[0])
            if time.monotonic() >= start + (min(wait_s, LOOK_S) if alive else wait_s):
                os.close(self.descriptor)
                self.descriptor = -1
                raise HostError(
                    f"another schedlab is working on this host: {holder or 'it is starting'}",
                    "wait until it is done, or stop it with Ctrl-C; it puts its settings back",
                )
            time.sleep(0.02)
        os.ftruncate(self.descriptor, 0)
        command = " ".join(Path("/proc/self/cmdline").read_text(errors="replace").split("\0"))
        os.pwrite(self.descriptor, f"{os.getpid()} {command[:200]}".strip().encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def holder(self) -> str:
        """Process id and command line of the last owner, or nothing."""
        with contextlib.suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="replace").strip()
        return ""

    def release(self) -> None:
        """Give the lock back, whoever else holds a copy of the descriptor."""
        if self.descriptor >= 0:
            os.ftruncate(self.descriptor, 0)
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1


@contextlib.contextmanager
def held(directory: Path, wait_s: float) -> Iterator[bool]:
    """Whether the lock could be had; it is given back at the end."""
    lock = HostLock(directory)
    try:
        lock.acquire(wait_s)
    except HostError:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
