"""The write-ahead journals of sessions, their locks, and the directories where they live.

Each session has a journal, `session-TIME-PID.jsonl`, and holds an flock on it as long as it or
its guardian lives; a journal that can be locked is of a session that died. A line is on disk
(fsync) before what it announces is done, ends with its checksum, and carries the boot id:
settings die with the kernel, so the journal of another boot must never be replayed. The kinds:

* `session`: {process, command} - who this is, the first line;
* `claim`: {resources} - devices and knobs that no other session may change meanwhile;
* `queue`: {queue, values} - the whole `queue/` of a device, before the first write to it;
* `write`: {path, original, new} - about to be written;
* `after`: {path, values} - what that write made of it and of its neighbours;
* `command`: {number, run, undo} - about to be run; `undone`: {number} - its `undo` has been run;
* `own`: {what, path, ...} - about to be made by us, to be removed; `disown`: {path};
* `data`: {number, sequence, size_bytes, key} - about to be written to with a consent;
* `cleanup`: {label, line, order} - to be started if we die, before it is `cleaned`: {label};
* `keep`: {} - everything set so far shall stay as it is; or {record, sha256, settings} - these
  knobs or `queue/` shall, as soon as the file `record` has that checksum.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, RestoreError
from schedlab.host.processes import stat_fields
from schedlab.host.safety.descriptors import above_standard
from schedlab.nouns import checked_line

STATE_VARIABLE = "SCHEDLAB_STATE_DIR"
LASTING_VARIABLE = "SCHEDLAB_VAR_DIR"
SESSIONS = "session-*.jsonl"
LOCK_NAME = "lock"
SCHEMA = 2
ATTEMPTS = 100
BYTES_MAX = 1 << 30
_CLOCK_BOOTTIME = 7
_EXITING = 0x4  # PF_EXITING, include/linux/sched.h; the flags are field 9 of /proc/PID/stat
_BETWEEN_LINES = re.compile(rb'(?<=[0-9a-f]{8}"\}).(?=\{"schema": )', re.DOTALL)
Entry = dict[str, Any]


def state_directory(option: str | Path | None = None) -> Path:
    """Where journals and locks live: `option`, else $SCHEDLAB_STATE_DIR, else a place in RAM.

    That place is /run/schedlab for root, and a private directory for other users. It is absolute:
    whoever else finds it in a note or an order has another directory.
    """
    chosen = option or os.environ.get(STATE_VARIABLE)
    return Path(chosen).absolute() if chosen else _default_state()


def _default_state() -> Path:
    if os.geteuid() == 0:
        return Path("/run/schedlab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "schedlab" if runtime else Path(f"/tmp/schedlab-{os.geteuid()}")


def lasting_directory(state: Path | None = None) -> Path:
    """Where is kept what a reboot does not undo: $SCHEDLAB_VAR_DIR, else a place on disk.

    Of the default state directory it is /var/lib/schedlab for root, and for others below
    $XDG_STATE_HOME; a state directory of the user's choice has it inside.
    """
    if chosen := os.environ.get(LASTING_VARIABLE):
        return Path(chosen).absolute()
    state = state_directory(state)
    if state != _default_state():
        return state / "lasting"
    if os.geteuid() == 0:
        return Path("/var/lib/schedlab")
    home = os.environ.get("XDG_STATE_HOME")
    if home or os.environ.get("HOME"):
        return Path(home or f"{os.environ['HOME']}/.local/state") / "schedlab"
    return state / "lasting"  # a user without a home has no lasting place


def prepare(directory: Path) -> None:
    """Make the state directory; HostError unless it is ours alone to write.

    A user who can write a journal decides what is written to the kernel in our name.
    """
    hint = f"set {STATE_VARIABLE} to a directory that you own"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        raise HostError(f"cannot make {directory}: {error.strerror}", hint) from error
    if status.st_uid != os.geteuid():
        raise HostError(f"{directory} belongs to user {status.st_uid}", hint)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(f"{directory} can be written to by others", f"chmod go-w {directory}")


def boot_id() -> str:
    """The identity of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class _Locked:
    """A file that is open and locked; `descriptor` is -1 where it is not."""

    descriptor: int

    def release(self) -> None:
        """Give the lock back, whoever else holds a copy of the descriptor."""
        if self.descriptor >= 0:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1


class Journal(_Locked):
    """The journal of one session, locked, appended to and fsynced line by line."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use `create` or `open_stale`; the guardian takes over the descriptor of its owner."""
        self.path = path
        self.descriptor = descriptor
        self.boot = boot_id()
        self._written: list[Entry] = []

    @classmethod
    def create(cls, directory: Path) -> Journal:
        """A new, locked journal that names its owner. HostError when it cannot be written."""
        command = " ".join(Path("/proc/self/cmdline").read_text(errors="replace").split("\0"))
        for _ in range(ATTEMPTS):
            number = time.clock_gettime_ns(_CLOCK_BOOTTIME)
            path = directory / f"session-{number:020d}-{os.getpid()}.jsonl"
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                journal = cls(path, above_standard(os.open(path, flags, 0o600)))
            except FileExistsError:
                continue
            except OSError as error:
                raise _unwritable(path, error) from error
            if journal.lock():
                break
            os.close(journal.descriptor)  # another process took it for a dead session's
        else:
            hint = "end the program that locks the files there"
            raise HostError(f"cannot lock a new journal in {directory}", hint)
        journal.append("session", process=os.getpid(), command=command[:200].strip())
        return journal

    @classmethod
    def open_stale(cls, path: Path) -> Journal | None:
        """The journal of a dead session, locked; None while another process holds it.

        RestoreError when it cannot be opened.
        """
        try:
            journal = cls(path, _opened(path, os.O_RDWR | os.O_APPEND))
        except FileNotFoundError:
            return None
        if not journal.lock():
            os.close(journal.descriptor)
            return None
        return journal

    def lock(self) -> bool:
        """Whether the lock could be had, and the file still has its name."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return os.fstat(self.descriptor).st_nlink > 0

    def append(self, kind: str, **content: Any) -> None:
        """Add a line; it is on disk when this returns. HostError when it cannot be."""
        record = {"schema": SCHEMA, "boot": self.boot, "kind": kind, **content}
        line = checked_line.encode(record).encode() + b"\n"
        try:
            if self.is_gone():
                raise FileNotFoundError(errno.ENOENT, "the file was deleted")
            before = os.fstat(self.descriptor).st_size
            try:
                if os.write(self.descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self.descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self.descriptor, before)
                raise
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._written.append(record)

    def is_gone(self) -> bool:
        """Whether the file was deleted under its owner."""
        return os.fstat(self.descriptor).st_nlink == 0

    def content(self) -> Content:
        """The entries of the journal; from memory, where its owner has lost the file."""
        return Content(tuple(self._written), False, ()) if self.is_gone() else read(self.path)

    def end_last_line(self) -> None:
        """End the last line, or drop it if a kill cut it short, so that lines of ours stay lines.

        OSError as is.
        """
        data = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        whole, newline, tail = data.rpartition(b"\n")
        if tail and _entry(tail):
            os.write(self.descriptor, b"\n")
        elif tail:
            os.ftruncate(self.descriptor, len(whole + newline))

    def clear(self) -> None:
        """Forget everything: all is restored."""
        self.path.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> HostError:
    return HostError(
        f"cannot write {path}: {error.strerror}; nothing was changed",
        f"free space there, or set {STATE_VARIABLE} to another directory",
    )


@dataclass(frozen=True)
class Content:
    """A journal as read: its entries, whether another boot wrote it, and unreadable line numbers.

    A last line that was cut short is no damage: what it announces was never done.
    """

    entries: tuple[Entry, ...]
    other_boot: bool
    damaged_lines: tuple[int, ...]

    @property
    def owner(self) -> str:
        """Process id and command line of the session, or nothing."""
        first = next((e for e in self.entries if e["kind"] == "session"), {})
        return f"{first.get('process', '')} {first.get('command', '')}".strip()

    @property
    def claims(self) -> frozenset[str]:
        """The devices and knobs that this session has for itself."""
        resources = (e.get("resources") for e in self.entries if e["kind"] == "claim")
        return frozenset(r for each in resources if isinstance(each, list) for r in each)


def sessions(directory: Path) -> list[Path]:
    """The journals of a state directory, the latest first; HostError where they are hidden."""
    try:
        return sorted((p for p in directory.iterdir() if p.match(SESSIONS)), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        message = f"cannot look at {directory}: {error.strerror}"
        raise HostError(message, "run it as root") from error


def exists(directory: Path) -> bool:
    """Whether there is a journal; HostError where this user cannot see that."""
    return bool(sessions(directory))


def read(path: Path) -> Content:
    """The entries of a journal; empty when there is none. RestoreError if unreadable."""
    try:
        with open(_opened(path, os.O_RDONLY), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return Content((), False, ())
    entries: list[Entry] = []
    damaged: list[int] = []
    *lines, tail = data.split(b"\n")
    for number, line in enumerate([*lines, tail], start=1):
        # A damaged newline must not cost the lines on both sides of it.
        for part in _BETWEEN_LINES.split(line):
            entry = _entry(part)
            if entry is not None:
                entries.append(entry)
            elif number <= len(lines) and part.strip(b"\0 "):
                damaged.append(number)
    boot = boot_id()
    of_this_boot = [entry for entry in entries if entry["boot"] == boot]
    if entries and not of_this_boot:
        return Content(tuple(entries), True, ())
    return Content(tuple(of_this_boot), False, tuple(damaged))


def _opened(path: Path, flags: int) -> int:
    """A descriptor of a journal, without waiting; FileNotFoundError as is, else RestoreError."""
    try:
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = above_standard(os.open(path, flags))
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= BYTES_MAX:
            return descriptor
        os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}; its settings are not restored"
        raise RestoreError(message, "run it as root") from error
    large = stat.S_ISREG(status.st_mode)
    what = f"is larger than {BYTES_MAX >> 20} MiB" if large else "is no regular file"
    raise RestoreError(f"{path} {what}, so no journal", f"rm -r {path}")


def _entry(line: bytes) -> Entry | None:
    try:
        entry = checked_line.decode(line)
    except ValueError:
        return None
    whole = entry.get("schema") == SCHEMA and isinstance(entry.get("boot"), str)
    return entry if whole and isinstance(entry.get("kind"), str) else None


def is_alive(process: str) -> bool:
    """Whether a process of that id runs; one that is ending, or waits for its parent, does not.

    A process that ends has closed its files, and so seems gone to others, before it is a zombie.
    """
    fields = stat_fields(process) if process.isdigit() else []
    return bool(fields) and fields[0] not in ("Z", "X") and not int(fields[6]) & _EXITING


class _Busy(HostError):
    """Another process has the lock."""


class HostLock(_Locked):
    """Held for the moment in which a session is opened, claims something, or is recovered.

    The claims of a session meanwhile are in its journal.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / LOCK_NAME
        self.descriptor = -1

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting at most `wait_s` seconds. HostError that names the holder.

        Another one says why there is no lock, such as a full or read-only file system.
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            self.descriptor = above_standard(os.open(self.path, flags, 0o600))
        except OSError as error:
            raise _unwritable(self.path, error) from error
        start = time.monotonic()
        while not self._try():
            if time.monotonic() >= start + wait_s:
                os.close(self.descriptor)
                self.descriptor = -1
                raise _Busy(
                    f"another schedlab is restoring settings on this host: {self.holder()}",
                    "wait until it is done",
                )
            time.sleep(0.02)
        command = " ".join(Path("/proc/self/cmdline").read_text(errors="replace").split("\0"))
        with contextlib.suppress(OSError):  # the name is for others: a full disk must not matter
            os.ftruncate(self.descriptor, 0)
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

    def __enter__(self) -> HostLock:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


@contextlib.contextmanager
def held(directory: Path, wait_s: float) -> Iterator[bool]:
    """Whether the lock could be had; it is given back at the end. HostError where there is none."""
    lock = HostLock(directory)
    try:
        lock.acquire(wait_s)
    except _Busy:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
