"""Remove emulated devices from the journal alone, without ever waiting for one that is stuck.

`quiesce` gives file systems a few seconds to write back, then ends the server, which makes the
kernel fail what still waits. Then nothing can hang, and the parts are removed one by one. The
guardian runs this, so it imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from schedlab.host import owned
from schedlab.host.journal import Entry

KIND = "emulated"
SERVER_MODULE = "schedlab.host.emulator"
WRITE_BACK_PATIENCE_S = 5.0
MNT_FORCE, MNT_DETACH = 1, 2


def quiesce(things: Iterable[Entry]) -> None:
    """Before anything is restored: make sure that nothing waits for an emulated device.

    File systems on it are unmounted and the device is flushed, for a few seconds; then its server
    is ended, so that the kernel fails what still waits.
    """
    things = list(things)
    for thing in things:
        if thing["what"] != KIND:
            continue
        directory = thing["path"]
        loops = [
            t["index"]
            for t in things
            if t["what"] == "loop" and t["backing"].startswith(f"{directory}/") and _is_attached(t)
        ]
        writers = [_write_back(index) for index in loops if servers(directory)]
        deadline = time.monotonic() + WRITE_BACK_PATIENCE_S
        for writer in writers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(max(0.0, deadline - time.monotonic()))
        end_servers(directory)
        for writer in writers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(owned.PATIENCE_S)
        for index in loops:
            for where in mounts_of_device(index):
                _unmount(where, MNT_DETACH)


def remove(path: str) -> bool:
    """Remove what is below a device's directory; whether it was there."""
    if not Path(path).name.startswith(f"{owned.PREFIX}{KIND}-"):
        raise OSError(errno.EPERM, "schedlab did not choose its name")
    end_servers(path)
    for where in mounts_below(path):
        _unmount(where, MNT_FORCE | MNT_DETACH)
    if not Path(path).is_dir():
        return False
    with contextlib.suppress(FileNotFoundError):
        Path(path, "fuse").rmdir()
    Path(path).rmdir()
    return True


def servers(directory: str | Path) -> list[int]:
    """Process ids of servers of that directory, found by their arguments."""
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if SERVER_MODULE.encode() in arguments and os.fsencode(directory) in arguments:
                processes.append(int(entry.name))
    return processes


def end_servers(directory: str | Path) -> None:
    """End the servers of a directory and wait until their connection is closed."""
    for process in servers(directory):
        try:
            descriptor = os.pidfd_open(process)
        except OSError:
            continue
        try:
            if process in servers(directory):  # still the one that was found
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], owned.PATIENCE_S)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


def mounts_below(directory: str | Path) -> list[str]:
    """Mount points below a directory, the last mounted first; none of them is accessed."""
    inside = f"{directory}/"
    return [where for _, where in reversed(_mounts()) if where.startswith(inside)]


def mounts_of_device(index: int) -> list[str]:
    """Where /dev/loopINDEX is mounted, the last mounted first."""
    try:
        number = (owned.SYS_BLOCK / f"loop{index}" / "dev").read_text().strip()
    except OSError:
        return []
    return [where for device, where in reversed(_mounts()) if device == number]


def _mounts() -> list[tuple[str, str]]:
    """(major:minor, mount point) in the order of mounting, by /proc alone."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        where = fields[4].encode("latin-1", "backslashreplace").decode("unicode_escape")
        mounts.append((fields[2], where))
    return mounts


def _is_attached(thing: Entry) -> bool:
    """Whether the loop device of a journal entry is still ours."""
    path = owned.SYS_BLOCK / f"loop{thing['index']}" / "loop" / "backing_file"
    try:
        return path.read_text().strip() == str(thing["backing"])
    except OSError:
        return False


def _write_back(index: int) -> subprocess.Popen[bytes]:
    """Start a process that unmounts and flushes a device; it may hang until the server ends."""
    commands = [["umount", where] for where in mounts_of_device(index)]
    commands.append(["blockdev", "--flushbufs", f"/dev/loop{index}"])
    script = "; ".join(" ".join(f"'{part}'" for part in command) for command in commands)
    return subprocess.Popen(
        ["/bin/sh", "-c", script],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _unmount(where: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(where), flags) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOENT):
            raise OSError(code, os.strerror(code))


def process_state(process: int) -> str:
    """The letter of /proc/PID/stat; empty when it is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]
