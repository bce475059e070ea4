"""Least squares of y = block + candidate: residuals for the flags, on arrays.

The bounds of an answer do not come from here (`losses.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats

ALPHA = 0.05
#: Up to so many units the guarded half-width alone decides.
FEW_UNITS = 5
#: Below this a standard error of logs is rounding.
ROUNDING = 1e-13
#: From so many units on, differences that wander widen the intervals.
UNITS_TO_WANDER = 8
PHI_MAX = 0.95
OFF_ERRORS = 6.0


@dataclass(frozen=True)
class Fit:
    """Least squares of y = block + candidate over n units (blocks, or sessions) and k candidates.

    Arrays (…, P) follow the pairs (`first[p]`, `second[p]`): `mean` is the difference of logs,
    `pooled` and `own` are its standard errors. `spread` (…) is the residual standard deviation of
    one run, `residuals` (… , n, arms), `freedom` their degrees of freedom. `phi` (…) is the
    correlation of neighbouring differences that widens the intervals, 0 where they are steady.
    """

    units: int
    candidates: int
    mean: Floats
    pooled: Floats
    own: Floats
    spread: Floats
    freedom: float
    residuals: Floats
    phi: Floats

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second candidate of every pair."""
        return pair_index(self.candidates)

    @property
    def steady(self) -> Fit:
        """The same without widening."""
        return replace(self, phi=np.zeros_like(self.phi))

    @cached_property
    def error(self) -> Floats:
        """The larger of the two standard errors."""
        return np.maximum(self.pooled, self.own)


def pair_index(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every unordered pair once, in the order of the candidates."""
    pairs = np.array(list(combinations(range(count), 2)), dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def fit(
    arms: Floats,
    *,
    baseline: int | None = None,
    floor: Floats | float = 0.0,
    missing: float = 0.0,
    filled: int = 0,
    segments: NDArray[np.intp] | None = None,
) -> Fit:
    """The fit of `arms` (…, n, a): logs of every unit, the candidates in columns.

    With `baseline` the last column is the A/A arm of that column. `floor` (P) is the least
    standard error, from the resolution of the values. `missing` is the share of cells that were
    filled, `filled` by how much that lowers the degrees of freedom. `segments` (n) names parts of
    the units (sessions) across which neighbours are not compared.
    """
    n, a = arms.shape[-2:]
    k = a if baseline is None else a - 1
    y = arms[..., :k]
    if baseline is not None:
        y = y.copy()
        y[..., baseline] = (arms[..., baseline] + arms[..., k]) / 2
    means = y.mean(axis=-2)
    per_arm = means if baseline is None else _with_aa(means, baseline)
    blocks = arms.mean(axis=-1, keepdims=True)
    grand = per_arm.mean(axis=-1)[..., None, None]
    residuals = (arms - blocks) - (per_arm[..., None, :] - grand)
    freedom = n * a - n - k + 1 - filled
    first, second = pair_index(k)
    difference = y[..., first] - y[..., second]
    loss = (1 - missing) ** 1.5
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (residuals**2).sum(axis=(-2, -1)) / (freedom if freedom > 0 else np.nan)
        own = difference.std(axis=-2, ddof=1) / np.sqrt(n) / loss if n > 1 else np.nan
    runs = np.where((first == baseline) | (second == baseline), 1.5, 2.0)
    if baseline is None:
        runs = np.full(len(first), 2.0)
    pooled = np.sqrt(variance)[..., None] * np.sqrt(runs / n) / loss
    shape = pooled.shape
    result = Fit(
        units=n,
        candidates=k,
        mean=means[..., first] - means[..., second],
        pooled=_clean(pooled, floor),
        own=_clean(np.broadcast_to(own, shape), floor),
        spread=np.sqrt(variance),
        freedom=float(freedom),
        residuals=residuals,
        phi=np.zeros(shape[:-1]),
    )
    return (
        replace(result, phi=wandering(residuals, k, segments)) if n >= UNITS_TO_WANDER else result
    )


def _with_aa(means: Floats, baseline: int) -> Floats:
    return np.concatenate([means, means[..., baseline, None]], axis=-1)


def _clean(error: Floats, floor: Floats | float) -> Floats:
    return np.maximum(np.where(error < ROUNDING, 0.0, error), floor)


def autocorrelation(residuals: Floats, segments: NDArray[np.intp] | None = None) -> Floats:
    """Lag-1 autocorrelation of residuals (…, n, arms), pooled over the arms.

    An arm that is off by a constant (the A/A arm, `OFF_ERRORS` from the fit) does not wander: its
    residuals are taken around their mean.
    """
    offset = residuals.mean(axis=-2, keepdims=True)
    error = residuals.std(axis=-2, keepdims=True) / np.sqrt(max(residuals.shape[-2] - 1, 1))
    e = residuals - np.where(np.abs(offset) > OFF_ERRORS * error, offset, 0.0)
    if segments is None:
        products = (e[..., 1:, :] * e[..., :-1, :]).sum(axis=(-2, -1))
    else:
        for part in np.unique(segments):
            rows = segments == part
            e[..., rows, :] -= e[..., rows, :].mean(axis=-2, keepdims=True)
        same = (segments[1:] == segments[:-1])[:, None]
        products = (e[..., 1:, :] * e[..., :-1, :] * same).sum(axis=(-2, -1))
    squares = (e**2).sum(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(squares > ROUNDING**2, products / squares, 0.0))


def wandering(
    residuals: Floats, candidates: int, segments: NDArray[np.intp] | None = None
) -> Floats:
    """φ of neighbouring differences with a dead zone of one standard error, 0 to `PHI_MAX`.

    Where some candidates vary far more, only they count: the dead zone counts as many
    candidates as have a share in the variance.
    """
    n = residuals.shape[-2]
    shares = (residuals**2).sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = shares.sum(axis=-1) ** 2 / (shares**2).sum(axis=-1) / residuals.shape[-1]
    alike = np.where(np.isfinite(alike), alike, 1.0)
    length = n if segments is None else n / len(np.unique(segments))
    r = autocorrelation(residuals, segments)
    phi = (r + 1 / length) * (1 + 4 / length) - 1 / np.sqrt(n * candidates * alike)
    return np.asarray(np.clip(phi, 0.0, PHI_MAX))


def is_unsteady(
    residuals: Floats, candidates: int, segments: NDArray[np.intp] | None = None
) -> NDArray[np.bool_]:
    """Whether neighbouring residuals go together more than one time in a hundred by chance."""
    n = residuals.shape[-2]
    length = n if segments is None else n / len(np.unique(segments))
    r = autocorrelation(residuals, segments)
    limit = -1 / length + 2.33 * (1 - 1 / length) / np.sqrt(n * candidates)
    return np.asarray(r > limit)
