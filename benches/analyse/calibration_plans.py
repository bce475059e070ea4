"""Scenarios 19 to 21 of the calibration: plans that depend on what was measured so far.

Intervals that stop when they are narrow, an extension that nobody announced, and a budget whose
pilot block is kept and chooses the workloads. Every function yields (question, count, of, bound,
whether the rate must be at least the bound).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse import rule
from schedlab.analyse.looks import EXTENDED_ERROR, boundaries, looks_of

Floats = NDArray[np.float64]
LARGEST = 20
ADDED_BLOCKS = 2
BUDGET_WORKLOADS, BUDGET_KEPT = 6, 4


def _wrong(y: Floats, alpha: float) -> NDArray[np.bool_]:
    """Per experiment of equal candidates: whether an interval of any pair excludes equality."""
    fit = rule.fit(y, baseline=0)
    half: NDArray[np.bool_] = (np.abs(fit.mean) > rule.half_width(fit, alpha)).any(axis=-1)
    return half


def precise(cell: Any, rng: np.random.Generator, n: int) -> Iterator[tuple[Any, ...]]:
    """Stop at the first look at which all intervals are narrow; coverage where it stopped.

    The aim is what half of the experiments reach in the middle of the plan.
    """
    if cell.workloads > 1 or cell.blocks > 4:
        return
    y = rng.normal(0, cell.noise, (n, LARGEST, cell.candidates + 1))
    looks = looks_of(LARGEST)
    levels = boundaries(looks)
    middle = len(looks) // 2
    fit = rule.fit(y[:, : looks[middle]], baseline=0)
    aim = float(np.median(rule.half_width(fit, levels[middle]).max(axis=-1)))
    stopped, wrong = np.zeros(n, bool), np.zeros(n, bool)
    for look, alpha in zip(looks, levels, strict=True):
        fit = rule.fit(y[:, :look], baseline=0)
        half = rule.half_width(fit, alpha)
        now = ~stopped & ((half.max(axis=-1) < aim) | (look == looks[-1]))
        wrong |= now & (np.abs(fit.mean) > half).any(axis=-1)
        stopped |= now
    yield "coverage where it stopped", int((~wrong).sum()), n, 0.95, True


def extended(cell: Any, rng: np.random.Generator, n: int) -> Iterator[tuple[Any, ...]]:
    """Half as many blocks again after a verdict without a claim: any false claim, both together."""
    if cell.workloads > 1:
        return
    more = cell.blocks + max(ADDED_BLOCKS, cell.blocks // 2)
    y = rng.normal(0, cell.noise, (n, more, cell.candidates + 1))
    first = _wrong(y[:, : cell.blocks], 0.05)
    wrong = first | _wrong(y, 0.025)
    yield "any false, not announced", int(wrong.sum()), n, EXTENDED_ERROR, False
    one, two = boundaries((cell.blocks, more))
    wrong = _wrong(y[:, : cell.blocks], one) | _wrong(y, two)
    yield "any false, announced", int(wrong.sum()), n, 0.05, False


def budgeted(cell: Any, rng: np.random.Generator, n: int) -> Iterator[tuple[Any, ...]]:
    """The pilot is block 1 and leaves out the workloads whose A/A pair differs most there."""
    if cell.workloads > 1 or cell.blocks < 6:
        return
    shape = (n, BUDGET_WORKLOADS, cell.blocks, cell.candidates + 1)
    spread = cell.noise * np.exp(rng.normal(0, math.log(2), (n, BUDGET_WORKLOADS, 1, 1)))
    y = rng.normal(0, 1, shape) * spread
    pilot = np.abs(y[:, :, 0, 0] - y[:, :, 0, -1])
    kept = np.argsort(pilot, axis=1)[:, :BUDGET_KEPT]
    mean = np.take_along_axis(y, kept[:, :, None, None], axis=1).mean(axis=1)
    yield "false difference", int(_wrong(mean, 0.05).sum()), n, 0.05, False
