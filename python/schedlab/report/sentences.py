"""The verdict in words, made from its structure in any language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.report.cells import SYMBOLS
from schedlab.report.texts import Scale
from schedlab.report.view import View, seen_from, size_text, summary_of
from schedlab.spec import Flag, Metric, Overall, Pair, WorkloadVerdict

# Beyond this, "they differ by at most" would say nothing: the measurements scatter too much.
REACH_MAX = 0.25
# Beyond this not even the size of the difference can be bounded.
BOUND_MAX = 1.0
# Values of a flag that are shares, by name, and whether they carry a sign.
SHARES = {
    "change": True, "difference": True, "noise_floor": False, "cpu_share": False, "margin": False,
    "explained": False,
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """One verdict, of a workload or of all: what the sentences are about."""

    metric: Metric | None
    names: tuple[str, ...]
    pairs: tuple[Pair, ...]
    best: tuple[str, ...]
    reason: str
    margin: float


def answer(view: View, of: WorkloadVerdict | Overall) -> Answer:
    """The answer of one workload or of all together."""
    metric = of.metric if isinstance(of, WorkloadVerdict) else view.overall_metric()
    names = tuple(row.candidate for row in of.candidates)
    return Answer(metric, names, of.pairs, of.best_set, of.reason, of.margin)


def headlines(view: View) -> list[str]:
    """The verdict of the whole experiment: one sentence, and a second where workloads disagree.

    Where a candidate is better on some workloads and worse on others, that comes first: the mean
    over all of them hides it. It also hides that a winner may owe all to a few workloads.
    """
    said = answer(view, view.verdict.overall)
    lines = [sentence(view, said), *filter(None, [_concentration(view, said)])]
    if differs := _disagreement(view, said):
        lines = [differs, view.texts("headline.overall", sentence=lines[0])]
    if goal := view.verdict.goal:
        wanted = view.texts(f"goal.{goal}")
        lines[0] = view.texts("headline.goal", goal=wanted, sentence=lines[0])
    return lines


def headline(view: View) -> str:
    """`headlines` as one text."""
    return ". ".join(headlines(view))


def _concentration(view: View, said: Answer) -> str:
    """On which workloads alone the winner is better than the baseline; or, where nothing is
    separated yet, who is better somewhere and worse nowhere.
    """
    baseline, winner = view.verdict.baseline, said.best[0] if len(said.best) == 1 else ""
    if winner == baseline or said.reason == "tied":
        return ""
    names = [winner] if winner else [n for n in said.names if not view.outcomes(n)["worse"]]
    name = max(names, key=lambda each: view.outcomes(each)["better"], default="")
    rows = [(w.workload, summary_of(w.candidates, name)) for w in view.workloads]
    won = [label for label, row in rows if row is not None and row.verdict == "better"]
    if not won or len(rows) < 2 or (winner and 2 * len(won) >= len(rows)):
        return ""
    rest = view.texts.counted("scope.on_workloads", len(rows) - len(won))
    key = "headline.concentrated" if winner else "headline.somewhere"
    shown = {"won": view.texts.listed(won), "rest": rest, "name": name, "baseline": baseline}
    return view.texts(key, **shown)


def _disagreement(view: View, said: Answer) -> str:
    """Which candidate is better on some workloads and worse on others, if any is."""
    texts, worst, words = view.texts, 0, ""
    for name in said.names:
        found = view.outcomes(name)
        better, worse = found["better"], found["worse"]
        if min(better, worse) and better + worse > worst:
            worst = better + worse
            words = texts(
                "headline.differs",
                name=name,
                baseline=view.verdict.baseline,
                better=texts.counted("scope.on_workloads", better),
                worse=texts.counted("scope.on_workloads", worse),
            )
    return words


def sentence(view: View, said: Answer) -> str:
    """A verdict in one sentence."""
    texts = view.texts
    if len(said.names) < 2:
        return texts("headline.alone", names=texts.listed(said.names or view.names))
    if said.reason == "no-interval":
        return texts("headline.single_runs", noun=texts.noun(view.experiment.kind))
    names = texts.listed(said.best)
    margin = texts.margin(said.margin)
    losers = [name for name in said.names if name not in said.best]
    if len(said.best) == 1:
        return _winner(view, said, losers)
    if said.reason == "tied" and not losers:
        return texts("headline.tied_all", names=names, margin=margin, **_nouns(view))
    if said.reason == "tied":
        first = texts("headline.tied", names=names, margin=margin)
    else:
        close = said.reason == "cannot-separate" and _reach(said) <= REACH_MAX
        by = "" if view.experiment.blocked else "_runs"
        key = f"headline.cannot_separate{by}" if close else "headline.unseparated"
        key = "headline.cannot_bound" if _reach(said) > BOUND_MAX else key
        first = texts(key, names=names, margin=texts.percent(_reach(said), signed=False))
    return "; ".join(filter(None, (first, _losers(view, said, losers))))


def _nouns(view: View) -> dict[str, str]:
    kind = view.experiment.kind
    return {"noun": view.texts.noun(kind), "nouns": view.texts.noun(kind, plural=True)}


def _winner(view: View, said: Answer, losers: Sequence[str]) -> str:
    """The winner beside the baseline, or beside the nearest where it is the baseline itself."""
    best, baseline = said.best[0], view.verdict.baseline
    beside = [seen_from(said.pairs, best, name) for name in losers]
    known = [pair for pair in beside if pair is not None]
    nearest = min(known, key=lambda pair: abs(pair.ratio - 1))
    if best != baseline and baseline in losers:
        nearest = next(pair for pair in known if pair.b == baseline)
    key = "headline.baseline_wins" if best == baseline and len(losers) > 1 else "headline.winner"
    difference = difference_words(view, said.metric, nearest)
    return view.texts(key, best=best, difference=difference, other=nearest.b, **_nouns(view))


def _losers(view: View, said: Answer, losers: Sequence[str]) -> str:
    """Who is outside the best set, against the baseline where that is inside, else the first."""
    if len(losers) > 2:
        return view.texts("headline.worse_many", names=view.texts.listed(losers))
    baseline = view.verdict.baseline
    other = baseline if baseline in said.best else said.best[0]
    parts = []
    for name in losers:
        pairs = [seen_from(said.pairs, name, best) for best in (other, *said.best)]
        pair = next((p for p in pairs if p is not None and p.verdict == "worse"), pairs[0])
        if pair is not None:
            words = difference_words(view, said.metric, pair)
            said_of = {"name": name, "difference": words, "other": pair.b}
            parts.append(view.texts("headline.worse_one", **said_of))
    return "; ".join(parts)


def _reach(said: Answer) -> float:
    """How large a difference between the best candidates can still be."""
    ends = [
        max(pair.high - 1, 1 / pair.low - 1)
        for pair in said.pairs
        if pair.a in said.best and pair.b in said.best and pair.low and pair.high
    ]
    return max(ends, default=0.0)


def difference_words(view: View, metric: Metric | None, pair: Pair) -> str:
    """`3.6 % less throughput (2.2 to 5.0 %)`."""
    texts = view.texts
    name = texts.metric(metric) if metric else texts("difference.performance")
    key = "difference.more" if pair.ratio >= 1 else "difference.less"
    percent = texts.percent(pair.ratio - 1).lstrip("+\u2212")
    if pair.low is None or pair.high is None:
        return texts(f"{key}_plain", percent=percent, metric=name)
    interval = texts.ratio_interval(pair.low, pair.high)
    return texts(key, percent=percent, metric=name, interval=interval)


def scope(view: View) -> str:
    """What the verdict rests on: `21 workloads × 4 schedulers in 8 blocks: …`."""
    texts = view.texts
    blocks = max((w.blocks for w in view.workloads), default=0)
    unit = "blocks" if view.experiment.blocked else "repetitions"
    return texts(
        "scope.summary",
        workloads=texts.counted("scope.workloads", len(view.workloads)),
        candidates=texts.counted(f"noun.{view.experiment.kind}", len(view.names)),
        blocks=texts.counted(f"scope.{unit}", blocks),
        runs=texts.counted("scope.runs", len(view.runs)),
        discarded=texts.number(len(view.discarded), 0),
    )


def confidence(view: View) -> str:
    """What the intervals and the margin mean."""
    margin = view.texts.margin(view.verdict.overall.margin)
    return view.texts("scope.confidence", confidence=view.confidence, margin=margin)


def stopping(view: View) -> str:
    """The stopping rule that was fixed before the first run."""
    mode = view.experiment.stopping.mode.replace("-", "_")
    return view.texts("text.decided_after", rule=view.texts(f"text.rule_{mode}"))


def next_step(view: View) -> str:
    """What to do with the answer."""
    texts, said = view.texts, answer(view, view.verdict.overall)
    baseline = view.verdict.baseline
    if said.reason == "no-interval" or len(said.names) < 2:
        return texts("next.repeat", **_nouns(view))
    if _disagreement(view, said):
        return texts("next.depends", **_nouns(view))
    if len(said.best) == 1 and said.best[0] != baseline:
        key = "next.apply" if view.experiment.kind == "io" else "next.choose"
        return texts(key, best=said.best[0])
    if said.best == (baseline,) or (said.reason == "tied" and baseline in said.best):
        return texts("next.keep", baseline=baseline)
    if said.reason == "tied":
        return texts("next.any", names=texts.listed(said.best))
    return _more_blocks(view, said)


def _more_blocks(view: View, said: Answer) -> str:
    """How many blocks would separate the undecided pair that needs most of them."""
    texts = view.texts
    inside = [p for p in said.pairs if p.a in said.best and p.b in said.best and p.blocks_needed]
    if _reach(said) > REACH_MAX:
        return texts("next.too_noisy")
    if not inside or said.reason == "cannot-separate":
        return texts("next.more_unknown")
    pair = max(inside, key=lambda p: p.blocks_needed or (0, 0))
    low, high = pair.blocks_needed or (0, 0)
    made = max(w.blocks for w in view.workloads)
    return texts(
        "next.more_blocks",
        low=texts.number(low, 0),
        high=texts.number(high, 0),
        pair=texts("text.against", a=pair.a, b=pair.b),
        total=made + high,
    )


def flag_title(view: View, flag: Flag) -> str:
    """The kind of a flag in words."""
    return view.texts.maybe(f"flag.{flag.kind}", flag.kind.replace("-", " "))


def flag_text(view: View, flag: Flag) -> str:
    """What a flag says: from its kind and values where the catalogue knows it, else as it is."""
    texts = view.texts
    variant = next(
        (f"-{name}" for name in ("demonstrated", "rowless", "apart") if flag.values.get(name)), ""
    )
    key = f"flag_text.{flag.kind}{variant}"
    if key not in texts.entries:
        return flag.text
    try:
        return texts(key, **_flag_values(view, flag))
    except (KeyError, TypeError, ValueError):  # an older folder whose flags carry other values
        return flag.text


def _flag_values(view: View, flag: Flag) -> dict[str, str]:
    """What the placeholders of a flag's text stand for."""
    texts, given = view.texts, flag.values
    values = {
        "workload": flag.workload,
        "names": texts.listed(flag.candidates),
        "blocks": texts.listed(_numbers(view, given.get("blocks"))),
    }
    for name in SHARES.keys() & given.keys():
        if isinstance(given[name], int | float):
            values[name] = texts.percent(float(given[name]), signed=SHARES[name])
    for name in {"metric", "instead"} & given.keys():
        values[name] = texts.metric(view.experiment.metric_named(given[name]))
    for name in {"published", "mean"} & given.keys():
        values[name] = f"{texts.number(given[name], 3)} {given['unit']}".rstrip()
    if "block" in given:
        values["block"] = str(view.record.number_of(int(given["block"])))
    if "goal" in given:
        values["goal"] = texts(f"goal.{given['goal']}")
    if "reach" in given:
        more = "> " if given.get("unbounded") else ""
        values["reach"] = f"{more}±{texts.percent(given['reach'], signed=False)}"
    if flag.kind == "unbalanced":
        fewer = (f"{name} {given['runs'][name]}" for name in flag.candidates)
        values |= {"counts": texts.listed(list(fewer)), "most": str(given["most"])}
    if flag.kind == "cold-first-run":
        scale = Scale.fitting(list(given["difference"].values()), given["unit"])
        ends = (min(given["difference"].values()), max(given["difference"].values()))
        low, high = (texts.figure(end / scale.factor) for end in ends)
        values["range"] = f"{texts('format.interval', low=low, high=high)} {scale.unit}"
    if flag.kind == "wrong-mean" and "rows" in given:
        values["rows"] = texts.number(given["rows"], 0)
    if flag.kind == "call-cost":
        values["per_call"] = texts.quantity(given["seconds_per_call"], "s")
        values["constant"] = texts.quantity(given["constant_s"], "s")
    return values


def _numbers(view: View, blocks: object) -> list[str]:
    """Blocks by their numbers; a bare count with its noun."""
    if isinstance(blocks, list | tuple):
        return [str(view.record.number_of(int(block))) for block in blocks]
    unit = "blocks" if view.experiment.blocked else "repetitions"
    return [view.texts.counted(f"scope.{unit}", blocks)] if isinstance(blocks, int) else []


def symbol_help(view: View) -> str:
    """The legend of the symbols in the tables."""
    kinds = ("better", "worse", "equivalent", "undecided")
    parts = (f"{SYMBOLS[kind]} {view.texts(f'symbol_help.{kind}')}" for kind in kinds)
    return "; ".join(parts)


def omitted(view: View) -> list[str]:
    """What is not in the figures, and why."""
    texts = view.texts
    lines = list(view.record.notices)
    if view.discarded:
        runs = texts.counted("scope.runs", len(view.discarded))
        lines.append(texts("text.gates_some", count=runs))
    if view.record.dropped_blocks:
        blocks = texts.listed(
            [str(view.record.number_of(block)) for block in view.record.dropped_blocks]
        )
        lines.append(texts("text.dropped_blocks", blocks=blocks))
    ran = {run.key for run in view.record.runs}
    if missing := sum(cell.key not in ran for cell in view.record.plan.cells):
        lines.append(texts("text.missing_cells", count=texts.number(missing, 0)))
    return lines or [texts("text.omitted_none")]


def design(view: View) -> list[str]:
    """How the runs were arranged, in sentences."""
    texts, experiment = view.texts, view.experiment
    target = experiment.target
    size = size_text(target.size_bytes)
    lines = []
    if experiment.blocked:
        cells = len({(c.workload, c.candidate) for c in view.record.plan.cells})
        lines.append(texts("text.design_order", cells=cells, seed=experiment.seed))
    else:
        lines.append(texts("text.design_unblocked"))
        lines.append(texts("scope.unblocked", **_nouns(view)))
    if experiment.aa_arm:
        lines.append(texts("text.design_aa"))
    where = texts(f"kind.{target.kind}", size=size, path=target.path)
    lines.append(texts("text.design_target", target=where))
    lines.append(texts("text.design_margin", margin=texts.margin(experiment.margin)))
    lines.append(stopping(view))
    return [*lines, *experiment.notes]
