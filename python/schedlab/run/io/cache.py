"""The state of the page cache before a command runs: cold for its target, or as requested."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.host.safety import owned
from schedlab.kinds.startup import shared_libraries
from schedlab.nouns.reading import opened
from schedlab.run.io.drain import flush

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control
    from schedlab.kinds.command import Cache

FILES_MAX = 200_000
BLKFLSBUF = 0x1261  # include/uapi/linux/fs.h
_CHUNK_BYTES = 1 << 20
# A file system that nobody uses any more is gone for good within this time.
UNMOUNTED_S = 10.0


def set_cache(
    cache: Cache, control: Control, directory: Path, mounted: tuple[str, str] | None
) -> str:
    """Bring the cache into a state; returns the action in a word.

    `mounted` is (device, file system) where the directory is the root of a file system of ours:
    taking it off and mounting it again empties its cache in one step.
    """
    if cache == "drop":
        control.drop_caches()
        return "dropped"
    if cache == "warm":
        read_files(directory, _memory_bytes() // 2)
        return "warm"
    if cache == "as-is":
        return "as-is"
    if mounted is not None:
        with contextlib.suppress(OSError):
            remount(directory, *mounted)
            return "remounted"
    return f"emptied of {evict(directory)} files"


def set_device_cache(cache: Cache, control: Control, device: Path) -> str:
    """The same for a bare block device, whose cache is that of its own pages."""
    if cache == "drop":
        control.drop_caches()
        return "dropped"
    if cache == "as-is":
        return "as-is"
    with opened(device) as handle:
        if cache == "cold":
            fcntl.ioctl(handle, BLKFLSBUF)
            return "emptied"
        left = _memory_bytes() // 2
        while left > 0 and (chunk := os.read(handle, _CHUNK_BYTES)):
            left -= len(chunk)
    return "warm"


def remount(directory: Path, device: str, kind: str) -> None:
    """Unmount and mount a file system of ours; OSError EBUSY when a process works in it."""
    try:
        unmount(directory, device)
    finally:
        if not directory.is_mount():
            owned.mount(device, directory, kind)


def unmount(directory: Path, device: str) -> None:
    """Unmount a file system of ours for good; OSError EBUSY when a process keeps it.

    A confined program has mounts of its own: while it lives, the file system does too, and so does
    its cache. The kernel takes these mounts down a moment after the last process has ended.
    """
    owned.libc_call("umount2", os.fsencode(directory), 0)
    if not owned.wait_until(lambda: _is_unused(device), UNMOUNTED_S):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), device)


def _is_unused(device: str) -> bool:
    try:
        with opened(device, os.O_EXCL):
            return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise


def evict(directory: Path) -> int:
    """Drop the cached pages of every file below a directory; how many files. Needs no root."""
    flush(directory)
    count = 0
    for path in _files(directory):
        with contextlib.suppress(OSError), opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as handle:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            count += 1
    return count


def read_files(directory: Path, limit_bytes: int) -> None:
    """Read the files below a directory, up to a number of bytes."""
    left = limit_bytes
    for path in _files(directory):
        with contextlib.suppress(OSError), opened(path, os.O_NOFOLLOW | os.O_NONBLOCK) as handle:
            while left > 0 and (chunk := os.read(handle, _CHUNK_BYTES)):
                left -= len(chunk)


def touch_program(program: str, directory: Path) -> None:
    """Read a program and its libraries once, unless they are on the target itself: only what is
    compared shall be cold."""
    for path in (Path(program), *shared_libraries(program)):
        if not path.is_relative_to(directory):
            with contextlib.suppress(OSError):
                path.read_bytes()


def _files(directory: Path) -> Iterator[Path]:
    """Regular files below a directory, on its own file system, following no link."""
    device, count = directory.stat().st_dev, 0
    for folder, names, files in os.walk(directory):
        names[:] = [n for n in names if _device(Path(folder) / n) == device]
        for name in files:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path
                count += 1
                if count >= FILES_MAX:
                    return


def _device(path: Path) -> int:
    try:
        return path.lstat().st_dev
    except OSError:
        return -1


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
