"""Things that schedlab makes on a host and removes again: files, directories, loop devices,
mounts and cgroups.

Removing is written so that the guardian, or a later command, can do it from the journal alone:
each function takes the journal's entry, checks that the thing exists and is still ours,
and raises OSError only when it is ours and will not go. Loop devices are added under a number of
their own and removed again, so no setting of a device that was there before is touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host import kernel_paths
from schedlab.nouns.reading import opened

PREFIX, FILES = "schedlab-", "files"
PATIENCE_S = 10.0
# include/uapi/linux/loop.h
LOOP_CLR_FD, LOOP_CONFIGURE, LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C01, 0x4C0A, 0x4C80, 0x4C81
LO_FLAGS_DIRECT_IO = 16
LOOP_CONTROL = Path("/dev/loop-control")
SYS_BLOCK = Path("/sys/block")


def new_name(what: str) -> str:
    """An unused name that marks a thing as ours: `schedlab-WHAT-RANDOM`."""
    return f"{PREFIX}{what}-{os.urandom(6).hex()}"


def holds_files(directory: Path) -> bool:
    """Whether a directory was made for the files of a session (`Control.directory`)."""
    return directory.name.startswith(f"{PREFIX}{FILES}-")


def add_loop(index: int) -> bool:
    """Add /dev/loopINDEX; False when that number is taken. HostError when loop is not to be had."""
    try:
        with opened(LOOP_CONTROL, os.O_RDWR) as control:
            fcntl.ioctl(control, LOOP_CTL_ADD, index)
    except OSError as error:
        if error.errno == errno.EEXIST:
            return False
        raise HostError(
            f"cannot add a loop device ({LOOP_CONTROL}: {error.strerror})",
            "run as root with the loop module (modprobe loop), or use --directory DIR",
        ) from error
    return True


def attach_loop(index: int, backing: Path | int) -> bool:
    """Attach a file to the idle /dev/loopINDEX with direct I/O; whether that took.

    `backing` is a path, or the descriptor of a file that may have no name. LOOP_CONFIGURE
    (Linux >= 5.8) does it in one step, so that no process sees a half-made device.
    """
    device = Path(f"/dev/loop{index}")
    wait_until(device.exists, PATIENCE_S)
    with contextlib.ExitStack() as stack:
        try:
            loop = stack.enter_context(opened(device, os.O_RDWR))
            file = backing
            if isinstance(file, Path):
                file = stack.enter_context(opened(file, os.O_RDWR))
            name = os.fsencode(name_of(file))[-63:]
            info = struct.pack("<5Q4I", 0, 0, 0, 0, 0, 0, 0, 0, LO_FLAGS_DIRECT_IO)
            info += struct.pack("<64s64s32s2Q", name, b"", b"", 0, 0)
            fcntl.ioctl(loop, LOOP_CONFIGURE, struct.pack("<2I", file, 0) + info + bytes(64))
        except OSError as error:
            raise HostError(
                f"cannot attach {backing} to {device}: {error.strerror}",
                "run as root on Linux 5.8 or newer, or use --directory DIR",
            ) from error
    return (SYS_BLOCK / f"loop{index}" / "loop" / "dio").read_text().strip() == "1"


def name_of(descriptor: int) -> str:
    """The kernel's name of an open file, `DIRECTORY/#INODE` if it never had one."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink()).removesuffix(" (deleted)")


def remove_loop(index: int, backing: str) -> bool:
    """Detach and remove /dev/loopINDEX if `backing` is attached to it or nothing is.

    Whether something was there to remove.
    """
    entry = SYS_BLOCK / f"loop{index}"
    if not entry.exists():
        return False
    attached = kernel_paths.backing_file(entry)
    if attached and attached != backing:
        return False  # another program's by now
    if attached:
        with opened(Path(f"/dev/loop{index}"), os.O_RDONLY) as loop:
            try:
                fcntl.ioctl(loop, LOOP_CLR_FD)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise

    def remove() -> None:
        with opened(LOOP_CONTROL, os.O_RDWR) as control:
            try:
                fcntl.ioctl(control, LOOP_CTL_REMOVE, index)
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise

    _once_free(remove, "a process still has it open")
    return True


def remove_file(path: str) -> bool:
    """Remove a file of ours; whether it was there."""
    _refuse_foreign_name(path)
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def remove_directory(path: str) -> bool:
    """Remove a directory of ours and all in it, following no link; whether it was there."""
    _refuse_foreign_name(path)
    if not Path(path).is_dir():
        return False
    shutil.rmtree(path)
    return True


def mount(device: str, where: Path, kind: str) -> None:
    """Mount a file system; OSError with the kernel's reason."""
    libc_call("mount", device.encode(), os.fsencode(where), kind.encode(), 0, None)


def remove_mount(path: str) -> bool:
    """Unmount what we mounted at `path`, waiting for its last user; whether it was mounted."""
    _refuse_foreign_name(path)
    if not Path(path).is_mount():
        return False

    _once_free(
        lambda: libc_call("umount2", os.fsencode(path), 0),
        "a process still uses it as its directory",
    )
    return True


def cgroup_root() -> Path:
    """Where cgroup v2 is mounted; HostError when it is not."""
    for each in kernel_paths.hierarchies():
        if each.is_v2:
            return each.root
    raise HostError(
        "cgroup v2 is not mounted", "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd"
    )


def remove_cgroup(path: str) -> bool:
    """End what runs in a cgroup of ours and remove it with those below; whether it was there."""
    _refuse_foreign_name(path)
    group = Path(path)
    if not group.is_dir():
        return False
    for below in sorted(group.rglob("*/"), reverse=True):
        _remove_one_cgroup(below)
    _remove_one_cgroup(group)
    return True


def _remove_one_cgroup(group: Path) -> None:
    def empty() -> None:
        with contextlib.suppress(OSError):
            for process in map(int, (group / "cgroup.procs").read_text().split()):
                if process == os.getpid():
                    (group.parent / "cgroup.procs").write_text(str(process))
                else:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
        group.rmdir()

    _once_free(empty, "a process in it does not exit")


def _once_free(action: Callable[[], object], reason: str) -> None:
    """Do it as soon as nothing is busy with the thing; OSError with the reason after a while."""

    def is_done() -> bool:
        try:
            action()
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
        return True

    if not wait_until(is_done, PATIENCE_S):
        raise OSError(errno.EBUSY, reason)


def wait_until(is_done: Callable[[], bool], patience_s: float) -> bool:
    """Ask until it is so, or until `patience_s` seconds have passed; the last answer."""
    deadline = time.monotonic() + patience_s
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _refuse_foreign_name(path: str) -> None:
    """A journal may name anything; only what bears our name is ever removed."""
    if not Path(path).name.startswith(PREFIX):
        raise OSError(errno.EPERM, "schedlab did not choose its name")


def libc_call(name: str, *arguments: object) -> None:
    """A call of the C library that returns 0; OSError otherwise."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
