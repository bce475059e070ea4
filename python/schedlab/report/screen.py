"""The first screen: what every form of the report opens with, in this order.

The answer with its price, what was measured, one table (workloads × candidates), why, and what
to do next. This module works it out once; terminal, page, workbook and Markdown lay it out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from schedlab.nouns import answer as nouns
from schedlab.report import sentences, words
from schedlab.report.tables import Column, LossRange, Table, TableCell, TableRow, build
from schedlab.report.view import View, flatten

# A smaller difference needs no further digit; more digits than these say nothing.
DIFFERENCE_LEAST, DIGITS_MAX = 0.005, 4
# Words that begin alike are forms of one word.
STEM = 5


@dataclass(frozen=True)
class Screen:
    """The first screen without why and next: sentences, the line below them, the table."""

    headline: list[str]
    measured: str
    table: Table


def screen(view: View) -> Screen:
    """The first screen of a record."""
    return Screen(sentences.headline(view), measured(view), first_table(view))


def first_table(view: View) -> Table:
    """A row for every workload, and behind it the rows that can be its price, in grey."""
    texts = view.texts
    columns = [Column(texts("column.workload"), text=True)]
    columns += [Column(name) for name in columns_of(view)]
    rows = [_row(view, of) for of in rows_of(view)]
    legend = texts("table.legend", confidence=view.confidence)
    notes = (legend, *sentences.not_counted(view))
    return Table("answer", texts("section.first"), tuple(columns), tuple(rows), notes)


def rows_of(view: View) -> list[nouns.Row]:
    """The rows of the first table: the mix, and every workload with its further rows behind it."""
    mix = [view.mix] if view.mix else []
    return [*mix, *(row for of in view.chosen for row in (of, *view.secondary(of.workload)))]


def losses_table(view: View) -> Table:
    """Every cell of the answer as numbers: the value, and how many times the best is ahead."""
    texts = view.texts
    columns = [Column(texts(f"column.{head}"), text=True) for head in
               ("workload", "metric", "candidate")]  # fmt: skip
    columns += [Column(texts("column.value"), digits=6), Column(texts("column.unit"), text=True)]
    columns += [Column(texts(f"column.{head}"), digits=4) for head in ("times", "low", "high")]
    columns.append(Column(texts("column.runs"), decimals=0))
    rows = []
    for of in view.answer.rows:
        metric, unit = (texts.metric(of.metric), of.metric.unit) if of.metric else ("", "")
        for name in columns_of(view):
            if (cell := view.answer.cells[of.name].get(name)) is None:
                continue
            ends = (cell.loss, cell.low, None if cell.open else cell.up)
            ratios = (None if end is None else math.exp(end) for end in ends)
            workload = of.workload if of.metric else texts("row.mix")
            rows.append([workload, metric, name, cell.value, unit, *ratios, cell.runs])
    return build(texts, "losses", texts("section.losses"), columns, rows)


def columns_of(view: View) -> tuple[str, ...]:
    """The baseline, then the other candidates in their order."""
    return (*(n for n in view.names if n == view.baseline),
            *(n for n in view.names if n != view.baseline))  # fmt: skip


def _row(view: View, of: nouns.Row) -> TableRow:
    level = int(of.role == "secondary")
    title = view.metric_title(of) if level else of.workload if of.metric else view.title_of(of)
    metric = _short(view.texts.metric(of.metric), title) if of.metric and not level else ""
    cells = [candidate_cell(view, of, name) for name in columns_of(view)]
    return TableRow((TableCell(title, note=metric), *cells), level)


def _short(metric: str, title: str) -> str:
    """A metric without the words that its workload has, too: `mean latency` of a newcomer."""
    known = {word[:STEM] for word in title.split(" ")}
    return " ".join(word for word in metric.split(" ") if word[:STEM] not in known) or metric


def candidate_cell(view: View, of: nouns.Row, name: str) -> TableCell:
    """The value of a candidate on a row, and how far behind the best it is."""
    cell = view.answer.cells[of.name].get(name)
    if cell is None:
        return TableCell(view.texts("verdict.none"), note=sentences.unfit_in(view, name, of))
    few = (view.answer.blocks or view.answer.units) < words.FEW_UNITS
    note = words.cell(view.texts, cell, of.metric, few, of.exact)
    if name in view.alone or of.why == "one-candidate":
        return TableCell(
            value(view, of, cell), cell.value, unit=of.metric.unit if of.metric else ""
        )
    if of.exact and all(each.loss == 0 for each in view.answer.cells[of.name].values()):
        note = view.texts("cell.equal")
    if any(len(names) == len(view.names) for names in view.identical[of.name]):
        note = view.texts("cell.identical")
    if cell.starved and not cell.unfinished:
        counts = [view.texts.number(n, 0) for n in (cell.starved, cell.runs)]
        note = view.texts("cell.starved", words=note, count=counts[0], runs=counts[1])
    tone = "best" if cell.best else "behind" if cell.low > 0 else ""
    drawn = LossRange(cell.loss, cell.low, None if cell.open else cell.up)
    unit = of.metric.unit if of.metric else ""
    return TableCell(value(view, of, cell), cell.value, note, tone, drawn, unit)  # type: ignore[arg-type]


def value(view: View, of: nouns.Row, cell: nouns.CellAnswer) -> str:
    """A value with its unit, in the digits of its row; a bound where every run gave only that."""
    if cell.value is None or of.metric is None:
        return ""
    digits, unit = _digits(view, of), of.metric.unit
    if cell.open and 0 < cell.value <= of.step / 2:  # It may be anything below the step.
        return view.texts("cell.at_most", value=view.texts.quantity(of.step, unit, digits))
    shown = view.texts.quantity(cell.value, unit, digits)
    if not cell.unfinished or cell.value == 0:
        return shown
    key = "cell.at_most" if of.metric.higher_is_better else "cell.at_least"
    return view.texts(key, value=shown)


def _digits(view: View, of: nouns.Row) -> int:
    """Two digits, and as many as show the differences of a row."""
    cells = view.answer.cells[of.name].values()
    values = sorted(cell.value for cell in cells if cell.value)
    apart = [(a, b) for a, b in itertools.pairwise(values) if b > a * (1 + DIFFERENCE_LEAST)]
    digits = 2
    while digits < DIGITS_MAX and any(f"{a:.{digits}g}" == f"{b:.{digits}g}" for a, b in apart):
        digits += 1
    return digits


def measured(view: View) -> str:
    """The work, machine and number of blocks; and what the answer does not hold for."""
    texts, answer, of = view.texts, view.answer, view.answer.population
    kind = view.experiment.kind
    workloads = texts.counted("scope.workloads", len(view.chosen))
    device = device_text(view)
    parts = [texts("measured.on", workloads=workloads, device=device) if device else workloads]
    if view.virtual:
        parts.append(_virtual(view))
    sessions = view.experiment.stopping.sessions
    if view.record.is_of_boots:
        parts.append(texts.counted("measured.boots_of_each", sessions))
    elif answer.used == "hosts":
        parts.append(texts.counted("measured.hosts", len({run.host for run in view.runs})))
    elif view.virtual:
        parts.append(texts.counted("measured.boots", sessions))
    elif kind in ("io", "cpu"):
        boots = of.boots if of else 1
        if boots > 1:
            parts.append(texts.counted("measured.boots", boots))
        if of and of.sessions > boots:
            noun = "layouts" if kind == "io" and sessions == 1 else "sessions"
            parts.append(texts.counted(f"measured.{noun}", of.sessions))
    parts.append(texts.counted("measured.runs_of_each", answer.blocks or answer.units))
    if of and of.seconds and kind in ("io", "cpu"):
        parts.append(texts.duration(of.seconds))
    key = {"sim": "simulated", "import": "imported"}.get(kind, "measured")
    scope = reach(view)
    if answer.code == "one-run" and view.record.is_of_boots:
        scope = texts("scope_of.one_boot")
    if view.medium == "emulated":
        scope = texts("scope_of.model")
    if view.medium == "virtual":
        scope = texts("scope_of.virtual")
    if kind == "import" and not view.experiment.blocked:
        scope = texts("scope_of.unblocked")
    line = texts(f"measured.{key}", parts=", ".join(parts), scope=scope)
    omitted = texts.listed([w for w, why in view.record.omitted.items() if why != "no-value"])
    return f"{line} {texts('measured.omitted', workloads=omitted)}" if omitted else line


def reach(view: View) -> str:
    """The reach of an answer: its bound in another boot and on another layout, if it is known."""
    texts, answer = view.texts, view.answer
    wider = {rung.name: rung.bound for rung in answer.rungs if rung.name != "this-boot"}
    wider = {name: words.bounded(bound) for name, bound in wider.items()}
    if all(bound is None for bound in wider.values()):
        is_of_cpu = view.experiment.kind == "cpu" and answer.scope == "this-boot"
        return texts(f"scope_of.{'cpu' if is_of_cpu else answer.scope.replace('-', '_')}")
    how = words.way(answer.row(answer.worst_row).metric)

    def words_of(bound: float | None) -> str:
        if bound is None:
            return texts("rung.unknown")
        if bound == 0:
            return texts("rung.best")
        return texts("rung.at_most", change=words.said(texts, how, bound, "up"))

    # A session of CPU policies lays out no files.
    keys = {
        "next-boot": "next_boot",
        "layout": "session" if view.experiment.kind == "cpu" else "layout",
    }
    return "; ".join(
        texts(f"rung.{keys[name]}", bound=words_of(bound)) for name, bound in wider.items()
    )


def _virtual(view: View) -> str:
    """The kernels and the speed of a machine in virtual time: 2^shift ns an instruction."""
    of = view.virtual
    shift = of.get("shift")
    rate = 1000 >> shift if isinstance(shift, int) and 0 <= shift < 10 else "?"
    releases = [str(each).partition("+")[0] for each in of.get("kernels", [of.get("kernel", "?")])]
    return view.texts("measured.virtual", kernel=view.texts.listed(releases), rate=rate)


def device_text(view: View) -> str:
    """The device in a few words."""
    texts, target = view.texts, view.experiment.target
    name = view.answer.population.device if view.answer.population else ""
    if view.experiment.kind != "io":
        return name
    kind = str(target.kind)
    if not name:
        known = kind in ("scratch", "device", "directory", "emulated")
        values = {"path": target.path, "model": target.model, "dilate": f"{target.dilate:g}"}
        key = f"{kind}_dilated" if kind == "emulated" and target.dilate != 1 else kind
        name = texts(f"measured.{key}", **values) if known else ""
    if view.answer.used == "hosts":  # Each has its own.
        return texts(f"measured.each_{kind}") if kind in ("device", "directory") else name
    medium, _ = device_facts(view)
    if not name or not medium or "(" in name:
        return name
    return texts("format.bracket", text=name, inside=medium)


def device_facts(view: View) -> tuple[str, str]:
    """Facts that a scheduler's effect depends on: `SSD` or `rotational`, and the number of tags, as
    the runs found them, else the host; empty where one is not known.
    """
    host = dict(flatten(view.record.host))
    stated = next((r.properties for r in view.runs if "driver_tags" in r.properties), {})
    rotational = str(stated.get("rotational", host.get("device.queue.rotational")))
    medium = view.texts(f"measured.rotational_{rotational}") if rotational in ("0", "1") else ""
    tags = stated.get("driver_tags", host.get("device.queue.nr_requests"))
    if len({r.properties.get("driver_tags", tags) for r in view.runs}) > 1:
        tags = ""  # each workload has its own
    return medium, "" if tags in (None, "") else view.texts("measured.tags", count=tags)
