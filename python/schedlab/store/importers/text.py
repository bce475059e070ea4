"""Reading foreign text in bounded memory, with a place (file and line) for every complaint."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from schedlab.errors import SpecError
from schedlab.nouns.foreign import QUOTED
from schedlab.nouns.reading import open_regular, read_bytes

LINE_BYTES_MAX = 1 << 20
UTF_16_BYTES_MAX = 64 << 20
# Of a format that is read as a whole.
WHOLE_HINT = "name the result file itself, or split it"
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml [^>]*>\s*)?<(?:!doctype html|html)\b", re.IGNORECASE
)
_HTML_HINT = "save its text instead, for example: lynx -dump FILE > NEW"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# What files are in that are not UTF-8, of the languages that our texts are in and their neighbours.
_ENCODINGS = ("CP949", "CP1251", "windows-1252")
_WORD_BYTES_MAX = 24


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
            start = file.read(1 << 10)
            if _HTML.match(start):
                raise bad(f"{path}, line 1", "text", "a page in HTML", _HTML_HINT)
            if start[:2] in _UTF_16:
                text = decoded(str(path), read_bytes(path, WHOLE_HINT, UTF_16_BYTES_MAX))
                for number, line in enumerate(text.splitlines(), 1):
                    yield f"{path}, line {number}", line
                return
            file.seek(0)
            number = 0
            while raw := file.readline(LINE_BYTES_MAX + 1):
                # Progress bars, and what old spreadsheets save, have lines that end with \\r.
                for each in (
                    raw.rstrip(b"\r\n").split(b"\r") if len(raw) <= LINE_BYTES_MAX else [raw]
                ):
                    number += 1
                    yield f"{path}, line {number}", _decoded(path, number, each)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", "name a readable file") from error


def unquoted_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The same without the `>` that a mail puts before what it quotes."""
    return ((place, QUOTED.sub("", line)) for place, line in read_lines(path))


def decoded(place: str, data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 with its mark, as PowerShell and Excel write it; SpecError."""
    encoding = "utf-16" if data[:2] in _UTF_16 else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte {data[error.start]:#04x}"
        hint = _encoding_hint(data, error.start)
        raise bad(f"{place}, byte {error.start}", "UTF-8 text", byte, hint) from None


def _encoding_hint(data: bytes, at: int) -> str:
    """How the word at that byte reads in each encoding that it may be in: the reader knows which
    one is right.
    """
    first = max(at - _WORD_BYTES_MAX, 0)
    before = re.search(rb"[\w\x80-\xff]*\Z", data[first:at], re.ASCII)
    start = at - len(before[0]) if before else at
    after = re.match(rb"[\w\x80-\xff]+", data[start : at + _WORD_BYTES_MAX], re.ASCII)
    word = after[0] if after else data[at : at + 1]
    shown = []
    for encoding in _ENCODINGS:
        try:
            text = word.decode(encoding)
        except UnicodeDecodeError:
            continue
        if text.isprintable():
            shown.append(f"{text!r} in {encoding}")
    if not shown:
        return "convert it: iconv -f ENCODING -t utf-8 FILE > NEW"
    name = "ENCODING" if len(shown) > 1 else shown[0].rpartition(" ")[2]
    return f"convert it: iconv -f {name} -t utf-8 FILE > NEW; the word is {', '.join(shown)}"


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
        name = "LE" if raw[1:2] == b"\0" else "BE"
        convert = f"convert it: iconv -f UTF-16{name} -t utf-8 FILE > NEW"
        is_wide = raw.count(b"\0") * 2 >= len(raw) - 1
        raise bad(place, "text", "a NUL byte", convert if is_wide else "this is a binary file")
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {raw[error.start]:#04x}"
        raise bad(place, "UTF-8 text", byte, _encoding_hint(raw, error.start)) from None
    return text.rstrip("\r\n")
