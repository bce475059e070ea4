"""The first screen of the page: the table with an interval in each cell, why, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from schedlab.report import charts
from schedlab.report.cells import drawn
from schedlab.report.markup import Cell, Line, details, figure, number, paragraph, table
from schedlab.report.screen import Cell as ScreenCell
from schedlab.report.screen import Row, Screen, all_rows
from schedlab.report.steps import next_steps
from schedlab.report.texts import Scale
from schedlab.report.view import View
from schedlab.report.why import PARTS, Why, explained, group_name, part_s

WHY_MAX = 2


def first_screen(view: View, of: Screen) -> str:
    """Everything below the headline and its population line."""
    every = explained(view)
    judged = {why.workload: why for why in reversed(every)}  # the first group of each workload
    shown = list(reversed(judged.values()))[:WHY_MAX]
    rest = [why for why in every if why not in shown]
    reasons = "".join(_why(view, why) + _depths(view, why) for why in shown)
    if rest:
        more = "".join(_why(view, why) for why in rest)
        reasons += details(view.texts("text.more", count=len(rest)), more)
    if reasons:
        note = paragraph(view.texts("why.other_run"), "note")
        title = escape(view.texts("why.title"))
        reasons = (
            f'<section class="why" aria-label="{title}"><h2>{title}</h2>{reasons}{note}</section>'
        )
    return _first_table(view, of) + reasons + _next(view)


def _first_table(view: View, of: Screen) -> str:
    texts = view.texts
    parts = [_rows_table(view, of.names, of.rows, texts("section.first"))]
    if of.more:
        listed = {id(row.of) for row in of.rows}
        rest = [row for row in all_rows(view) if id(row.of) not in listed]
        works = texts.counted("scope.more_workloads", of.more)
        inside = _rows_table(view, of.names, rest, texts("section.rest"), intervals=False)
        parts.append(details(texts("text.more_same", works=works), inside))
    margin = texts.margin(view.verdict.overall.margin)
    legend = texts("text.first_legend", margin=margin, confidence=view.confidence)
    return f'<div class="first">{"".join(parts)}{paragraph(legend, "note")}</div>'


def _rows_table(
    view: View, names: Sequence[str], rows: Sequence[Row], caption: str, intervals: bool = True
) -> str:
    """Workloads × candidates; the name of the column is repeated in each cell for phones."""
    head: Line = [view.texts("column.workload"), *(Cell(name, "t") for name in names)]
    body = [_row(view, row, names, intervals) for row in rows]
    return table(head, body, caption, "verdicts first-table")


def _row(view: View, row: Row, names: Sequence[str], intervals: bool) -> Line:
    title = f"<span class=under>{escape(row.title)}</span>" if row.indent else ""
    line: Line = [Cell(row.title, "", title)]
    shown = [
        drawn(cell.pair, row.of.metric.higher_is_better)
        for cell in row.cells
        if cell.pair is not None
    ]
    reach = charts.reach_of(shown, row.of.margin)
    axis = charts.ratio_cell_axis(reach) if intervals and shown and not row.span else ""
    base = f'<span class="words">{escape(row.cells[0].text)}</span>{axis}'
    line.append(Cell("", "t", base, label=names[0]))
    if row.span:
        note = f'<span class="soft">{escape(row.span)}</span>'
        line.append(Cell("", "t span", note, span=max(1, len(names) - 1)))
        return line
    for name, cell in zip(names[1:], row.cells[1:], strict=True):
        line.append(_cell(view, row, cell, name, reach, intervals))
    return line


def _cell(view: View, row: Row, cell: ScreenCell, name: str, reach: float, intervals: bool) -> Cell:
    words = f'<span class="words">{escape(f"{cell.text} {cell.mark}".strip())}</span>'
    if intervals and cell.pair is not None:
        of = drawn(cell.pair, row.of.metric.higher_is_better)
        words += charts.ratio_cell(of, row.of.margin, reach)
    return Cell("", f"t v-{cell.verdict or 'baseline'}", words, label=name)


def _why(view: View, why: Why) -> str:
    """Where requests waited: a bar per candidate with its table, and the sentences."""
    texts, parts = view.texts, _parts(why)
    unit = Scale.fitting([max(each.total_s for _, each in why.by_candidate)], "s")
    names = [texts(f"why.{part}_label") for part in parts]
    rows = [(name, [part_s(each, part) for part in parts]) for name, each in why.by_candidate]
    group = group_name(view, why.group)
    label = texts("why.chart", workload=why.workload, group=group)
    chart = charts.stacked(rows, list(zip(parts, names, strict=True)), unit, texts, label)
    key = "".join(
        f'<li><svg class="key" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">'
        f'<rect class="part {part}" width="12" height="12"/></svg>{escape(name)}</li>'
        for part, name in zip(parts, names, strict=True)
    )
    beside = _why_table(view, why, label, unit)
    sentences = "".join(paragraph(line) for line in why.sentences)
    drawn_ = figure(label, "", f'<ul class="legend">{key}</ul>{chart}', beside, texts)
    return f"{sentences}{drawn_}"


def _parts(why: Why) -> list[str]:
    """The parts that are worth a colour: the plug and what is outside only where they count."""
    return [
        part
        for part in PARTS
        if part not in ("plug", "outside")
        or any(part_s(e, part) > 0.01 * e.total_s for _, e in why.by_candidate)
    ]


def _why_table(view: View, why: Why, caption: str, unit: Scale) -> str:
    texts, parts = view.texts, _parts(why)
    heads = [f"{texts(f'why.{part}_label')}, {unit.unit}" for part in parts]
    head: Line = [texts("column.candidate"), *map(Cell, heads), Cell(texts("why.depth"))]
    rows: list[Line] = []
    for name, each in why.by_candidate:
        values = [texts.figure(part_s(each, part) / unit.factor, 2) for part in parts]
        depth = texts.figure(each.device_depth, 2)
        rows.append([name, *map(number, values), number(depth)])
    return table(head, rows, caption)


def _depths(view: View, why: Why) -> str:
    """Requests in the device over time, a line per candidate."""
    texts, lines = view.texts, []
    for name, each in why.by_candidate:
        if len(each.depth_series) > 1:
            points = [((i + 0.5) * each.bin_s, d) for i, d in enumerate(each.depth_series)]
            lines.append(charts.Line(view.names.index(name), points, name=name))
    if not lines:
        return ""
    chart = charts.Chart(
        lines, texts("chart.time_axis"), texts("why.depth"), zero=True, marker_every=5
    )
    label = f"{why.workload}: {texts('why.depth')}"
    beside = _depth_table(view, why, label)
    return figure(label, "", charts.line_chart(chart, texts, label), beside, texts)


def _depth_table(view: View, why: Why, caption: str) -> str:
    """About ten moments: requests in the device of every candidate."""
    texts = view.texts
    head: Line = [f"{texts('column.time')}, s", *(Cell(name) for name, _ in why.by_candidate)]
    longest = max(len(each.depth_series) for _, each in why.by_candidate)
    width = next(each.bin_s for _, each in why.by_candidate if each.depth_series)
    rows: list[Line] = []
    for i in range(0, longest, max(1, -(-longest // 10))):
        values = [
            texts.figure(each.depth_series[i], 2) if i < len(each.depth_series) else ""
            for _, each in why.by_candidate
        ]
        rows.append([texts.figure((i + 0.5) * width, 2), *map(number, values)])
    return table(head, rows, caption)


def _next(view: View) -> str:
    """One command to copy, with its time."""
    items = []
    for step in next_steps(view):
        command = f'<code class="command">{escape(step.command)}</code>' if step.command else ""
        items.append(f"<li>{command} <span>{escape(step.remark)}</span></li>")
    if not items:
        return ""
    title = escape(view.texts("next.more_title"))
    return f'<div class="next"><p><strong>{title}</strong></p><ul>{"".join(items)}</ul></div>'
