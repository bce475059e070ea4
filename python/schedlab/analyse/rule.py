"""One rule for all pairs of candidates, at any number of blocks: arithmetic on arrays.

Two standard errors guard each other. The pooled one (Tukey) is strong but wrong where candidates
scatter differently; the pair's own one (Student) is wrong at few blocks where runs have two
modes. Up to 5 units the wider of the two decides, from 6 on the narrower of both at sharper
levels. Everything works on arrays with leading dimensions (experiments), which the calibration
uses; `analyse` asks it for one experiment.

Sources: Tukey (1953), Kramer (1956), Student (1908); the combination was chosen by simulation
(docs/reference/calibration.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats, range_quantile, range_tail, t_quantile, t_tail

ALPHA = 0.05
#: Up to so many units the guarded half-width alone decides.
FEW_UNITS = 5
GUARDED_SHARE, OWN_SHARE = 0.8, 0.4
#: Below this a standard error of logs is rounding.
ROUNDING = 1e-13
#: Bounds nearer than this to the margin decide nothing.
TOUCHING = 1e-9
#: From so many units on, differences that wander widen the intervals.
UNITS_TO_WANDER = 8
PHI_MAX = 0.95
OFF_ERRORS = 6.0
#: Differences that wander are worth at least so many independent ones (two: no claim at all).
FEWEST_EFFECTIVE = 3.0
WORTH_WIDENING = 0.2
#: From this correlation on nothing is equivalent; claims must survive the widening.
PHI_UNSTEADY = 0.5


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


def widening(phi: Floats, units: int, alpha: Floats | float, pairs: int) -> Floats:
    """The factor by which differences that wander widen a half-width; 1 where φ is 0."""
    inflation = (1 + phi) / (1 - phi)
    effective = np.maximum(FEWEST_EFFECTIVE, units / inflation)
    level = np.minimum(OWN_SHARE * np.asarray(alpha) / pairs, 1.0)
    scale = np.sqrt(inflation * (units - 1) / units / (1 - 1 / effective))
    factor = scale * t_quantile(level, effective - 1) / t_quantile(level, units - 1)
    return np.asarray(np.where(phi > 0, factor, 1.0))


def half_width(fit: Fit, alpha: Floats | float = ALPHA) -> Floats:
    """Half-width of the simultaneous intervals (…, P) at the family-wise level `alpha`.

    Infinite where no interval can be given: one unit, or nothing to estimate a variance from.
    """
    n, k = fit.units, fit.candidates
    pairs = k * (k - 1) // 2
    if n < 2 or fit.freedom < 1:
        return np.full_like(fit.mean, np.inf)
    if n <= FEW_UNITS:
        return _guarded(fit, alpha)
    own = t_quantile(OWN_SHARE * np.asarray(alpha) / pairs, n - 1) * fit.own
    half = np.minimum(_guarded(fit, GUARDED_SHARE * np.asarray(alpha)), own)
    if not fit.phi.any():
        return half
    return np.asarray(half * widening(fit.phi[..., None], n, alpha, pairs))


def _guarded(fit: Fit, alpha: Floats | float) -> Floats:
    k = fit.candidates
    tukey = range_quantile(alpha, k, fit.freedom) / np.sqrt(2) * fit.pooled
    student = t_quantile(np.asarray(alpha) / max(k - 1, 1), fit.units - 1) * fit.own
    return np.asarray(np.maximum(tukey, student))


def p_value(fit: Fit, margin: float = 0.0) -> Floats:
    """Family-wise p-value (…, P): the smallest level at which the interval excludes ± `margin`."""
    n, k = fit.units, fit.candidates
    pairs = k * (k - 1) // 2
    beyond = np.abs(fit.mean) - margin
    if n < 2 or fit.freedom < 1:
        return np.ones_like(beyond)
    tukey, own = _ratio(beyond, fit.pooled), _ratio(beyond, fit.own)
    guarded = np.maximum(
        range_tail(np.sqrt(2) * tukey, k, fit.freedom), (k - 1) * t_tail(own, n - 1)
    )
    if n <= FEW_UNITS:
        p = guarded
    else:
        p = np.minimum(guarded / GUARDED_SHARE, pairs * t_tail(own, n - 1) / OWN_SHARE)
    p = np.where(beyond > 0, np.minimum(p, 1.0), 1.0)
    return p if not fit.phi.any() else np.maximum(p, _widened_p(fit, beyond, p))


def _widened_p(fit: Fit, beyond: Floats, plain: Floats) -> Floats:
    """By bisection of log level, where the widening depends on the level, too.

    Only for p-values below `WORTH_WIDENING`: widening makes them larger still.
    """
    phi = np.broadcast_to(fit.phi[..., None], plain.shape)
    rows = (phi > 0) & (plain < WORTH_WIDENING) & (beyond > 0)
    few = replace(fit, mean=beyond[rows], pooled=fit.pooled[rows], own=fit.own[rows])
    few = replace(few, phi=np.zeros(1))
    low, high = np.log(np.maximum(plain[rows], 1e-15)), np.zeros(rows.sum())
    pairs = fit.candidates * (fit.candidates - 1) // 2
    for _ in range(32):
        middle = (low + high) / 2
        level = np.exp(middle)
        half = half_width(few, level) * widening(phi[rows], fit.units, level, pairs)
        excludes = half < few.mean
        low, high = np.where(excludes, low, middle), np.where(excludes, middle, high)
    result = plain.copy()
    result[rows] = np.exp(high)
    return result


def _ratio(beyond: Floats, error: Floats) -> Floats:
    """Standard errors beyond the margin; infinite where there is no spread at all."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(beyond > 0, beyond / np.maximum(error, 1e-300), 0.0)


def resolution_floor(steps: Floats, units: int, weight: float = 1.0) -> Floats:
    """Least standard error of each pair from the relative steps (k) of the candidates' values."""
    first, second = pair_index(len(steps))
    return np.asarray(weight * np.sqrt((steps[first] ** 2 + steps[second] ** 2) / 12 / units))
