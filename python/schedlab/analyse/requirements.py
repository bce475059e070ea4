"""Hard requirements: which candidates are proven to meet or to miss them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from schedlab.analyse.quantiles import t_quantile
from schedlab.analyse.rows import RowData
from schedlab.nouns import Require
from schedlab.nouns.answer import Met, Requirement, Row


def judged(
    requires: Sequence[Require], rows: Sequence[Row], data: Sequence[RowData], alpha: float
) -> tuple[Requirement, ...]:
    """Each requirement with what is proven of every candidate, at level `alpha` over all of both.

    One-sided Student on the mean log of a candidate's runs. Nothing is proven from one run, nor
    of a metric that was not measured.
    """
    result = []
    for each in requires:
        found = [
            (row.name, own)
            for row, own in zip(rows, data, strict=True)
            if row.workload == each.workload and row.metric and row.metric.name == each.metric
        ]
        name = found[0][0] if found else f"{each.workload}: {each.metric}"
        met = _met(found[0][1], each, alpha / len(requires)) if found else {}
        result.append(Requirement(name, each.limit, each.below, met))
    return tuple(result)


def _met(row: RowData, require: Require, alpha: float) -> dict[str, Met]:
    values, bounded, there = row.values() * row.sign, row.bounded, row.there
    direction = 1.0 if require.below else -1.0
    met: dict[str, Met] = {}
    for i in np.flatnonzero(there).tolist():
        own = values[np.isfinite(values[:, i]), i]
        over = direction * (float(own.mean()) - math.log(require.limit))
        n = len(own)
        met[row.labels[i]] = "open"
        if n < 2:
            continue
        reach = float(t_quantile(alpha / row.k, n - 1)) * float(own.std(ddof=1)) / math.sqrt(n)
        if over > reach:
            met[row.labels[i]] = "missed"
        elif over < -reach and not bounded[i]:
            met[row.labels[i]] = "met"
    return met
