"""All pairs of candidates with simultaneous intervals, whichever design the data came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from schedlab.analyse.matrix import Floats

#: Below this relative spread two numbers differ by rounding only.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Comparison:
    """Differences of logs, a minus b, for the pairs (`first[p]`, `second[p]`) of candidates.

    `half_width` is that of the simultaneous interval, `critical` what it is of the standard
    error; infinite where no interval can be given. `p_value` gives for an array of t statistics
    (pairs) the two-sided p-values adjusted for all pairs. `runs` is the number of blocks, or of
    runs of each candidate for unblocked data.
    """

    candidates: tuple[str, ...]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    mean: Floats
    standard_error: Floats
    critical: Floats
    hodges_lehmann: Floats
    runs: NDArray[np.intp]
    p_value: Callable[[Floats], Floats]

    @property
    def half_width(self) -> Floats:
        """Half-widths of the intervals: 0 for pairs without any spread, infinite without one."""
        with np.errstate(invalid="ignore"):
            width = self.critical * self.standard_error
        return np.where(np.isfinite(self.critical), width, np.inf)


def pair_index(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every unordered pair once, in the order of the candidates."""
    pairs = np.array(list(combinations(range(count), 2)), dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def bonferroni_t(alpha: float, pairs: int, freedom: Floats | float) -> Floats:
    """Two-sided Student quantile for `pairs` comparisons together."""
    quantile: Floats = -np.asarray(stdtrit(freedom, alpha / 2 / max(pairs, 1)), dtype=np.float64)
    return quantile


def bonferroni_p(t: Floats, pairs: int, freedom: Floats | float) -> Floats:
    """Two-sided Student p-values times the number of `pairs`, at most 1."""
    p = 2 * np.asarray(stdtr(freedom, -np.abs(t)), dtype=np.float64) * max(pairs, 1)
    return np.minimum(p, 1.0)


def upper_quantile(ordered: Floats, alpha: float) -> float:
    """The (1 − alpha) quantile of an ordered reference distribution, rounded up."""
    rank = int(np.ceil((1 - alpha) * len(ordered) - 1e-9))
    return float(ordered[min(max(rank, 1), len(ordered)) - 1])


def exceedance(ordered: Floats, t: Floats) -> Floats:
    """(1 + how many of the reference are at least |t|) / (1 + all of them)."""
    above = len(ordered) - np.searchsorted(ordered, np.abs(t) * (1 - ROUNDING), side="left")
    return np.asarray((1.0 + above) / (1.0 + len(ordered)), dtype=np.float64)
