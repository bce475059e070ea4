"""Ranks of the same pairs: Hodges–Lehmann estimates and exact signed ranks.

They see the typical run where means see all of them: their disagreement is worth a word.
Hodges and Lehmann (1963), Wilcoxon (1945).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from schedlab.analyse.quantiles import Floats

FEWEST_UNITS = 6
EXACT_UNITS = 60


def hodges_lehmann(d: Floats) -> Floats:
    """Median of the Walsh averages of each column of `d` (n × pairs)."""
    i, j = np.triu_indices(len(d))
    return np.asarray(np.median((d[i] + d[j]) / 2, axis=0), dtype=np.float64)


def signed_rank_p(d: Floats) -> Floats:
    """One-sided p-values of Wilcoxon's signed ranks against "not above 0", per column (n × pairs).

    Exact up to 60 values, then normal with a continuity correction. Tied sizes share ranks.
    """
    n = len(d)
    size = np.abs(d)
    ranks = (size[:, None] > size[None]).sum(axis=1) + (
        (size[:, None] == size[None]).sum(axis=1) + 1
    ) / 2
    statistic = np.where(d > 0, ranks, 0.0).sum(axis=0) + np.where(d == 0, ranks / 2, 0).sum(axis=0)
    if n <= EXACT_UNITS:
        tail = _rank_sum_tail(n)
        index = np.clip(np.floor(statistic + 1e-9).astype(int), 0, len(tail) - 1)
        return np.asarray(tail[index], dtype=np.float64)
    mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
    return np.asarray(ndtr(-(statistic - 0.5 - mean) / np.sqrt(variance)), dtype=np.float64)


@lru_cache(maxsize=64)
def _rank_sum_tail(n: int) -> Floats:
    """P(sum of positive ranks ≥ s) for s = 0 … n(n+1)/2."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[:-rank]
        counts = (counts + shifted) / 2
    return np.asarray(counts[::-1].cumsum()[::-1], dtype=np.float64)


def can_confirm(units: int, pairs: int, alpha: float) -> bool:
    """Whether ranks of so many units can be significant at all."""
    return units >= FEWEST_UNITS and bool(2.0 ** (1 - units) <= alpha / pairs)


def confirms(d: Floats, margin: float, alpha: float) -> Floats:
    """−1, 0 or 1 per pair (n × P): ranks see a difference beyond ± margin in this direction."""
    level = alpha / max(d.shape[1], 1) / 2
    above, below = signed_rank_p(d - margin) <= level, signed_rank_p(-d - margin) <= level
    return np.asarray(above.astype(float) - below.astype(float))


def confirms_equal(d: Floats, margin: float, alpha: float) -> Floats:
    """1 where ranks see each pair (n × P) inside ± margin, else 0."""
    level = alpha / max(d.shape[1], 1) / 2
    inside = (signed_rank_p(d + margin) <= level) & (signed_rank_p(margin - d) <= level)
    return np.asarray(inside.astype(float))
