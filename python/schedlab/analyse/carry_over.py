"""Effects of a candidate on the run that follows it, and differences without them.

The least-squares model of change-over designs: block + candidate + candidate of the run before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.quantiles import Floats, f_tail
from schedlab.analyse.rows import Booleans, RowData

#: Below this p an effect is found.
LEVEL = 0.01
#: Blocks from which it can be separated from noise.
FEWEST_BLOCKS = 6
#: Of more candidates few blocks show each pair of neighbours too seldom, and the fit is slow.
MOST_TO_FOLLOW = 20
#: A residual of logs below this is rounding of the arithmetic.
ROUNDING = 1e-9


@dataclass(frozen=True)
class CarryOver:
    """Effects of each candidate on its follower (k, logs), the F-test, the adjusted means (k).

    `errors` (k × k) are standard errors of the adjusted differences, `factors` (k × k) how many
    times those of the plain ones they are for the same noise. `effects_used` effects were fitted.
    """

    effects: Floats
    p: float
    means: Floats
    errors: Floats
    factors: Floats
    effects_used: int

    def difference(self, first: int, second: int) -> float:
        """The adjusted difference of two candidates."""
        return float(self.means[first] - self.means[second])


def carry_over(
    arms: Floats, observed: Booleans, before: NDArray[np.intp], baseline: int | None
) -> CarryOver | None:
    """The effects in `arms` (n × a); `before` (n × a) is the candidate of the run before each (−1:
    none, or not known), `baseline` the column that the last one is the A/A arm of.

    `None` where there are too few blocks, or where they do not separate effects from candidates.
    """
    n, a = arms.shape
    k = a if baseline is None else a - 1
    if n < FEWEST_BLOCKS or not 2 <= k <= MOST_TO_FOLLOW:
        return None
    name = np.arange(a)
    if baseline is not None:
        name[-1] = baseline
    rows, columns = np.nonzero(observed)
    candidates = np.eye(k)[name[columns]][:, 1:]
    follows = np.eye(k + 1)[before[rows, columns]][:, :k]
    # Less the means of the blocks: as with a column for every block, and far quicker.
    table = _within(np.column_stack([arms[rows, columns], candidates, follows]), rows)
    y, plain, full = table[:, 0], table[:, 1:k], table[:, 1:]
    rank, rest = _rest(plain, y)
    more, less = _rest(full, y)
    extra, freedom = more - rank, len(y) - len(np.unique(rows)) - more
    if extra < 1 or freedom < 3 or rest <= ROUNDING**2:
        return None
    if more - np.linalg.matrix_rank(full[:, k - 1 :]) < k - 1:
        return None  # Some candidate has the same follower in all blocks.
    p = float(f_tail(extra, freedom, (rest - less) / extra / (max(less, 1e-300) / freedom)))
    inverse = np.linalg.pinv(full.T @ full)
    beta = inverse @ full.T @ y
    now = _of_differences(np.asarray(inverse[: k - 1, : k - 1]))
    usual = _of_differences(np.asarray(np.linalg.pinv(plain.T @ plain)))
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.sqrt(np.where(usual > 0, now / usual, 1.0)).clip(1.0)
    means = np.concatenate([[0.0], beta[: k - 1]])
    errors = np.sqrt(now * less / freedom)
    return CarryOver(beta[k - 1 :], p, means, errors, factors, extra)


@dataclass(frozen=True)
class Adjusted:
    """A row without the effects of the runs before: differences of candidates as such.

    `factors` (k × k) are those of its standard errors, `effects` (k) what each leaves to its
    follower: one that follows itself for ever has its own.
    """

    row: RowData
    factors: Floats
    effects: Floats

    @classmethod
    def without(cls, row: RowData) -> Adjusted:
        """A row in which no effect is found."""
        return cls(row, np.ones((row.k, row.k)), np.zeros(row.k))


def adjusted(row: RowData) -> Adjusted | None:
    """The row without effects of the runs before; `None` where none are found.

    Values that are bounds have no known effect: such a row stays as it is.
    """
    there = np.flatnonzero(row.there)
    place = np.full(row.k + 1, -1)
    place[there] = np.arange(len(there))
    columns = there if row.aa is None else np.append(there, row.k)
    y, baseline = row.y[:, columns], None if row.aa is None else int(place[row.aa])
    if row.bounded.any() or baseline == -1:
        return None
    seen, before = np.isfinite(y), place[row.before[:, columns]]
    found = carry_over(np.where(seen, y, 0.0), seen, before, baseline)
    if found is None or found.p >= LEVEL:
        return None
    effects, factors = np.zeros(row.k + 1), np.ones((row.k, row.k))
    effects[there] = found.effects
    factors[np.ix_(there, there)] = found.factors
    without = replace(row, y=row.y - effects[row.before], filled=row.filled + found.effects_used)
    return Adjusted(without, factors, effects[:-1])


def _of_differences(covariance: Floats) -> Floats:
    """Variances of all differences between the first, which is fixed, and the other effects."""
    whole = np.pad(covariance, ((1, 0), (1, 0)))
    own = np.diag(whole)
    return np.asarray(own[:, None] + own[None, :] - 2 * whole).clip(0.0)


def _within(columns: Floats, rows: NDArray[np.intp]) -> Floats:
    """The columns less their mean in each row of the table that they come from."""
    sums = np.zeros((int(rows.max(initial=0)) + 1, columns.shape[1]))
    np.add.at(sums, rows, columns)
    counts = np.maximum(np.bincount(rows, minlength=len(sums)), 1)
    return np.asarray(columns - (sums / counts[:, None])[rows])


def _rest(design: Floats, y: Floats) -> tuple[int, float]:
    """(rank, residual sum of squares) of a least-squares fit."""
    beta, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-10)
    return int(rank), float(((y - design @ beta) ** 2).sum())
