"""How far each candidate is behind the best of a row, with bounds: arithmetic on arrays.

Two standard errors guard each other: the pooled one of a row is strong, but wrong where candidates
scatter differently; the pair's own one is wrong at few blocks where runs have two modes. Bounds on
the distance to the best: Hsu (1984), Edwards and Hsu (1983). Chosen and measured by simulation:
docs/reference/calibration.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from schedlab.analyse.carry_over import Adjusted, adjusted
from schedlab.analyse.quantiles import Floats, t_quantile
from schedlab.analyse.rows import Booleans, RowData

ALPHA = 0.05
#: Up to so many units the larger of the two errors decides.
FEW_UNITS = 5
POOLED_SHARE, OWN_SHARE = 0.8, 0.4
#: With fewer units a candidate is compared with none.
UNITS_LEAST = 2
#: From so many units on, differences that wander widen the bounds.
UNITS_TO_WANDER = 8
PHI_MAX = 0.9
#: Below this a standard error or a difference of logs is rounding of the arithmetic.
TINY = 1e-12


@dataclass(frozen=True)
class Levels:
    """One-sided levels: of the larger error (`pooled`) and of its guard (`own`)."""

    pooled: float
    own: float


def upper(look: float, k: int, rows: int) -> Levels:
    """For bounds on a loss from above: one comparison for each candidate, on its worst row."""
    return Levels(look * ALPHA / (k if rows > 1 else max(k - 1, 1)), look * ALPHA / 2)


def lower(look: float, k: int, rows: int) -> Levels:
    """For bounds from below: each candidate on each row."""
    rows = max(rows, 1)
    return Levels(look * ALPHA / (2 * max(k - 1, 1) * rows), look * ALPHA / (4 * rows))


@dataclass(frozen=True)
class Pairs:
    """All pairs of candidates of one row on one kind of unit; arrays are k × k.

    `mean[i, j]`: how far j is ahead of i. `pooled`, `own`: standard errors with their degrees of
    freedom. `n`: the units that both have.
    """

    mean: Floats
    n: Floats
    pooled: Floats
    pooled_freedom: float | Floats
    own: Floats
    own_freedom: Floats

    def half_width(self, levels: Levels) -> Floats:
        """Half-widths (k × k) at one-sided levels."""
        few = _guarded(self, levels.pooled, levels.own)
        guarded = _guarded(self, POOLED_SHARE * levels.pooled, levels.own)
        own = _times(t_quantile(OWN_SHARE * levels.pooled, self.own_freedom), self.own)
        return np.where(self.n <= FEW_UNITS, few, np.minimum(guarded, own))


def _guarded(pairs: Pairs, level: float, guard: float) -> Floats:
    return np.maximum(
        _times(t_quantile(level, pairs.pooled_freedom), pairs.pooled),
        _times(t_quantile(guard, pairs.own_freedom), pairs.own),
    )


def _times(quantile: Floats, error: Floats) -> Floats:
    """Their product; infinite where either is, also beside a 0."""
    with np.errstate(invalid="ignore"):
        product = quantile * error
    known = np.isfinite(quantile) & np.isfinite(error)
    return np.where(known, np.where(error < TINY, 0.0, product), np.inf)


def of_blocks(row: RowData) -> Pairs:
    """The pairs of a row that was measured in blocks (or sessions, or hosts)."""
    y, share, filled = row.y, row.share, row.filled
    n, arms = y.shape
    there = np.isfinite(y)
    gaps = int((~there).sum())
    if gaps and may_fill(there):
        y, share, filled = fill(y), gaps / y.size, filled + gaps
    complete = bool(n and np.isfinite(y).all())
    mean, number, own = _differences(replace(row, y=y).values())
    if complete:
        residuals = centred(y)
        freedom = (n - 1) * (arms - 1) - filled
        variance = _ratio(float((residuals**2).sum()), freedom)
    else:
        residuals = np.where(there, y - fill(y, fitted=True), 0.0)
        variance, freedom = _pairwise(y)
    runs = np.full((row.k, row.k), 2.0)
    if row.aa is not None:
        runs[row.aa, :] = runs[:, row.aa] = 1.5
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.sqrt(variance) * np.sqrt(runs / number) / (1 - share)
    inflation = inflation_of(residuals, row.k)
    wider = np.sqrt(inflation)
    return Pairs(
        mean=mean,
        n=number,
        pooled=pooled * wider,
        pooled_freedom=freedom / inflation,
        own=own / (1 - share) * wider,
        own_freedom=number - 1 if inflation == 1 else np.maximum(number / inflation, 2) - 1,
    )


def centred(y: Floats) -> Floats:
    """y without the means of its blocks and of its arms."""
    residuals = y - y.mean(axis=1, keepdims=True)
    return np.asarray(residuals - residuals.mean(axis=0))


def may_fill(there: Booleans) -> bool:
    """At most half of each arm and of each block is missing."""
    return bool(
        there.shape[1] > 1
        and (there.mean(axis=0) >= 0.5).all()
        and (there.mean(axis=1) >= 0.5).all()
    )


def _ratio(squares: float, freedom: float) -> float:
    return squares / freedom if freedom > 0 else np.nan


def _differences(values: Floats) -> tuple[Floats, Floats, Floats]:
    """(mean, number, standard error) k × k of y_j − y_i over the units that both have."""
    d = values[:, None, :] - values[:, :, None]
    both = np.isfinite(d)
    number = both.sum(axis=0).astype(np.float64)
    d = np.where(both, d, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = d.sum(axis=0) / number
        squares = (np.where(both, d - mean, 0.0) ** 2).sum(axis=0)
        own = np.where(number > 1, np.sqrt(squares / (number - 1) / number), np.nan)
    return mean, number, own


def _pairwise(y: Floats) -> tuple[float, float]:
    """The variance of one run, and its degrees of freedom, from all pairs of arms."""
    _, number, own = _differences(y)
    first, second = np.triu_indices(y.shape[1], 1)
    n, error = number[first, second], own[first, second]
    use = n > 1
    freedom = float((n[use] - 1).sum())
    squares = float(((n[use] - 1) * error[use] ** 2 * n[use]).sum())
    return _ratio(squares, 2 * freedom), (float(n.sum()) / max(len(n), 1) - 1) * (y.shape[1] - 1)


def fill(y: Floats, *, fitted: bool = False, tied: int | None = None) -> Floats:
    """Missing cells at their least-squares value of block + arm (or all cells: `fitted`); the last
    arm is the same as the one that it is `tied` to.
    """
    there = np.isfinite(y)
    if not there.any() or (there.all() and not fitted):
        return y
    runs, known, arms = there.sum(axis=1), np.where(there, y, 0.0), np.eye(y.shape[1])
    if tied is not None:
        arms[-1] = arms[tied]
    arms = arms[:, (there.any(axis=0) @ arms).astype(bool)]
    each = there / np.maximum(runs, 1)[:, None]
    # The normal equations of the arms, the blocks eliminated.
    matrix = arms.T @ (np.diag(there.sum(axis=0)) - there.T @ each) @ arms
    right = arms.T @ (known.sum(axis=0) - each.T @ known.sum(axis=1))
    effects, _, rank, _ = np.linalg.lstsq(matrix, right, rcond=1e-12)
    if rank < arms.shape[1] - 1:
        expected = _of_parts(y, there)
    else:
        arm = arms @ effects
        block = (known.sum(axis=1) - there @ arm) / np.maximum(runs, 1)
        expected = block[:, None] + arm
    return np.asarray(expected if fitted else np.where(there, y, expected))


def _of_parts(y: Floats, there: Booleans) -> Floats:
    """Block + arm where nothing links some arms to the others: the solution of least norm."""
    n, arms = y.shape
    line, column = np.nonzero(there)
    design = np.zeros((len(line), n + arms))
    design[np.arange(len(line)), line] = 1.0
    design[np.arange(len(line)), n + column] = 1.0
    effects = np.linalg.lstsq(design, y[there], rcond=None)[0]
    return np.asarray(effects[:n, None] + effects[None, n:])


def inflation_of(residuals: Floats, candidates: int) -> float:
    """By how much differences that wander raise the variance of a mean; 1 where they do not."""
    if len(residuals) < UNITS_TO_WANDER:
        return 1.0
    phi = wandering(residuals, candidates)
    return (1 + phi) / (1 - phi)


def wandering(residuals: Floats, candidates: int) -> float:
    """φ of neighbouring differences with a dead zone of one standard error, 0 to `PHI_MAX`.

    Where some arms vary far more, only they count: the dead zone counts as many candidates as
    have a share in the variance.
    """
    n, arms = residuals.shape
    squares = (residuals**2).sum(axis=0)
    total = float(squares.sum())
    if total <= TINY**2:
        return 0.0
    r = float((residuals[1:] * residuals[:-1]).sum()) / total
    alike = total**2 / float((squares**2).sum()) / arms
    phi = (r + 1 / n) * (1 + 4 / n) - 1 / np.sqrt(n * candidates * alike)
    return float(np.clip(phi, 0.0, PHI_MAX))


def of_runs(row: RowData) -> Pairs:
    """The pairs of a row without blocks: Welch (1947), and the variance of all candidates."""
    y = row.y[:, : row.k]
    n = np.isfinite(y).sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, np.nansum(y, axis=0) / n, np.nan)
        squares = np.nansum((y - mean) ** 2, axis=0)
        variance = np.where(n > 1, squares / (n - 1), np.nan) / n
        both = variance[:, None] + variance[None, :]
        parts = variance**2 / (n - 1)
        satterthwaite = both**2 / (parts[:, None] + parts[None, :])
        freedom = float(np.maximum(n - 1, 0).sum())
        runs = 1 / n[:, None] + 1 / n[None, :]
        pooled = np.sqrt(_ratio(float(squares.sum()), freedom) * runs)
    fewest = np.minimum(n[:, None], n[None, :])
    return Pairs(
        mean=mean[None, :] - mean[:, None],
        n=fewest,
        pooled=pooled,
        pooled_freedom=freedom,
        own=np.sqrt(both),
        own_freedom=np.where(both <= TINY**2, fewest - 1, np.nan_to_num(satterthwaite)),
    )


def by_unit(row: RowData, unit: np.ndarray) -> RowData:
    """The means of the sessions (or hosts) in the place of the blocks."""
    y = fill(row.y) if not np.isfinite(row.y).all() and may_fill(np.isfinite(row.y)) else row.y
    names = np.unique(unit)
    with np.errstate(invalid="ignore"):
        there = [np.isfinite(y[unit == name]) for name in names]
        sums = [np.nansum(y[unit == name], axis=0) for name in names]
        means = [
            np.where(t.any(axis=0), s / np.maximum(t.sum(axis=0), 1), np.nan)
            for t, s in zip(there, sums, strict=True)
        ]
    return replace(
        row,
        y=np.array(means),
        bounds=np.array([row.bounds[unit == name].any(axis=0) for name in names]),
        blocks=tuple(range(len(names))),
        session=np.arange(len(names)),
        host=np.array([row.host[unit == name][0] for name in names]),
        share=0.0,
        filled=0.0,
    )


@dataclass(frozen=True)
class Spread:
    """The variance of a difference, with its degrees of freedom."""

    variance: float
    freedom: float

    def reach(self, level: float) -> float:
        """How far it may be from its mean, at a one-sided level."""
        return float(t_quantile(level, self.freedom)) * float(np.sqrt(self.variance))


@dataclass(frozen=True)
class RowPairs:
    """A row with its pairs on each kind of unit, the highest first, and factors of these.

    `carried`: where candidates act on the runs that follow, the pairs are those of the row without
    these effects. `beyond` is what a boot to come adds to every difference.
    """

    row: RowData
    layers: tuple[tuple[Pairs, float | Floats], ...]
    carried: Adjusted | None = None
    beyond: Spread | None = None

    @property
    def top(self) -> Pairs:
        """The pairs on the highest kind of unit that was repeated."""
        return self.layers[0][0]

    @cached_property
    def fit(self) -> Booleans:
        """The candidates that can be the best: two units of them at least, where some have so many.

        One run says nothing against the others.
        """
        row = self.row
        there = np.isfinite(row.values())
        for of in (row.host, row.session):
            if row.blocked and len(np.unique(of)) > 1:
                there = np.array([there[of == each].any(axis=0) for each in np.unique(of)])
                break
        several = there.sum(axis=0) >= UNITS_LEAST
        return several if several.sum() > 1 else row.there

    @cached_property
    def twins(self) -> Booleans:
        """The pairs (k × k) with equal values in every block. The A/A arm of a baseline sets it
        apart from its twin, and tells nothing."""
        y = self.row.y[:, : self.row.k]
        same = (y[:, :, None] == y[:, None, :]) | (np.isnan(y[:, :, None]) & np.isnan(y[:, None]))
        return np.asarray(same.all(axis=0) & self.row.there & self.row.blocked)

    @property
    def units(self) -> int:
        """How many of these some pair has."""
        n = self.top.n
        return int(n[~np.eye(len(n), dtype=bool)].max(initial=0.0))

    def half_width(self, levels: Levels) -> Floats:
        """The largest of the half-widths of all kinds of unit, and what rounding adds."""
        halves = [factor * pairs.half_width(levels) for pairs, factor in self.layers]
        rounding, half = self.row.rounding, np.maximum.reduce(halves)
        if self.beyond is not None:
            half = np.hypot(half, self.beyond.reach(levels.pooled))
        return np.asarray(half + rounding[:, None] + rounding[None, :])


def pairs_of(row: RowData) -> RowPairs:
    """The pairs of a row on blocks, and from two sessions or hosts on on these as well."""
    carried = adjusted(row) if row.blocked else None
    if carried is None:
        return RowPairs(row, layers(row))
    return RowPairs(row, layers(carried.row, carried.factors), carried)


def layers(row: RowData, factor: float | Floats = 1.0) -> tuple[tuple[Pairs, float | Floats], ...]:
    """The pairs on each kind of unit, with the factors of their half-widths."""
    if not row.blocked:
        return ((of_runs(row), factor),)
    blocks = (of_blocks(row), factor)
    hosts, sessions = len(np.unique(row.host)), len(np.unique(row.session))
    if hosts > 1:  # The next host is not among these.
        return ((of_blocks(by_unit(row, row.host)), factor * np.sqrt(hosts + 1)), blocks)
    if sessions > 1:
        return ((of_blocks(by_unit(row, row.session)), factor), blocks)
    return (blocks,)


@dataclass(frozen=True)
class RowLosses:
    """By candidate (k): the estimate of its loss, bounds of it, whether it alone may be best, and
    whether it can be (`RowPairs.fit`).

    `up` is infinite where there is no bound. A candidate that is not there, or alone, has 0, 0 and
    infinity.
    """

    point: Floats
    low: Floats
    up: Floats
    alone: Booleans
    fit: Booleans


def losses(pairs: RowPairs, up: Levels, low: Levels) -> RowLosses:
    """The losses against the best of all candidates that can be the best; without noise a twin is
    the same thing, and no rival."""
    row, fit = pairs.row, pairs.fit
    there, bounded = row.there, row.bounded
    mean = np.nan_to_num(pairs.top.mean)
    rivals = fit & ~np.eye(row.k, dtype=bool) & ~(pairs.twins & row.noiseless)
    firm = rivals & ~bounded[None, :]
    upper_half, lower_half = pairs.half_width(up), pairs.half_width(low)
    may = ~_beaten(mean, upper_half, firm) & there
    point = np.where(rivals, mean, 0.0).max(axis=1)
    point = np.where(there & (point > TINY), point, 0.0)
    reach = np.where(rivals & may[None, :], mean + upper_half, 0.0).max(axis=1).clip(0.0)
    reach = np.where(reach <= TINY, 0.0, reach)
    known = there & ~bounded & (there.sum() > 1)
    reach = np.where(known, np.maximum(reach, point), np.inf)
    may_low = ~_beaten(mean, lower_half, firm) & there
    over = np.where(firm & may_low[None, :], mean - lower_half, np.inf)
    least = over.min(axis=1)
    least = np.where(may_low | ~there | ~np.isfinite(least) | (least <= TINY), 0.0, least)
    single = may_low & fit & ((may_low & fit).sum() == 1)
    return RowLosses(point, np.minimum(least, point), reach, single, fit)


def _beaten(mean: Floats, half: Floats, rivals: Booleans) -> Booleans:
    """Which candidates are proven behind one of their rivals."""
    return np.asarray((rivals & (mean - half > TINY)).any(axis=1))
