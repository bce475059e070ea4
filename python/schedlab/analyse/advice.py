"""How many more blocks would bring the bound down, and to what."""

from __future__ import annotations

import math

import numpy as np

from schedlab.analyse.choice import ENDS, UNBOUNDED
from schedlab.analyse.losses import Pairs, upper
from schedlab.analyse.quantiles import t_quantile
from schedlab.nouns.answer import Advice

#: Bounds that are worth measuring for, as shares, beside the margin.
TARGETS = (0.05, 0.1, 0.2, 0.5, 1.0)
#: The next of them is at most so much of the bound.
WORTH = 0.8
MOST_BLOCKS = 40


def advise(
    pairs: Pairs,
    *,
    units: int,
    worst: float,
    bound: float,
    now: float,
    then: float,
    delta: float,
    seconds: float | None,
    rounding: float = 0.0,
) -> Advice | None:
    """The fewest further units that bring the bound to the next target.

    `worst` is the estimate below the `bound`, `now` and `then` the one-sided levels of this look
    and of the next announced one, `seconds` the time of a unit. What `rounding` adds to the bound
    stays. `None` where nothing is worth it.
    """
    targets = [t for t in (delta, *map(math.log1p, TARGETS)) if t <= WORTH * bound]
    if not targets or units < 2:
        return None
    target = max(targets)
    for more in range(1, MOST_BLOCKS + 1):
        if predicted(pairs, units, more, worst + rounding, bound, now, then) <= target:
            return Advice(more, target, None if seconds is None else more * seconds)
    return None


def predicted(
    pairs: Pairs, units: int, more: int, worst: float, bound: float, now: float, then: float
) -> float:
    """The bound after `more` units: what is above the estimate shrinks as Student's t and √n."""
    freedom = float(np.min(pairs.pooled_freedom))
    later = freedom * (units + more - 1) / (units - 1)
    before = float(t_quantile(now, freedom)) / math.sqrt(units)
    after = float(t_quantile(then, later)) / math.sqrt(units + more)
    return worst + (bound - worst) * after / before if math.isfinite(before) else math.inf


def foreseen(spread: float, blocks: int, candidates: int) -> float | None:
    """The bound (a share) that equal candidates with the A/A arm will have at the planned end.

    `spread` is the standard deviation of the log of a run. `None` where there will be none.
    """
    if blocks < 2:
        return None
    errors = np.full((1, 1), spread * math.sqrt(2 / blocks))
    pairs = Pairs(
        mean=np.zeros((1, 1)),
        n=np.full((1, 1), float(blocks)),
        pooled=errors,
        pooled_freedom=float((blocks - 1) * candidates),
        own=errors,
        own_freedom=np.full((1, 1), blocks - 1.0),
    )
    half = float(pairs.half_width(upper(ENDS[0], candidates, 1))[0, 0])
    return math.expm1(half) if half < UNBOUNDED else None
