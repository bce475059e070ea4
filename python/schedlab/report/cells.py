"""The cells of the tables that every form of the report shows, as text in its language."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.report.texts import Scale
from schedlab.report.view import View, size_text, summary_of
from schedlab.spec import CandidateSummary, KneeFigure, Pair, ParetoPoint, WorkloadVerdict

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
    if verdict.reason == "no-interval" or len(verdict.candidates) < 2:
        return dash(view)
    if len(verdict.best_set) == 1:
        return verdict.best_set[0]
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


@dataclass(frozen=True)
class ParetoTable:
    """Throughput against p99 latency of one workload: the units of a column, and the rows."""

    workload: str
    points: tuple[ParetoPoint, ...]
    throughput: Scale
    latency: Scale
    throughput_title: str
    latency_title: str

    @property
    def dominates(self) -> bool:
        """Whether any candidate is dominated."""
        return any(point.dominated_by for point in self.points)


def pareto_tables(view: View) -> list[ParetoTable]:
    """The table of every workload that measured both."""
    return [_pareto_table(view, label, points) for label, points in view.verdict.pareto.items()]


def _pareto_table(view: View, label: str, points: tuple[ParetoPoint, ...]) -> ParetoTable:
    texts = view.texts
    speed = view.experiment.metric_named(points[0].throughput_metric)
    tail = view.experiment.metric_named(points[0].latency_metric)
    fast = Scale.fitting([point.throughput for point in points], speed.unit)
    slow = Scale.fitting([point.latency for point in points], tail.unit)
    return ParetoTable(
        workload=label,
        points=points,
        throughput=fast,
        latency=slow,
        throughput_title=f"{texts.metric(speed)}, {fast.unit}".rstrip(", "),
        latency_title=f"{texts.metric(tail)}, {slow.unit}".rstrip(", "),
    )


def pareto_cells(view: View, table: ParetoTable, point: ParetoPoint) -> list[str]:
    """A candidate's throughput and interval, latency and interval, and who dominates it."""
    return [
        view.texts.figure(point.throughput / table.throughput.factor),
        interval(view, point.throughput_low, point.throughput_high, table.throughput),
        view.texts.figure(point.latency / table.latency.factor),
        interval(view, point.latency_low, point.latency_high, table.latency),
        view.texts.listed(point.dominated_by) or dash(view),
    ]


def knee_heads(view: View) -> list[str]:
    """The headers over `knee_cells`."""
    heads = [view.texts(f"column.{name}") for name in ("test", "candidate", "knee")]
    if len(kinds := {_knee_kind(view, knee) for knee in shown_knees(view)}) == 1:
        heads[2] += f" ({kinds.pop()})"
    heads.append(view.texts("column.interval", confidence=view.confidence))
    return [*heads, view.texts("column.exponents"), view.texts("column.remark")]


def knee_cells(view: View, knee: KneeFigure) -> list[str]:
    """Family, candidate, knee, interval, exponents, and what must be known of it."""
    texts = view.texts
    where = between = exponents = dash(view)
    if knee.knee is not None and knee.low is not None and knee.high is not None:
        where = _size(view, knee, knee.knee)
        ends = [_size(view, knee, end) for end in (knee.low, knee.high)]
        between = texts("format.interval", low=ends[0], high=ends[1])
    if knee.slope_before is not None and knee.slope_after is not None:
        slopes = dict.fromkeys(texts.number(s, 2) for s in (knee.slope_before, knee.slope_after))
        exponents = " → ".join(slopes)
    family = knee.family
    if len({_knee_kind(view, each) for each in shown_knees(view)}) > 1:
        family += f": {_knee_kind(view, knee)}"
    reasons = {"straight": "straight", "edge": "edge", "too few values": "few"}
    remark = texts(f"text.knee_{reasons[knee.reason]}") if knee.reason in reasons else ""
    return [family, knee.candidate or dash(view), where, between, exponents, remark]


def _knee_kind(view: View, knee: KneeFigure) -> str:
    """`throughput, record size`: what bends over what."""
    size = "depth" if knee.size.endswith("depth") else knee.size
    return f"{view.texts.metric(knee.metric)}, {view.texts(f'size.{size}')}"


def shown_knees(view: View) -> list[KneeFigure]:
    """The knees that were looked for: families of too few sizes are left out."""
    return [knee for knee in view.verdict.knees if knee.reason != "too few values"]


def _size(view: View, knee: KneeFigure, value: float) -> str:
    if knee.size.endswith("_bytes"):
        return size_text(value, digits=3).replace(".", view.texts.decimal)
    return view.texts.figure(value)


def dash(view: View) -> str:
    """What stands where there is nothing."""
    return view.texts("verdict.none")
