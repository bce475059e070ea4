"""Loop devices of a test, which are gone after it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedlab.host.safety import owned

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not owned.LOOP_CONTROL.exists(), reason="needs root and loop devices"
)
WALL_S = 90.0  # how long programs of other tests may run


@contextmanager
def attached(backing: Path, seen_as: str | None = None) -> Iterator[str]:
    """A loop device on a file; the kernel may call it by another path."""
    index = next(number for number in range(64, 4096) if owned.add_loop(number))
    try:
        owned.attach_loop(index, backing)
        yield f"/dev/loop{index}"
    finally:
        _remove(index, seen_as or str(backing))


@contextmanager
def loop_device(backing: Path, size_bytes: int = 16 << 20) -> Iterator[str]:
    """A loop device on a new file of zeros."""
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    with attached(backing) as device:
        yield device


def _remove(index: int, backing: str) -> None:
    """Remove it; a file system on it stays mounted for programs in a wall until they end."""
    deadline = time.monotonic() + WALL_S
    while True:
        try:
            owned.remove_loop(index, backing)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
