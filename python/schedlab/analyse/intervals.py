"""Simultaneous intervals for blocked data: signs of whole blocks flipped, max-T over the pairs.

The wild (sign-flip) form of Westfall and Young (1993), studentised: differences are centred per
pair, whole blocks change their sign together, and the largest |t| over all pairs gives one
critical value, so that the correlation between pairs is kept and nothing is assumed of the
distribution but symmetry. Flipping the differences as they are, not centred, is an exact test of
"no candidate differs" (Fisher 1935): what it does not confirm is not claimed.
"""

from __future__ import annotations

import functools

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
from schedlab.analyse.matrix import Floats
from schedlab.analyse.sequential import ONE_LOOK, Levels

EXACT_BLOCKS = 13
FLIPS = 9_999
WALSH_AVERAGES = 20_000


def compare_blocked(
    y: Floats, candidates: tuple[str, ...], *, levels: Levels = ONE_LOOK, seed: int = 0
) -> Comparison:
    """All pairs of the columns of `y` (n blocks × k candidates, logs).

    Up to 13 blocks all sign patterns are used, else 9,999 seeded ones. Where the patterns are too
    few to resolve alpha (n ≤ 5 at 0.05), Student's t with Bonferroni's correction bounds the
    critical value from below. One block gives estimates but no interval. A pair whose interval
    would exclude "no difference" although that is not significant at the level of claims, or not by
    the exact test, gets a wider interval, which does not.
    """
    n, k = y.shape
    first, second = pair_index(k)
    d = y[:, first] - y[:, second]
    mean = d.mean(axis=0)
    spread = np.sqrt(((d - mean) ** 2).sum(axis=0))
    spread[spread <= ROUNDING * np.maximum(1.0, np.abs(y).max(initial=0.0)) * n] = 0.0
    reference = exact = np.zeros(1)
    error = np.full(len(first), np.nan)
    critical = np.full(len(first), np.inf)
    if n > 1:
        error = spread / np.sqrt(n * (n - 1))
        length = np.sqrt((d**2).sum(axis=0))
        reference = _reference((d - mean) / np.where(spread > 0, spread, 1.0), seed)
        exact = _reference(d / np.where(length > 0, length, 1.0), seed)
        critical = _critical(reference, exact, n, mean, error, levels)

    def p_value(t: Floats) -> Floats:
        if n < 2:
            return np.ones(len(t))
        p = np.maximum(exceedance(reference, t), exceedance(exact, t))
        if too_few_patterns(n, levels.claim):
            p = np.maximum(p, bonferroni_p(t, len(first), n - 1))
        return np.where(np.isinf(t), 0.0, p)

    return Comparison(
        candidates=candidates,
        first=first,
        second=second,
        mean=mean,
        standard_error=error,
        critical=critical,
        hodges_lehmann=hodges_lehmann(d, seed),
        runs=np.full(k, n, dtype=np.intp),
        p_value=p_value,
    )


def too_few_patterns(n: int, alpha: float) -> bool:
    """Whether n blocks have fewer sign patterns (up to a common sign) than 1/alpha."""
    return 2.0 ** (n - 1) < 1 / alpha


def _critical(
    reference: Floats, exact: Floats, n: int, mean: Floats, error: Floats, levels: Levels
) -> Floats:
    """Critical values per pair: that of the interval, or of the claim where it must be wider."""
    narrow = _quantile(reference, n, len(mean), levels.interval)
    claim = (_quantile(by, n, len(mean), levels.claim) for by in (reference, exact))
    wide = max(narrow, *claim)
    unproved = (np.abs(mean) > narrow * error) & (np.abs(mean) <= wide * error)
    return np.asarray(np.where(unproved, wide, narrow), dtype=np.float64)


def _quantile(reference: Floats, n: int, pairs: int, alpha: float) -> float:
    if pairs == 0:
        return 0.0
    critical = upper_quantile(reference, alpha)
    if too_few_patterns(n, alpha):
        critical = max(critical, float(bonferroni_t(alpha, pairs, n - 1)))
    return critical


def _reference(centred: Floats, seed: int) -> Floats:
    """Ordered max|t*| over the sign patterns; columns of `centred` (n × pairs) have length 1.

    With unit columns the flipped mean m gives t = m·n / √(n (1 − n m²) / (n − 1)): the sum of
    squares does not change with the signs. Patterns that leave no spread at all (two blocks, or
    four that mirror each other) have no t and do not count.
    """
    n = len(centred)
    total = _signs(n, seed) @ centred
    share = np.abs(total).max(axis=1, initial=0.0) ** 2 / n
    share = share[share < 1 - 1e-9]
    return np.sort(np.asarray(np.sqrt(share * (n - 1) / (1 - share)), dtype=np.float64))


@functools.lru_cache(maxsize=8)
def _signs(n: int, seed: int) -> Floats:
    """Sign patterns × blocks, ±1. A pattern and its opposite give the same |t|: one is kept."""
    if n <= EXACT_BLOCKS:
        patterns = np.arange(2 ** (n - 1))[:, None] >> np.arange(n)[None, :]
        minus = (patterns & 1) == 1
    else:
        minus = np.random.default_rng([seed, n]).random((FLIPS, n)) < 0.5
    return np.asarray(np.where(minus, -1.0, 1.0), dtype=np.float64)


def hodges_lehmann(d: Floats, seed: int = 0) -> Floats:
    """Median of the Walsh averages of each column of `d` (n × pairs).

    Above 20,000 averages a seeded sample of that many stands for all of them.
    """
    n = len(d)
    low, high = np.triu_indices(n) if n * (n + 1) // 2 <= WALSH_AVERAGES else _sample(n, seed)
    result: Floats = np.median((d[low] + d[high]) / 2, axis=0)
    return result


def _sample(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n, 1])
    low, high = rng.integers(0, n, size=(2, WALSH_AVERAGES))
    return low, high
