"""The verdict for a terminal: readable at 80 columns, plain where there is no colour."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from schedlab.report import sentences
from schedlab.report.cells import (
    CandidateRow,
    candidate_rows,
    knee_cells,
    knee_heads,
    pareto_cells,
    pareto_tables,
    scale_of,
    shown_knees,
    workload_cells,
)
from schedlab.report.view import View

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDTH_MIN = 40
PROSE_WIDTH = 100
PARETO_MAX = 3
KNEES_MAX = 12
STYLES = {
    "better": "green",
    "worse": "red",
    "equivalent": "cyan",
    "undecided": "yellow",
    "baseline": "dim",
}


def render(view: View, width: int, colour: bool) -> str:
    """The whole verdict as text of at most `width` columns."""
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=max(width, WIDTH_MIN),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,
    )
    _prose(console, sentences.headline(view) + ".", "bold")
    _prose(console, sentences.scope(view), "dim")
    console.print()
    console.print(_candidates(view))
    _prose(console, _noise(view), "dim")
    if len(view.workloads) > 1:
        console.print()
        console.print(_workloads(view))
    _pareto(console, view)
    _knees(console, view)
    _caveats(console, view)
    console.print()
    _prose(console, f"{view.texts('next.title')}: {sentences.next_step(view)}", "bold")
    assert isinstance(console.file, io.StringIO)
    lines = (line.rstrip() for line in console.file.getvalue().splitlines())
    return "\n".join(lines)


def _prose(console: Console, text: str, style: str = "") -> None:
    """A paragraph that is never wider than one reads with ease."""
    for line in wrapped(text, min(console.width, PROSE_WIDTH)):
        console.print(line, style=style)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at plain spaces only (Hangul is two wide)."""
    from rich.cells import cell_len

    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def _table() -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)


def _candidates(view: View) -> Table:
    """Every candidate beside the baseline."""
    texts, table = view.texts, _table()
    table.add_column(texts("column.candidate"), overflow="fold")
    means = _means(view)
    if means:
        table.add_column(means.pop(""), justify="right")
    table.add_column(texts("column.difference", baseline=view.verdict.baseline), justify="right")
    table.add_column(texts("column.interval", confidence=view.confidence), justify="right")
    table.add_column(texts("column.verdict"))
    table.add_column(texts("column.noise_floor"), justify="right")
    for row in candidate_rows(view):
        mean = [means.get(row.name, "")] if means else []
        rest = (row.difference, row.interval, _verdict(row), row.noise_floor)
        table.add_row(row.name, *mean, *rest)
    return table


def _means(view: View) -> dict[str, str]:
    """The mean of each candidate where there is only one workload; its unit under an empty name."""
    if len(view.workloads) != 1:
        return {}
    (verdict,) = view.workloads
    scale = scale_of(verdict)
    found = {c.candidate: c.geometric_mean / scale.factor for c in verdict.candidates}
    decimals = max(0, 4 - max((len(f"{value:.0f}") for value in found.values()), default=4) + 1)
    means = {name: view.texts.number(value, decimals) for name, value in found.items()}
    return {"": f"{view.texts('column.mean')}, {scale.unit}".rstrip(", "), **means}


def _verdict(row: CandidateRow) -> Text:
    from rich.text import Text

    return Text(row.verdict_text, style=STYLES.get(row.verdict, ""))


def _noise(view: View) -> str:
    known = view.verdict.overall.noise_floor is not None
    return view.texts("text.noise_floor" if known else "text.noise_floor_none")


def _workloads(view: View) -> Table:
    """One line per workload: the baseline's mean, then every other candidate against it."""
    texts, table = view.texts, _table()
    table.add_column(texts("column.workload"), overflow="fold", min_width=12)
    others = [name for name in view.names if name != view.verdict.baseline]
    table.add_column(view.verdict.baseline, justify="right", overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column(texts("column.best"), overflow="fold")
    for verdict in view.workloads:
        cells = workload_cells(view, verdict)
        table.add_row(verdict.workload, cells.baseline, *cells.others, cells.best)
    return table


def _pareto(console: Console, view: View) -> None:
    """Throughput against latency, where that tells something: one workload, or one dominated."""
    every = pareto_tables(view)
    found = every if len(every) == 1 else [table for table in every if table.dominates]
    if not found:
        return
    texts = view.texts
    console.print()
    _prose(console, texts("section.pareto"), "bold")
    for shown in found[:PARETO_MAX]:
        table = _table()
        table.add_column(shown.workload if len(view.workloads) > 1 else "", overflow="fold")
        table.add_column(shown.throughput_title, justify="right")
        table.add_column(shown.latency_title, justify="right")
        table.add_column(texts("column.dominated"), overflow="fold")
        for point in shown.points:
            speed, _, tail, _, dominated = pareto_cells(view, shown, point)
            table.add_row(point.candidate, speed, tail, dominated)
        console.print(table)
    if rest := found[PARETO_MAX:]:
        _prose(console, texts("text.pareto_more", count=len(rest)), "dim")


def _knees(console: Console, view: View) -> None:
    """Where the curves over an ordered size bend."""
    if not (found := shown_knees(view)):
        return
    table = _table()
    for i, head in enumerate(knee_heads(view)):
        table.add_column(head, justify="right" if i in (2, 3) else "left", overflow="fold")
    for knee in found[:KNEES_MAX]:
        table.add_row(*knee_cells(view, knee))
    console.print()
    _prose(console, view.texts("section.knees"), "bold")
    console.print(table)
    if (rest := len(found) - KNEES_MAX) > 0:
        _prose(console, view.texts("text.more", count=rest), "dim")


def _caveats(console: Console, view: View) -> None:
    """The flags, those of one kind on many workloads together."""
    from rich.text import Text

    grouped: dict[str, list[str]] = {}
    for flag in view.flags:
        where = f"{flag.workload}: " if flag.workload else ""
        text = where + sentences.flag_text(view, flag)
        grouped.setdefault(sentences.flag_title(view, flag), []).append(text)
    for title, found in grouped.items():
        console.print()
        shown = found if len(found) <= 3 else [*found[:3], f"… (+{len(found) - 3})"]
        console.print(Text(f"! {title}", style="yellow"))
        for text in shown:
            for line in wrapped(text, min(console.width, PROSE_WIDTH) - 2):
                console.print(f"  {line}")
    for notice in (*view.record.notices, *view.experiment.notes):
        console.print()
        _prose(console, f"! {notice}", "yellow")
