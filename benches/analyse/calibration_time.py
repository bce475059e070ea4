"""Scenarios 22 and 23 of the calibration: findings that only one candidate gives reason for.

One that ages, or scatters more than the others. Every function yields (question, count, of,
bound, whether the rate must be at least the bound).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse import rule
from schedlab.analyse.residuals import FEWEST_TO_AGE, aging, uneven_noise

Floats = NDArray[np.float64]
EXPERIMENTS_MAX = 1000
#: From the first to the last block, in standard deviations of a run.
DRIFT = 3.0
SPIKE_SHARE, SPIKE_SIZE = 0.05, 10.0


def ages(cell: Any, rng: np.random.Generator, n: int) -> Iterator[tuple[Any, ...]]:
    """A pair that changes with time: nothing does, one candidate is noisy, one drifts."""
    if cell.workloads > 1 or cell.blocks < FEWEST_TO_AGE:
        return
    n = min(n, EXPERIMENTS_MAX)
    for noisier in (1, 3, 10):
        y = _one_noisier(cell, rng, n, noisier)
        yield f"falsely flagged, one × {noisier}", _aging(y), n, 0.03, False
    if cell.blocks == 12 and cell.candidates < 12:
        y = _one_noisier(cell, rng, n, 1)
        y[..., cell.candidates - 1] += np.linspace(-DRIFT / 2, DRIFT / 2, cell.blocks)
        yield f"flagged, drift of {DRIFT:.0f} σ", _aging(y), n, 0.3, True


def scatters(cell: Any, rng: np.random.Generator, n: int) -> Iterator[tuple[Any, ...]]:
    """A candidate that scatters more: nothing does, runs have spikes, one is noisy."""
    if cell.workloads > 1 or cell.blocks < FEWEST_TO_AGE:
        return
    n = min(n, EXPERIMENTS_MAX)
    y = _one_noisier(cell, rng, n, 1)
    yield "falsely flagged, normal", _uneven(y), n, 0.03, False
    y[rng.random(y.shape) < SPIKE_SHARE] += SPIKE_SIZE
    yield "falsely flagged, spikes", _uneven(y), n, 0.03, False
    if cell.blocks >= 8 and cell.candidates > 2:
        y = _one_noisier(cell, rng, n, 10)
        yield "flagged, one × 10", _uneven(y), n, 0.8, True


def _one_noisier(cell: Any, rng: np.random.Generator, n: int, times: float) -> Floats:
    y = rng.normal(0, 1, (n, cell.blocks, cell.candidates + 1))
    y[..., cell.candidates - 1] *= times
    return y


def _aging(y: Floats) -> int:
    found = (aging(rule.fit(each, baseline=0), 0) for each in y)
    return sum(each is not None and bool(each.pairs) for each in found)


def _uneven(y: Floats) -> int:
    return sum(uneven_noise(rule.fit(each, baseline=0)) is not None for each in y)
