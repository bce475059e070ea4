"""Quantiles and tails of Student's t, two-sided."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]


def t_quantile(alpha: ArrayLike, freedom: ArrayLike) -> Floats:
    """Two-sided Student quantile: exceeded in absolute value with probability `alpha`."""
    level = np.asarray(alpha, dtype=np.float64)
    return -np.asarray(stdtrit(np.asarray(freedom, dtype=np.float64), level / 2))


def t_tail(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Two-sided p-value of Student's t."""
    size = np.abs(np.asarray(t, dtype=np.float64))
    return np.asarray(2 * stdtr(np.asarray(freedom, dtype=np.float64), -size))
