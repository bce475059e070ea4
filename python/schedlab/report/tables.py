"""The one model of a table: columns with units, rows, notes.

Terminal, page, Markdown, workbook, CSV and JSON render what is built here, so that a column is
added in one place. Numbers are kept in the unit of their column; the scale is chosen once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from schedlab.report.texts import Texts, UnitScale

Tone = Literal["", "best", "behind", "soft"]
Chart = Literal["", "dots", "lines"]


@dataclass(frozen=True)
class LossRange:
    """How far behind the best, as logs: what is drawn beside a figure. `None`: an open end."""

    point: float
    low: float
    up: float | None


@dataclass(frozen=True)
class Column:
    """A title and the unit of its numbers; columns of one unit share a scale.

    `digits` are significant ones; `decimals`, where given, replace them. A column of `text`
    has words. A `half` is the half-width of the interval of the column before it; a column that is
    `beside` one says the same in another way, and is not drawn.
    """

    title: str
    unit: str = ""
    text: bool = False
    digits: int = 3
    decimals: int | None = None
    half: bool = False
    beside: bool = False
    scale: UnitScale = field(default_factory=lambda: UnitScale(1.0, ""))

    @property
    def head(self) -> str:
        """The title with its unit."""
        return f"{self.title}, {self.scale.unit}" if self.scale.unit else self.title


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, and the number behind it in the unit of its column.

    `note` is a second line, such as the loss below a value, with its `tone`; `loss` is drawn;
    `link` leads to a page. `unit` is that of the number where the column has none, because its
    rows have several.
    """

    text: str = ""
    number: float | None = None
    note: str = ""
    tone: Tone = ""
    loss: LossRange | None = None
    unit: str = ""
    link: str = ""

    @property
    def line(self) -> str:
        """Both lines as one."""
        return "; ".join(filter(None, (self.text, self.note)))


@dataclass(frozen=True)
class TableRow:
    """Cells, one for each column; `level` indents what belongs to the row above, in grey."""

    cells: tuple[TableCell, ...]
    level: int = 0


@dataclass(frozen=True)
class Table:
    """A table under its title; `notes` are sentences below it.

    `name` is the same in every language. `chart` draws its numbers over its first column,
    which is of sizes where it is drawn as `lines`.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    chart: Chart = ""

    @property
    def drawn(self) -> list[int]:
        """The columns of numbers that a chart of it draws."""
        columns = enumerate(self.columns)
        return [i for i, column in columns if i and not (column.half or column.beside)]

    def half_of(self, column: int) -> int | None:
        """The column with the half-widths of one that is drawn."""
        following = range(column + 1, len(self.columns))
        at = next((i for i in following if not self.columns[i].beside), None)
        return at if at is not None and self.columns[at].half else None

    def as_json(self) -> dict[str, Any]:
        """As plain JSON types: numbers in the unit of their column, without a scale."""
        columns = [{"title": c.title, "unit": c.unit} for c in self.columns]
        rows = [[_plain(cell) for cell in row.cells] for row in self.rows]
        about = {"name": self.name, "title": self.title}
        return {**about, "columns": columns, "rows": rows, "notes": list(self.notes)}


def _plain(cell: TableCell) -> Any:
    return cell.line if cell.number is None or cell.note else cell.number


def build(
    texts: Texts,
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str] = (),
    chart: Chart = "",
) -> Table:
    """A table of raw values: text, numbers in the unit of their column, cells, or `None`."""
    scales = _scales(texts, columns, rows)
    scaled = tuple(
        c if c.text else replace(c, scale=scales.get(c.unit, UnitScale(1.0, c.unit)))
        for c in columns
    )
    shown = tuple(
        TableRow(tuple(_cell(texts, c, value) for c, value in zip(scaled, row, strict=True)))
        for row in rows
    )
    return Table(name, title, scaled, shown, tuple(filter(None, notes)), chart)


def _scales(
    texts: Texts, columns: Sequence[Column], rows: Sequence[Sequence[Any]]
) -> Mapping[str, UnitScale]:
    """One scale for all columns of a unit."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            number = value.number if isinstance(value, TableCell) else value
            if not column.text and isinstance(number, int | float):
                values.setdefault(column.unit, []).append(float(number))
    return {unit: texts.scale(known, unit) for unit, known in values.items()}


def _cell(texts: Texts, column: Column, value: Any) -> TableCell:
    if isinstance(value, TableCell):
        return value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return TableCell(texts("verdict.none"))
    if isinstance(value, str):
        return TableCell(value)
    return TableCell(figure(texts, column, value), float(value))


def figure(texts: Texts, column: Column, value: float) -> str:
    """A number as the column shows it, without its unit."""
    scaled = value / column.scale.factor
    if column.decimals is not None:
        return texts.number(scaled, column.decimals)
    if isinstance(value, int) and column.scale.factor == 1:
        return texts.number(scaled, 0)
    return texts.figure(scaled, column.digits)
