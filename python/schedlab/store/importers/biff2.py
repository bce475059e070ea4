"""Cells of a BIFF2 (Excel 2.1) file, which is what IOzone's `-b` writes."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from schedlab.nouns.reading import read_bytes
from schedlab.store.importers.text import WHOLE_HINT, bad

BYTES_MAX = 64 << 20
_BOF, _INTEGER, _NUMBER, _LABEL, _EOF = 0x0009, 0x0002, 0x0003, 0x0004, 0x000A
_ATTRIBUTES = 3

Cells = dict[int, dict[int, float | str]]


def cells(path: Path) -> Cells:
    """Values by row and column; SpecError naming the byte where the file is none."""
    data = read_bytes(path, WHOLE_HINT, BYTES_MAX)
    rows: Cells = {}
    at, ended = 0, False
    while at < len(data) and not ended:
        place = f"{path}, byte {at}"
        if at + 4 > len(data):
            raise bad(place, "a record of type and length", f"{len(data) - at} bytes")
        kind, length = struct.unpack_from("<HH", data, at)
        body = data[at + 4 : at + 4 + length]
        if at == 0 and (kind != _BOF or length != 4):
            raise bad(place, "a BIFF2 file (BOF 0x0009 of length 4)", data[:8].hex(" "))
        if len(body) < length:
            raise bad(place, f"a record of {length} bytes", f"{len(body)} bytes")
        ended = kind == _EOF
        if kind in (_INTEGER, _NUMBER, _LABEL):
            row, column, value = _cell(place, kind, body)
            rows.setdefault(row, {})[column] = value
        at += 4 + length
    if not ended:
        raise bad(f"{path}, byte {at}", "the end-of-file record 0x000A", "the end of the file")
    return rows


def _cell(place: str, kind: int, body: bytes) -> tuple[int, int, float | str]:
    needed = 4 + _ATTRIBUTES + {_INTEGER: 2, _NUMBER: 8, _LABEL: 1}[kind]
    if len(body) < needed:
        raise bad(place, f"a cell of at least {needed} bytes", f"{len(body)} bytes")
    row, column = struct.unpack_from("<HH", body)
    content = body[4 + _ATTRIBUTES :]
    if kind == _INTEGER:
        return row, column, float(struct.unpack_from("<H", content)[0])
    if kind == _NUMBER:
        value = float(struct.unpack_from("<d", content)[0])
        if not math.isfinite(value):
            raise bad(place, "a finite number", str(value))
        return row, column, value
    text = content[1 : 1 + content[0]]
    if len(text) < content[0]:
        raise bad(place, f"a label of {content[0]} bytes", f"{len(text)} bytes")
    return row, column, text.decode("latin-1")
