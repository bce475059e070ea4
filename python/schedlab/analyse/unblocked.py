"""Simultaneous intervals for data that was not run in blocks: Welch, with labels permuted.

The critical value is the quantile of max|t*| when the residuals of a workload are dealt to the
candidates at random (Westfall and Young 1993; studentised, so that unequal variances are allowed:
Janssen 1997). With few runs per candidate the labels of unequal variances are not exchangeable:
below 30 degrees of freedom (Welch–Satterthwaite) a pair's critical value is at least Student's t
with Bonferroni's correction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlab.analyse.comparison import (
    ROUNDING,
    Comparison,
    bonferroni_p,
    bonferroni_t,
    exceedance,
    pair_index,
    upper_quantile,
)
from schedlab.analyse.intervals import WALSH_AVERAGES
from schedlab.analyse.matrix import Floats

PERMUTATIONS = 9_999
FEWEST_PERMUTATIONS = 1_999
RESIDUALS_DEALT = 30_000_000
MANY_RUNS = 30
MANY_FREEDOM = 30.0


def compare_unblocked(
    workloads: Sequence[Sequence[Floats]],
    candidates: tuple[str, ...],
    *,
    weights: Sequence[float] = (1.0,),
    alpha: float = 0.05,
    seed: int = 0,
) -> Comparison:
    """All pairs of candidates; `workloads[w][i]` are the logs of candidate i on workload w.

    With several workloads the estimate is the weighted mean over them (`weights`, whose sum is
    taken as 1; a negative weight turns a lower-is-better metric round), labels are permuted
    inside each workload, and no Hodges–Lehmann estimate is given. A candidate with a single run
    somewhere has no interval.
    """
    weight = np.asarray(weights, dtype=np.float64) / np.abs(weights).sum()
    first, second = pair_index(len(candidates))
    runs = sum(sum(len(group) for group in groups) for groups in workloads)
    draws = int(np.clip(RESIDUALS_DEALT // max(runs, 1), FEWEST_PERMUTATIONS, PERMUTATIONS))
    mean, variance, shares = _moments(workloads, weight)
    difference = mean[first] - mean[second]
    error = np.sqrt(variance[first] + variance[second])
    single = ~np.isfinite(error)
    error[error <= ROUNDING * max(1.0, float(np.abs(mean).max()))] = 0.0
    freedom = _freedom(shares, first, second)
    reference = _reference(workloads, weight, draws, first, second, seed)
    few = ~(freedom >= MANY_FREEDOM)
    floor = bonferroni_t(alpha, len(first), np.where(single, 1.0, freedom))
    critical = np.where(few, floor, 0.0)
    critical = np.maximum(critical, upper_quantile(reference, alpha) if len(reference) else 0.0)

    def p_value(t: Floats) -> Floats:
        p = exceedance(reference, t)
        p = np.where(few, np.maximum(p, bonferroni_p(t, len(first), freedom)), p)
        return np.where(single, 1.0, np.where(np.isinf(t), 0.0, p))

    return Comparison(
        candidates=candidates,
        first=first,
        second=second,
        mean=difference,
        standard_error=np.where(single, np.nan, error),
        critical=np.where(single, np.inf, critical),
        hodges_lehmann=_hodges_lehmann(workloads, difference, first, second, seed),
        runs=np.array(
            [min(len(g[i]) for g in workloads) for i in range(len(candidates))], dtype=np.intp
        ),
        p_value=p_value,
    )


def _moments(
    workloads: Sequence[Sequence[Floats]], weight: Floats
) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Weighted means and their variances per candidate; variance and d.f. of every cell."""
    means = np.array([[group.mean() for group in groups] for groups in workloads])
    counts = np.array([[len(group) for group in groups] for groups in workloads])
    squares = np.array(
        [[((group - group.mean()) ** 2).sum() for group in groups] for groups in workloads]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = (weight**2)[:, None] * squares / (counts * (counts - 1.0))
    parts[counts < 2] = np.nan
    return weight @ means, parts.sum(axis=0), (parts, counts - 1.0)


def _freedom(shares: tuple[Floats, Floats], first: np.ndarray, second: np.ndarray) -> Floats:
    """Welch–Satterthwaite degrees of freedom per pair (1 where there is no spread to judge by)."""
    parts, freedom = shares
    with np.errstate(invalid="ignore", divide="ignore"):
        fourth = (parts**2 / freedom).sum(axis=0)
        total = parts.sum(axis=0)
        result = (total[first] + total[second]) ** 2 / (fourth[first] + fourth[second])
    return np.where(np.isfinite(result), result, 1.0)


def _reference(
    workloads: Sequence[Sequence[Floats]],
    weight: Floats,
    draws: int,
    first: np.ndarray,
    second: np.ndarray,
    seed: int,
) -> Floats:
    """Ordered max|t*| over the pairs, for residuals dealt anew inside each workload."""
    rng = np.random.default_rng([seed, 2])
    candidates = len(workloads[0])
    mean = np.zeros((draws, candidates))
    variance = np.zeros((draws, candidates))
    for groups, w in zip(workloads, weight, strict=True):
        dealt_mean, dealt_variance = _deal(groups, draws, rng)
        mean += w * dealt_mean
        variance += w**2 * dealt_variance
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(mean[:, first] - mean[:, second])
        t /= np.sqrt(variance[:, first] + variance[:, second])
    t = np.where(np.isfinite(t), t, -1.0).max(axis=1, initial=-1.0)
    return np.sort(t[t >= 0])


def _deal(groups: Sequence[Floats], draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Means and squared standard errors (draws × candidates) of residuals dealt at random.

    With 30 runs or more of every candidate the means are drawn from their normal limit instead.
    """
    counts = np.array([len(group) for group in groups])
    residuals = np.concatenate([group - group.mean() for group in groups])
    if counts.min() >= MANY_RUNS:
        limit = residuals.var() / counts
        normal = rng.standard_normal((draws, len(groups)))
        return normal * np.sqrt(limit), np.broadcast_to(limit, normal.shape)
    dealt = rng.permuted(np.broadcast_to(residuals, (draws, len(residuals))), axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    mean = np.add.reduceat(dealt, starts, axis=1) / counts
    square = np.add.reduceat(dealt**2, starts, axis=1) - counts * mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.maximum(square, 0.0) / (counts * (counts - 1.0))
    return mean, np.where(counts > 1, variance, np.nan)


def _hodges_lehmann(
    workloads: Sequence[Sequence[Floats]],
    difference: Floats,
    first: np.ndarray,
    second: np.ndarray,
    seed: int,
) -> Floats:
    """Median of all differences between runs of a and of b; NaN over several workloads."""
    if len(workloads) != 1:
        return np.full(len(difference), np.nan)
    groups = workloads[0]
    rng = np.random.default_rng([seed, 3])
    result = np.empty(len(difference))
    for p, (a, b) in enumerate(zip(first, second, strict=True)):
        x, y = groups[a], groups[b]
        if len(x) * len(y) > WALSH_AVERAGES:
            result[p] = np.median(rng.choice(x, WALSH_AVERAGES) - rng.choice(y, WALSH_AVERAGES))
        else:
            result[p] = np.median(x[:, None] - y[None, :])
    return result
