"""The one run that decides: without it the bound would be less than half."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from schedlab.analyse.choice import Choice
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rows import RowData
from schedlab.nouns.answer import DecisiveRun

#: A wild run is so many scales from the medians of its block and arm, and by such a factor.
SCALES = 6.0
FACTOR = math.log(1.5)
#: A normal deviation is so many median absolute ones.
OF_MEDIAN = 1.48


def wild_run(
    rows: Sequence[RowData],
    bound: float,
    again: Callable[[int, RowData], Choice],
    blocks: Sequence[int],
) -> DecisiveRun | None:
    """The run without which the bound is least, if that is less than half of `bound`; of several
    the one that is furthest from the others.

    `again` gives the choice with another row in the place of one; `blocks` are all, by which
    people number them.
    """
    found = []
    for index, row in enumerate(rows):
        if (spot := _wildest(row)) is None:
            continue
        line, column, distance = spot
        without = again(index, row.without(line, column))
        found.append(
            DecisiveRun(
                block=blocks.index(row.blocks[line]) + 1,
                candidate=row.labels[row.aa if column == row.k and row.aa is not None else column],
                row=row.name,
                factor=math.exp(abs(distance)),
                worse=distance < 0,
                take=row.labels[without.take],
                bound=without.bound,
                code=without.code,
            )
        )
    least = min(found, key=lambda run: (run.bound, -run.factor), default=None)
    return least if least and least.bound < bound / 2 else None


def _wildest(row: RowData) -> tuple[int, int, float] | None:
    """(line, column, log distance) of the run that is furthest from the others, if it is wild."""
    residuals = residuals_from_medians(row)
    sizes = np.abs(residuals)
    if np.isfinite(sizes).sum() < 3:
        return None
    line, column = np.unravel_index(int(np.nanargmax(sizes)), sizes.shape)
    second = float(np.partition(sizes[np.isfinite(sizes)], -2)[-2])
    scale = max(OF_MEDIAN * float(np.nanmedian(sizes)), second / 3)
    largest = float(sizes[line, column])
    if largest <= SCALES * scale or largest <= FACTOR or row.bounds[line, column]:
        return None
    return int(line), int(column), float(residuals[line, column])


def residuals_from_medians(row: RowData) -> Floats:
    """The residual of each run without the median of its block, then of its arm.

    Of two arms the median of a block says nothing of either: there the arm's alone counts.
    """
    import warnings

    y = row.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if row.blocked and y.shape[1] > 2:
            y = y - np.nanmedian(y, axis=1, keepdims=True)
        return np.asarray(y - np.nanmedian(y, axis=0, keepdims=True))
