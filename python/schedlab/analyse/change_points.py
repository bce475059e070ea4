"""Did the machine change during the experiment? Steps and trends in the means of the blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedlab.analyse.quantiles import Floats, t_tail

LEVEL = 0.01
PERMUTATIONS = 499
SHORTEST_SEGMENT = 5


@dataclass(frozen=True)
class Trend:
    """A steady drift of the level: the total change of the log over all blocks, two-sided p."""

    change: float
    p: float


def change_points(level: Floats, seed: int = 0) -> tuple[int, ...]:
    """Indices where a new level begins in `level` (n block means of logs), in order.

    Binary segmentation: the largest standardised CUSUM against its permutations at 0.01, at least
    5 blocks on either side, and only where a step fits better than a straight line.
    """
    points: list[int] = []
    stack = [(0, len(level))]
    while stack:
        start, stop = stack.pop()
        split = _split(level[start:stop], seed)
        if split is not None:
            points.append(start + split)
            stack += [(start, start + split), (start + split, stop)]
    return tuple(sorted(points))


def _split(level: Floats, seed: int) -> int | None:
    n = len(level)
    if n < 2 * SHORTEST_SEGMENT or np.ptp(level) <= 1e-12:
        return None
    rng = np.random.default_rng([seed, n, 4])
    shuffled = rng.permuted(np.broadcast_to(level, (PERMUTATIONS, n)), axis=1)
    observed = _cusum(level[None, :])[0]
    largest = _cusum(shuffled).max(axis=1)
    least = observed.max() * (1 - 1e-12)  # one with the same two halves differs by rounding
    p = (1 + (largest >= least).sum()) / (1 + PERMUTATIONS)
    split = int(observed.argmax()) + SHORTEST_SEGMENT
    if p > LEVEL or _residual_of_step(level, split) >= _line(level)[1]:
        return None
    return split


def _cusum(rows: Floats) -> Floats:
    """|difference of the means before and after| × √(t (n − t) / n), for each allowed split t."""
    n = rows.shape[1]
    t = np.arange(SHORTEST_SEGMENT, n - SHORTEST_SEGMENT + 1)
    centred = rows - rows.mean(axis=1, keepdims=True)
    partial = np.cumsum(centred, axis=1)[:, t - 1]
    result: Floats = np.abs(partial) / np.sqrt(t * (n - t) / n)
    return result


def _residual_of_step(level: Floats, split: int) -> float:
    parts = (level[:split], level[split:])
    return float(sum(((part - part.mean()) ** 2).sum() for part in parts))


def _line(level: Floats) -> tuple[float, float]:
    """Slope per block and residual sum of squares of the least-squares line."""
    x = np.arange(len(level)) - (len(level) - 1) / 2
    slope = float(x @ level / (x @ x))
    return slope, float(((level - level.mean() - slope * x) ** 2).sum())


def trend(level: Floats) -> Trend | None:
    """The straight-line drift of `level` (n block means of logs); `None` below 4 blocks."""
    n = len(level)
    if n < 4 or np.ptp(level) <= 1e-12:
        return None
    slope, residual = _line(level)
    error = np.sqrt(residual / (n - 2) / (n * (n**2 - 1) / 12))
    p = float(t_tail(slope / error, n - 2)) if error > 0 else 0.0
    return Trend(change=slope * (n - 1), p=p)
