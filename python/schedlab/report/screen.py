"""The first screen: what every form of the report opens with, in this order.

Headline with its price, its population, one table (workloads × candidates), why, what to do
next. This module works it out once; terminal, page, workbook and Markdown lay it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.report import words
from schedlab.report.sentences import MDD_MAX, headline
from schedlab.report.view import ROWS_MAX, View, flatten, seen_from, summary_of
from schedlab.spec import CandidateSummary, Fact, Pair, WorkloadVerdict

# The mark after a decided cell: colour never carries the meaning alone.
MARKS = {"better": "▲", "worse": "▼"}


@dataclass(frozen=True)
class Cell:
    """A cell of the first table: its words, its verdict, and what it is made of."""

    text: str
    verdict: str = ""
    pair: Pair | None = None

    @property
    def mark(self) -> str:
        """▲ or ▼ where it is decided."""
        return MARKS.get(self.verdict, "")


@dataclass(frozen=True)
class Row:
    """A workload, or one of its other actors or metrics indented under it.

    `span` takes the place of all cells but the baseline's.
    """

    title: str
    of: WorkloadVerdict
    cells: tuple[Cell, ...]
    indent: bool = False
    span: str = ""


@dataclass(frozen=True)
class Screen:
    """The first screen; `names` are the columns, the baseline first.

    `more` counts the workloads that have no row, because others differ more.
    """

    headline: list[str]
    population: list[str]
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    more: int = 0


def screen(view: View) -> Screen:
    """The first screen of a record."""
    names = columns(view)
    rows, more = shown_rows(all_rows(view), stated=view.stated_loss)
    return Screen(headline(view), population(view), names, rows, more)


def columns(view: View) -> tuple[str, ...]:
    """The baseline, then the other candidates in their order."""
    baseline = view.verdict.baseline
    return (*(n for n in view.names if n == baseline), *(n for n in view.names if n != baseline))


def all_rows(view: View) -> list[Row]:
    """A row for every workload, and under it the actors and metrics that need a row."""
    of_itself = {id(of) for of in view.workloads}
    return [
        _row(view, of, of.workload, indent=False)
        if id(of) in of_itself
        else _row(view, of, _title_under(view, of), indent=True)
        for of in view.first_rows
    ]


def shown_rows(
    rows: Sequence[Row], most: int = ROWS_MAX, stated: Fact | None = None
) -> tuple[tuple[Row, ...], int]:
    """The rows of a screen in their order, and how many workloads have none.

    Where not all fit, those with the largest decided differences are shown, and the row of the
    loss that the headline has `stated`.
    """
    if len(rows) <= most:
        return tuple(rows), 0
    proof = (stated.workload, stated.metric) if stated else None
    plain = [
        row
        for row in rows
        if not row.indent or row.of.actor or (row.of.workload, row.of.metric.name) == proof
    ]
    sizes: dict[str, float] = {}
    for row in plain:
        sizes[row.of.workload] = max(sizes.get(row.of.workload, 0.0), _size(row))
    chosen: list[str] = []
    first = stated.workload if stated else ""
    for label in sorted(sizes, key=lambda each: (each != first, -sizes[each])):
        wanted = {*chosen, label}
        if sum(row.of.workload in wanted for row in plain) <= most:
            chosen.append(label)
    kept = tuple(row for row in plain if row.of.workload in chosen)
    return kept, len(sizes) - len(chosen)


def _size(row: Row) -> float:
    """The largest difference that is decided in a row, as a log ratio."""
    pairs = [cell.pair for cell in row.cells if cell.mark and cell.pair]
    return max((abs(math.log(pair.ratio)) for pair in pairs), default=0.0)


def _title_under(view: View, of: WorkloadVerdict) -> str:
    if not of.actor:
        return view.texts.metric(of.metric)
    known = view.texts.maybe(f"actor_row.{of.actor}", "")
    title = known or view.texts("actor_row.other", actor=of.actor)
    of_actor = [w for w in view.verdict.secondary.get(of.workload, ()) if w.actor == of.actor]
    return title if len(of_actor) < 2 else f"{title}: {view.texts.metric(of.metric)}"


def _row(view: View, of: WorkloadVerdict, title: str, indent: bool) -> Row:
    names = columns(view)
    as_measured = of.code == "single" or view.is_single
    cells = []
    for name in names:
        summary = summary_of(of.candidates, name)
        if name == view.verdict.baseline or (as_measured and summary is not None):
            digits = 3 if as_measured else 0
            cells.append(Cell(measured(view, of, summary, digits), "baseline"))
        else:
            cells.append(candidate_cell(view, of, name, summary))
    span = ""
    if not indent and not as_measured and view.nothing_to_order(of):
        span = view.texts("cell.nothing_to_order")
    return Row(title, of, tuple(cells), indent, span)


def measured(
    view: View, of: WorkloadVerdict, summary: CandidateSummary | None, digits: int = 0
) -> str:
    """A value with its unit and so many digits; 0: as many as its interval supports."""
    if summary is None:
        return view.texts("verdict.none")
    low, high = summary.low, summary.high
    rough = low is not None and high is not None and low > 0 and high > 1.02 * low
    digits = digits or (2 if rough else 3)
    value = view.texts.quantity(summary.geometric_mean, of.metric.unit, digits)
    if summary.starved and summary.starved == summary.runs:  # every run is only a bound
        return view.texts("cell.at_most" if of.metric.higher_is_better else "cell.at_least",
                          value=value)  # fmt: skip
    return value


def candidate_cell(
    view: View, of: WorkloadVerdict, name: str, summary: CandidateSummary | None
) -> Cell:
    """A candidate against the baseline, in words."""
    texts = view.texts
    pair = seen_from(of.pairs, name, view.verdict.baseline)
    if summary is None:
        return Cell(texts("verdict.none"), "", pair)
    if summary.ratio is None and pair is None:
        return Cell(measured(view, of, summary), "", pair)
    verdict = summary.verdict or (pair.verdict if pair else None) or "undecided"
    if summary.starved and summary.starved == summary.runs:
        return Cell(texts("cell.did_not_finish"), "worse" if verdict == "worse" else "", pair)
    if verdict == "equivalent":
        return Cell(texts("cell.same"), verdict, pair)
    if verdict == "undecided":
        return Cell(texts("cell.undecided"), verdict, pair)
    ratio = summary.ratio if summary.ratio is not None else pair.ratio if pair else 1.0
    phrase = _phrase(view, of, ratio, verdict, pair, _whole(summary))
    if summary.starved:
        counts = {"count": texts.number(summary.starved, 0), "runs": texts.number(summary.runs, 0)}
        phrase = texts("cell.starved", words=phrase, **counts)
    return Cell(phrase, verdict, pair)


def _phrase(
    view: View, of: WorkloadVerdict, ratio: float, verdict: str, pair: Pair | None, whole: bool
) -> str:
    """`46× shorter`, or `at least 20× longer` where the far end is open."""
    texts, kind = view.texts, words.speech(of.metric)
    side: words.Side = "better" if verdict == "better" else "worse"
    near = None
    if pair is not None and pair.open_end:
        near = pair.low if pair.open_end == "high" else pair.high
    amount = words.amount(texts, near or ratio, side, kind, whole=whole)
    if near:
        amount = texts("ratio.at_least", amount=amount)
    return texts("ratio.words", amount=amount, word=words.word(texts, side, kind))


def _whole(summary: CandidateSummary) -> bool:
    """Whether the interval is too wide for a decimal of a percentage."""
    low, high = summary.ratio_low, summary.ratio_high
    wide = low is not None and high is not None and high - low >= 0.02
    return wide and summary.ratio is not None and abs(summary.ratio - 1) >= 0.01


def population(view: View) -> list[str]:
    """The population of the verdict, in sentences."""
    texts, of = view.texts, view.verdict.population
    kind = view.experiment.kind
    key = {"sim": "simulated", "import": "imported"}.get(kind, "measured")
    workloads = texts.counted("scope.workloads", of.workloads or len(view.workloads))
    device = device_text(view)
    where = texts("population.on", workloads=workloads, device=device) if device else workloads
    parts = [where]
    sessions = kind in ("io", "cpu")
    if sessions and of.sessions == 1:
        parts.append(texts("population.this_session"))
    elif sessions:
        parts.append(texts.counted("population.sessions", of.sessions))
    unit = "scope.blocks" if view.experiment.blocked else "scope.repetitions"
    if count := _repetitions(view):
        parts.append(texts.counted(unit, count))
    if kind == "io" and of.layouts:
        parts.append(texts.counted("population.layouts", of.layouts))
    if of.seconds and sessions:
        parts.append(texts.duration(of.seconds))
    return [texts(f"population.{key}", parts=", ".join(parts)), *_holds(view, sessions)]


def _repetitions(view: View) -> int:
    """Blocks of the verdict, or of the workload with most of them where only some have one."""
    if view.verdict.code == "single" and not view.is_single:
        return max(of.blocks for of in view.workloads)
    repeated = (row.runs for of in view.workloads for row in of.candidates)
    return view.verdict.population.blocks or max(repeated, default=0)


def _holds(view: View, sessions: bool) -> list[str]:
    """What may shift the verdict."""
    texts, of, stopping = view.texts, view.verdict.population, view.verdict.stopping
    lines = [texts("population.model")] if view.medium == "emulated" else []
    if sessions and of.claims_sessions:
        of_files = view.experiment.kind == "io"
        if of.claims_boots:
            lines.append(texts("population.all_sessions" if of_files else "population.all_boots"))
        else:
            key = "population.all_layouts" if of_files else "population.repeated"
            lines += [texts(key), texts("population.shift_boot")]
    elif sessions and of.sessions > 1:
        lines.append(texts("population.these_sessions"))
    elif sessions:
        lines.append(texts("population.shift" if view.experiment.kind == "io" else
                           "population.shift_boot"))  # fmt: skip
    few = of.blocks >= 2 and view.experiment.blocked and of.steady_assumed
    if few:
        lines.append(texts("population.steady"))
    if few and 0 < (view.verdict.overall.mdd or 0) <= MDD_MAX and not view.says_mdd:
        mdd = words.share(texts, view.verdict.overall.mdd or 0)
        lines.append(texts("population.mdd", mdd=mdd))
    if stopping.error > 0.051:
        lines.append(texts("population.extended", error=f"{stopping.error:.3g}"))
    return lines


def device_text(view: View) -> str:
    """The device in a few words, with what a scheduler's effect depends on."""
    texts, target = view.texts, view.experiment.target
    if view.experiment.kind != "io":
        return view.verdict.population.device
    kind = str(target.kind)
    name = view.verdict.population.device
    if not name:
        known = kind in ("scratch", "device", "directory", "emulated")
        values = {"path": target.path, "model": target.model, "dilate": f"{target.dilate:g}"}
        key = f"{kind}_dilated" if kind == "emulated" and target.dilate != 1 else kind
        name = texts(f"population.{key}", **values) if known else ""
    facts = _device_facts(view)
    if not name or not facts or "(" in name:
        return name
    return texts("population.facts", device=name, facts=", ".join(facts))


def _device_facts(view: View) -> list[str]:
    """`rotational 0` and the number of tags, as the runs found them, else from `host.json`."""
    host = dict(flatten(view.record.host))
    stated = next((r.properties for r in view.runs if "driver_tags" in r.properties), {})
    facts = []
    rotational = stated.get("rotational", host.get("device.queue.rotational"))
    if rotational not in (None, ""):
        facts.append(view.texts("population.rotational", value=int(rotational)))
    tags = stated.get("driver_tags", host.get("device.queue.nr_requests"))
    if len({r.properties.get("driver_tags", tags) for r in view.runs}) > 1:
        tags = ""  # each workload has its own
    if tags not in (None, ""):
        facts.append(view.texts("population.tags", count=tags))
    return facts
