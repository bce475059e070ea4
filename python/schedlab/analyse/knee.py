"""Knees (block size, queue depth, buffer size): where a curve bends, with an interval.

Segmented regression in log-log: two straight lines that meet at the knee (Muggeo 2003), the knee
by least squares over all its possible places, its 95 % interval by inverting the F test (all
places that fit not significantly worse; Seber and Wild 1989, 5.4). "The largest value tried" is
never a knee.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlab.analyse.quantiles import Floats, f_tail
from schedlab.errors import SpecError
from schedlab.nouns.findings import Knee

PLACES = 801
LEVEL = 0.05
#: The place of the bend is chosen by the data, so that the F test for a bend is too eager.
BEND_LEVEL = 0.01
FEWEST_VALUES = 4


def find_knee(x: Sequence[float], y: Sequence[float]) -> Knee:
    """The knee of the runs (x[i], y[i]); repeated x are repetitions and give the noise.

    Raises SpecError for columns of unequal length and for values that are not positive.
    """
    u, v = _logs(x, y)
    values = np.unique(u)
    if len(values) < FEWEST_VALUES or len(u) < 6:
        return Knee("too few values")
    straight = _residual(u, v, None)[0]
    places = np.linspace(values[1], values[-2], PLACES)
    residuals = _residuals(u, v, places)
    best = int(residuals.argmin())
    bent, (before, after) = _residual(u, v, float(places[best]))
    freedom = len(u) - 4
    noise = max(bent, 1e-24) / freedom
    p = float(f_tail(2, freedom, max(0.0, straight - bent) / 2 / noise))
    if p > BEND_LEVEL:
        return Knee("straight", slope_before=_slope(u, v), slope_after=_slope(u, v))
    worse = f_tail(1, freedom, np.maximum(0.0, residuals - bent) / noise)
    inside = places[worse >= LEVEL]
    knee, low, high = (float(np.exp(v)) for v in (places[best], inside[0], inside[-1]))
    at_edge = inside[0] <= places[0] or inside[-1] >= places[-1]
    return Knee("edge" if at_edge else "knee", knee, low, high, before, after)


def _logs(x: Sequence[float], y: Sequence[float]) -> tuple[Floats, Floats]:
    if len(x) != len(y):
        raise SpecError(f"{len(x)} values of x and {len(y)} of y", "pass one y for each x")
    u, v = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not ((u > 0) & (v > 0)).all():
        raise SpecError("a knee needs positive values", "omit runs without a result")
    return np.log(u), np.log(v)


def _residual(u: Floats, v: Floats, place: float | None) -> tuple[float, tuple[float, float]]:
    """Residual sum of squares and the slopes before and after a bend at `place` (or without)."""
    columns = [np.ones_like(u), u]
    if place is not None:
        columns.append(np.maximum(u - place, 0.0))
    design = np.column_stack(columns)
    solution, *_ = np.linalg.lstsq(design, v, rcond=None)
    slopes = (float(solution[1]), float(solution[1:].sum()))
    return float(((v - design @ solution) ** 2).sum()), slopes


def _residuals(u: Floats, v: Floats, places: Floats) -> Floats:
    """Residual sum of squares for a bend at each of `places`.

    What the bend's column adds to a straight line is its part that is orthogonal to that line.
    """
    line = np.column_stack([np.ones_like(u), u])
    basis, _ = np.linalg.qr(line)
    rest = v - basis @ (basis.T @ v)
    bends = np.maximum(u[:, None] - places[None, :], 0.0)
    bends -= basis @ (basis.T @ bends)
    gained = (bends.T @ rest) ** 2 / (bends**2).sum(axis=0)
    return np.asarray(np.maximum(rest @ rest - gained, 0.0), dtype=np.float64)


def _slope(u: Floats, v: Floats) -> float:
    return _residual(u, v, None)[1][0]
