"""The cells of an answer from the losses of its rows, and losses that are copies of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from schedlab.analyse.losses import RowLosses
from schedlab.analyse.rows import RowData
from schedlab.nouns.answer import CellAnswer, Loss, Row


def cells_of(data: RowData, row: Row, result: RowLosses) -> dict[str, CellAnswer]:
    """The cells of one row, of the candidates that have runs."""
    bounded, there = data.bounded, data.there
    counts = np.isfinite(data.y)
    cells = {}
    for i in np.flatnonzero(there).tolist():
        columns = [i, data.k] if i == data.aa else [i]
        up = float(result.up[i])
        known = math.isfinite(up)
        own = data.y[:, columns][counts[:, columns]]
        cells[data.labels[i]] = CellAnswer(
            value=None
            if row.metric is None
            else data.with_zeros.get(i, float(np.exp(data.sign * own.mean()))),
            loss=float(result.point[i]),
            low=float(result.low[i]),
            up=up if known else None,
            best=known and up == 0.0,
            open=bool(bounded[i]) and not known,
            runs=int(counts[:, columns].sum()),
            starved=int(data.bounds[:, columns].sum()),
        )
    return cells


def behind(
    cells: Mapping[str, Mapping[str, CellAnswer]], label: str, rows: Sequence[str]
) -> list[Loss]:
    """Where a candidate is proven behind."""
    found = [(name, cells[name].get(label)) for name in rows]
    return [
        Loss(label, name, cell.loss, cell.low, cell.up, cell.open)
        for name, cell in found
        if cell is not None and cell.low > 0
    ]


def price_of(
    missed: Sequence[str], cells: Mapping[str, Mapping[str, CellAnswer]], take: str,
    rows: Sequence[str],
) -> Loss | None:  # fmt: skip
    """Where what is taken is proven furthest behind one that a requirement removed."""
    led = [row for row in rows if any(c in cells[row] and cells[row][c].loss == 0 for c in missed)]
    return max(behind(cells, take, led), key=lambda loss: loss.low, default=None)
