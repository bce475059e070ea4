"""Doubts that the data raise about their own verdicts: time, sessions, outliers, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from schedlab.analyse.carry_over import CarryOver, carry_over
from schedlab.analyse.losses import UNITS_TO_WANDER, centred, inflation_of
from schedlab.analyse.matrix import RunMatrix
from schedlab.analyse.quantiles import Floats, t_quantile
from schedlab.analyse.residuals import (
    Aging,
    Outlier,
    TwoModes,
    UnevenNoise,
    aging,
    outliers,
    told_apart,
    two_modes,
    uneven_noise,
)
from schedlab.analyse.rule import ROUNDING, Fit, autocorrelation, is_unsteady


@dataclass(frozen=True)
class AaInterval:
    """log(A/A arm) − log(baseline) with its interval."""

    mean: float
    half_width: float

    def far_end(self, margin: float) -> float:
        """The far end where the interval excludes ± margin (a log), else 0."""
        excludes = abs(self.mean) - self.half_width > margin
        return abs(self.mean) + self.half_width if excludes else 0.0


@dataclass(frozen=True)
class Findings:
    """The findings from the residuals of one fit; the flags come from them."""

    aa: AaInterval | None = None
    outliers: tuple[Outlier, ...] = ()
    uneven: UnevenNoise | None = None
    autocorrelation: float | None = None
    widening: float = 1.0
    unsteady: bool = False
    aging: Aging | None = None
    carry_over: CarryOver | None = None
    modes: dict[int, TwoModes] = field(default_factory=dict)
    stalls: dict[int, tuple[int, float]] = field(default_factory=dict)


def aa_interval(arms: Floats, aa_baseline: int | None, alpha: float) -> AaInterval | None:
    """Student's interval of the difference of the A/A arm from its baseline."""
    if aa_baseline is None or len(arms) < 2:
        return None
    difference = arms[:, -1] - arms[:, aa_baseline]
    spread = float(difference.std(ddof=1))
    half = float(t_quantile(alpha / 2, len(arms) - 1)) * spread / math.sqrt(len(arms))
    return AaInterval(float(difference.mean()), half)


def examine(fit: Fit, table: RunMatrix) -> Findings:
    """All findings from the fit of a workload; of sessions as units there are none about time."""
    if fit.units < 2:
        return Findings()
    several = len(np.unique(fit.session)) > 1
    of_blocks, baseline, k = fit.unit == "blocks", table.aa_baseline, fit.candidates
    segments = fit.session if several and of_blocks else None
    steady = not of_blocks or fit.units < UNITS_TO_WANDER
    wild = told_apart(outliers(fit, baseline), fit.arms) if of_blocks else ()
    wild = tuple(each for each in wild if not table.bounds[each.row, each.column])
    carried = None
    if len(table.arms) == fit.units:
        carried = carry_over(table.arms, table.observed, table.before, baseline)
    widening = math.sqrt(inflation_of(centred(fit.arms), k))
    is_wandering = not steady and bool(is_unsteady(fit.residuals, k, segments))
    return Findings(
        outliers=wild,
        uneven=uneven_noise(fit),
        autocorrelation=None if steady else float(autocorrelation(fit.residuals, segments)),
        widening=widening,
        unsteady=is_wandering and widening > 1,
        aging=aging(fit, baseline) if of_blocks else None,
        carry_over=carried,
        modes=_modes(fit.residuals, baseline, k),
        stalls=_stalls(wild, baseline, k),
    )


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


def changing(fit: Fit, findings: Findings, margin: float) -> list[int]:
    """Pairs whose fitted difference changes its sign beyond the margin."""
    aged = findings.aging
    if aged is None:
        return []
    first, second = fit.pairs
    slope = aged.slopes[first] - aged.slopes[second]
    early, late = fit.mean + slope * aged.first, fit.mean + slope * aged.last
    changes = (np.minimum(early, late) < -margin) & (np.maximum(early, late) > margin)
    return [pair for pair in aged.pairs if changes[pair]]


def early_and_late(fit: Fit, pair: int) -> tuple[float, float]:
    """Mean difference of logs in the first and in the second half of the blocks."""
    d = fit.differences[:, pair]
    half = len(d) // 2
    if half < 1 or np.ptp(d) <= ROUNDING:
        mean = float(d.mean()) if len(d) else math.nan
        return mean, mean
    return float(d[:half].mean()), float(d[-half:].mean())
