"""The answer, or one of its tables, as Markdown, for an issue or a wiki, and as CSV and JSON, for
other programs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from schedlab.errors import SpecError, nearest
from schedlab.report import notes, why
from schedlab.report.handin import study_tables
from schedlab.report.screen import columns_of, first_table, screen
from schedlab.report.sentences import headline
from schedlab.report.steps import next_step
from schedlab.report.tables import Table
from schedlab.report.view import View

CSV_COLUMNS = (
    "row", "workload", "actor", "metric", "unit", "role", "candidate", "value", "loss", "low",
    "up", "best", "open", "runs", "starved", "margin",
)  # fmt: skip


def markdown(view: View) -> str:
    """The first screen, the tables of the study, then limits and method, in GitHub's Markdown."""
    texts = view.texts
    parts = [*_opening(view), *_next(view)]
    flags = notes.grouped_flags(view).items()
    if limits := [f"* **{escaped(t)}**: {escaped(line)}" for t, lines in flags for line in lines]:
        parts += [f"## {texts('section.caveats')}", "\n".join(limits)]
    parts += [f"## {texts('section.tables')}", tables_text(view)]
    for title, lines in notes.method(view).items():
        parts.append(f"## {texts(f'section.{title}')}")
        parts.append("\n".join(f"* {escaped(line)}" for line in lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(view: View) -> list[str]:
    """Headline, what was measured, the first table, why."""
    of = screen(view)
    answer = escaped(" ".join(of.headline))
    title = f"# {answer}"
    reasons = [f"* {escaped(line)}" for line in why.lines(view)]
    below = [f"## {view.texts('why.title')}", "\n".join(reasons)]
    return [title, escaped(of.measured), table_text(of.table), *(below if reasons else [])]


def _next(view: View) -> list[str]:
    """The command with its remark."""
    step = next_step(view)
    command = f"`{step.command}`" if step.command else ""
    line = " — ".join(filter(None, (command, escaped(step.remark))))
    return [f"**{view.texts('next.title')}**: {line}"]


def tables_text(view: View) -> str:
    """The tables of the study, each below its title."""
    parts = (f"### {escaped(t.title)}\n\n{table_text(t)}" for t in study_tables(view))
    return "\n\n".join(parts)


def table_text(of: Table) -> str:
    """A pipe table, and its notes; columns of numbers are aligned to the right."""
    noted = {i for row in of.rows for i, cell in enumerate(row.cells) if cell.note}
    rule = ["---" if c.text or i in noted else "---:" for i, c in enumerate(of.columns)]
    lines = [[escaped(c.head) for c in of.columns], rule]
    for row in of.rows:
        first, *rest = (escaped(cell.line) for cell in row.cells)
        lines.append([f"– {first}" if row.level else first, *rest])
    parts = ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join([*parts, *(escaped(note) for note in of.notes)])


def escaped(text: str) -> str:
    """Text that cannot end a cell or start a tag."""
    for sign in "\\|<*_`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


def csv_text(view: View) -> str:
    """One line for each cell of the answer: plain numbers with a decimal point in any language.

    Losses are natural logarithms, as in the JSON.
    """
    rows: list[Sequence[object]] = [CSV_COLUMNS]
    for row in view.answer.rows:
        metric = (row.metric.name, row.metric.unit) if row.metric else ("", "")
        for name in columns_of(view):
            if (cell := view.answer.cells[row.name].get(name)) is None:
                continue
            about = (row.name, row.workload, row.actor, *metric, row.role, name)
            bounds = (cell.value, cell.loss, cell.low, cell.up, cell.best, cell.open)
            rows.append((*about, *bounds, cell.runs, cell.starved, row.margin))
    return _as_csv(rows)


def _as_csv(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([_inert(value) for value in row] for row in rows)
    return out.getvalue()


def _inert(value: object) -> object:
    """A cell of a CSV: text that a spreadsheet would compute begins with an apostrophe."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t"))
    return f"'{value}" if is_formula else value


def printed(view: View) -> dict[str, object]:
    """The printed report for programs that show it: the sentences and every table."""
    every = [first_table(view), *study_tables(view)]
    return {"headline": headline(view), "tables": [table.as_json() for table in every]}


def one_table(view: View, name: str, form: str, width: int) -> str:
    """The table of that name as `text` of `width` columns, `markdown`, `csv` or `json`, the last
    two with plain numbers in the unit of their column; SpecError with the names that there are.
    """
    every = {table.name: table for table in [first_table(view), *study_tables(view)]}
    if name not in every:
        raise SpecError(f"no table of this result is named {name!r}", nearest(name, every))
    of = every[name]
    if form == "markdown":
        return f"### {escaped(of.title)}\n\n{table_text(of)}\n"
    plain = of.as_json()
    if form == "json":
        return json.dumps(plain, indent=1) + "\n"
    if form == "csv":
        heads = [", ".join(filter(None, (c["title"], c["unit"]))) for c in plain["columns"]]
        return _as_csv([heads, *plain["rows"]])
    from schedlab.report.terminal import tables

    return tables([of], width) + "\n"
