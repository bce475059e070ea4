"""The code of a headline and the values of its sentence: the first row of a table that applies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schedlab.analyse.pairs import between, fact_of, seen_from
from schedlab.analyse.residuals import Outlier
from schedlab.spec import Code, Fact, Headline, Needed, Pair, WorkloadVerdict

#: Further blocks that a report advises where one block was measured.
BLOCKS_TO_START = 4
#: With a minimum detectable difference above this share the figures are too noisy.
TOO_NOISY = 1.0
# More blocks than that are not worth waiting for.
MORE_BLOCKS_MAX = 40
#: Codes of open pairs that the data would or could decide, but for what the code says.
WITHHELD = ("aa-differs", "not-after-W", "carry-over", "one-way")
PRICE_KINDS = ("workload", "actor", "rival", "metric")


@dataclass(frozen=True)
class Unfinished:
    """A candidate whose runs on a workload are bounds in all blocks."""

    name: str
    workload: str
    time_s: float | None


@dataclass(frozen=True)
class Wild:
    """Blocks (rows) in which a candidate has a wild run, and the median factor."""

    rows: tuple[int, ...]
    factor: float

    @classmethod
    def of(cls, outliers: Sequence[Outlier], labels: Sequence[str], baseline: int | None) -> Wilds:
        """By candidate; the wild runs of the A/A arm (the last column) are the baseline's."""
        found: dict[str, list[Outlier]] = {}
        for each in outliers:
            column = each.column if each.column < len(labels) else baseline or 0
            found.setdefault(labels[column], []).append(each)
        return {
            label: cls(
                tuple(sorted({each.row for each in own})),
                math.exp(float(np.median([abs(each.distance) for each in own]))),
            )
            for label, own in found.items()
        }


Wilds = dict[str, Wild]


@dataclass(frozen=True)
class Scope:
    """What one headline is about: a workload, or all of them together.

    `early_late[a, b]` are log ratios of the two halves; `sessions` the pairs' ratios per session
    are in the pairs. `starved` counts the runs of a candidate that did, and all of its runs.
    """

    candidates: tuple[str, ...]
    baseline: str
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    metric: str
    higher_is_better: bool
    margin: float
    workload: str = ""
    mdd: float | None = None
    needed: Needed | None = None
    units: int = 0
    budget_used: bool = True
    early_late: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    wild: Mapping[str, Wild] = field(default_factory=dict)
    unfinished: tuple[Unfinished, ...] = ()
    starved: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def fact(self, pair: Pair, *, typical: bool = False) -> Fact:
        """A pair of this scope, seen from its better side."""
        return fact_of(
            pair,
            self.metric,
            higher_is_better=self.higher_is_better,
            workload=self.workload,
            typical=typical,
        )

    def against(self, a: str, b: str) -> Fact | None:
        """The fact of two candidates."""
        pair = seen_from(self.pairs, a, b)
        return None if pair is None else self.fact(pair)


def headline(
    scope: Scope,
    workloads: Sequence[WorkloadVerdict] = (),
    secondary: Mapping[str, Sequence[WorkloadVerdict]] | None = None,
) -> Headline:
    """The first row that applies; `workloads` (without controls) where they are several."""
    plain = _finished(scope, workloads, secondary or {})
    if scope.unfinished and plain.code != "single":
        first = scope.unfinished[0]
        names: dict[str, list[str]] = {}
        for each in scope.unfinished:
            names.setdefault(each.workload, []).append(each.name)
        values = {
            "name": first.name,
            "workload": first.workload,
            "time_s": first.time_s,
            "names": names.pop(first.workload),
            "elsewhere": [[workload, own] for workload, own in names.items()],
            "rest": plain.code,
            "rest_values": dict(plain.values),
        }
        return Headline("did-not-finish", values)
    return plain


def _finished(
    scope: Scope,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
) -> Headline:
    if not scope.pairs:
        return Headline("nothing-to-compare", {"candidates": list(scope.candidates)})
    if scope.units == 1:
        values = {"candidates": list(scope.candidates), "blocks": BLOCKS_TO_START - 1}
        return Headline("single", values)
    if len(workloads) > 1 and (headline := _depends(scope, workloads, secondary)) is not None:
        return headline
    if len(scope.best_set) == 1:
        return _one_best(scope, workloads, secondary)
    best = between(scope.pairs, scope.best_set)
    if best and all(pair.verdict == "equivalent" for pair in best):
        values = {
            "names": list(scope.best_set),
            "margin": scope.margin,
            "losers": losers(scope),
            "cost": cost_of(scope, secondary),
        }
        return Headline("tied", values)
    # Claims on single workloads come before a doubt about their mean.
    headline = _best_on(scope, workloads, secondary) if len(workloads) > 1 else None
    headline = headline or _doubtful(scope, best) or _withheld(scope, best, secondary)
    return headline or _open(scope, secondary)


def _best_on(
    scope: Scope,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
) -> Headline | None:
    """Candidates that lead on some workloads and lose on none, where the mean is undecided.

    Of several the one with the largest gain, and those that share its workload's best set. The
    workloads with the same leaders are theirs.
    """
    clean = _leads_without_loss(scope, workloads)
    if not clean:
        return None
    name = max(clean, key=lambda label: max(fact.ratio for fact in clean[label]))
    best = max(clean[name], key=lambda fact: fact.ratio)
    leaders = {
        fact.workload: [label for label in clean if fact.workload in _places(clean[label])]
        for fact in clean[name]
    }
    won = [place for place, labels in leaders.items() if labels == leaders[best.workload]]
    left = [w for w in workloads if w.workload not in won]
    also = [fact for w in left if (fact := _told(w, name, scope)) is not None]
    same = [w for w in left if _all_equivalent(w)]
    named = {fact.workload for fact in also} | {w.workload for w in same}
    rest = [w for w in left if w.workload not in named]
    others = [w for w in rest if not _decides(w)]
    seen = [w.mdd for w in others if w.mdd is not None]
    values = {
        "name": name,
        "names": [name, *(label for label in leaders[best.workload] if label != name)],
        "baseline": scope.baseline,
        "won": won,
        "best": best.values(),
        "also": [fact.values() for fact in also],
        "same": [w.workload for w in same],
        "within": max((_reach(w) for w in same), default=None),
        "others": [w.workload for w in others],
        "mdd": max(seen) if seen and len(seen) == len(others) else None,
        "undecided": [w.workload for w in rest if _decides(w) and _is_open(w, name, scope)],
        "price": price_of(name, scope.baseline, workloads, secondary),
    }
    return Headline("best-on", values)


def _leads_without_loss(
    scope: Scope, workloads: Sequence[WorkloadVerdict]
) -> dict[str, list[Fact]]:
    """By candidate its claims against the baseline where it leads; only those that never lose."""
    best_of = {work.workload: work.best_set for work in workloads}
    leads: dict[str, list[Fact]] = {}
    for label in scope.candidates:
        if label == scope.baseline:
            continue
        won, lost = _claims(workloads, label, scope.baseline)
        leading = [fact for fact in won if label in best_of[fact.workload]]
        if leading and not lost:
            leads[label] = leading
    return leads


def _places(facts: Sequence[Fact]) -> set[str]:
    return {fact.workload for fact in facts}


def _told(work: WorkloadVerdict, name: str, scope: Scope) -> Fact | None:
    """What is said of a workload that is not `name`'s: its claim there, else that of the leader."""
    won, _ = _claims([work], name, scope.baseline)
    return won[0] if won else _leader(work, scope)


def _decides(work: WorkloadVerdict) -> bool:
    """Whether any pair of a workload is better or worse."""
    return any(pair.verdict in ("better", "worse") for pair in work.pairs)


def _is_open(work: WorkloadVerdict, name: str, scope: Scope) -> bool:
    pair = seen_from(work.pairs, name, scope.baseline)
    return pair is not None and pair.verdict == "undecided"


def _leader(work: WorkloadVerdict, scope: Scope) -> Fact | None:
    """The largest claim against the baseline on a workload, of the candidates that lead there."""
    claims = [
        fact
        for label in scope.candidates
        if label != scope.baseline and label in work.best_set
        for fact in _claims([work], label, scope.baseline)[0]
    ]
    return max(claims, key=lambda fact: fact.ratio, default=None)


def losers(scope: Scope) -> list[dict[str, Any]]:
    """Facts of those that are not in the best set, nearest first, each against its best rival."""
    facts = []
    for label in scope.candidates:
        if label in scope.best_set:
            continue
        beaten = [pair for b in scope.best_set if (pair := seen_from(scope.pairs, b, label))]
        beaten = [pair for pair in beaten if pair.verdict == "better"] or beaten
        if beaten:
            facts.append(min((scope.fact(pair) for pair in beaten), key=lambda f: f.ratio))
    return [fact.values() for fact in sorted(facts, key=lambda f: f.ratio)]


def _one_best(
    scope: Scope,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
) -> Headline:
    (best,) = scope.best_set
    others = [label for label in scope.candidates if label != best]
    facts = [fact for label in others if (fact := scope.against(best, label))]
    runner_up = min(facts, key=lambda fact: fact.ratio)
    other = scope.baseline if scope.baseline in others else runner_up.worse
    gain = scope.against(best, other) or runner_up
    price = price_of(best, other, workloads, secondary)
    if best == scope.baseline and price is None:
        values: dict[str, Any] = {
            "baseline": best,
            "next": runner_up.worse,
            "loss": runner_up.values(),
            "losers": losers(scope),
        }
        return Headline("keep", values)
    values = {
        "best": best,
        "baseline": scope.baseline,
        "gain": gain.values(),
        "other": other,
        "runner_up": runner_up.values(),
        "price": price,
        "unseen": None if price else unseen_loss(best, other, workloads, secondary),
        "losers": losers(scope),
        "example": _example(workloads, best, other),
    }
    return Headline("winner-price" if price else "winner", values)


def _example(workloads: Sequence[WorkloadVerdict], best: str, other: str) -> dict[str, Any] | None:
    """The largest claim of the winner on one workload; None where there is only one workload."""
    if len(workloads) < 2:
        return None
    won, _ = _claims(workloads, best, other)
    return max(won, key=lambda fact: fact.ratio).values() if won else None


def price_of(
    best: str,
    other: str,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
    only: str = "",
) -> dict[str, Any] | None:
    """The price of the best one against `other`: the largest loss of the first kind with one.

    Kinds in order: claims on other workloads, other actors of the same runs, workloads where a
    third candidate beats it, further metrics. `only` restricts actors and metrics to one
    workload, and leaves the workloads out.
    """
    prices: dict[str, list[tuple[Fact, str]]] = {kind: [] for kind in PRICE_KINDS}
    for work in workloads if not only else ():
        _note(prices["workload"], work, best, other)
        rivals: list[tuple[Fact, str]] = []
        for row in work.candidates:
            if row.candidate not in (best, other):
                _note(rivals, work, best, row.candidate)
        if rivals:
            prices["rival"].append(max(rivals, key=lambda entry: entry[0].ratio))
    for label, verdicts in secondary.items():
        for work in verdicts:
            if not only or label == only:
                _note(prices["actor" if work.actor else "metric"], work, best, other)
    for kind in PRICE_KINDS:
        if prices[kind]:
            fact, actor = max(prices[kind], key=lambda entry: entry[0].ratio)
            more = sum(len(entries) for entries in prices.values()) - 1
            return {"kind": kind, "fact": fact.values(), "actor": actor, "more": more}
    return None


def cost_of(
    scope: Scope, secondary: Mapping[str, Sequence[WorkloadVerdict]]
) -> dict[str, Any] | None:
    """What separates the best all the same: the largest claim on other metrics or other actors.

    Against the baseline, or the first of the best where that is not among them: {fact, actor,
    more, names}, `names` those that lose anywhere.
    """
    if not scope.best_set:
        return None
    one = scope.baseline if scope.baseline in scope.best_set else scope.best_set[0]
    claims: list[tuple[Fact, str]] = []
    for work in (work for verdicts in secondary.values() for work in verdicts):
        for label in scope.best_set:
            if label != one:
                _note(claims, work, label, one)
                _note(claims, work, one, label)
    if not claims:
        return None
    fact, actor = max(claims, key=lambda entry: entry[0].ratio)
    names = sorted({fact.worse for fact, _ in claims})
    return {"fact": fact.values(), "actor": actor, "more": len(claims) - 1, "names": names}


def unseen_loss(
    best: str,
    other: str,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
) -> dict[str, Any] | None:
    """The largest loss of the best one beside `other` that its intervals allow: {fact, actor}.

    On workloads, and of the other actors of their runs, where nothing is decided between the two;
    `None` where there is none, or where all that may be lost is within the margin.
    """
    actors = (work for each in secondary.values() for work in each if work.actor)
    hidden: list[tuple[Fact, str]] = []
    for work in (*workloads, *actors):
        pair = seen_from(work.pairs, best, other)
        if pair is None or pair.verdict != "undecided" or pair.low is None or pair.high is None:
            continue
        up = work.metric.higher_is_better
        loss = math.inf if up and pair.low <= 0 else 1 / pair.low if up else pair.high
        if math.isfinite(loss) and loss > 1 + work.margin:
            about = {"metric": work.metric.name, "higher_is_better": up, "workload": work.workload}
            hidden.append((Fact(other, best, loss, **about), work.actor))  # type: ignore[arg-type]
    if not hidden:
        return None
    fact, actor = max(hidden, key=lambda entry: entry[0].ratio)
    return {"fact": fact.values(), "actor": actor}


def _note(facts: list[tuple[Fact, str]], work: WorkloadVerdict, best: str, other: str) -> None:
    pair = seen_from(work.pairs, best, other)
    if pair is not None and pair.verdict == "worse":
        fact = fact_of(
            pair,
            work.metric.name,
            higher_is_better=work.metric.higher_is_better,
            workload=work.workload,
        )
        facts.append((fact, work.actor))


def _depends(
    scope: Scope,
    workloads: Sequence[WorkloadVerdict],
    secondary: Mapping[str, Sequence[WorkloadVerdict]],
) -> Headline | None:
    """A candidate that claims against the baseline in both directions.

    Not said where one is best over all workloads and loses on none, or where one of the best set
    gives the same and never loses; of several the one with the largest gain is named.
    """
    claims = {
        label: _claims(workloads, label, scope.baseline)
        for label in scope.candidates
        if label != scope.baseline
    }
    both = {label: sides for label, sides in claims.items() if sides[0] and sides[1]}
    if not both:
        return None
    if len(scope.best_set) == 1:
        (winner,) = scope.best_set
        if winner != scope.baseline and not claims[winner][1]:
            return None
        both = {winner: both[winner]} if winner in both else both
    name = max(both, key=lambda label: max(fact.ratio for fact in both[label][0]))
    won, lost = both[name]
    best, worst = (max(side, key=lambda fact: fact.ratio) for side in (won, lost))
    for label, leads in _leads_without_loss(scope, workloads).items():
        equal = best.workload in _places(leads) or max(f.ratio for f in leads) >= best.ratio
        if equal and label in scope.best_set:
            return None
    same = [work for work in workloads if _all_equivalent(work)]
    values = {
        "name": name,
        "baseline": scope.baseline,
        "won": [fact.workload for fact in won],
        "lost": [fact.workload for fact in lost],
        "best": best.values(),
        "worst": worst.values(),
        "same": [work.workload for work in same],
        "within": max((_reach(work) for work in same), default=None),
        "price": price_of(name, scope.baseline, (), secondary, best.workload),
    }
    return Headline("depends", values)


def _claims(
    workloads: Sequence[WorkloadVerdict], label: str, baseline: str
) -> tuple[list[Fact], list[Fact]]:
    """(won, lost): the claims of a candidate against the baseline."""
    sides: tuple[list[Fact], list[Fact]] = ([], [])
    for work in workloads:
        pair = seen_from(work.pairs, label, baseline)
        if pair is None or pair.verdict not in ("better", "worse"):
            continue
        fact = fact_of(
            pair,
            work.metric.name,
            higher_is_better=work.metric.higher_is_better,
            workload=work.workload,
        )
        sides[pair.verdict == "worse"].append(fact)
    return sides


def _all_equivalent(work: WorkloadVerdict) -> bool:
    return bool(work.pairs) and all(pair.verdict == "equivalent" for pair in work.pairs)


def _reach(work: WorkloadVerdict) -> float:
    ends = [abs(math.log(end)) for p in work.pairs for end in (p.low, p.high) if end]
    return math.expm1(max(ends, default=0.0))


def _doubtful(scope: Scope, best: Sequence[Pair]) -> Headline | None:
    """What took a verdict away, where something did: wild runs, time, sessions."""
    for pair in best:
        named = {pair.a, pair.b} & set(scope.wild)
        if "rare-run" in pair.codes and named:
            return _rare_run(scope, pair)
    changing = [p for p in best if {"unsteady", "changes-sign"} & set(p.codes)]
    if changing:
        pair = max(changing, key=lambda p: _change(scope, p))
        early, late = scope.early_late.get((pair.a, pair.b), (0.0, 0.0))
        values: dict[str, Any] = {
            "a": pair.a,
            "b": pair.b,
            "early": scope.fact(_with_ratio(pair, early)).values(),
            "late": scope.fact(_with_ratio(pair, late)).values(),
        }
        return Headline("unsteady", values)
    for pair in best:
        if "sessions-disagree" in pair.codes and pair.by_session:
            lowest, highest = min(pair.by_session), max(pair.by_session)
            values = {
                "a": pair.a,
                "b": pair.b,
                "lowest": scope.fact(_with_ratio(pair, math.log(lowest))).values(),
                "highest": scope.fact(_with_ratio(pair, math.log(highest))).values(),
            }
            return Headline("sessions-disagree", values)
    return None


def _rare_run(scope: Scope, pair: Pair) -> Headline:
    """Typical runs, and the candidate whose wild runs hide them; "" where it could be either."""
    fact = scope.fact(pair, typical=True)
    wild = {name: scope.wild[name] for name in (fact.better, fact.worse) if name in scope.wild}
    name = max(wild, key=lambda each: wild[each].factor)
    rows = {each.rows for each in wild.values()}
    values = {
        "a": fact.better,
        "b": fact.worse,
        "gain": fact.values(),
        "of": "" if len(wild) > 1 and len(rows) == 1 else name,
        "wild_blocks": len(wild[name].rows),
        "blocks": scope.units,
        "factor": wild[name].factor,
    }
    return Headline("rare-run", values)


def _withheld(
    scope: Scope, best: Sequence[Pair], secondary: Mapping[str, Sequence[WorkloadVerdict]]
) -> Headline | None:
    """A difference that must not be claimed: nobody can say that none was seen."""
    for why in WITHHELD:
        pairs = [pair for pair in best if pair.verdict == "undecided" and why in pair.codes]
        if not pairs:
            continue
        fact = scope.fact(max(pairs, key=lambda pair: abs(math.log(pair.ratio))))
        starved = [[name, *scope.starved[name]] for name in scope.starved
                   if name in (fact.better, fact.worse)]  # fmt: skip
        values = {
            "why": why,
            "a": fact.better,
            "b": fact.worse,
            "gain": fact.values(),
            "baseline": scope.baseline,
            "starved": starved,
            "losers": losers(scope),
            "cost": cost_of(scope, secondary),
        }
        return Headline("no-verdict", values)
    return None


def _change(scope: Scope, pair: Pair) -> float:
    early, late = scope.early_late.get((pair.a, pair.b), (0.0, 0.0))
    return abs(early - late)


def _with_ratio(pair: Pair, log_ratio: float) -> Pair:
    return Pair(pair.a, pair.b, math.exp(log_ratio), None, None, "undecided")


def _open(scope: Scope, secondary: Mapping[str, Sequence[WorkloadVerdict]]) -> Headline:
    """Nothing is decided between the best: too noisy, too early, or nothing seen."""
    needed = scope.needed
    more = {
        "blocks": needed.blocks if needed else None,
        "blocks_low": needed.blocks_low if needed else None,
        "blocks_high": needed.blocks_high if needed else None,
        "time_s": needed.time_s if needed else None,
        "smaller": needed.smaller if needed else None,
    }
    values = {
        "names": list(scope.best_set),
        "mdd": scope.mdd,
        "losers": losers(scope),
        "cost": cost_of(scope, secondary),
        **more,
    }
    is_early = needed is not None and needed.blocks <= MORE_BLOCKS_MAX and not scope.budget_used
    code: Code = "too-early" if is_early else "no-difference-seen"
    if scope.mdd is None or (scope.mdd > TOO_NOISY and not is_early):
        code = "too-noisy"
    return Headline(code, values)
