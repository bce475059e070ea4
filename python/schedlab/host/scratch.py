"""The scratch device: a file full of incompressible data behind a loop device with direct I/O.

The real kernel schedulers run on its queue. The file is preallocated and every block of it is
written: unwritten extents and data that compresses would be answered without media. Loop's
hardware queue is 128 deep, so schedulers see a backlog only beyond 128 requests in flight.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import SIMULATED_QUEUE, HostError, as_root
from schedlab.host.safety import leftovers, owned
from schedlab.host.safety.journal import Journal
from schedlab.host.settings import knobs

SMALLEST_BYTES = 1 << 20
_POOL_BYTES = 16 << 20
_HIGHEST_LOOP = 1 << 16
# No discard, which would punch holes into the backing file; nothing left to write in background.
_MKFS_OPTIONS = {
    "ext4": ("-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("-f", "-K"),
    "btrfs": ("-f", "-K"),
}


@dataclass(frozen=True)
class Scratch:
    """A scratch device: `path` is /dev/loopN; `direct_io` whether it bypasses the page cache.

    `backing_file` is what the kernel calls the file, which has no name in its directory.
    """

    path: str
    backing_file: str
    size_bytes: int
    direct_io: bool
    rotational: bool = False


def make(log: Journal, size_bytes: int, directory: Path, rotational: bool = False) -> Scratch:
    """Make file and loop device. The file never has a name, so that no reboot can leave it.

    The loop device reports itself as an SSD unless `rotational`; by itself it would
    report what the disk below reports, and bfq believes it. HostError when there is no space, no
    permission or no loop driver.
    """
    if size_bytes < SMALLEST_BYTES or size_bytes % 4096:
        raise HostError(
            f"a scratch device cannot have {size_bytes} bytes",
            f"use a multiple of 4096, at least {SMALLEST_BYTES}",
        )
    check_space(directory, size_bytes)
    descriptor, named = _new_file(log, directory.resolve())
    try:
        _fill(descriptor, size_bytes, directory)
        index = new_loop(log, owned.name_of(descriptor))
        direct_io = owned.attach_loop(index, descriptor)
        backing = owned.name_of(descriptor)
        if named:  # the loop device holds it from now on
            owned.remove_file(str(named))
            leftovers.forget(log.path.parent, str(named))
    finally:
        os.close(descriptor)
    queue = owned.SYS_BLOCK / f"loop{index}" / "queue"
    knobs.write_value(queue / "rotational", str(int(rotational)))
    return Scratch(f"/dev/loop{index}", backing, size_bytes, direct_io, rotational)


def _new_file(log: Journal, directory: Path) -> tuple[int, Path | None]:
    """A new file without a name; where the file system cannot do that, one to be unlinked."""
    descriptor = _unnamed(directory)
    if descriptor is not None:
        return descriptor, None
    named = directory / f"{owned.new_name('scratch')}.img"
    leftovers.own(log, "file", str(named))
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(named, flags, 0o600), named
    except OSError as error:
        raise HostError(
            f"cannot write {named}: {error.strerror}", "name another directory"
        ) from error


def _unnamed(directory: Path) -> int | None:
    """A file that never gets a name, where the file system can make one."""
    with contextlib.suppress(OSError):
        return os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return None


def new_loop(log: Journal, backing: str) -> int:
    """The number of a new, idle loop device, in the journal before it exists."""
    for index in range(_HIGHEST_LOOP):
        if (owned.SYS_BLOCK / f"loop{index}").exists():
            continue
        path = f"/dev/loop{index}"
        log.append("own", what="loop", path=path, index=index, backing=backing)
        if owned.add_loop(index):
            return index
        log.append("disown", path=path)
    raise HostError("every loop device number is taken", "losetup -l shows their users")


def require_root(without: str = SIMULATED_QUEUE) -> None:
    """HostError unless the user may make loop devices and change schedulers; `without` root the
    same question has this command.
    """
    if os.geteuid() != 0:
        raise HostError(
            "a scratch device needs root (loop devices and schedulers are the kernel's)",
            as_root(without),
        )


def check_space(directory: Path, size_bytes: int) -> None:
    """HostError unless `directory` can be written to and has room for `size_bytes`."""
    if not directory.is_dir():
        raise HostError(f"{directory} is not a directory", f"mkdir -p {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise HostError(f"{directory} cannot be written to", "name another directory")
    status = os.statvfs(directory)
    if status.f_flag & os.ST_RDONLY:
        raise HostError(f"{directory} is on a read-only file system", "name another directory")
    free = status.f_bavail * status.f_frsize
    if free < size_bytes + (size_bytes >> 6):
        raise _no_space(directory, size_bytes, free)


def _no_space(directory: Path, size_bytes: int, free_bytes: int) -> HostError:
    return HostError(
        f"{directory} has {free_bytes >> 20} MiB free, {size_bytes >> 20} MiB are needed",
        "use less (--scratch SIZE, or --size), or name a directory on a larger file system",
    )


def fill(file: Path, size_bytes: int) -> None:
    """Write a new file full of data that neither compresses nor repeats. HostError otherwise."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(file, flags, 0o600)
    except OSError as error:
        raise HostError(
            f"cannot write {file}: {error.strerror}", "name another directory"
        ) from error
    try:
        _fill(descriptor, size_bytes, file.parent)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, size_bytes: int, directory: Path) -> None:
    """Fill an open file, no two blocks alike.

    A pool of random bytes is written again and again, shifted by one byte more than a block each
    time: no two aligned blocks are alike, and a compressor would need a window of 16 MiB.
    """
    pool = os.urandom(min(_POOL_BYTES, size_bytes))
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        written = 0
        while written < size_bytes:
            shift = (written // len(pool)) * 4097 % len(pool)
            for part in (memoryview(pool)[shift:], memoryview(pool)[:shift]):
                written += os.write(descriptor, part[: size_bytes - written])
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            status = os.statvfs(directory)
            raise _no_space(directory, size_bytes, status.f_bavail * status.f_frsize) from error
        raise HostError(
            f"cannot write in {directory}: {error.strerror}", "name another directory"
        ) from error


def make_filesystem(log: Journal, device: str, kind: str, where: Path) -> None:
    """Format `device` (a scratch device) and mount it on `where`. HostError otherwise."""
    format_device(device, kind)
    log.append("own", what="mount", path=str(where))
    try:
        owned.mount(device, where, kind)
    except OSError as error:
        raise HostError(f"cannot mount {device} as {kind}: {error.strerror}") from error


def format_device(device: str, kind: str) -> None:
    """A new file system on a device of ours, over any old one; HostError when that fails."""
    program = shutil.which(f"mkfs.{kind}", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        raise HostError(f"mkfs.{kind} is not installed", "apt install e2fsprogs xfsprogs")
    command = [program, "-q", *_MKFS_OPTIONS.get(kind, ()), device]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise HostError(f"{program} {device}: {process.stderr.strip()}")
