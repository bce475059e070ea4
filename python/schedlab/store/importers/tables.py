"""Rows of a table as text: a CSV with any of three separators, or a sheet of a workbook."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.store.importers.text import bad, number_at, read_lines

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WORKBOOK = b"PK\x03\x04"
#: What a workbook may take when it is unpacked.
WORKBOOK_BYTES_MAX = 256 << 20
_SPACED = re.compile(r"[+-]?\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?:[.,]\d+)?")
# What one of the two signs can only do: separate thousands (1,234.5 or 1,234,567), or decimals (1,5
# or 12345.678). In 1,234 it may do either.
_GROUPED = r"[+-]?\d{{1,3}}(?:{0}\d{{2,3}})*{0}\d{{3}}"
_THOUSANDS = {s: re.compile(f"{_GROUPED}{o}\\d+|{_GROUPED.replace('*', '+')}".format(s))
              for s, o in ((",", r"\."), (r"\.", ","))}  # fmt: skip
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}")
_DECIMAL = re.compile(r"[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?")
_WITH_UNIT = re.compile(
    r"([+-]?\d(?:[\d.,'’ \u00a0\u202f]*\d)?(?:[eE][+-]?\d+)?)\s*(?![eE][+-]?\d+$)([^\W\d_].*|%)"
)
SEMICOLONS = "fields are separated by semicolons"


class Decimals:
    """Reads the figures of one file: with decimal points or with decimal commas, never both.

    Made from (place, figure) of all of them: a sign that separates thousands in one does so in all.
    `notes` are of the file, and get what was assumed. SpecError where the file has both, and where
    every comma may as well separate thousands.
    """

    def __init__(self, figures: Iterable[tuple[str, str]], notes: dict[str, None]) -> None:
        signs: dict[str, str] = {}
        open_: dict[str, tuple[str, str]] = {}
        for place, text in ((place, _unspaced(text)) for place, text in figures):
            if _EITHER.fullmatch(text):
                open_.setdefault("," if "," in text else ".", (place, text))
            elif sign := _sign(text):
                signs.setdefault(sign, text)
            if len(signs) > 1:
                both, hint = " and ".join(signs.values()), "write all figures in one way"
                raise bad(place, "either decimal points or decimal commas", both, hint)
        # Who separates fields by semicolons does so because commas are in the figures.
        if "," in open_ and not signs and (SEMICOLONS not in notes or "." in open_):
            hint = "save the file without separators of thousands, or with decimal points"
            raise bad(open_[","][0], "decimals, or thousands", open_[","][1], hint)
        self._sign = next(iter(signs), "," if "," in open_ else ".")
        if "." in open_ and not signs and SEMICOLONS in notes:
            notes[f"{open_['.'][1]} was read with a decimal point, not as thousands"] = None
        if self._sign == ",":
            text = signs.get(",") or open_[","][1]
            plain = self.plain(text)
            notes[f"decimals are separated by commas: {text} was read as {plain}"] = None

    def number(self, place: str, what: str, text: str) -> float:
        """A finite number; SpecError for none."""
        return number_at(place, what, self.plain(text))

    def plain(self, text: str) -> str:
        """A figure with a decimal point at most, and no sign between thousands."""
        other = "," if self._sign == "." else "."
        plain = _unspaced(text)
        if re.fullmatch(
            _GROUPED.format(re.escape(other)) + rf"(?:{re.escape(self._sign)}\d+)?", plain
        ):
            plain = plain.replace(other, "")
        return plain if other in plain else plain.replace(",", ".")


def _sign(text: str) -> str:
    """The sign before the decimals of a file with this figure; empty where it does not show."""
    if _THOUSANDS[","].fullmatch(text):
        return "."
    if _THOUSANDS[r"\."].fullmatch(text):
        return ","
    match = _DECIMAL.fullmatch(text)
    return match[1] if match else ""


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
    return 0.0 if "e" in text.lower() else 10.0 ** -len(text.partition(".")[2])


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
            # In a tie (one column) it is the comma, the first.
            separator = max(_SEPARATORS, key=lambda each: _count(place, line, each))
            if separator != ",":
                notes[f"fields are separated by {_SEPARATORS[separator]}"] = None
        yield place, _fields(place, line, separator)


def _count(place: str, line: str, separator: str) -> int:
    """How many fields a line has; 0 where it cannot be separated so."""
    try:
        return len(_fields(place, line, separator))
    except SpecError:
        return 0


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
