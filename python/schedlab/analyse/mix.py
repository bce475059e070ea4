"""With shares the rows become one: the weighted mean of the logs inside each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedlab.analyse.carry_over import Adjusted, adjusted
from schedlab.analyse.losses import RowPairs, fill, layers, may_fill
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rows import RowData
from schedlab.nouns.answer import MIX


def mix(rows: Sequence[RowData], shares: Sequence[float]) -> RowPairs:
    """The rows as one, in the blocks that all have; `shares` sum to 1.

    Without blocks the first runs of all rows are one, then the second ones, and so on. In blocks
    missing cells are filled in their row, where so few are missing that a row's own are; else
    they are missing in the mix. The share that was filled, its number, and what rounding adds,
    are means by the shares. Effects of the run before are those of each row.
    """
    joined, carried = _joined(rows, shares), [adjusted(row) for row in rows if row.blocked]
    if not any(carried):
        return RowPairs(joined, layers(joined))
    found = [each or Adjusted.without(row) for each, row in zip(carried, rows, strict=True)]
    of = Adjusted(
        _joined([each.row for each in found], shares),
        np.maximum.reduce([each.factors for each in found]),
        _weighted([each.effects for each in found], shares),
    )
    return RowPairs(joined, layers(of.row, of.factors), of)


def _joined(rows: Sequence[RowData], shares: Sequence[float]) -> RowData:
    common = sorted(set.intersection(*(set(row.blocks) for row in rows)))
    aligned = [row.only(np.isin(row.blocks, common)) for row in rows]
    aa = rows[0].aa if all(row.aa == rows[0].aa for row in rows) else None
    arms = rows[0].k + (aa is not None)
    parts = [_filled(row.y[:, :arms], blocked=row.blocked) for row in aligned]
    y = _weighted([part for part, _ in parts], shares)
    bounds = np.logical_or.reduce([row.bounds[:, :arms] for row in aligned])
    fitted = sum(w * row.filled for w, row in zip(shares, rows, strict=True))
    filled = sum(w * number for w, (_, number) in zip(shares, parts, strict=True))
    joined = replace(
        aligned[0],
        name=MIX,
        y=y,
        bounds=bounds & np.isfinite(y),
        aa=aa,
        rounding=_weighted([row.rounding for row in rows], shares),
        below_step=np.logical_or.reduce([row.below_step for row in rows]),
        step=0.0,
        exact=all(row.exact for row in rows),
        share=filled / max(y.size, 1),
        filled=filled + fitted,
    )
    return joined.only(np.asarray(np.isfinite(y).any(axis=1)))


def _filled(y: Floats, *, blocked: bool) -> tuple[Floats, float]:
    """(a row without its gaps, how many were filled)."""
    there = np.isfinite(y)
    if not blocked or there.all() or not may_fill(there):
        return y, 0.0
    return fill(y), float((~there).sum())


def _weighted(parts: Sequence[Floats], shares: Sequence[float]) -> Floats:
    return np.asarray(sum(w * part for w, part in zip(shares, parts, strict=True)))
