"""The page of the NCQ study: charts with tables, paper and model side by side, what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import charts, frame, markup
from schedlab.report.texts import Texts

TEXTS = Texts("en")
Rows = Sequence[Mapping[str, Any]]


def line_chart(rows: Rows, x: str, y: str, by: str, log: bool = False) -> str:
    """SVG of one line per value of `by`, named at its end; `log`: the x axis is logarithmic.

    The y axis is logarithmic where the values differ more than twofold.
    """
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    lines = [
        charts.Line(
            i, [(float(row[x]), float(row[y])) for row in rows if str(row[by]) == name], name=name
        )
        for i, name in enumerate(names)
    ]
    values = sorted({float(row[x]) for row in rows})
    ticks = [(value, f"{value:g}") for value in values]
    chart = charts.Chart(lines, x, y, log_x=log, ticks_x=ticks)
    return charts.line_chart(chart, TEXTS, f"{y} over {x}")


def dot_chart(rows: Rows, group: str, y: str, by: str) -> str:
    """SVG of values in groups; where a row has `paper`, a black tick marks it."""
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    groups: dict[str, list[charts.Dot]] = {}
    for row in rows:
        name = str(row[by])
        dot = charts.Dot(names.index(name), name, float(row[y]), reference=row.get("paper"))
        groups.setdefault(str(row[group]), []).append(dot)
    return charts.dots(list(groups.items()), TEXTS, f"{y} by {group}", y)


def figure(title: str, note: str, svg: str, rows: Rows) -> str:
    """A chart with its sentence, and the same numbers as a table."""
    return markup.figure(title, note, svg, table(rows, title), TEXTS)


def table(rows: Rows, caption: str) -> str:
    """The rows as a table; numbers with three digits, nothing where a value is None."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    right = {n for n in names if all(isinstance(r.get(n), float | int | None) for r in rows)}
    head = [markup.Cell(name) if name in right else name for name in names]
    body = [
        [_cell(row.get(name), name in right and i > 0) for i, name in enumerate(names)]
        for row in rows
    ]
    return markup.table(head, body, caption)


def _cell(value: Any, right: bool) -> str | markup.Cell:
    shown = "" if value is None else str(value)
    if isinstance(value, float):
        shown = TEXTS.figure(value)
    return markup.number(shown) if right else shown


def write_study(
    path: Path, statements: Rows, cannot: Sequence[str], figures: Rows, basis: str
) -> None:
    """The page of figures given as `kind`, `rows`, `x`, `y`, `by`, `log`, `title` and `note`."""
    drawn = []
    for each in figures:
        if each["kind"] == "bar":
            svg = dot_chart(each["rows"], each["x"], each["y"], each["by"])
        else:
            svg = line_chart(each["rows"], each["x"], each["y"], each["by"], each["log"])
        drawn.append(figure(each["title"], each["note"], svg, each["rows"]))
    write_page(path, statements, cannot, drawn, basis)


def write_page(
    path: Path, statements: Rows, cannot: Sequence[str], figures: Sequence[str], basis: str
) -> None:
    """The whole self-contained page."""
    judged = [row for row in statements if row.get("comes out") in ("yes", "no")]
    good = sum(row["comes out"] == "yes" for row in judged)
    title = "Paper and model side by side"
    page = frame.Page(
        headline=[
            f"Simulated: {good} of {len(judged)} statements of the paper are reproduced.",
            f"{len(cannot)} are not.",
        ],
        kicker="NCQ policies on an SSD",
        lead=[basis],
        first=table(statements, title),
        sections=[
            ("cannot", "Not reproduced", markup.bullets(cannot)),
            ("figures", "Figures", f'<div class="panels">{"".join(figures)}</div>'),
        ],
    )
    frame.write(page, TEXTS, path)
