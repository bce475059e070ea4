"""Reading foreign text in bounded memory, with a place (file and line) for every complaint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.spec.reading import open_regular, read_bytes

LINE_BYTES_MAX = 1 << 20
UTF_16_BYTES_MAX = 64 << 20
# Of a format that is read as a whole.
WHOLE_HINT = "name the result file itself, or split it"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ENCODING_HINT = "is it in another encoding? iconv -f windows-1252 -t utf-8 FILE > NEW"


def bad(place: str, expected: str, actual: object, hint: str = "") -> SpecError:
    """The one form of these errors: place, expected text, actual text."""
    shown = actual if isinstance(actual, str) else repr(actual)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return SpecError(f"{place}: expected {expected}, found {shown!r}", hint or "fix it there")


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(place, line without its end) of a text file: UTF-8, or UTF-16 with its mark.

    SpecError when it cannot be read, is no text, or has a line above 1 MiB.
    """
    try:
        with open_regular(path, "name a readable file") as file:
            if file.read(2) in _UTF_16:
                text = decoded(str(path), read_bytes(path, WHOLE_HINT, UTF_16_BYTES_MAX))
                for number, line in enumerate(text.splitlines(), 1):
                    yield f"{path}, line {number}", line
                return
            file.seek(0)
            number = 0
            while raw := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                yield f"{path}, line {number}", _decoded(path, number, raw)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", "name a readable file") from error


def decoded(place: str, data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 with its mark, as PowerShell and Excel write it; SpecError."""
    encoding = "utf-16" if data[:2] in _UTF_16 else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte {data[error.start]:#04x}"
        raise bad(f"{place}, byte {error.start}", "UTF-8 text", byte, _ENCODING_HINT) from None


def number_at(place: str, what: str, text: str) -> float:
    """A finite number; SpecError with the place otherwise."""
    try:
        value = float(text)
    except ValueError:
        raise bad(place, f"a number as {what}", text) from None
    if not math.isfinite(value) or "_" in text:
        raise bad(place, f"a finite number as {what}", text)
    return value


def _decoded(path: Path, number: int, raw: bytes) -> str:
    place = f"{path}, line {number}"
    if len(raw) > LINE_BYTES_MAX:
        raise SpecError(f"{place}: is longer than 1 MiB", "it is not a text file of that format")
    if b"\0" in raw:
        raise bad(place, "text", "a NUL byte", "this is a binary file")
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {raw[error.start]:#04x}"
        raise bad(place, "UTF-8 text", byte, _ENCODING_HINT) from None
    return text.rstrip("\r\n")
