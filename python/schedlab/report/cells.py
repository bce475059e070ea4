"""The cells of the tables that every form of the report shows, as text in its language."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.report.texts import Scale
from schedlab.report.view import View, summary_of
from schedlab.spec import CandidateSummary, Pair, WorkloadVerdict

# A shape for every verdict, so that colour never carries it alone.
SYMBOLS = {
    "better": "▲",
    "worse": "▼",
    "equivalent": "=",
    "undecided": "?",
    "baseline": "●",
}


@dataclass(frozen=True)
class CandidateRow:
    """A candidate beside the baseline over all workloads."""

    name: str
    summary: CandidateSummary
    difference: str
    interval: str
    verdict: str
    verdict_text: str
    noise_floor: str
    by_workload: str


@dataclass(frozen=True)
class WorkloadCells:
    """A workload in one line: the baseline's mean, the others against it, the best."""

    baseline: str
    others: tuple[str, ...]
    best: str


def candidate_rows(view: View) -> list[CandidateRow]:
    """All candidates in their order."""
    overall, texts = view.verdict.overall, view.texts
    floor = overall.noise_floor
    rows = []
    for name in view.names:
        summary = summary_of(overall.candidates, name)
        if summary is None:
            continue
        kind = "baseline" if name == view.verdict.baseline else summary.verdict or "undecided"
        rows.append(
            CandidateRow(
                name=name,
                summary=summary,
                difference=difference(view, summary),
                interval=texts.ratio_interval(summary.ratio_low, summary.ratio_high),
                verdict=kind,
                verdict_text=verdict_text(view, kind),
                noise_floor=dash(view) if floor is None else texts.percent(floor, signed=False),
                by_workload=by_workload(view, name),
            )
        )
    return rows


def workload_cells(view: View, verdict: WorkloadVerdict) -> WorkloadCells:
    """The line of one workload."""
    texts = view.texts
    base = summary_of(verdict.candidates, view.verdict.baseline)
    others = []
    for name in view.names:
        if name == view.verdict.baseline:
            continue
        summary = summary_of(verdict.candidates, name)
        if summary is None:
            others.append(dash(view))
        else:
            symbol = SYMBOLS.get(summary.verdict or "", "")
            others.append(f"{difference(view, summary)} {symbol}")
    mean = texts.quantity(base.geometric_mean, verdict.metric.unit) if base else dash(view)
    return WorkloadCells(mean, tuple(others), best_text(view, verdict))


def best_text(view: View, verdict: WorkloadVerdict) -> str:
    """The winner's name, or why there is none."""
    if len(verdict.best_set) == 1:
        return verdict.best_set[0]
    if verdict.reason == "no-interval":
        return dash(view)
    return view.texts("verdict.tied" if verdict.reason == "tied" else "verdict.open")


def by_workload(view: View, name: str) -> str:
    """`▲ 1  ▼ 21`: on how many workloads a candidate is better, worse, … than the baseline."""
    found = view.outcomes(name)
    kinds = [kind for kind in SYMBOLS if found.get(kind)]
    return "  ".join(f"{SYMBOLS[kind]}\u00a0{found[kind]}" for kind in kinds) or dash(view)


def difference(view: View, summary: CandidateSummary) -> str:
    """`−3.6 %`, or a dash for the baseline."""
    return dash(view) if summary.ratio is None else view.texts.percent(summary.ratio - 1)


def verdict_text(view: View, kind: str) -> str:
    """`▼ worse`."""
    return f"{SYMBOLS.get(kind, '')} {view.texts(f'verdict.{kind}')}".strip()


def pair_verdict(view: View, pair: Pair) -> str:
    """`▼ worse (fragile)`."""
    text = verdict_text(view, pair.verdict)
    return f"{text} ({view.texts('verdict.fragile')})" if pair.fragile else text


def blocks_needed(view: View, pair: Pair) -> str:
    """`4 to 12` further blocks."""
    if pair.blocks_needed is None:
        return dash(view)
    low, high = (view.texts.number(count, 0) for count in pair.blocks_needed)
    return low if low == high else view.texts("format.interval", low=low, high=high)


def scale_of(verdict: WorkloadVerdict) -> Scale:
    """One unit for all means of a workload."""
    return Scale.fitting([row.geometric_mean for row in verdict.candidates], verdict.metric.unit)


def interval(view: View, low: float | None, high: float | None, scale: Scale) -> str:
    """`810 to 834`, in the unit of `scale`."""
    if low is None or high is None:
        return dash(view)
    ends = (view.texts.figure(low / scale.factor), view.texts.figure(high / scale.factor))
    return view.texts("format.interval", low=ends[0], high=ends[1])


def dash(view: View) -> str:
    """What stands where there is nothing."""
    return view.texts("verdict.none")
