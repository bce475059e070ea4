"""A line of a state file: one JSON object that ends with a checksum of itself.

The checksum detects a line that was cut short, or damaged in a digit. The line stays plain
JSON, so that `jq` and people can read it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_TAIL = re.compile(rb', "crc": "([0-9a-f]{8})"\}$')


def encode(record: Mapping[str, Any]) -> str:
    """`record` as one line with its CRC-32 as the last key, without the newline."""
    text = json.dumps(record)
    if text == "{}":
        raise ValueError("an empty record")
    return f'{text[:-1]}, "crc": "{zlib.crc32(text.encode()):08x}"}}'


def decode(line: bytes) -> dict[str, Any]:
    """The record of a line without its checksum; ValueError with the reason."""
    tail = _TAIL.search(line)
    if tail is None:
        raise ValueError("it has no checksum at its end")
    text = line[: tail.start()] + b"}"
    if zlib.crc32(text) != int(tail[1], 16):
        raise ValueError("its checksum is wrong")
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")
    return record


def seal(text: str) -> str:
    """A text file whose last line, a comment, is the checksum of the text above it."""
    body = text if text.endswith("\n") else text + "\n"
    return f"{body}# crc32 {zlib.crc32(body.encode()):08x}\n"


def unseal(data: bytes) -> bytes:
    """The text above the last line of a sealed file; ValueError if that line does not match."""
    body, _, last = data.removesuffix(b"\n").rpartition(b"\n")
    body += b"\n"
    if not re.fullmatch(rb"# crc32 [0-9a-f]{8}", last) or not data.endswith(b"\n"):
        raise ValueError("its last line is not a checksum: the file is cut short")
    if int(last[-8:], 16) != zlib.crc32(body):
        raise ValueError("it was changed or damaged: the checksum in its last line is wrong")
    return body
