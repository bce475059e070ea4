"""The user's cache: kernels and root images, which can always be made again."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.errors import HostError
from schedlab.nouns.reading import opened

_KEPT = 3  # So many kernels are often compared, and each has a state of its own.


def cache(name: str) -> Path:
    """A directory below $XDG_CACHE_HOME/schedlab (usually ~/.cache/schedlab), made when missing."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(home) / "schedlab" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def require_space(directory: Path, needed_bytes: int, what: str, variable: str) -> None:
    """HostError where a directory, which an environment variable chooses, has too little space."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < needed_bytes:
        raise HostError(
            f"{directory}: {free_bytes >> 20} MiB are free, and {what} needs {needed_bytes >> 20} "
            "MiB there",
            f"free some, or choose another directory: {variable}=DIR schedlab …",
        )


@contextmanager
def held(directory: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a directory as long as this process lives: whether no other holds it."""
    with opened(directory, os.O_RDONLY | os.O_DIRECTORY) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            is_held = True
        except BlockingIOError:
            is_held = False
        yield is_held


def remove_abandoned(directories: Iterable[Path]) -> None:
    """Remove directories that a killed process left: those that nobody holds."""
    for directory in directories:
        if directory.is_dir() and directory.stat().st_uid == os.geteuid():
            with held(directory, wait=False) as is_free:
                if is_free:
                    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def making(place: Path) -> Iterator[None]:
    """Only one process makes something in a directory of the cache; what a killed one left there
    is removed first."""
    with held(place):
        for left in place.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def keep_newest(path: Path) -> None:
    """Remove all but this and what else of its directory was used last."""
    os.utime(path)
    kind = path.parent.glob(f"[!.]*{path.suffix}")
    kept = (each for each in kind if each.suffix == path.suffix)
    for old in sorted(kept, key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
        old.unlink(missing_ok=True)
