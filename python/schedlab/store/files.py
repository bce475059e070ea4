"""Reading and writing files so that neither a kill nor a hostile folder does harm.

With sudo, what is new in a directory of the user who called it is that user's as well. A file is
replaced as a whole or not at all; it is never written through a symbolic link. With `within`, a
path below an untrusted folder is walked step by step. Each step is opened relative to the one
before and never through a link, so that no name leads outside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from schedlab.errors import HostError, SchedlabError, SpecError
from schedlab.nouns.reading import opened

FILE_BYTES_MAX = 256 << 20
DEPTH_MAX = 4
# How archives are unpacked; Python 3.11.2 of Debian 12 has no filters yet.
DATA_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
_MADE = "user.schedlab.made"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def write_atomic(
    path: Path,
    content: str | bytes,
    within: Path | None = None,
    mode: int = 0o644,
    *,
    is_synced: bool = True,
) -> None:
    """Replace `path` by `content`: temporary file in its folder, fsync, rename, fsync the folder.

    `within` is the folder that the user named; directories between it and `path` must be real
    ones. Without `is_synced` a crash of the machine may lose it. SpecError for a link or a path
    outside of it, HostError when the disk does not take it.
    """
    data = content.encode() if isinstance(content, str) else content
    with _directory_of(path, within) as directory, _explained(path, "write"):
        _refuse_link(directory, path)
        temporary = f".{path.name[:200]}.{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            with os.fdopen(handle, "wb") as file:
                _give_to_user(handle, directory)
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)
                if is_synced:
                    os.fsync(file.fileno())
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        if is_synced:
            os.fsync(directory)


def append_line(path: Path, line: str, within: Path | None = None) -> None:
    """Append one line to a file and return only when it is on the disk.

    The rest of a line that a kill cut short is removed first. If the disk does not take the line,
    nothing of it stays. One writer at a time. HostError with the cause.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with _directory_of(path, within) as directory, _explained(path, "append to"):
        handle = _opened_or_made(path.name, flags, directory)
        try:
            end = cut_torn_line(handle)
            data = f"{line}\n".encode()
            try:
                while data:
                    data = data[os.write(handle, data) :]
                os.fsync(handle)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, end)
                raise
            if end == 0:
                os.fsync(directory)
        finally:
            os.close(handle)


def made(path: Path) -> Path:
    """A file that is there, empty where it is new, for a writer that opens it. OSError as is."""
    if not path.exists():
        with opened(path.parent, DIRECTORY) as above:
            os.close(_opened_or_made(path.name, os.O_WRONLY | os.O_CLOEXEC, above))
    return path


def mark_made(path: Path) -> None:
    """Mark a file or directory as one that a measurement made; a file system may have no marks."""
    with contextlib.suppress(OSError):
        os.setxattr(path, _MADE, b"1", follow_symlinks=False)


def is_made_here(path: Path) -> bool:
    """Whether a measurement made it, so that the next one may replace it."""
    try:
        return bool(os.getxattr(path, _MADE, follow_symlinks=False))
    except OSError:
        return False


def cut_torn_line(handle: int) -> int:
    """Cut off an unfinished last line of an open file; its size afterwards. OSError as is."""
    end = whole = os.fstat(handle).st_size
    while whole:
        begin = max(0, whole - 65536)
        chunk = os.pread(handle, whole - begin, begin)
        if b"\n" in chunk:
            whole = begin + chunk.rfind(b"\n") + 1
            break
        whole = begin
    if whole != end:
        os.ftruncate(handle, whole)
        os.fsync(handle)
    return whole


def read_beneath(root: Path, name: str, limit_bytes: int = FILE_BYTES_MAX) -> bytes:
    """The content of a regular file below `root`; no link is followed, nothing waited for.

    OSError when it is not there; SpecError for a path that leads outside or too deep, for links,
    FIFOs and devices, and for more than `limit_bytes`.
    """
    path = root / name
    _parts(name, path)
    with _directory_of(path, root, missing_is_error=False) as directory:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(path.name, flags, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise _odd(path) from error
            raise
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise _odd(path)
            if status.st_size > limit_bytes:
                size = f"it has {status.st_size} bytes, more than {limit_bytes}"
                raise SpecError(f"{path}: {size}", "it does not belong in a result folder")
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(limit_bytes)
        finally:
            os.close(handle)


def make_beneath(root: Path, name: str) -> Path:
    """The directory `name` below `root`, made where it is missing; links are refused."""
    path = root
    for part in _parts(name, root / name):
        path = path / part
        with _directory_of(path, root) as directory, _explained(path, "make"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=directory)
                _give_directory(part, directory)
            status = os.stat(part, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                raise SpecError(f"{path}: is not a directory", f"rm {path}")
    return path


def make_directory(path: Path) -> None:
    """A directory, made with those above it where they are missing. OSError as is."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        with opened(each.parent, DIRECTORY) as above:
            _give_directory(each.name, above)


def _give_directory(name: str, above: int) -> None:
    """A new directory to the user who called sudo, if the one above is that user's."""
    with opened(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above) as handle:
        _give_to_user(handle, above)


def _give_to_user(handle: int, directory: int) -> None:
    """A new, open file to the user who called sudo, if its directory is that user's."""
    uid, gid = (os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID"))
    is_sudo = os.geteuid() == 0 and uid.isdigit() and gid.isdigit()
    if is_sudo and os.fstat(directory).st_uid == int(uid):
        os.fchown(handle, int(uid), int(gid))


def _opened_or_made(name: str, flags: int, directory: int) -> int:
    """A file, made where it is missing."""
    try:
        handle = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
    except FileExistsError:
        return os.open(name, flags, dir_fd=directory)
    _give_to_user(handle, directory)
    return handle


def sync_directory(path: Path) -> None:
    """Make the names inside a directory durable. HostError when the disk does not."""
    with _explained(path, "sync"), opened(path, DIRECTORY) as handle:
        os.fsync(handle)


def _parts(name: str, path: Path) -> tuple[str, ...]:
    """The steps of a relative path; SpecError when it is absolute, goes up or is too deep."""
    parts = PurePath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise SpecError(f"{path}: leads out of the folder", "use a plain file name")
    if len(parts) > DEPTH_MAX:
        raise SpecError(f"{path}: is more than {DEPTH_MAX} levels deep", "use a plain file name")
    return parts


@contextlib.contextmanager
def _directory_of(path: Path, within: Path | None, missing_is_error: bool = True) -> Iterator[int]:
    """A descriptor of the directory that holds `path`, walked without links below `within`."""
    steps: tuple[str, ...] = ()
    start = path.parent
    if within is not None:
        try:
            steps = _parts(str(path.relative_to(within)), path)[:-1]
        except ValueError as error:
            raise SpecError(f"{path}: is not inside {within}") from error
        start = within
    try:
        current = os.open(start, DIRECTORY)
        for step in steps:
            try:
                below = os.open(step, DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise SpecError(
                        f"{path}: {step} is a link or no directory; refusing to follow it",
                        f"rm {within}/{'/'.join(steps)}",
                    ) from error
                raise
            finally:
                os.close(current)
            current = below
    except OSError as error:
        if not missing_is_error:
            raise
        raise _cannot(path, "write", error) from error
    try:
        yield current
    finally:
        os.close(current)


def _refuse_link(directory: int, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise SpecError(
                f"{path}: is a link or no regular file; refusing to write there", f"rm {path}"
            )


def _odd(path: Path) -> SpecError:
    return SpecError(f"{path}: is a link or no regular file; refusing to read it", f"rm {path}")


@contextlib.contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot(path, what, error) from error


def _cannot(path: Path, what: str, error: OSError) -> SchedlabError:
    hints = {
        errno.ENOSPC: f"free space there (df -h {path.parent}), then resume",
        errno.EDQUOT: "free some of your quota, then resume",
        errno.EIO: "the disk failed (dmesg); copy what is there to another one",
        errno.ENOENT: f"{path.parent} was deleted or moved; name another folder",
        errno.EROFS: "the file system is read-only; name another folder",
        errno.ELOOP: f"{path} is a symbolic link; rm {path}",
    }
    hint = hints.get(error.errno or 0, f"ls -ld {path.parent}")
    return HostError(f"cannot {what} {path}: {error.strerror}", hint)
