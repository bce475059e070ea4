"""Pieces of HTML that the page is put together from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from schedlab.report import charts
from schedlab.report.drawing import key
from schedlab.report.tables import Table, TableRow
from schedlab.report.texts import Texts
from schedlab.report.view import View


@dataclass(frozen=True)
class HtmlCell:
    """A cell of a table: its text, or markup that is trusted, and a class; `t` is left-aligned.

    `label` names its column where a narrow screen shows no head; `span` is for several columns.
    """

    text: str = ""
    kind: str = ""
    markup: str = ""
    label: str = ""
    span: int = 1


HtmlRow = list[str | HtmlCell]


def number(text: str) -> HtmlCell:
    """A cell that is aligned to the right."""
    return HtmlCell(text)


def table(
    head: Sequence[str | HtmlCell],
    rows: Iterable[Sequence[str | HtmlCell]],
    caption: str,
    kind: str = "",
) -> str:
    """A table that scrolls inside its own frame; plain text is a cell aligned to the left.

    The first cell of a row is its header. End tags that HTML does not need are omitted: there
    are hundreds of tables on a large page.
    """
    top = "".join(_element("th scope=col", cell) for cell in head)
    body = "".join(
        "<tr>" + _element("th scope=row", row[0]) + "".join(_element("td", c) for c in row[1:])
        for row in rows
    )
    kind = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll" tabindex="0"><table{kind}><caption>{escape(caption)}</caption>'
        f"<thead><tr>{top}</thead><tbody>{body}</tbody></table></div>"
    )


def drawn_table(of: Table, kind: str = "") -> str:
    """A table of the model; where losses are known their intervals are drawn below the words."""
    head: HtmlRow = [
        HtmlCell(c.head, "t" if c.text or _has_notes(of, i) else "")
        for i, c in enumerate(of.columns)
    ]
    notes = "".join(paragraph(note, "note") for note in of.notes)
    stacks = "first-table" in kind  # only its cells show their columns on a narrow screen
    return table(head, (_line(of, row, stacks) for row in of.rows), of.title, kind) + notes


def _has_notes(of: Table, column: int) -> bool:
    return any(row.cells[column].note for row in of.rows)


def _line(of: Table, row: TableRow, stacks: bool) -> HtmlRow:
    """A row: its title, and each value with what is below it."""
    losses = [cell.loss for cell in row.cells if cell.loss]
    reach = charts.loss_reach(losses)
    line: HtmlRow = []
    for i, (column, cell) in enumerate(zip(of.columns, row.cells, strict=True)):
        inside = f'<span class="words">{whole_names(cell.text)}</span>' if cell.text else ""
        if cell.note:
            inside += f'<span class="loss">{escape(cell.note)}</span>'
        if cell.loss:
            inside += charts.loss_cell(cell.loss, reach)
        elif i == 0 and losses:
            inside += charts.loss_axis(reach)
        words = column.text or _has_notes(of, i)
        kinds = [*(["t"] if words and i else []), *([f"v-{cell.tone}"] if cell.tone else [])]
        kinds += ["under"] if row.level else []
        plain = not (cell.note or cell.loss or (i == 0 and losses))
        label = column.title if stacks and i else ""
        line.append(HtmlCell(cell.text, " ".join(kinds), "" if plain else inside, label))
    return line


def _element(tag: str, cell: str | HtmlCell) -> str:
    if isinstance(cell, str):
        cell = HtmlCell(cell, "" if tag.endswith("row") else "t")
    inside = cell.markup or escape(cell.text)
    more = f' data-label="{escape(cell.label)}"' if cell.label else ""
    more += f" colspan={cell.span}" if cell.span > 1 else ""
    if not cell.kind:
        return f"<{tag}{more}>{inside}"
    quote = '"' if " " in cell.kind else ""
    return f"<{tag} class={quote}{cell.kind}{quote}{more}>{inside}"


def figure(title: str, note: str, svg: str, beside: Table | None, texts: Texts) -> str:
    """A chart under its title, with the table of its figures to be opened."""
    small = f"<small>{escape(note)}</small>" if note else ""
    more = details(texts("chart.table"), drawn_table(beside)) if beside else ""
    return f"<figure><figcaption>{escape(title)}{small}</figcaption>{svg}{more}</figure>"


def details(title: str, inside: str) -> str:
    """Something that is opened by its title."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def section(name: str, title: str, inside: str) -> str:
    """A part of the page that the contents lead to."""
    return (
        f'<section id="{name}" aria-labelledby="h-{name}">'
        f'<h2 id="h-{name}">{escape(title)}</h2>{inside}</section>'
    )


def whole_names(text: str) -> str:
    """Text whose hyphenated words, such as `mq-deadline`, are not broken."""
    return re.sub(r"\w+(?:-\w+)+", r'<span class="whole">\g<0></span>', escape(text))


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of text."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def bullets(lines: Iterable[str]) -> str:
    """A list of sentences."""
    return f'<ul class="prose">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def legend(view: View, *, arm: bool = False) -> str:
    """Colour, marker and dash of every candidate, and of the A/A arm where it is drawn."""
    names = [*view.names, *(name for name in view.arms if arm)]
    items = (f"<li>{key(i)}{escape(name)}</li>" for i, name in enumerate(names))
    return f'<ul class="legend">{"".join(items)}</ul>'
