"""Copies into a directory that a program may change, also while they are made.

No link is followed there: what is in the way is removed, and each file and directory is made anew
below one that is held open.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from schedlab.nouns.reading import open_regular, opened
from schedlab.store.files import DIRECTORY


def copy_into(directory: Path, source: Path, owner: Sequence[int] = ()) -> None:
    """Replace what is called like `source` by a copy of it, with modes and times of all below.

    `owner` is (user id, group id). SpecError for a FIFO or a device, OSError as is.
    """
    with opened(directory, DIRECTORY | os.O_NOFOLLOW) as above:
        try:
            os.unlink(source.name, dir_fd=above)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            shutil.rmtree(source.name, dir_fd=above)
        _copy(source, above, owner)


def _copy(source: Path, above: int, owner: Sequence[int]) -> None:
    name, status = source.name, source.lstat()
    if stat.S_ISLNK(status.st_mode):
        os.symlink(source.readlink(), name, dir_fd=above)
        if owner:
            os.chown(name, *owner, dir_fd=above, follow_symlinks=False)
    elif stat.S_ISDIR(status.st_mode):
        os.mkdir(name, 0o700, dir_fd=above)
        with opened(name, DIRECTORY | os.O_NOFOLLOW, above) as copy:
            for each in source.iterdir():
                _copy(each, copy, owner)
            _finish(copy, status, owner)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with (
            open_regular(source, "copy in files, directories and links") as file,
            opened(name, flags, above, 0o600) as copy,
        ):
            with os.fdopen(copy, "wb", closefd=False) as into:
                shutil.copyfileobj(file, into, 1 << 20)
            _finish(copy, status, owner)


def _finish(copy: int, status: os.stat_result, owner: Sequence[int]) -> None:
    if owner:
        os.fchown(copy, *owner)
    os.fchmod(copy, stat.S_IMODE(status.st_mode))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
