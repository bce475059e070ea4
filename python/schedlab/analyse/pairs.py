"""The verdict on each pair, the candidates beside the baseline, and the best set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from schedlab.analyse.comparison import Comparison
from schedlab.analyse.matrix import Floats, Table
from schedlab.analyse.noise_floor import Margins
from schedlab.spec import CandidateSummary, Pair, PairVerdict

#: A pilot of 8 blocks predicts the blocks that are needed within these factors.
PILOT_RANGE = (0.6, 2.6)
MOST_BLOCKS = 10_000
MIRROR: dict[PairVerdict, PairVerdict] = {
    "better": "worse",
    "worse": "better",
    "equivalent": "equivalent",
    "undecided": "undecided",
}


def classify(low: float, high: float, margins: Margins) -> PairVerdict:
    """The verdict of an interval of log(performance of a / performance of b)."""
    different, equal = math.log1p(margins.difference), math.log1p(margins.equivalence)
    if low > different:
        return "better"
    if high < -different:
        return "worse"
    if -equal <= low and high <= equal:
        return "equivalent"
    return "undecided"


def pairs_of(comparison: Comparison, margins: Margins, sign: float) -> tuple[Pair, ...]:
    """Every pair with ratio, interval and verdict; `sign` is −1 where lower is better."""
    width = comparison.half_width
    result = []
    for p, (a, b) in enumerate(zip(comparison.first, comparison.second, strict=True)):
        mean, half = float(comparison.mean[p]), float(width[p])
        known = math.isfinite(half)
        verdict: PairVerdict = "undecided"
        if known:
            low, high = sorted((sign * (mean - half), sign * (mean + half)))
            verdict = classify(low, high, margins)
        runs = int(min(comparison.runs[a], comparison.runs[b]))
        result.append(
            Pair(
                a=comparison.candidates[a],
                b=comparison.candidates[b],
                ratio=math.exp(mean),
                low=math.exp(mean - half) if known else None,
                high=math.exp(mean + half) if known else None,
                verdict=verdict,
                hodges_lehmann=_ratio(float(comparison.hodges_lehmann[p])),
                blocks_needed=blocks_needed(mean, half, margins, runs)
                if verdict == "undecided"
                else None,
                standard_error=_finite(float(comparison.standard_error[p])),
            )
        )
    return tuple(result)


def blocks_needed(mean: float, half: float, margins: Margins, runs: int) -> tuple[int, int] | None:
    """How many more blocks would bring the interval to one side of the margin, as a range.

    n* = ((c·s) / ||d| − δ|)², with c·s = half·√n. `None` where no number of blocks that anybody
    would run is enough, or nothing is known of the spread.
    """
    if not math.isfinite(half):
        return None
    gap = max(
        abs(mean) - math.log1p(margins.difference), math.log1p(margins.equivalence) - abs(mean)
    )
    if gap <= 0 or runs * (half / gap) ** 2 > MOST_BLOCKS:
        return None
    total = math.ceil(runs * (half / gap) ** 2)
    low = max(1, math.ceil(PILOT_RANGE[0] * total) - runs)
    return low, max(low, math.ceil(PILOT_RANGE[1] * total) - runs)


def best_set(candidates: Sequence[str], pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The candidates that no other is better than."""
    beaten = {pair.b for pair in pairs if pair.verdict == "better"}
    beaten |= {pair.a for pair in pairs if pair.verdict == "worse"}
    return tuple(label for label in candidates if label not in beaten)


def between(pairs: Sequence[Pair], labels: Sequence[str]) -> tuple[Pair, ...]:
    """The pairs whose both members are among `labels`."""
    return tuple(pair for pair in pairs if pair.a in labels and pair.b in labels)


def seen_from(pairs: Sequence[Pair], candidate: str, other: str) -> Pair | None:
    """The pair of the two with `candidate` as a, mirrored where it stands the other way round."""
    for pair in pairs:
        if (pair.a, pair.b) == (candidate, other):
            return pair
        if (pair.a, pair.b) == (other, candidate):
            return mirrored(pair)
    return None


def mirrored(pair: Pair) -> Pair:
    """The same comparison told from the other side."""
    return Pair(
        a=pair.b,
        b=pair.a,
        ratio=1 / pair.ratio,
        low=None if pair.high is None else 1 / pair.high,
        high=None if pair.low is None else 1 / pair.low,
        verdict=MIRROR[pair.verdict],
        hodges_lehmann=None if pair.hodges_lehmann is None else 1 / pair.hodges_lehmann,
        fragile=pair.fragile,
        blocks_needed=pair.blocks_needed,
        standard_error=pair.standard_error,
    )


def summaries(
    table: Table, pairs: Sequence[Pair], baseline: str, confidence: float = 0.95
) -> tuple[CandidateSummary, ...]:
    """Each candidate's mean with its own interval, and its ratio to the baseline."""
    columns = [table.y[:, i] if len(table.y) else g for i, g in enumerate(table.groups)]
    made = [
        summary(label, logs, seen_from(pairs, label, baseline), confidence)
        for label, logs in zip(table.candidates, columns, strict=True)
    ]
    twice = int(np.isfinite(table.twin).sum()) if len(table.y) else 0
    return tuple(replace(m, runs=m.runs + twice * (m.candidate == baseline)) for m in made)


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
        low=math.exp(centre - half) if n > 1 else None,
        high=math.exp(centre + half) if n > 1 else None,
        ratio=beside.ratio if beside else None,
        ratio_low=beside.low if beside else None,
        ratio_high=beside.high if beside else None,
        verdict=beside.verdict if beside else None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ratio(log_ratio: float) -> float | None:
    return math.exp(log_ratio) if math.isfinite(log_ratio) else None
