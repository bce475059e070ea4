"""Several hosts: the mean effect over them, what a new host can expect, and who is the opposite.

A random-effects model per candidate: the effects of the hosts differ by themselves (τ), and each
was measured with an error. τ² is that of Paule and Mandel (1982), the interval of the mean that of
Hartung and Knapp (2001) with Student's t on H − 1 degrees of freedom, never narrower than with
the measured errors alone. A new host is predicted from the hosts as they were measured, errors and
all, because a τ² that is estimated as 0 would promise too much; that interval contains each of
them, because a few outlying hosts are no normal distribution. Effects are log ratios to the
baseline, positive where the candidate is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import t_quantile

LEVEL = 0.95
_TOLERANCE, _STEPS = 1e-10, 200

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fleet:
    """The mean effect over hosts, as logs; `low`, `high` its 95 % interval, `new_low`, `new_high`
    that of one more host like these. `spread` is the standard deviation of the true effects.
    `better` and `worse` are the hosts whose own intervals lie beyond 0.
    """

    hosts: int
    mean: float
    low: float
    high: float
    new_low: float
    new_high: float
    spread: float
    better: tuple[str, ...]
    worse: tuple[str, ...]

    @property
    def opposite(self) -> tuple[str, ...]:
        """The hosts that are beyond 0 on the other side than the mean."""
        return self.worse if self.mean > 0 else self.better


def fleet(differences: Sequence[tuple[str, Sequence[float]]]) -> Fleet | None:
    """The model of each host's (name, log ratios of its blocks); None for fewer than three hosts
    with two blocks, of which no spread is known.

    The spread of blocks is pooled over the hosts: three blocks alone say little of it.
    """

    known = [(host, np.asarray(values)) for host, values in differences if len(values) > 1]
    hosts, freedom = len(known), sum(len(values) - 1 for _, values in known)
    if hosts < 3:
        return None
    points = np.array([values.mean() for _, values in known])
    pooled = sum(float(((v - v.mean()) ** 2).sum()) for _, v in known) / freedom
    variances = np.maximum([pooled / len(v) for _, v in known], np.finfo(float).tiny)
    tau2 = _tau2(points, variances)
    weights = 1 / (variances + tau2)
    mean = float((weights * points).sum() / weights.sum())
    excess = float((weights * (points - mean) ** 2).sum()) / (hosts - 1)
    t = float(t_quantile((1 - LEVEL) / 2, hosts - 1))
    half = t * math.sqrt(max(excess, 1.0) / float(weights.sum()))
    middle, new = float(points.mean()), t * float(points.std(ddof=1)) * math.sqrt(1 + 1 / hosts)
    own = np.sqrt(variances) * float(t_quantile((1 - LEVEL) / 2 / hosts, freedom))
    names = np.array([host for host, _ in known])
    better, worse = (tuple(names[beyond].tolist()) for beyond in (points > own, points < -own))
    ends = (mean - half, mean + half)
    new_ends = (min(middle - new, float(points.min())), max(middle + new, float(points.max())))
    return Fleet(hosts, mean, *ends, *new_ends, math.sqrt(tau2), better, worse)


def _tau2(points: Floats, variances: Floats) -> float:
    """The variance of the true effects with which the weighted squares are as many as expected."""

    def excess(tau2: float) -> float:
        weights = 1 / (variances + tau2)
        mean = (weights * points).sum() / weights.sum()
        return float((weights * (points - mean) ** 2).sum()) - (len(points) - 1)

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, max(float(np.ptp(points)) ** 2, _TOLERANCE)
    while excess(high) > 0:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        if high - low <= _TOLERANCE * high:
            break
    return high
