"""Rows of a table as text: a CSV with any of three separators, or a sheet of a workbook."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.store.importers.text import bad, number_at, read_lines

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_WORKBOOK = b"PK\x03\x04"
#: What a workbook may take when it is unpacked.
WORKBOOK_BYTES_MAX = 256 << 20
_COMMA = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+(?:[eE][+-]?\d+)?")
# Commas of thousands before a decimal point, and other signs between thousands.
_POINTED = re.compile(r"-?\d{1,3}(?:,\d{3})+\.\d+")
_SPACED = re.compile(r"-?\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?:[.,]\d+)?")
_WITH_UNIT = re.compile(r"(-?\d(?:[\d.,'’ \u00a0\u202f]*\d)?(?:[eE][+-]?\d+)?)\s*([^\W\d_].*|%)")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+")
SEMICOLONS = "fields are separated by semicolons"


class Decimals:
    """Reads the figures of one file: with decimal points or with decimal commas, never both."""

    def __init__(self) -> None:
        self._example: dict[str, str] = {}
        self._has_decimals = False
        self._thousands: tuple[str, str] | None = None
        self._points_in_thousands = False

    @property
    def note(self) -> str:
        """The assumptions, if any."""
        text = self._example.get(",")
        return (
            f"decimals are separated by commas: {text} was read as {pointed(text)}" if text else ""
        )

    def number(self, place: str, what: str, text: str) -> float:
        """A finite number; SpecError for none, and where the file has decimal points and commas."""
        self._points_in_thousands |= bool(_POINTED.fullmatch(text))
        text = self.plain(text)
        comma = bool(_COMMA.fullmatch(text))
        value = number_at(place, what, pointed(text))
        if comma or "." in text:
            self._example.setdefault("," if comma else ".", text)
        if len(self._example) > 1:
            both = " and ".join(self._example.values())
            raise bad(place, "either decimal points or decimal commas", both)
        if _THOUSANDS.fullmatch(text):
            self._thousands = self._thousands or (place, text)
        elif comma:
            self._has_decimals = True
        return value

    def plain(self, text: str) -> str:
        """A figure without signs between thousands, where it is known which they are."""
        text = _unspaced(text)
        is_known = self._points_in_thousands and _THOUSANDS.fullmatch(text)
        return text.replace(",", "") if is_known or _POINTED.fullmatch(text) else text

    def check(self, notes: Collection[str]) -> None:
        """SpecError where every comma may as well separate thousands; `notes` are of the file."""
        # Who separates fields by semicolons does so because commas are in the figures.
        if self._thousands and not self._has_decimals and SEMICOLONS not in notes:
            hint = "save the file without separators of thousands, or with decimal points"
            raise bad(self._thousands[0], "decimals, or thousands", self._thousands[1], hint)


def pointed(text: str) -> str:
    """A figure with decimal commas, or with signs between thousands, as one with a point only; all
    else as it is.
    """
    text = _unspaced(text)
    if _POINTED.fullmatch(text):
        return text.replace(",", "")
    return text.replace(".", "").replace(",", ".") if _COMMA.fullmatch(text) else text


def _unspaced(text: str) -> str:
    return re.sub(r"[ \u00a0\u202f'’]", "", text) if _SPACED.fullmatch(text) else text


def split_unit(text: str) -> tuple[str, str]:
    """(figure, unit) of a cell such as `101.5 MB/s`; the unit is empty where the cell has none."""
    match = _WITH_UNIT.fullmatch(text)
    return (match[1], match[2].strip()) if match else (text, "")


def last_digit(text: str) -> float:
    """The value of one unit of the last digit of a figure: 0.01 of `1.25`; 0 where it has an
    exponent.
    """
    plain = pointed(text).replace(",", "")
    return 0.0 if "e" in plain.lower() else 10.0 ** -len(plain.partition(".")[2])


def table(path: Path, sheet: str, notes: dict[str, None]) -> Iterator[tuple[str, list[str]]]:
    """(place, cells) of every row that is not blank, the header first; SpecError with the place."""
    try:
        with path.open("rb") as file:
            workbook = path.is_file() and file.read(4) == _WORKBOOK
    except OSError:
        workbook = False  # read_lines says what is wrong
    if workbook:
        return _sheet(path, sheet, notes)
    if sheet:
        raise SpecError(f"{path}: is not a workbook (.xlsx)", "omit --sheet")
    return _csv(path, notes)


def _csv(path: Path, notes: dict[str, None]) -> Iterator[tuple[str, list[str]]]:
    separator = ""
    for place, line in read_lines(path):
        if not separator and re.fullmatch(r"sep=.", line, re.IGNORECASE):
            continue  # Excel's own line about it; the header shows it too
        if not line.strip():
            continue
        if not separator:
            fields = {each: _fields(place, line, each) for each in _SEPARATORS}
            # In a tie (one column) it is the comma, the first.
            separator = max(fields, key=lambda each: len(fields[each]))
            if separator != ",":
                notes[f"fields are separated by {_SEPARATORS[separator]}"] = None
        yield place, _fields(place, line, separator)


def _fields(place: str, line: str, separator: str) -> list[str]:
    # A tab is white space too: it would be skipped with what is before a field.
    spaced = separator != "\t"
    try:
        parsed = list(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=spaced))
    except csv.Error as error:
        kind = _SEPARATORS[separator].removesuffix("s")
        raise bad(place, f"{kind}-separated fields", line, str(error)) from None
    return [text.strip() for text in parsed[0]] if parsed else []


def _sheet(path: Path, name: str, notes: dict[str, None]) -> Iterator[tuple[str, list[str]]]:
    """The rows of a sheet, as they were computed when the workbook was saved."""
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(each.file_size for each in packed.infolist())
        if size > WORKBOOK_BYTES_MAX:
            limit = f"{WORKBOOK_BYTES_MAX >> 20} MiB"
            raise SpecError(f"{path}: is larger than {limit} when unpacked", "save it as CSV")
        book = load_workbook(path, read_only=True, data_only=True)
        sheets = {each.title: each for each in book.worksheets}
        if name and name not in sheets:
            raise SpecError(f"{path}: has no sheet {name!r}", f"sheets: {', '.join(sheets)}")
        title = name or next(iter(sheets))
        if len(sheets) > 1 and not name:
            notes[f"sheet {title!r} was read, the first of {len(sheets)} (--sheet NAME)"] = None
        for number, row in enumerate(sheets[title].iter_rows(values_only=True), 1):
            cells = [_text(cell) for cell in row]
            if any(cells):
                yield f"{path}, sheet {title!r}, row {number}", cells
    except SpecError:
        raise
    except Exception as error:  # a library that reads a stranger's file raises any
        hint = "open it and save it again, or save it as CSV"
        raise SpecError(f"{path}: is not a workbook (.xlsx): {error!r:.80}", hint) from error


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return repr(cell) if isinstance(cell, float) else str(cell).strip()
