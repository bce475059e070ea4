"""Looking early: at how many blocks an experiment may be decided, and at which level each.

The error is spent by Pocock's kind of spending function, .05·ln(1 + (e − 1)·n/n_max), over the
exact joint law of the looks: the recursion of Armitage, McPherson and Rowe (1969) on a Brownian
motion at the fractions n/n_max. Lan and DeMets (1983).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from schedlab.analyse.losses import ALPHA
from schedlab.analyse.quantiles import Floats, normal_tail

NODES = 200


def spent(fraction: float, alpha: float = ALPHA) -> float:
    """The error that may be used up when this fraction of the blocks is done."""
    return alpha * math.log(1 + (math.e - 1) * min(fraction, 1.0))


@lru_cache(maxsize=512)
def boundaries(looks: tuple[int, ...], alpha: float = ALPHA) -> tuple[float, ...]:
    """The two-sided nominal level of each interim analysis; together they spend `alpha`."""
    times = np.array(looks, dtype=np.float64) / looks[-1]
    x, weights = np.polynomial.legendre.leggauss(NODES)
    levels: list[float] = []
    position, density, before, used = np.zeros(1), np.ones(1), 0.0, 0.0
    for time in times:
        target, scale = spent(float(time), alpha) - used, math.sqrt(time - before)
        edge = _edge(position, density, scale, target)
        levels.append(float(2 * normal_tail(edge / math.sqrt(time))))
        following = edge * x
        kernel = np.exp(-(((following[:, None] - position) / scale) ** 2) / 2)
        density = kernel @ density / (scale * math.sqrt(2 * math.pi)) * edge * weights
        position, before, used = following, float(time), used + target
    return tuple(levels)


def _edge(position: Floats, mass: Floats, scale: float, target: float) -> float:
    """The ±edge beyond which a share `target` of the paths that are left steps next."""
    step = 1 - NormalDist().inv_cdf(max(target, 1e-300) / 4)
    low, high = 0.0, float(np.abs(position).max() + scale * step)
    for _ in range(100):
        middle = (low + high) / 2
        beyond = normal_tail((middle + position) / scale) + normal_tail((middle - position) / scale)
        low, high = (middle, high) if float(mass @ beyond) > target else (low, middle)
    return (low + high) / 2
