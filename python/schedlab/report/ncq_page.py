"""The page of the NCQ study: charts with tables, paper and model side by side, what fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.report import charts, frame, markup
from schedlab.report.tables import from_mappings
from schedlab.report.texts import Texts

TEXTS = Texts("en")
Rows = Sequence[Mapping[str, Any]]


def line_chart(rows: Rows, x: str, y: str, by: str, log: bool = False) -> str:
    """SVG of one line per value of `by`, named at its end; `log`: the x axis is logarithmic.

    The y axis is logarithmic where the values differ more than twofold.
    """
    names = list(dict.fromkeys(str(row[by]) for row in rows))
    lines = [
        charts.ChartLine(
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
    return markup.figure(title, note, svg, from_mappings(TEXTS, title, title, rows), TEXTS)


def table(rows: Rows, caption: str) -> str:
    """The rows as a table; numbers with three digits, nothing where a value is None."""
    return markup.drawn_table(from_mappings(TEXTS, caption, caption, rows))


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
    medium = TEXTS("medium.simulated")
    lines = [
        TEXTS("ncq.reproduced", count=good, all=len(judged)),
        TEXTS("ncq.not_reproduced", count=len(cannot)),
    ]
    page = frame.Page(
        headline=[TEXTS("answer.medium", medium=medium, sentence=lines[0]), lines[1]],
        kicker=TEXTS("ncq.kicker"),
        lead=[basis],
        first=table(statements, TEXTS("ncq.statements")),
        sections=[
            ("cannot", TEXTS("ncq.cannot"), markup.bullets(cannot)),
            ("figures", TEXTS("section.figures"), f'<div class="panels">{"".join(figures)}</div>'),
        ],
    )
    frame.write(page, TEXTS, path)
