"""Findings from the residuals of a fit: outliers, two modes, uneven noise, aging."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedlab.analyse.losses import ALPHA, FEW_UNITS
from schedlab.analyse.quantiles import Floats, f_tail, t_quantile, t_tail
from schedlab.analyse.rule import ROUNDING, Fit, pair_index

LEVEL = 0.01
OUTLIER_FACTOR = np.log(1.5)
UNEVEN_RATIO = 4.0
TWO_MODES_GAP = 5.0
TWO_MODES_SHARE = 0.15
TWO_MODES_LEAST = 20
#: Blocks from which a slope can be separated from noise.
FEWEST_TO_AGE = 6


@dataclass(frozen=True)
class Outlier:
    """A run far from the fit: row and column of `arms`, log distance from its expected value."""

    row: int
    column: int
    distance: float


def outliers(fit: Fit, baseline: int | None) -> tuple[Outlier, ...]:
    """Externally studentised residuals beyond the 1 % point of the largest, and a factor 1.5."""
    e = fit.residuals
    n, a = e.shape
    if n < 3 or fit.freedom < 3:
        return ()
    runs = np.ones(a)
    if baseline is not None:
        runs[[baseline, a - 1]] = 2
    free = 1 - 1 / a - 1 / (n * runs) + 1 / (n * a)
    total = (e**2).sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        others = np.maximum(total - e**2 / free, 0) / (fit.freedom - 1)
        t = np.abs(e) / np.sqrt(others * free)
    limit = t_quantile(LEVEL / (n * a) / 2, fit.freedom - 1)
    wild = (t > limit) & (np.abs(e) / free > OUTLIER_FACTOR)
    return tuple(Outlier(i, j, float(e[i, j] / free[j])) for i, j in np.argwhere(wild).tolist())


def told_apart(wild: tuple[Outlier, ...], arms: Floats) -> tuple[Outlier, ...]:
    """Of the two runs of a block that only has two, the one that is far from its other blocks.

    Beside each other both look wild. Both stay where both or neither are far.
    """
    if arms.shape[-1] != 2:
        return wild
    off = np.abs(arms - np.median(arms, axis=0))
    far = [(off[each.row] > abs(each.distance) / 4).tolist() for each in wild]
    return tuple(
        each for each, own in zip(wild, far, strict=True) if own[each.column] or not any(own)
    )


@dataclass(frozen=True)
class UnevenNoise:
    """Columns with the largest and smallest spread, their ratio, p of Levene's test."""

    noisiest: int
    quietest: int
    ratio: float
    p: float


def uneven_noise(fit: Fit) -> UnevenNoise | None:
    """Candidates that scatter very differently: Levene's test (1960) on residuals.

    From 6 units on medians replace means, of the blocks and of each candidate (Brown and Forsythe
    1974): neither a noisy candidate in the mean of its block nor a spike then moves the others.
    """
    e, k = fit.residuals, fit.candidates
    if len(e) > FEW_UNITS:
        e = e - np.median(e, axis=1, keepdims=True)
        e = e - e.mean(axis=0)
    e = e[:, :k]
    n = len(e)
    if n < 3 or k < 2:
        return None
    spread = np.sqrt((e**2).sum(axis=0))
    low, high = int(spread.argmin()), int(spread.argmax())
    if spread[high] <= ROUNDING:
        return None
    size = np.abs(e if n <= FEW_UNITS else e - np.median(e, axis=0))
    between = n * ((size.mean(axis=0) - size.mean()) ** 2).sum() / (k - 1)
    within = ((size - size.mean(axis=0)) ** 2).sum() / (k * (n - 1))
    p = float(f_tail(k - 1, k * (n - 1), between / within)) if within > 0 else 0.0
    ratio = float(spread[high] / max(spread[low], ROUNDING))
    return UnevenNoise(high, low, ratio, p) if ratio > UNEVEN_RATIO and p < LEVEL else None


@dataclass(frozen=True)
class Aging:
    """Slopes per unit (k) of the candidates beside the mean of all, and the p-value of the F-test.

    `pairs` are the indices of the pairs whose difference changes, the one that changes most first;
    empty where the F-test or the pair's own test does not show it. `first` and `last` are the
    distances of the first and the last unit from the middle one.
    """

    slopes: Floats
    p: float
    pairs: tuple[int, ...]
    first: float
    last: float


def aging(fit: Fit, baseline: int | None) -> Aging | None:
    """Candidate × time: do the differences change steadily?

    The F-test pools all candidates, so that one that scatters more than the others looks like one
    that ages (0.05 to 0.18 instead of 0.01). Therefore a pair must also show it by itself.
    """
    e = fit.residuals
    n, k = len(e), fit.candidates
    if n < FEWEST_TO_AGE or k < 2 or fit.freedom <= k:
        return None
    x: Floats = np.arange(n, dtype=np.float64) - (n - 1) / 2
    own, runs = e[:, :k].copy(), np.ones(k)
    if baseline is not None:
        own[:, baseline], runs[baseline] = (e[:, baseline] + e[:, k]) / 2, 2
    slopes = x @ own / (x @ x)
    explained = float((runs * slopes**2).sum() * (x @ x))
    total = float((e**2).sum())
    if total <= ROUNDING**2:
        return None
    rest = max(total - explained, 1e-300) / (fit.freedom - (k - 1))
    p = float(f_tail(k - 1, fit.freedom - (k - 1), explained / (k - 1) / rest))
    pairs = _changing_pairs(own, slopes, x) if p < LEVEL else ()
    return Aging(slopes, p, pairs, float(x[0]), float(x[-1]))


def _changing_pairs(own: Floats, slopes: Floats, x: Floats) -> tuple[int, ...]:
    """Pairs with a slope of their own: Student's t on n − 2 degrees of freedom, Bonferroni."""
    first, second = pair_index(own.shape[1])
    d, slope = own[:, first] - own[:, second], slopes[first] - slopes[second]
    rest = d - d.mean(axis=0) - np.outer(x, slope)
    error = np.sqrt((rest**2).sum(axis=0) / (len(x) - 2) / (x @ x))
    p = t_tail(np.abs(slope) / np.maximum(error, ROUNDING), len(x) - 2)
    found = np.flatnonzero(p < min(LEVEL, ALPHA / len(first)))
    return tuple(sorted(found.tolist(), key=lambda pair: -abs(float(slope[pair]))))


@dataclass(frozen=True)
class TwoModes:
    """Two levels far apart: their means and the share of the values in each."""

    low: float
    high: float
    share_low: float
    share_high: float


def two_modes(values: Floats) -> TwoModes | None:
    """The best split into two groups, if they are more than 5 inner deviations apart.

    Each group holds at least 15 % of at least 20 values. Ashman, Bird and Zepf (1994).
    """
    ordered = np.sort(values[np.isfinite(values)])
    n = len(ordered)
    least = max(2, int(np.ceil(TWO_MODES_SHARE * n)))
    if n < TWO_MODES_LEAST or np.ptp(ordered) <= ROUNDING:
        return None
    sums, squares = np.cumsum(ordered), np.cumsum((ordered - ordered.mean()) ** 2)
    centred = np.cumsum(ordered - ordered.mean())
    t = np.arange(least, n - least + 1)
    left, right = centred[t - 1] / t, -centred[t - 1] / (n - t)
    inner = squares[-1] - t * left**2 - (n - t) * right**2
    best = int(inner.argmin())
    size, gap = int(t[best]), float(right[best] - left[best])
    spread = float(np.sqrt(max(inner[best], 0) / (n - 2)))
    if gap <= TWO_MODES_GAP * spread:
        return None
    low, high = sums[size - 1] / size, (sums[-1] - sums[size - 1]) / (n - size)
    return TwoModes(float(low), float(high), size / n, 1 - size / n)
