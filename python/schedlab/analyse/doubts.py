"""Doubts that the data raise about their own verdicts: time, sessions, outliers, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from schedlab.analyse.comparison import Comparison, compare_blocks
from schedlab.analyse.matrix import SESSIONS_AS_UNITS, Table
from schedlab.analyse.pairs import Doubts
from schedlab.analyse.quantiles import Floats, t_quantile
from schedlab.analyse.residuals import (
    LEVEL,
    Aging,
    CarryOver,
    Outlier,
    TwoModes,
    UnevenNoise,
    aging,
    carry_over,
    outliers,
    told_apart,
    two_modes,
    uneven_noise,
)
from schedlab.analyse.rule import (
    PHI_UNSTEADY,
    ROUNDING,
    UNITS_TO_WANDER,
    autocorrelation,
    is_unsteady,
    widening,
)

#: Level of the F-test that takes a claim away where sessions differ.
SESSION_LEVEL = 0.05


@dataclass(frozen=True)
class AaInterval:
    """log(A/A arm) − log(baseline) with its interval, and the spread of one run by it."""

    mean: float
    half_width: float
    spread: float

    def far_end(self, margin: float) -> float:
        """The far end where the interval excludes ± margin (a log), else 0."""
        excludes = abs(self.mean) - self.half_width > margin
        return abs(self.mean) + self.half_width if excludes else 0.0


@dataclass(frozen=True)
class Findings:
    """The findings from the residuals of one comparison; the flags come from them."""

    aa: AaInterval | None = None
    outliers: tuple[Outlier, ...] = ()
    uneven: UnevenNoise | None = None
    autocorrelation: float | None = None
    phi: float = 0.0
    widening: float = 1.0
    unsteady: bool = False
    aging: Aging | None = None
    carry_over: CarryOver | None = None
    modes: dict[int, TwoModes] = field(default_factory=dict)
    stalls: dict[int, tuple[int, float]] = field(default_factory=dict)
    session_p: tuple[float, ...] = ()
    session_spread: float | None = None


def aa_interval(
    arms: Floats, aa_baseline: int | None, session: NDArray[np.intp], alpha: float
) -> AaInterval | None:
    """The rule on the baseline and its A/A arm alone."""
    if aa_baseline is None or len(arms) < 2:
        return None
    comparison = compare_blocks(
        arms[:, [arms.shape[1] - 1, aa_baseline]],
        ("A/A", "baseline"),
        baseline=None,
        session=session,
        alpha=alpha,
    )
    return AaInterval(float(comparison.mean[0]), float(comparison.half_width[0]), comparison.spread)


def examine(comparison: Comparison, aa_baseline: int | None, table: Table | None) -> Findings:
    """All findings from one comparison of blocks; `table` where it is of one workload.

    `comparison` with sessions as units has no findings about time.
    """
    fit = comparison.fit
    if fit is None or comparison.units < 2:
        return Findings()
    session = comparison.session
    several = len(np.unique(session)) > 1
    segments = session if several and comparison.unit == "blocks" else None
    steady = comparison.unit == "sessions" or comparison.units < UNITS_TO_WANDER
    pairs = max(len(comparison.mean), 1)
    k = fit.candidates
    wild = () if comparison.unit == "sessions" else outliers(fit, aa_baseline)
    wild = told_apart(wild, comparison.arms)
    if table is not None:
        wild = tuple(w for w in wild if not _starved(table, w))
    carried = None
    if table is not None and len(table.arms) == comparison.units:
        carried = carry_over(table.arms, table.observed, table.position, aa_baseline)
    phi = float(fit.phi)
    return Findings(
        outliers=wild,
        uneven=uneven_noise(fit),
        autocorrelation=None if steady else float(autocorrelation(fit.residuals, segments)),
        phi=phi,
        widening=float(widening(fit.phi, comparison.units, comparison.alpha, pairs)),
        unsteady=not steady and bool(is_unsteady(fit.residuals, k, segments)),
        aging=None if comparison.unit == "sessions" else aging(fit, aa_baseline),
        carry_over=carried,
        modes=_modes(fit.residuals, aa_baseline, k),
        stalls=_stalls(wild, aa_baseline, k),
        session_p=_session_p(comparison),
        session_spread=_session_spread(comparison),
    )


def _starved(table: Table, wild: Outlier) -> bool:
    return bool(table.bounds[wild.row, wild.column]) if table.bounds.size else False


def _modes(residuals: Floats, aa_baseline: int | None, k: int) -> dict[int, TwoModes]:
    """Candidates with two modes beside the mean of the others, the widest gap first.

    One that jumps moves the mean of the others, too, so that it is left out before they are
    judged. Which of the last two jumps is unknown.
    """
    columns = {i: [i, residuals.shape[1] - 1] if aa_baseline == i else [i] for i in range(k)}
    modes_by_candidate: dict[int, TwoModes] = {}
    while len(columns) > 1:
        modes = {}
        for i, own in columns.items():
            rest = [column for j, others in columns.items() if j != i for column in others]
            beside = residuals[:, own] - residuals[:, rest].mean(axis=1, keepdims=True)
            if (each := two_modes(beside.ravel())) is not None:
                modes[i] = each
        if len(columns) == 2 or not modes:
            return modes_by_candidate | modes
        widest = max(modes, key=lambda i: modes[i].high - modes[i].low)
        modes_by_candidate[widest] = modes[widest]
        del columns[widest]
    return modes_by_candidate


def _stalls(
    wild: tuple[Outlier, ...], aa_baseline: int | None, k: int
) -> dict[int, tuple[int, float]]:
    """Candidates with wild runs in two blocks or more: how many, and the median factor."""
    sizes: dict[int, list[float]] = {}
    for each in wild:
        column = each.column if each.column < k else aa_baseline or 0
        sizes.setdefault(column, []).append(abs(each.distance))
    return {
        column: (len(own), math.exp(float(np.median(own))))
        for column, own in sizes.items()
        if len(own) > 1
    }


def _session_p(comparison: Comparison) -> tuple[float, ...]:
    """Per pair the p-value of "all sessions have the same difference"; empty for one session."""
    names = np.unique(comparison.session)
    n, s = comparison.units, len(names)
    if comparison.unit != "blocks" or not 1 < s < SESSIONS_AS_UNITS or n <= s:
        return ()
    result = []
    for d in comparison.differences.T:
        parts = [d[comparison.session == name] for name in names]
        between = sum(len(x) * (x.mean() - d.mean()) ** 2 for x in parts) / (s - 1)
        within = sum(((x - x.mean()) ** 2).sum() for x in parts) / (n - s)
        result.append(float(fdtrc(s - 1, n - s, between / within)) if within > 0 else 1.0)
    return tuple(result)


def _session_spread(comparison: Comparison) -> float | None:
    """Standard deviation of the differences of two candidates between sessions."""
    names = np.unique(comparison.session)
    if len(names) < 2 or not len(comparison.differences):
        return None
    means = np.array(
        [comparison.differences[comparison.session == name].mean(axis=0) for name in names]
    )
    return float(np.sqrt(means.var(axis=0, ddof=1).mean()))


def doubts_of(
    comparison: Comparison, findings: Findings, table: Table | None, margin: float
) -> Doubts:
    """What follows from the findings for the pairs (`margin` a log)."""
    k = len(comparison.candidates)
    first, second = comparison.pairs
    plain = Doubts.none(k)
    against: list[set[str]] = [set() for _ in first]
    own: list[set[str]] = [set() for _ in range(k)]
    if findings.phi >= PHI_UNSTEADY:
        for codes in against:
            codes.add("unsteady")
    for p in _changing(comparison, findings, margin):
        against[p].add("changes-sign")
    for p, probability in enumerate(findings.session_p):
        if _sessions_disagree(comparison, p, probability, margin):
            against[p].add("sessions-disagree")
    for i in findings.modes:
        own[i].add("two-modes")
    for i in findings.stalls:
        own[i].add("rare-stalls")
    wild = {w.column if w.column < k else -1 for w in findings.outliers}
    bounded = plain.bounded
    baseline = -1
    if table is not None and len(table.arms):
        bounded = tuple(bool(table.bounded(label).any()) for label in table.candidates)
        baseline = table.baseline if table.baseline is not None else -1
    adjusted: tuple[float | None, ...] = ()
    if findings.carry_over is not None and findings.carry_over.p < LEVEL:
        pairs = zip(first, second, strict=True)
        adjusted = tuple(findings.carry_over.difference(int(a), int(b)) for a, b in pairs)
    return Doubts(
        pairs=tuple(frozenset(codes) for codes in against),
        candidates=tuple(frozenset(codes) for codes in own),
        bounded=bounded,
        wild=tuple(i in wild or (i == baseline and -1 in wild) for i in range(k)),
        adjusted=adjusted,
        aa_far=findings.aa.far_end(margin) if findings.aa else 0.0,
    )


def _sessions_disagree(comparison: Comparison, p: int, probability: float, margin: float) -> bool:
    """Whether few sessions do not support one claim: signs, or the spread between them.

    Where they differ (F-test), the claim must hold with the sessions as units, too.
    """
    d, names = comparison.differences[:, p], np.unique(comparison.session)
    means = np.array([d[comparison.session == name].mean() for name in names])
    if means.min() < 0 < means.max():
        return True
    error = means.std(ddof=1) / math.sqrt(len(means))
    reach = float(t_quantile(SESSION_LEVEL, len(means) - 1)) * error
    return probability < SESSION_LEVEL and bool(abs(means.mean()) - reach <= margin)


def _changing(comparison: Comparison, findings: Findings, margin: float) -> list[int]:
    """Pairs whose fitted difference changes its sign beyond the margin."""
    aged = findings.aging
    if aged is None:
        return []
    first, second = comparison.pairs
    slope = aged.slopes[first] - aged.slopes[second]
    early, late = comparison.mean + slope * aged.first, comparison.mean + slope * aged.last
    changes = (np.minimum(early, late) < -margin) & (np.maximum(early, late) > margin)
    return [pair for pair in aged.pairs if changes[pair]]


def early_and_late(comparison: Comparison, pair: int) -> tuple[float, float]:
    """Mean difference of logs in the first and in the second half of the blocks."""
    d = comparison.differences[:, pair]
    half = len(d) // 2
    if half < 1 or np.ptp(d) <= ROUNDING:
        mean = float(d.mean()) if len(d) else math.nan
        return mean, mean
    return float(d[:half].mean()), float(d[-half:].mean())
