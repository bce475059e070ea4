"""Pieces of HTML that the page is put together from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from schedlab.report import charts
from schedlab.report.drawing import key
from schedlab.report.tables import Table, TableRow
from schedlab.report.texts import Texts
from schedlab.report.view import View


def drawn_table(of: Table, kind: str = "") -> str:
    """A table of the model that scrolls inside its own frame; the first cell of a row is its
    header, and where losses are known their intervals are drawn below the words.

    End tags that HTML does not need are omitted: there are hundreds of tables on a large page.
    """
    wordy = [c.text or any(row.cells[i].note for row in of.rows) for i, c in enumerate(of.columns)]
    pairs = zip(of.columns, wordy, strict=True)
    head = "".join(
        _element("th scope=col", escape(c.head), ["t"] * is_text) for c, is_text in pairs
    )
    stacks = "first-table" in kind  # only its cells show their columns on a narrow screen
    body = "".join("<tr>" + _line(of, row, wordy, stacks) for row in of.rows)
    kind = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll" tabindex="0"><table{kind}><caption>{escape(of.title)}</caption>'
        f"<thead><tr>{head}</thead><tbody>{body}</tbody></table></div>"
    ) + "".join(paragraph(note, "note") for note in of.notes)


def _line(of: Table, row: TableRow, wordy: Sequence[bool], stacks: bool) -> str:
    """A row: its title, and each value with what is below it."""
    losses = [cell.loss for cell in row.cells if cell.loss]
    reach = charts.loss_reach(losses)
    line = []
    for i, (column, cell) in enumerate(zip(of.columns, row.cells, strict=True)):
        inside = escape(cell.text)
        if cell.note or cell.loss or (i == 0 and losses):
            inside = f'<span class="words">{whole_names(cell.text)}</span>' if cell.text else ""
        if cell.link:
            inside = f'<a href="{escape(cell.link)}">{inside}</a>'
        if cell.note:
            inside += f'<span class="loss">{escape(cell.note)}</span>'
        if cell.loss:
            inside += charts.loss_cell(cell.loss, reach)
        elif i == 0 and losses:
            inside += charts.loss_axis(reach)
        kinds = ["t"] * bool(wordy[i] and i) + [f"v-{cell.tone}"] * bool(cell.tone)
        kinds += ["under"] * bool(row.level)
        label = f' data-label="{escape(column.title)}"' if stacks and i else ""
        line.append(_element("td" if i else "th scope=row", inside, kinds, label))
    return "".join(line)


def _element(tag: str, inside: str, kinds: Sequence[str], label: str = "") -> str:
    names = " ".join(kinds)
    quote = '"' if " " in names else ""
    return f"<{tag}{f' class={quote}{names}{quote}' if names else ''}{label}>{inside}"


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
