"""Who writes to files of the kernel's settings: fanotify names the process of every write.

A write by a process passes the kernel's file layer also in sysfs and in /proc/sys, so fanotify(7)
sees it; what the kernel changes by itself raises no event. Needs root and CONFIG_FANOTIFY.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from schedlab.host import processes

# include/uapi/linux/fanotify.h
_CLOEXEC, _NONBLOCK, _MARK_ADD, _AT_FDCWD = 0x1, 0x2, 0x1, -100
_MODIFY, _OPEN = 0x2, 0x20
_EVENT = struct.Struct("<IBBHQii")
_BUFFER_BYTES = 1 << 16
_REMEMBERED = 1000
# A file that went away after the write: its event cannot be opened, and is gone.
_GONE = (errno.ENODEV, errno.ENOENT, errno.ESTALE, errno.ENXIO)
PROC = Path("/proc")


@dataclass(frozen=True)
class Writer:
    """A process that wrote: its number, and its command line as far as it could still be read."""

    process_id: int
    command: str


class Writers:
    """The writers of files, from when they are marked; `is_told` is False where none is named."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = -1
        self._commands: dict[int, str] = {}
        self._last: dict[str, Writer] = {}
        if hasattr(self._libc, "fanotify_init"):
            flags = ctypes.c_uint(_CLOEXEC | _NONBLOCK)
            self._descriptor = self._libc.fanotify_init(flags, ctypes.c_uint(os.O_CLOEXEC))

    @property
    def is_told(self) -> bool:
        """Whether the kernel names the processes that write."""
        return self._descriptor >= 0

    def close(self) -> None:
        """Forget all marks."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def mark(self, paths: Iterable[Path]) -> None:
        """Have writes to these files named from now on; files that are not there are passed over.

        A file that is made again, such as a tunable of another scheduler, is marked again.
        """
        for path in paths if self.is_told else ():
            mask = ctypes.c_uint64(_MODIFY | _OPEN)
            name = os.fsencode(path)
            self._libc.fanotify_mark(self._descriptor, _MARK_ADD, mask, _AT_FDCWD, name)

    def wait(self, patience_s: float) -> bool:
        """Wait for a write of another process, at most so long; whether there was one."""
        if not self.is_told:
            time.sleep(patience_s)
            return False
        deadline = time.monotonic() + patience_s
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left_s)[0] and self._read():
                return True
        return False

    def _read(self) -> bool:
        """Note all events that are there; whether one is a write of another process."""
        written = False
        while True:
            try:
                data = os.read(self._descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                return written
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                written = True  # somebody wrote, nobody can say who
                continue
            while len(data) >= _EVENT.size:
                length, _, _, _, mask, descriptor, process_id = _EVENT.unpack_from(data)
                written |= self._note(mask, descriptor, process_id)
                data = data[length:]

    def take(self) -> dict[str, Writer]:
        """Who wrote last since the last call: the real path of a file -> its writer."""
        taken, self._last = self._last, {}
        return taken

    def _note(self, mask: int, descriptor: int, process_id: int) -> bool:
        """Note an event. A writer is named when it opens the file: soon it may be gone."""
        if descriptor < 0:
            return False
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        os.close(descriptor)
        if process_id == os.getpid():
            return False
        if process_id not in self._commands:
            if len(self._commands) > _REMEMBERED:
                self._commands.clear()
            self._commands[process_id] = command_of(process_id)
        if mask & _MODIFY:
            self._last[path] = Writer(process_id, self._commands[process_id])
        return bool(mask & _MODIFY)


def command_of(process_id: int) -> str:
    """The command line of a process, its name for a kernel thread; empty if it is gone."""
    home = PROC / str(process_id)
    try:
        words = (home / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        text = b" ".join(words).decode(errors="replace")
        return text or processes.name_of(process_id)
    except OSError:
        return ""
