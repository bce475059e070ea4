"""Text and TOML of a file that a user named: a regular file, of bounded size, or one error."""

from __future__ import annotations

import contextlib
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from schedlab.errors import SpecError, cause_of

SIZE_MAX = 1 << 20


@contextlib.contextmanager
def opened(
    path: str | Path, flags: int = os.O_RDONLY, dir_fd: int | None = None, mode: int = 0o777
) -> Iterator[int]:
    """A descriptor of whatever `path` is, closed at the end and on exec. OSError as is."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_regular(path: Path, hint: str) -> None:
    """SpecError where `path` is there and is no regular file: reading it may never end."""
    if path.exists() and not path.is_file():
        raise SpecError(f"{path}: is not a regular file", hint)


def open_regular(path: Path, hint: str) -> BinaryIO:
    """A regular file for reading; SpecError with `hint`. Never waits for a FIFO or a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise SpecError(f"{path}: {cause_of(error)}", hint) from error
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise SpecError(f"{path}: is not a regular file", hint)


def split_format(text: str, hint: str) -> tuple[Path, str | None]:
    """(file, format) of `FILE[:FORMAT]`; a file of that whole name wins, also one of blktrace,
    which writes a file for each CPU. SpecError with `hint` where there is none.
    """
    whole, (file, colon, name) = Path(text), text.rpartition(":")
    for path, form in ((whole, None), (Path(file), name)) if colon else ((whole, None),):
        check_regular(path, "name a file, as FILE or FILE:FORMAT")
        if path.exists():
            return path, form
    if any(whole.parent.glob(f"{whole.name}.blktrace.*")):
        return whole, None
    raise SpecError(f"{text}: no such file", hint)


def read_bytes(path: Path, hint: str, limit_bytes: int = SIZE_MAX) -> bytes:
    """The content of a regular file of at most `limit_bytes`; SpecError with `hint`."""
    try:
        with open_regular(path, hint) as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", hint) from error
    if len(content) > limit_bytes:
        raise SpecError(f"{path}: is larger than {limit_bytes >> 20} MiB", hint)
    return content


def read_text(path: Path, hint: str, limit_bytes: int = SIZE_MAX) -> str:
    """The text of a regular file of at most `limit_bytes`; SpecError with `hint`."""
    try:
        return read_bytes(path, hint, limit_bytes).decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not text: {error}", hint) from error


def read_toml(path: Path, hint: str) -> tuple[dict[str, object], str]:
    """(table, text) of a TOML file; SpecError with `hint`."""
    text = read_text(path, hint)
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: is not TOML: {error}", hint) from error
    except RecursionError as error:
        raise SpecError(f"{path}: is not TOML: too deep", hint) from error


def dotted(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of a table and of those in it, keys as TOML writes them: `section.key`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
