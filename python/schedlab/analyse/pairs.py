"""Verdicts on pairs: where the interval is beside the margin, and what forbids to believe it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from schedlab.analyse.comparison import Comparison
from schedlab.analyse.detectable import more_blocks, total_needed
from schedlab.analyse.matrix import Table
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import FEW_UNITS, TOUCHING
from schedlab.analyse.second_opinion import (
    FEWEST_UNITS,
    can_confirm,
    confirms,
    confirms_equal,
    hodges_lehmann,
)
from schedlab.spec import CandidateSummary, Fact, Pair, PairVerdict

MIRROR: dict[PairVerdict, PairVerdict] = {
    "better": "worse",
    "worse": "better",
    "equivalent": "equivalent",
    "undecided": "undecided",
}
OpenEnd = Literal["", "low", "high"]
TURNED: dict[OpenEnd, OpenEnd] = {"": "", "low": "high", "high": "low"}
#: Codes that take any verdict away, and those that only forbid "equivalent". Where differences
#: wander ("unsteady") a claim that survives the widened interval holds.
NO_VERDICT = ("changes-sign",)
NOT_EQUIVALENT = ("unsteady", "two-modes", "rare-stalls")
#: Where one of these took the verdict, nobody knows how many more blocks give it back, if any do.
NOT_BY_BLOCKS = ("changes-sign", "aa-differs", "carry-over", "sessions-disagree", "not-after-W")


@dataclass(frozen=True)
class Doubts:
    """Objections to the candidates and pairs of a comparison.

    `pairs[p]` are codes against pair p, `candidates[i]` against candidate i. `bounded[i]`: some
    runs of it starved. `wild[i]`: it has an outlier. `adjusted[p]`: the difference without
    carry-over, where that was found. `aa_far`: no claim below this difference of logs.
    """

    pairs: tuple[frozenset[str], ...]
    candidates: tuple[frozenset[str], ...]
    bounded: tuple[bool, ...]
    wild: tuple[bool, ...]
    adjusted: tuple[float | None, ...] = ()
    aa_far: float = 0.0

    @classmethod
    def none(cls, candidates: int) -> Doubts:
        """Nothing is known against anybody."""
        pairs = candidates * (candidates - 1) // 2
        return cls((frozenset(),) * pairs, (frozenset(),) * candidates, (False,) * candidates,
                   (False,) * candidates)  # fmt: skip


def classify(low: float, high: float, margin: float) -> PairVerdict:
    """The verdict of an interval of log(performance of a / performance of b), `margin` a log.

    An end that touches the margin decides nothing.
    """
    if low > margin + TOUCHING:
        return "better"
    if high < -margin - TOUCHING:
        return "worse"
    if low >= -margin + TOUCHING and high <= margin - TOUCHING:
        return "equivalent"
    return "undecided"


def pairs_of(
    comparison: Comparison, margin: float, sign: float, doubts: Doubts | None = None
) -> tuple[Pair, ...]:
    """Every pair with ratio, interval and verdict; `margin` is a log, `sign` −1 for lower."""
    doubts = doubts or Doubts.none(len(comparison.candidates))
    ranks = _Ranks.of(comparison, margin)
    p = comparison.p_value(margin)
    first, second = comparison.pairs
    return tuple(
        _pair(comparison, index, (int(a), int(b)), float(p[index]), margin, sign, doubts, ranks)
        for index, (a, b) in enumerate(zip(first, second, strict=True))
    )


@dataclass(frozen=True)
class _Ranks:
    """Second opinions per pair: estimates, directions, equality; `ask`: whether they apply."""

    estimate: Floats
    direction: Floats
    equal: Floats
    ask: bool

    @classmethod
    def of(cls, comparison: Comparison, margin: float) -> _Ranks:
        d, none = comparison.differences, np.full(len(comparison.mean), np.nan)
        if len(d) < FEWEST_UNITS:
            return cls(none if not len(d) else hodges_lehmann(d), none, none, False)
        alpha = comparison.alpha
        ask = can_confirm(len(d), d.shape[1], alpha)
        return cls(
            hodges_lehmann(d), confirms(d, margin, alpha), confirms_equal(d, margin, alpha), ask
        )


def _pair(
    comparison: Comparison,
    index: int,
    of: tuple[int, int],
    p: float,
    margin: float,
    sign: float,
    doubts: Doubts,
    ranks: _Ranks,
) -> Pair:
    mean, half = float(comparison.mean[index]), float(comparison.half_width[index])
    known = math.isfinite(half)
    verdict: PairVerdict = "undecided"
    codes: list[str] = []
    if known:
        verdict = classify(sign * mean - half, sign * mean + half, margin)
        verdict, codes = _doubted(comparison, index, of, verdict, margin, sign, doubts)
        codes += _ranked(verdict, sign, index, ranks, any(doubts.wild[i] for i in of))
    open_end, closed = _open_end(of, sign, doubts)
    pair = Pair(
        a=comparison.candidates[of[0]],
        b=comparison.candidates[of[1]],
        ratio=math.exp(mean),
        low=_exp(mean - half) if known and closed and open_end != "low" else None,
        high=_exp(mean + half) if known and closed and open_end != "high" else None,
        verdict=verdict,
        p=p,
        codes=tuple(codes),
        open_end=open_end if known else "",
        hodges_lehmann=_ratio(float(ranks.estimate[index])),
        standard_error=_finite(float(comparison.error[index])),
        by_session=_by_session(comparison, index),
    )
    if verdict != "undecided" or not by_blocks(pair):
        return pair
    return replace(pair, blocks_needed=_needed(comparison, index, margin))


def _doubted(
    comparison: Comparison,
    index: int,
    of: tuple[int, int],
    verdict: PairVerdict,
    margin: float,
    sign: float,
    doubts: Doubts,
) -> tuple[PairVerdict, list[str]]:
    """The verdict that is left when everything against it is heard, and why."""
    against = doubts.pairs[index] | doubts.candidates[of[0]] | doubts.candidates[of[1]]
    codes = [code for code in ("unsteady", *NO_VERDICT) if code in against]
    bounded = [doubts.bounded[i] for i in of]
    if any(bounded):
        codes.append("one-way")
    if any(code in NO_VERDICT for code in codes):
        return "undecided", codes
    mean, half = float(comparison.mean[index]), float(comparison.half_width[index])
    if verdict == "equivalent":
        reasons = [code for code in NOT_EQUIVALENT if code in against and code not in codes]
        if comparison.unit != "runs" and comparison.units <= FEW_UNITS and half > 0:
            reasons.append("few-blocks")
        return ("undecided" if reasons or codes else verdict), [*codes, *reasons]
    if verdict in ("better", "worse"):
        allowed: PairVerdict = "worse" if bounded[0] else "better"
        if all(bounded) or (any(bounded) and verdict != allowed):
            return "undecided", codes
        if abs(mean) <= doubts.aa_far:
            return "undecided", [*codes, "aa-differs"]
        if "sessions-disagree" in against:
            return "undecided", [*codes, "sessions-disagree"]
    adjusted = doubts.adjusted[index] if doubts.adjusted else None
    if adjusted is not None:
        other = classify(sign * adjusted - half, sign * adjusted + half, margin)
        if other != verdict:
            return "undecided", [*codes, "carry-over"]
    return verdict, codes


def _ranked(verdict: PairVerdict, sign: float, index: int, ranks: _Ranks, wild: bool) -> list[str]:
    """Whether ranks doubt a verdict, or see one that a wild run hides."""
    if not ranks.ask:
        return []
    direction = sign * float(ranks.direction[index])
    confirmed = {"better": direction > 0, "worse": direction < 0}
    confirmed["equivalent"] = float(ranks.equal[index]) > 0
    if verdict == "undecided":
        return ["rare-run"] if direction and wild else []
    return [] if confirmed[verdict] else ["fragile"]


def _open_end(of: tuple[int, int], sign: float, doubts: Doubts) -> tuple[OpenEnd, bool]:
    """(open end of the ratio, whether any end is known): the truth of a bound is worse."""
    a, b = (doubts.bounded[i] for i in of)
    if a and b:
        return "", False
    if not a and not b:
        return "", True
    return ("low" if (sign > 0) == a else "high"), True


def _by_session(comparison: Comparison, index: int) -> tuple[float, ...]:
    names = np.unique(comparison.session)
    if len(names) < 2:
        return ()
    d = comparison.differences[:, index]
    return tuple(math.exp(d[comparison.session == name].mean()) for name in names)


def by_blocks(pair: Pair) -> bool:
    """Whether more blocks of the same kind can decide an open pair.

    A pair with bounds only where it looks as the true values can but confirm: on its open side.
    """
    if any(code in NOT_BY_BLOCKS for code in pair.codes):
        return False
    return "one-way" not in pair.codes or pair.open_end == ("low" if pair.ratio < 1 else "high")


def farthest(pairs: Sequence[Pair]) -> float:
    """The farthest end (a log) of the intervals of the open pairs; infinite without such an end.

    A smaller difference may be there, so that nobody can say that it would have been noticed.
    """
    ends = [end for pair in pairs if pair.verdict == "undecided" for end in (pair.low, pair.high)]
    return max((math.inf if end is None else abs(math.log(end)) for end in ends), default=0.0)


def _needed(comparison: Comparison, index: int, margin: float) -> tuple[int, int] | None:
    if comparison.units < 2 or comparison.unit == "runs":
        return None
    k, units, mean = len(comparison.candidates), comparison.units, float(comparison.mean[index])
    spread = float(comparison.spreads[index])
    total = total_needed(mean, spread, k, math.expm1(margin), units)
    return None if total is None else more_blocks(total, units)


def best_set(candidates: Sequence[str], pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The candidates that no other is better than."""
    beaten = {pair.b for pair in pairs if pair.verdict == "better"}
    beaten |= {pair.a for pair in pairs if pair.verdict == "worse"}
    return tuple(label for label in candidates if label not in beaten)


def mark_added(pairs: Sequence[Pair], before: Sequence[Pair]) -> tuple[Pair, ...]:
    """Claims that the experiment did not make before it was extended unannounced: `added`."""
    claims = ("better", "worse")
    known = {(pair.a, pair.b) for pair in before if pair.verdict in claims}
    return tuple(
        replace(pair, codes=(*pair.codes, "added"))
        if pair.verdict in claims and (pair.a, pair.b) not in known
        else pair
        for pair in pairs
    )


def between(pairs: Sequence[Pair], labels: Sequence[str]) -> tuple[Pair, ...]:
    """The pairs whose both members are among `labels`."""
    return tuple(pair for pair in pairs if pair.a in labels and pair.b in labels)


def seen_from(pairs: Sequence[Pair], candidate: str, other: str) -> Pair | None:
    """The pair of the two with `candidate` as a, mirrored where it is b."""
    for pair in pairs:
        if (pair.a, pair.b) == (candidate, other):
            return pair
        if (pair.a, pair.b) == (other, candidate):
            return mirrored(pair)
    return None


def mirrored(pair: Pair) -> Pair:
    """The same comparison, seen from the other side."""
    return replace(
        pair,
        a=pair.b,
        b=pair.a,
        ratio=1 / pair.ratio,
        low=None if pair.high is None else 1 / pair.high,
        high=None if pair.low is None else 1 / pair.low,
        verdict=MIRROR[pair.verdict],
        open_end=TURNED[pair.open_end],
        hodges_lehmann=None if pair.hodges_lehmann is None else 1 / pair.hodges_lehmann,
        by_session=tuple(1 / ratio for ratio in pair.by_session),
    )


def fact_of(
    pair: Pair, metric: str, *, higher_is_better: bool, workload: str = "", typical: bool = False
) -> Fact:
    """The pair from its better side; `typical` takes the Hodges–Lehmann estimate."""
    ratio = pair.hodges_lehmann if typical and pair.hodges_lehmann else pair.ratio
    ahead = (ratio >= 1) == higher_is_better
    ahead_pair, ratio = (pair, ratio) if ahead else (mirrored(pair), 1 / ratio)
    low, high, open_end = ahead_pair.low, ahead_pair.high, ahead_pair.open_end
    if not higher_is_better:
        ratio = 1 / ratio
        low, high = (None if end is None else 1 / end for end in (ahead_pair.high, ahead_pair.low))
        open_end = TURNED[ahead_pair.open_end]
    return Fact(
        better=ahead_pair.a,
        worse=ahead_pair.b,
        ratio=ratio,
        low=None if typical else low,
        high=None if typical else high,
        open_end=open_end == "high" and not typical,
        metric=metric,
        higher_is_better=higher_is_better,
        workload=workload,
    )


def summaries(
    table: Table, pairs: Sequence[Pair], baseline: str, confidence: float = 0.95
) -> tuple[CandidateSummary, ...]:
    """Each candidate's mean with its own interval, and its ratio to the baseline."""
    if table.zero:
        return tuple(_arithmetic(table, i) for i in range(len(table.candidates)))
    result = []
    for i, label in enumerate(table.candidates):
        logs = table.groups[i]
        if label == baseline and table.has_aa and len(table.aa_runs):
            logs = np.concatenate([logs, table.aa_runs])
        row = summary(label, logs, seen_from(pairs, label, baseline), confidence)
        starved = table.starved[i] if table.starved else 0
        result.append(replace(row, starved=starved))
    return tuple(result)


def _arithmetic(table: Table, i: int) -> CandidateSummary:
    """Candidate i of a workload with values that have no logarithm: the mean of all its values."""
    label, starved = table.candidates[i], table.starved[i] if table.starved else 0
    rows = zip(table.samples.candidates, table.samples.values, strict=True)
    values = [value for name, value in rows if name == label and math.isfinite(value)]
    mean = sum(values) / len(values)
    return CandidateSummary(label, len(values), mean, mean, None, None, starved=starved)


def summary(
    label: str, logs: Floats, beside: Pair | None, confidence: float = 0.95, *, mean: bool = True
) -> CandidateSummary:
    """One candidate: arithmetic and geometric mean, Student interval of the geometric one."""
    n, centre = len(logs), float(logs.mean()) if len(logs) else math.nan
    half = math.nan
    if n > 1:
        half = float(stdtrit(n - 1, (1 + confidence) / 2) * logs.std(ddof=1) / math.sqrt(n))
    return CandidateSummary(
        candidate=label,
        runs=n,
        mean=float(np.exp(logs).mean()) if mean and n else math.nan,
        geometric_mean=math.exp(centre),
        low=_exp(centre - half) if n > 1 else None,
        high=_exp(centre + half) if n > 1 else None,
        ratio=beside.ratio if beside else None,
        ratio_low=beside.low if beside else None,
        ratio_high=beside.high if beside else None,
        verdict=beside.verdict if beside else None,
        codes=beside.codes if beside else (),
    )


def _exp(value: float) -> float:
    return math.exp(min(max(value, -700.0), 700.0))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ratio(log_ratio: float) -> float | None:
    return math.exp(log_ratio) if math.isfinite(log_ratio) else None
