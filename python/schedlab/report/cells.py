"""The cells of the tables that every form of the report shows, as text in its language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.report import words
from schedlab.report.charts import Interval
from schedlab.report.sentences import change_text
from schedlab.report.texts import Scale
from schedlab.report.view import View, size_text, turned
from schedlab.spec import KneeFigure, Metric, Overall, Pair, ParetoPoint, WorkloadVerdict

# An interval whose ends differ by more than this is useless.
UNINFORMATIVE = 1000.0
# A shape for every verdict, so that colour never carries it alone.
SYMBOLS = {
    "better": "▲",
    "worse": "▼",
    "equivalent": "=",
    "undecided": "?",
    "baseline": "●",
}


@dataclass(frozen=True)
class PairText:
    """A pair in words, the better one first, as the headline reads."""

    title: str
    amount: str
    interval: str
    verdict: str
    remark: str
    drawn: Interval


def metric_with(of: WorkloadVerdict | Overall) -> tuple[Metric | None, bool]:
    """The metric of a verdict, and whether more of it is better."""
    if isinstance(of, WorkloadVerdict):
        return of.metric, of.metric.higher_is_better
    return of.metric, of.metric.higher_is_better if of.metric else of.higher_is_better


def drawn(pair: Pair, higher_is_better: bool, name: str = "") -> Interval:
    """A pair on a ratio axis whose right side is better for its first candidate."""
    ratio, low, high = pair.ratio, pair.low, pair.high
    if not higher_is_better:
        ratio, low, high = 1 / ratio, _inverse(high), _inverse(low)
    return Interval(name, ratio, low, high, pair.verdict)


def _inverse(value: float | None) -> float | None:
    return None if not value else 1 / value


def pair_texts(view: View, of: WorkloadVerdict | Overall, pairs: Sequence[Pair]) -> list[PairText]:
    """Every pair in words, the better one first."""
    return [_pair_text(view, of, pair) for pair in pairs]


def _pair_text(view: View, of: WorkloadVerdict | Overall, pair: Pair) -> PairText:
    texts = view.texts
    metric, higher = metric_with(of)
    behind = pair.verdict == "worse" or (
        pair.verdict != "better" and (pair.ratio < 1) == higher and pair.ratio != 1
    )
    first = turned(pair) if behind else pair
    title = texts("text.against", a=first.a, b=first.b)
    shown = drawn(first, higher, title)
    kind = words.speech(metric)
    amount = texts(
        "ratio.words",
        amount=words.amount(texts, shown.ratio, "better", kind),
        word=words.word(texts, "better", kind),
    )
    if pair.verdict == "equivalent":
        amount = texts("cell.same")
    if shown.low is None or shown.high is None:
        inside = _known_end(view, shown, kind) if pair.open_end else dash(view)
    else:
        inside = words.between(texts, shown.ratio, shown.low, shown.high, "better", kind)
    remark = texts.listed([texts.maybe(f"pair_code.{code}", code) for code in pair.codes])
    word = verdict_text(view, first.verdict)
    return PairText(title, amount, inside or dash(view), word, remark, shown)


def _known_end(view: View, shown: Interval, kind: words.Speech) -> str:
    """`at least 48×` or `up to 17 %`, where one end is known and on the side of the ratio."""
    for key, end in (("ratio.at_least", shown.low), ("ratio.up_to", shown.high)):
        if end is not None:
            amount = words.amount(view.texts, end, "better", kind)
            return view.texts(key, amount=amount) if end > 1 else dash(view)
    return dash(view)


def pair_lines(view: View) -> list[str]:
    """The headline of a difference, then a line for each pair of each workload."""
    lines = [change_text(view).replace("\u00a0", " ")]
    for of in view.workloads:
        for each in pair_texts(view, of, of.pairs):
            amount = each.amount
            if each.interval != dash(view):
                amount = view.texts("format.bracket", text=each.amount, inside=each.interval)
            line = f"  {of.workload}: {each.title}: {amount} {each.verdict}"
            lines.append(line.replace("\u00a0", " "))
    return lines


def verdict_text(view: View, kind: str) -> str:
    """`▼ worse`."""
    return f"{SYMBOLS.get(kind, '')} {view.texts(f'verdict.{kind}')}".strip()


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
    if low is None or high is None or high > UNINFORMATIVE * abs(low):
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
    """The fitted knees, without families of too few sizes."""
    return [knee for knee in view.verdict.knees if knee.reason != "too few values"]


def _size(view: View, knee: KneeFigure, value: float) -> str:
    if knee.size.endswith("_bytes"):
        return size_text(value, digits=3).replace(".", view.texts.decimal)
    return view.texts.figure(value)


def dash(view: View) -> str:
    """The mark of an empty cell."""
    return view.texts("verdict.none")
