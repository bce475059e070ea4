"""The choice of the candidate with the smallest largest loss, or the baseline; arrays and a code.

The answer speaks of the largest loss over the counted rows, never of a mean: a mean depends on
the list of the workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.losses import RowLosses, RowPairs, losses, lower, upper
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rows import Booleans
from schedlab.nouns.answer import AnswerCode

#: Among the candidates whose bound is within this factor of the smallest, the estimate decides.
LEAD = 1.5
#: The baseline stays unless something is proven better, or a change divides the bound by this.
CHANGE = 2.0
#: The look may use so much of the error: at the first, second and third announced end, ...
ENDS = (0.7, 0.25, 0.12)
#: ... at any other number of blocks, ...
FREE = 0.3 / 8
#: ... and everywhere where no end was announced.
ALWAYS = 1 / 8
#: A bound above this factor says nothing.
UNBOUNDED = float(np.log(1000))
#: A bound up to here is printed as 0.0 %.
PRINTS_ZERO = 1e-9


def look_of(blocks: int, ends: Sequence[int] | None) -> float:
    """λ, the part of the error that a look at this number of blocks may use.

    `ends` are the announced numbers of blocks; `None`: this is the only look.
    """
    if ends is None:
        return 1.0
    if not ends:
        return ALWAYS
    at = [i for i, end in enumerate(ends) if end == blocks]
    return ENDS[at[0]] if at and at[0] < len(ENDS) else FREE


@dataclass(frozen=True)
class Choice:
    """`worst`, `reach` and `sure` (k): the estimate of the largest loss over the counted rows, its
    bound, and what is proven of it. `take` and the `code` that says why; `bound` is that of what
    is taken, `units` how often something was measured. `rows` are in the order of the pairs.
    """

    rows: tuple[RowLosses, ...]
    worst: Floats
    reach: Floats
    sure: Floats
    take: int
    code: AnswerCode
    bound: float
    units: int


def choose(
    pairs: Sequence[RowPairs],
    *,
    base: int,
    delta: float,
    look: float,
    allowed: Booleans,
    passed: Sequence[Floats] = (),
) -> Choice:
    """The choice from the counted rows; `delta` is the margin (a log).

    `allowed` candidates may be taken; losses are against all. `passed` are the bounds (k) at the
    ends that were passed: they keep. Where it is below today's estimate, such a bound is printed as
    that estimate.
    """
    k = len(allowed)
    count = len(pairs)
    levels = (upper(look, k, count), lower(look, k, count))
    rows = tuple(losses(each, *levels) for each in pairs)
    worst, sure = np.zeros(k), np.zeros(k)
    reach = np.full(k, np.inf)
    if rows:
        worst = np.max([row.point for row in rows], axis=0)
        reach = np.max([row.up for row in rows], axis=0)
        sure = np.max([row.low for row in rows], axis=0)
    units = max((each.units for each in pairs), default=0)
    take = _take(worst, reach, sure, base, delta, allowed)
    bound = float(min([reach[take], *(max(each[take], worst[take]) for each in passed)]))
    if units < 2 or bound > UNBOUNDED:
        code: AnswerCode = "one-run" if units == 1 else "unbounded"
        stays = base if allowed[base] else take
        return Choice(rows, worst, reach, sure, stays, code, float(reach[stays]), units)
    code = _code(rows, sure, take, bound, base, delta)
    return Choice(rows, worst, reach, sure, take, code, bound, units)


def _take(
    worst: Floats, reach: Floats, sure: Floats, base: int, delta: float, allowed: Booleans
) -> int:
    """The smallest estimate among those whose bound is near the smallest; or the baseline."""
    eligible = np.flatnonzero(allowed).tolist()
    least = min(reach[i] for i in eligible)
    take = min(
        (i for i in eligible if reach[i] <= LEAD * least), key=lambda i: (worst[i], reach[i], i)
    )
    if not allowed[base]:
        return int(take)
    unproven = sure[base] == 0 and reach[base] <= CHANGE * reach[take]
    return base if unproven or reach[base] <= max(delta, reach[take]) else int(take)


def _code(
    rows: Sequence[RowLosses],
    sure: Floats,
    take: int,
    bound: float,
    base: int,
    delta: float,
) -> AnswerCode:
    """The first code that applies, where there is a bound."""
    if all(row.alone[take] for row in rows):
        return "best"
    if bound <= delta:
        return "same-0" if bound <= PRINTS_ZERO else "same"
    if len(rows) > 1 and (sure[compared(rows)] > delta).all():
        return "trade" if others(rows, sure, take) > bound else "trade-open"
    return "keep" if take == base and sure[base] == 0 else "for-now"


def compared(rows: Sequence[RowLosses]) -> Booleans:
    """The candidates that can be the best of some row, wherever they have runs."""
    return np.asarray(np.logical_or.reduce([row.fit for row in rows]))


def others(rows: Sequence[RowLosses], sure: Floats, take: int) -> float:
    """The least loss that every other candidate has somewhere."""
    rest = [sure[i] for i in np.flatnonzero(compared(rows)) if i != take]
    return float(min(rest, default=0.0))
