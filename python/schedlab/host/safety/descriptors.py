"""Descriptors 0, 1 and 2 are those of standard input, output and errors, also where a daemon or a
job runner has closed them: a pipe, journal or lock that gets such a number is lost as soon as a
program is started, which opens them itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys
from pathlib import Path

FIRST = 3


def above_standard(descriptor: int) -> int:
    """The same open file under a number from 3 on, closed on exec; a lower one is closed."""
    if descriptor >= FIRST:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST)
    finally:
        os.close(descriptor)


def pipe() -> tuple[int, int]:
    """A pipe: its end for reading, its end for writing."""
    reading, writing = os.pipe()
    return above_standard(reading), above_standard(writing)


def open_standard() -> None:
    """Open what is closed of standard input, output and errors on /dev/null.

    Characters that the encoding of an output lacks, as in names of files, are written out.
    """
    for descriptor in range(FIRST):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            os.set_inheritable(descriptor, True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # so Python starts where the descriptor is closed
            with contextlib.suppress(OSError):
                setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
