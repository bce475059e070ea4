"""The page's tables: pairs, throughput against latency, and knees."""

from __future__ import annotations

from collections.abc import Sequence

from schedlab.report.cells import (
    SYMBOLS,
    ParetoTable,
    blocks_needed,
    dash,
    knee_cells,
    knee_heads,
    pair_texts,
    pareto_cells,
    pareto_tables,
    shown_knees,
)
from schedlab.report.charts import Interval
from schedlab.report.markup import Cell, Line, details, number, paragraph, table
from schedlab.report.view import View
from schedlab.spec import Overall, Pair, WorkloadVerdict

# The number of workloads with a separate table, first those with a dominated candidate.
WHOLE_MAX = 6


def pair_table(
    view: View, of: WorkloadVerdict | Overall, pairs: Sequence[Pair], caption: str
) -> tuple[str, list[Interval]]:
    """Every pair with the better one first, as a table and as rows of a chart."""
    texts, pair_text = view.texts, pair_texts(view, of, pairs)
    needed = any(pair.blocks_needed for pair in pairs)
    remarks = any(each.remark for each in pair_text)
    head: Line = [
        texts("column.pair"),
        texts("column.amount"),
        texts("column.interval", confidence=view.confidence),
        texts("column.verdict"),
    ]
    head += [Cell(texts("column.blocks_needed"))] if needed else []
    head += [texts("column.remark")] if remarks else []
    rows: list[Line] = []
    for pair, each in zip(pairs, pair_text, strict=True):
        row: Line = [each.title, each.amount, each.interval]
        row.append(Cell(each.verdict, f"t v-{each.drawn.verdict}"))
        row += [number(blocks_needed(view, pair))] if needed else []
        rows.append([*row, each.remark] if remarks else row)
    return table(head, rows, caption), [each.drawn for each in pair_text]


def pareto_section(view: View) -> str:
    """Throughput against p99 latency of every workload that measured both."""
    sections = sorted(pareto_tables(view), key=lambda table: not table.dominates)
    if not sections:
        return ""
    texts = view.texts
    tables = []
    for each in sections[:WHOLE_MAX]:
        span = Cell(texts("column.interval", confidence=view.confidence))
        head: Line = [texts("column.candidate"), Cell(each.throughput_title), span]
        head += [Cell(each.latency_title), span, texts("column.dominated")]
        rows: list[Line] = []
        for point in each.points:
            *numbers, dominated = pareto_cells(view, each, point)
            kind = "t v-worse" if point.dominated_by else "t"
            cells = [number(text) for text in numbers]
            rows.append([point.candidate, *cells, Cell(dominated, kind)])
        tables.append(table(head, rows, each.workload))
    parts = [paragraph(texts("text.pareto_intro")), f'<div class="tables">{"".join(tables)}</div>']
    if rest := sections[WHOLE_MAX:]:
        parts.append(details(texts("text.more", count=len(rest)), _short(view, rest)))
    return "".join(parts)


def _short(view: View, tables: Sequence[ParetoTable]) -> str:
    """A line for each workload: throughput and latency of every candidate."""
    head: Line = [view.texts("column.workload"), *(Cell(name) for name in view.names)]
    rows: list[Line] = []
    for each in tables:
        by_name = {point.candidate: point for point in each.points}
        row: Line = [each.workload]
        for name in view.names:
            if (point := by_name.get(name)) is None:
                row.append(number(dash(view)))
                continue
            speed, _, tail, _, _ = pareto_cells(view, each, point)
            mark = f" {SYMBOLS['worse']}" if point.dominated_by else ""
            text = f"{speed} {each.throughput.unit}, {tail} {each.latency.unit}{mark}"
            row.append(Cell(text, "v-worse" if mark else ""))
        rows.append(row)
    return table(head, rows, view.texts("section.pareto"))


def knees_section(view: View) -> str:
    """Where curves over an ordered size bend."""
    rows: list[Line] = []
    for knee in shown_knees(view):
        family, candidate, where, span, exponents, remark = knee_cells(view, knee)
        numbers = [number(text) for text in (where, span, exponents)]
        rows.append([family, candidate, *numbers, remark])
    if not rows:
        return ""
    heads = knee_heads(view)
    head: Line = [*heads[:2], *(Cell(text) for text in heads[2:5]), heads[5]]
    title = view.texts("section.knees")
    return paragraph(view.texts("text.knees_intro")) + table(head, rows, title)
