"""Looking early: at how many blocks an experiment may be decided, and at which level each.

The error is spent by Pocock's kind of spending function, .05·ln(1 + (e − 1)·n/n_max), over the
exact joint law of the looks: the recursion of Armitage, McPherson and Rowe (1969) on a Brownian
motion at the fractions n/n_max. Lan and DeMets (1983).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import ALPHA
from schedlab.spec import Stopping

LOOKS_20 = (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20)
LOOKS_40 = (4, 5, 6, 7, 8, 10, 12, 16, 20, 26, 32, 40)
FEWEST_BLOCKS = 4
DEFAULT_BLOCKS = 20
#: The bound on any false difference when a finished experiment is extended unannounced.
EXTENDED_ERROR = 0.075
NODES = 200


@lru_cache(maxsize=128)
def looks_of(blocks_max: int) -> tuple[int, ...]:
    """The numbers of blocks with an interim analysis, for at most `blocks_max` blocks."""
    largest = max(blocks_max, FEWEST_BLOCKS)
    model = LOOKS_20 if abs(math.log(largest / 20)) <= abs(math.log(largest / 40)) else LOOKS_40
    scaled = {max(FEWEST_BLOCKS, round(look * largest / model[-1])) for look in model}
    return tuple(sorted({*(s for s in scaled if s <= largest), largest}))


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
        levels.append(float(2 * ndtr(-edge / math.sqrt(time))))
        following = edge * x
        kernel = np.exp(-(((following[:, None] - position) / scale) ** 2) / 2)
        density = kernel @ density / (scale * math.sqrt(2 * math.pi)) * edge * weights
        position, before, used = following, float(time), used + target
    return tuple(levels)


def _edge(position: Floats, mass: Floats, scale: float, target: float) -> float:
    """The ±edge beyond which a share `target` of the paths that are left steps next."""
    low, high = 0.0, float(np.abs(position).max() - scale * ndtri(max(target, 1e-300) / 4) + scale)
    for _ in range(100):
        middle = (low + high) / 2
        beyond = ndtr((-middle - position) / scale) + ndtr((position - middle) / scale)
        low, high = (middle, high) if float(mass @ beyond) > target else (low, middle)
    return (low + high) / 2


def largest_blocks(stopping: Stopping) -> int:
    """The largest number of blocks of the experiment."""
    if stopping.mode == "fixed":
        return stopping.blocks
    return stopping.blocks if stopping.blocks >= FEWEST_BLOCKS else DEFAULT_BLOCKS


def looks_for(stopping: Stopping) -> tuple[int, ...]:
    """All analyses of a stopping rule: one at the end where the number of blocks is fixed."""
    if stopping.mode == "fixed":
        return (stopping.blocks,)
    return looks_of(largest_blocks(stopping))


def level_at(blocks: int, stopping: Stopping, alpha: float = ALPHA) -> float:
    """The level after `blocks` blocks.

    Where an experiment ends between two looks (its time was used up), this end is a look of its
    own after those that were taken.
    """
    if stopping.mode == "fixed":
        return alpha
    looks = looks_for(stopping)
    if blocks not in looks and 0 < blocks < looks[-1]:
        looks = (*(look for look in looks if look < blocks), blocks, looks[-1])
    levels = dict(zip(looks, boundaries(looks, alpha), strict=True))
    return levels[min(max(blocks, looks[0]), looks[-1])]


def next_look(blocks: int, stopping: Stopping) -> int | None:
    """The number of blocks at which to decide next, after `blocks` are done; `None`: none."""
    return next((look for look in looks_for(stopping) if look > blocks), None)


def is_look(blocks: int, stopping: Stopping) -> bool:
    """Whether a decision is due after `blocks` blocks."""
    return blocks in looks_for(stopping)


@dataclass(frozen=True)
class Extension:
    """How a finished experiment may continue, and the level of its next verdict.

    `code`: "continued" (within the plan, costs nothing), "announced" (two looks of the
    recursion), "unannounced" (the first verdict stays; new claims at half the level, `error`
    bounds both together), "refused" (beyond the largest number: start a new folder and merge).
    `first_alpha` is the level of the first look.
    """

    code: Literal["continued", "announced", "unannounced", "refused"]
    first_blocks: int
    blocks: int
    first_alpha: float = ALPHA
    alpha: float = ALPHA
    error: float = ALPHA


def extension(
    stopping: Stopping, blocks_done: int, blocks: int, *, may_extend: int | None = None
) -> Extension:
    """What `--resume --blocks N` means after `blocks_done`, `may_extend` as announced before.

    An announced extension is judged at two looks from the beginning: its first verdict is at
    `first_alpha` whether or not it is extended.
    """
    if stopping.mode != "fixed":
        if blocks <= largest_blocks(stopping):
            return Extension("continued", blocks_done, blocks, alpha=level_at(blocks, stopping))
        return Extension("refused", blocks_done, blocks)
    if may_extend is not None and may_extend > stopping.blocks:
        if blocks > may_extend:
            return Extension("refused", blocks_done, blocks)
        first, last = boundaries((stopping.blocks, may_extend))
        return Extension("announced", stopping.blocks, blocks, first, last)
    if blocks_done < stopping.blocks or blocks <= blocks_done:
        return Extension("continued", blocks_done, blocks)
    return Extension("unannounced", blocks_done, blocks, ALPHA, ALPHA / 2, EXTENDED_ERROR)
