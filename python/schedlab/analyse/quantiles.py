"""Quantiles (one-sided) and tails (two-sided) of Student's t."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]


def t_quantile(level: float, freedom: Floats | float) -> Floats:
    """One-sided Student quantile, exceeded with probability `level`; infinite without a degree of
    freedom.
    """
    nu = np.asarray(freedom, dtype=np.float64)
    if nu.size > 1 and (nu == nu.flat[0]).all():
        return np.full(nu.shape, t_quantile(level, float(nu.flat[0])))
    with np.errstate(invalid="ignore"):
        return np.where(nu > 0, -stdtrit(np.where(nu > 0, nu, 1.0), level), np.inf)


def t_tail(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Two-sided p-value of Student's t."""
    size = np.abs(np.asarray(t, dtype=np.float64))
    return np.asarray(2 * stdtr(np.asarray(freedom, dtype=np.float64), -size))
