"""The verdict as Markdown, for an issue or a wiki, and as CSV, for other programs."""

from __future__ import annotations

import csv
import io

from schedlab.report import notes
from schedlab.report.cells import (
    interval,
    knee_cells,
    knee_heads,
    pair_texts,
    pareto_cells,
    pareto_tables,
    scale_of,
    shown_knees,
)
from schedlab.report.screen import Screen, all_rows, screen
from schedlab.report.sentences import of_workload
from schedlab.report.steps import next_steps
from schedlab.report.view import View
from schedlab.report.why import explained
from schedlab.spec import Pair

CSV_COLUMNS = (
    "workload", "actor", "metric", "unit", "a", "b", "ratio", "low", "high", "verdict", "p",
    "hodges_lehmann", "codes", "mdd", "margin", "blocks",
)  # fmt: skip


def markdown(view: View) -> str:
    """The first screen, then limits, pairs and method, in GitHub's Markdown."""
    texts, first = view.texts, screen(view)
    parts = [
        f"# {_escaped(' '.join(first.headline))}",
        _escaped(" ".join(first.population)),
        _first(view, first),
        *_why(view),
        *_next(view),
    ]
    if limits := [f"* **{_escaped(t)}**: {_escaped(line)}" for t, line in _flags(view)]:
        parts += [f"## {texts('section.caveats')}", "\n".join(limits)]
    parts += [f"## {texts('section.workloads')}", *_workloads(view)]
    parts += [*_pareto(view), *_knees(view)]
    for title, lines in (
        ("design", [notes.confidence(view), *notes.design(view)]),
        ("omitted", notes.omitted(view)),
    ):
        parts.append(f"## {texts(f'section.{title}')}")
        parts.append("\n".join(f"* {_escaped(line)}" for line in lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def findings(view: View) -> str:
    """The first screen, why, and the knees, to be put below a heading of the second level."""
    first = screen(view)
    parts = [
        f"**{_escaped(' '.join(first.headline))}**",
        _escaped(" ".join(first.population)),
        _first(view, first),
        *_why(view),
        *_knees(view),
    ]
    return "\n\n".join(f"#{part}" if part.startswith("## ") else part for part in parts if part)


def _flags(view: View) -> list[tuple[str, str]]:
    """(title, sentence) of every flag."""
    return [(t, line) for t, lines in notes.grouped_flags(view).items() for line in lines]


def _first(view: View, of: Screen) -> str:
    """The first table."""
    rows = []
    for row in all_rows(view):
        title = f"– {row.title}" if row.indent else row.title
        cells = [f"{cell.text} {cell.mark}".strip() for cell in row.cells]
        if row.span:
            cells = [cells[0], row.span, *[""] * (len(of.names) - 2)]
        rows.append([title, *cells])
    return _table([view.texts("column.workload"), *of.names], rows)


def _why(view: View) -> list[str]:
    lines = [line for why in explained(view) for line in why.sentences]
    if not lines:
        return []
    return [f"## {view.texts('why.title')}", "\n".join(f"* {_escaped(line)}" for line in lines)]


def _next(view: View) -> list[str]:
    """The commands, each with its remark."""
    lines = []
    for step in next_steps(view):
        command = f"`{step.command}`" if step.command else ""
        lines.append(f"* {' — '.join(filter(None, (command, _escaped(step.remark))))}")
    if not lines:
        return []
    return [f"**{view.texts('next.more_title')}**", "\n".join(lines)]


def _workloads(view: View) -> list[str]:
    """Values and pairs of every workload."""
    texts, parts = view.texts, []
    for verdict in view.workloads:
        scale = scale_of(verdict)
        head = [
            texts("column.candidate"),
            f"{texts.metric(verdict.metric)}, {scale.unit}".rstrip(", "),
            texts("column.interval", confidence=view.confidence),
        ]
        rows = [
            [
                row.candidate,
                texts.figure(row.geometric_mean / scale.factor),
                interval(view, row.low, row.high, scale),
            ]
            for row in verdict.candidates
        ]
        pairs = [
            [each.title, each.amount, each.interval, each.verdict, each.remark]
            for each in pair_texts(view, verdict, verdict.pairs)
        ]
        pair_head = [
            texts("column.pair"),
            texts("column.amount"),
            texts("column.interval", confidence=view.confidence),
            texts("column.verdict"),
            texts("column.remark"),
        ]
        parts += [f"### {_escaped(verdict.workload)}", _escaped(of_workload(view, verdict))]
        parts += [_table(head, rows, right=(1, 2)), _table(pair_head, pairs)]
    return parts


def _pareto(view: View) -> list[str]:
    """Throughput against p99 latency, one table per workload that measured both."""
    texts, parts = view.texts, []
    for table in pareto_tables(view):
        span = texts("column.interval", confidence=view.confidence)
        head = [texts("column.candidate"), table.throughput_title, span, table.latency_title, span]
        head.append(texts("column.dominated"))
        rows = [[point.candidate, *pareto_cells(view, table, point)] for point in table.points]
        parts += [f"### {_escaped(table.workload)}", _table(head, rows, right=(1, 2, 3, 4))]
    if not parts:
        return []
    return [f"## {texts('section.pareto')}", texts("text.pareto_intro"), *parts]


def _knees(view: View) -> list[str]:
    """Where curves over an ordered size bend."""
    rows = [knee_cells(view, knee) for knee in shown_knees(view)]
    if not rows:
        return []
    table = _table(knee_heads(view), rows, right=(2, 3, 4))
    return [f"## {view.texts('section.knees')}", view.texts("text.knees_intro"), table]


def _table(head: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    """A pipe table; `right` are the columns of numbers."""
    if not rows:
        return ""
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    lines = [[_escaped(cell) for cell in head], rule]
    lines += [[_escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Text that cannot end a cell or start a tag."""
    for sign in "\\|<*_`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


def csv_text(view: View) -> str:
    """One line per pair: of every workload, of its further metrics, and of all together.

    Plain numbers with a decimal point in every language; ratios are of the metric.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    verdicts = [w for v in view.workloads for w in (v, *view.verdict.secondary.get(v.workload, ()))]
    for of in verdicts:
        about = (of.workload, of.actor, of.metric.name, of.metric.unit)
        for pair in of.pairs:
            writer.writerow((*about, *_pair_row(pair), of.mdd, of.margin, of.blocks))
    overall = view.verdict.overall
    name = overall.metric.name if overall.metric else ""
    unit = overall.metric.unit if overall.metric else ""
    for pair in overall.pairs:
        row = ("", "", name, unit, *_pair_row(pair), overall.mdd, overall.margin, overall.units)
        writer.writerow(row)
    return out.getvalue()


def _pair_row(p: Pair) -> tuple[object, ...]:
    codes = " ".join(p.codes)
    return (p.a, p.b, p.ratio, p.low, p.high, p.verdict, p.p, p.hodges_lehmann, codes)
