"""Least squares of y = block + candidate: residuals for the flags, on arrays.

The bounds of an answer do not come from here (`losses.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse.matrix import RunMatrix
from schedlab.analyse.quantiles import Floats

#: Below this a standard error of logs is rounding.
ROUNDING = 1e-13
OFF_ERRORS = 6.0
#: From so many sessions on, their means take the place of the blocks.
SESSIONS_AS_UNITS = 4


@dataclass(frozen=True)
class Fit:
    """Least squares of y = block + candidate over n units (blocks, or sessions) and k candidates.

    `arms` (n × a) are the logs of the units, `session` (n) numbers their sessions. `mean` (P) and
    `differences` (n × P) are those of logs, a minus b, of all pairs; `residuals` (n × a) are those
    of the fit with their degrees of `freedom`.
    """

    unit: Literal["blocks", "sessions"]
    candidates: int
    arms: Floats
    session: NDArray[np.intp]
    mean: Floats
    differences: Floats
    freedom: float
    residuals: Floats

    @property
    def units(self) -> int:
        """How many blocks or sessions there are."""
        return len(self.arms)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second candidate of every pair."""
        return pair_index(self.candidates)


def pair_index(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every unordered pair once, in the order of the candidates."""
    pairs = np.array(list(combinations(range(count), 2)), dtype=np.intp).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def fit_of(table: RunMatrix) -> Fit | None:
    """The fit of the blocks of a workload, or of the means of its sessions where there are enough;
    `None` where it has no blocks to compare.
    """
    if table.zero or len(table.candidates) < 2 or not len(table.arms):
        return None
    arms, session, filled = table.arms, table.session, table.filled
    names = np.unique(session)
    if len(names) < SESSIONS_AS_UNITS:
        return fit(arms, session, baseline=table.aa_baseline, filled=filled)
    means = np.array([arms[session == name].mean(axis=0) for name in names])
    return fit(means, names, baseline=table.aa_baseline, unit="sessions")


def fit(
    arms: Floats,
    session: NDArray[np.intp],
    *,
    baseline: int | None = None,
    filled: int = 0,
    unit: Literal["blocks", "sessions"] = "blocks",
) -> Fit:
    """The fit of `arms` (n × a): logs of every unit, the candidates in columns.

    With `baseline` the last column is the A/A arm of that column. `filled` cells lower the degrees
    of freedom.
    """
    n, a = arms.shape
    k = a if baseline is None else a - 1
    y = together(arms, baseline)
    means = y.mean(axis=0)
    per_arm = means if baseline is None else np.append(means, means[baseline])
    first, second = pair_index(k)
    return Fit(
        unit=unit,
        candidates=k,
        arms=arms,
        session=session,
        mean=means[first] - means[second],
        differences=y[:, first] - y[:, second],
        freedom=float(n * a - n - k + 1 - filled),
        residuals=arms - arms.mean(axis=1, keepdims=True) - (per_arm - per_arm.mean()),
    )


def together(arms: Floats, baseline: int | None) -> Floats:
    """The candidates' columns (n × k), the mean of the baseline and its A/A arm as one of them."""
    if baseline is None:
        return arms
    y = arms[:, :-1].copy()
    y[:, baseline] = (arms[:, baseline] + arms[:, -1]) / 2
    return y


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


def is_unsteady(
    residuals: Floats, candidates: int, segments: NDArray[np.intp] | None = None
) -> NDArray[np.bool_]:
    """Whether neighbouring residuals go together more than one time in a hundred by chance."""
    n = residuals.shape[-2]
    length = n if segments is None else n / len(np.unique(segments))
    r = autocorrelation(residuals, segments)
    limit = -1 / length + 2.33 * (1 - 1 / length) / np.sqrt(n * candidates)
    return np.asarray(r > limit)
