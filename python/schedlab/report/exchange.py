"""The verdict as Markdown, for an issue or a wiki, and as CSV, for other programs."""

from __future__ import annotations

import csv
import io

from schedlab.report import sentences
from schedlab.report.cells import (
    candidate_rows,
    interval,
    knee_cells,
    knee_heads,
    pair_verdict,
    pareto_cells,
    pareto_tables,
    scale_of,
    shown_knees,
    workload_cells,
)
from schedlab.report.view import View

CSV_COLUMNS = (
    "workload", "metric", "unit", "a", "b", "ratio", "low", "high", "verdict", "hodges_lehmann",
    "fragile", "noise_floor", "margin", "blocks",
)  # fmt: skip


def markdown(view: View) -> str:
    """The verdict with its tables, in GitHub's Markdown."""
    texts = view.texts
    parts = [
        f"# {sentences.headline(view)}",
        sentences.scope(view),
        sentences.confidence(view),
        f"## {texts('section.candidates')}",
        _candidates(view),
        f"**{texts('next.title')}:** {sentences.next_step(view)}",
    ]
    if view.flags:
        parts.append(f"## {texts('section.caveats')}")
        parts.append("\n".join(f"* {_flag_line(view, i)}" for i in range(len(view.flags))))
    parts += [f"## {texts('section.workloads')}", _workloads(view)]
    parts += [*_pareto(view), *_knees(view)]
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
            [
                texts("text.against", a=pair.a, b=pair.b),
                texts.percent(pair.ratio - 1),
                texts.ratio_interval(pair.low, pair.high),
                pair_verdict(view, pair),
            ]
            for pair in verdict.pairs
        ]
        pair_head = [
            texts("column.pair"),
            texts("column.ratio"),
            texts("column.interval", confidence=view.confidence),
            texts("column.verdict"),
        ]
        parts += [f"### {verdict.workload}", _table(head, rows, right=(1, 2))]
        parts.append(_table(pair_head, pairs, right=(1, 2)))
    parts.append(f"## {texts('section.design')}")
    parts.append("\n".join(f"* {_escaped(line)}" for line in sentences.design(view)))
    parts.append(f"## {texts('section.omitted')}")
    parts.append("\n".join(f"* {_escaped(line)}" for line in sentences.omitted(view)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _flag_line(view: View, index: int) -> str:
    flag = view.flags[index]
    where = f" ({_escaped(flag.workload)})" if flag.workload else ""
    title, text = sentences.flag_title(view, flag), sentences.flag_text(view, flag)
    return f"**{_escaped(title)}**{where}: {_escaped(text)}"


def _candidates(view: View) -> str:
    texts = view.texts
    head = [
        texts("column.candidate"),
        texts("column.difference", baseline=view.verdict.baseline),
        texts("column.interval", confidence=view.confidence),
        texts("column.verdict"),
        texts("column.noise_floor"),
    ]
    rows = [
        [row.name, row.difference, row.interval, row.verdict_text, row.noise_floor]
        for row in candidate_rows(view)
    ]
    return _table(head, rows, right=(1, 2, 4))


def _workloads(view: View) -> str:
    baseline = view.verdict.baseline
    others = [name for name in view.names if name != baseline]
    head = [view.texts("column.workload"), baseline, *others, view.texts("column.best")]
    rows = []
    for verdict in view.workloads:
        cells = workload_cells(view, verdict)
        rows.append([verdict.workload, cells.baseline, *cells.others, cells.best])
    return _table(head, rows, right=tuple(range(1, len(head) - 1)))


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

    Plain numbers with a decimal point whatever the language; ratios are of the metric.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    verdicts = [w for v in view.workloads for w in (v, *view.verdict.secondary.get(v.workload, ()))]
    for of in verdicts:
        about = (of.workload, of.metric.name, of.metric.unit)
        for p in of.pairs:
            numbers = (p.ratio, p.low, p.high, p.verdict, p.hodges_lehmann, p.fragile)
            writer.writerow((*about, p.a, p.b, *numbers, of.noise_floor, of.margin, of.blocks))
    overall = view.verdict.overall
    for p in overall.pairs:
        numbers = (p.ratio, p.low, p.high, p.verdict, p.hodges_lehmann, p.fragile)
        writer.writerow(("", "", "", p.a, p.b, *numbers, overall.noise_floor, overall.margin, ""))
    return out.getvalue()
