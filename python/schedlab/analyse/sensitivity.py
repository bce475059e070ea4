"""A second opinion on every verdict: Wilcoxon's signed ranks with Holm's correction."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from schedlab.analyse.comparison import pair_index
from schedlab.analyse.matrix import Floats
from schedlab.analyse.noise_floor import Margins
from schedlab.spec import Pair

FEWEST_BLOCKS = 12
EXACT_RANKS = 60
LEVEL = 0.05


def fragile(y: Floats, pairs: tuple[Pair, ...], margins: Margins, sign: float) -> NDArray[np.bool_]:
    """Which decided pairs the signed ranks do not confirm; none below 12 blocks.

    The same statements are tested as the verdicts make (beyond ±δ; inside ±δ by two one-sided
    tests), two-sided at 0.05 whatever level a sequential look spends, by Holm's step-down over
    the decided pairs. `y`: n blocks × k candidates, logs.
    """
    decided = np.array([pair.verdict != "undecided" for pair in pairs], dtype=bool)
    result = np.zeros(len(pairs), dtype=bool)
    if len(y) < FEWEST_BLOCKS or not decided.any():
        return result
    first, second = pair_index(y.shape[1])
    d = sign * (y[:, first] - y[:, second])
    different, equal = math.log1p(margins.difference), math.log1p(margins.equivalence)
    above, below = signed_rank_p(d - different), signed_rank_p(-d - different)
    inside = np.maximum(signed_rank_p(equal - d), signed_rank_p(d + equal))
    tests = {"better": above, "worse": below, "equivalent": inside}
    p = np.array([2 * tests[pair.verdict][i] for i, pair in enumerate(pairs) if decided[i]])
    result[decided] = holm(p) > LEVEL
    return result


def holm(p: Floats) -> Floats:
    """Holm's (1979) adjusted p-values."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def signed_rank_p(d: Floats) -> Floats:
    """One-sided p-values for "the centre is above 0" of each column of `d` (n × pairs).

    Exact up to 60 blocks, the normal limit above; ties share their ranks, zeros count half.
    """
    n = len(d)
    size = np.abs(d)
    ordered = np.sort(size, axis=0)
    ranks = np.empty_like(size)
    for column in range(d.shape[1]):
        left = np.searchsorted(ordered[:, column], size[:, column], side="left")
        right = np.searchsorted(ordered[:, column], size[:, column], side="right")
        ranks[:, column] = (left + right + 1) / 2
    positive = (ranks * ((d > 0) + 0.5 * (d == 0))).sum(axis=0)
    if n > EXACT_RANKS:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        z = (n * (n + 1) / 4 - positive + 0.5) / spread
        return np.asarray(ndtr(z), dtype=np.float64)
    tail = _upper_tail(n)
    return np.asarray(tail[np.floor(positive + 1e-9).astype(np.intp)], dtype=np.float64)


@functools.lru_cache(maxsize=64)
def _upper_tail(n: int) -> Floats:
    """P(W ≥ w) for w = 0 … n(n+1)/2 under symmetry about 0."""
    chance = np.ones(1)
    for rank in range(1, n + 1):
        step = np.zeros(rank + 1)
        step[0] = step[-1] = 0.5
        chance = np.convolve(chance, step)
    return np.asarray(np.cumsum(chance[::-1])[::-1], dtype=np.float64)
