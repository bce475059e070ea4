"""Quantiles (one-sided) of Student's t, and tails of it, F, the normal and the binomial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schedlab import _core

Floats = NDArray[np.float64]


def t_quantile(level: float, freedom: Floats | float) -> Floats:
    """One-sided Student quantile, exceeded with probability `level`; infinite without a degree of
    freedom.
    """
    known, places = np.unique(np.asarray(freedom, dtype=np.float64), return_inverse=True)
    found = np.array(_core.t_quantile(level, known.tolist()))
    return np.where(known > 0, found, np.inf)[places].reshape(np.shape(freedom))


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of their mean by Student's t; infinite for fewer than two."""
    n = len(values)
    return float(t_quantile(0.025, n - 1)) * stdev(values) / math.sqrt(n) if n > 1 else math.inf


def t_tail(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Two-sided p-value of Student's t."""
    return f_tail(1, freedom, np.square(np.asarray(t, dtype=np.float64)))


def f_tail(between: ArrayLike, within: ArrayLike, ratio: ArrayLike) -> Floats:
    """The probability that F with these degrees of freedom exceeds `ratio`."""
    parts = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (between, within, ratio)))
    cases = np.stack([part.ravel() for part in parts], axis=1)
    return np.array(_core.f_tail(list(map(tuple, cases.tolist())))).reshape(parts[0].shape)


def normal_tail(z: ArrayLike) -> Floats:
    """The probability that a standard normal variable exceeds `z`."""
    values = np.asarray(z, dtype=np.float64)
    return np.array(_core.normal_tail(values.ravel().tolist())).reshape(values.shape)


def binomial_tail(least: int, trials: int, share: float) -> float:
    """The probability of `least` or more of `trials`, each with probability `share` within 0 and 1;
    F's by Abramowitz and Stegun, 26.5.24.
    """
    if least <= 0:
        return 1.0
    more = trials - least + 1
    return float(f_tail(2 * more, 2 * least, least * (1 - share) / (more * share)))
