"""The smallest difference that would show, and how many blocks would show a smaller one.

MDD = g(n, k)·σ + δ in logs at 80 % power, for a pair with the baseline whose A/A arm is on; σ is
the standard deviation of one run within a block. g was simulated with the rule of `rule.py`
(docs/reference/calibration.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from schedlab.analyse.quantiles import range_quantile, t_quantile
from schedlab.analyse.rule import ALPHA, FEW_UNITS, GUARDED_SHARE, OWN_SHARE
from schedlab.spec import Needed

BLOCKS = (2, 3, 4, 5, 6, 8, 12, 20, 40)
CANDIDATES = (2, 4, 12)
FACTORS = (
    (14.0, 4.0, 2.65, 2.1, 1.88, 1.80, 1.25, 0.88, 0.60),
    (42.0, 6.9, 3.8, 2.8, 2.44, 2.15, 1.48, 1.05, 0.71),
    (158.0, 13.3, 6.0, 4.0, 3.2, 2.56, 1.73, 1.22, 0.83),
)
#: A pilot of 8 blocks predicts the blocks that are needed within these factors.
PILOT_RANGE = (0.6, 2.6)
#: More blocks than this are impractical.
BLOCKS_MAX = 400
POWER_QUANTILE = 0.8416


@lru_cache(maxsize=4096)
def factor(units: float, candidates: int) -> float:
    """g(n, k): interpolated in log g over log n and log k; infinite below two units."""
    if units < 2:
        return math.inf
    x = math.log(min(units, BLOCKS[-1]))
    along = [float(np.interp(x, np.log(BLOCKS), np.log(row))) for row in FACTORS]
    y = math.log(max(candidates, CANDIDATES[0]))
    value = float(np.interp(y, np.log(CANDIDATES), along))
    beyond = max(0.0, y - math.log(CANDIDATES[-1])) * (along[2] - along[1]) / math.log(3)
    return math.exp(value + beyond) * math.sqrt(min(1.0, BLOCKS[-1] / units))


@lru_cache(maxsize=4096)
def unit_half_width(units: int, candidates: int, alpha: float = ALPHA) -> float:
    """Half-width where both standard errors are √(2/n): of quiet, equal candidates, σ = 1."""
    pairs = candidates * (candidates - 1) // 2
    if units < 2 or pairs < 1:
        return math.inf
    freedom = (units - 1) * candidates + 1

    def guarded(level: float) -> float:
        tukey = float(range_quantile(level, candidates, freedom)) / math.sqrt(2)
        return max(tukey, float(t_quantile(level / (candidates - 1), units - 1)))

    if units <= FEW_UNITS:
        return guarded(alpha) * math.sqrt(2 / units)
    own = float(t_quantile(OWN_SHARE * alpha / pairs, units - 1))
    return min(guarded(GUARDED_SHARE * alpha), own) * math.sqrt(2 / units)


def detectable(
    spread: float, units: int, candidates: int, margin: float, alpha: float = ALPHA
) -> float | None:
    """The smallest difference (a share) that shows with 80 % power; `margin` is a share.

    At another level than 0.05 the half-width is exchanged. `None` below two units.
    """
    size = factor(units, candidates)
    if not math.isfinite(size) or not math.isfinite(spread):
        return None
    if alpha != ALPHA:
        slack = POWER_QUANTILE * math.sqrt(2 / units)
        narrow = unit_half_width(units, candidates) + slack
        size *= (unit_half_width(units, candidates, alpha) + slack) / narrow
    exponent = size * spread + math.log1p(margin)
    return math.expm1(exponent) if exponent < 700 else None


def total_needed(
    difference: float, spread: float, candidates: int, margin: float, units: int
) -> int | None:
    """Blocks in all (more than `units`) that decide a pair with this difference of logs."""
    delta, size = math.log1p(margin), abs(difference)

    def decides(total: int) -> bool:
        if factor(total, candidates) * spread + delta <= size:
            return True
        may_tie = size < delta and total > FEW_UNITS
        return may_tie and unit_half_width(total, candidates) * spread + size <= delta

    low, high = units + 1, BLOCKS_MAX
    if low > high or not decides(high):
        return None
    while low < high:  # More blocks decide more.
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return low


def more_blocks(total: int, units: int) -> tuple[int, int]:
    """The range of further blocks around a number that was predicted from `units` blocks."""
    low = max(1, math.ceil(PILOT_RANGE[0] * total) - units)
    return low, max(low, math.ceil(PILOT_RANGE[1] * total) - units)


def needed(
    totals: list[int | None],
    units: int,
    spread: float,
    candidates: int,
    margin: float,
    seconds_per_block: float,
) -> Needed | None:
    """The blocks that decide all open pairs; `None` where that number is impractical."""
    known = [total for total in totals if total is not None]
    if not known or len(known) < len(totals):
        return None
    total = max(known)
    low, high = more_blocks(total, units)
    smaller = detectable(spread, total, candidates, margin)
    time_s = (total - units) * seconds_per_block
    return Needed(low, total - units, high, time_s, smaller if smaller is not None else math.inf)
