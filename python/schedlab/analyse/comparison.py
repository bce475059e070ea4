"""The blocks of one workload with their fit: what the flags are found in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse import rule
from schedlab.analyse.matrix import SESSIONS_AS_UNITS, RunMatrix
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import Fit, pair_index

Unit = Literal["blocks", "sessions"]


@dataclass(frozen=True)
class PairDifferences:
    """Differences of logs, a minus b, for all pairs (P) of `candidates`.

    `differences` (n × P) are those of the units, `arms` (n × a) their logs, `session` (n) numbers
    their sessions.
    """

    candidates: tuple[str, ...]
    unit: Unit
    units: int
    mean: Floats
    fit: Fit
    arms: Floats
    differences: Floats
    session: NDArray[np.intp]

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second candidate of every pair."""
        return pair_index(len(self.candidates))


def compare_blocks(
    arms: Floats,
    candidates: Sequence[str],
    *,
    baseline: int | None,
    session: NDArray[np.intp],
    filled: int = 0,
) -> PairDifferences:
    """The fit of the blocks, or of the means of the sessions where there are enough.

    `baseline` names the column of which the last one is the A/A arm.
    """
    names = np.unique(session)
    as_units = len(names) >= SESSIONS_AS_UNITS
    if as_units:
        arms = np.array([arms[session == name].mean(axis=0) for name in names])
        session, filled = names, 0
    fit = rule.fit(arms, baseline=baseline, filled=filled)
    y = rule.together(arms, baseline)
    first, second = fit.pairs
    return PairDifferences(
        candidates=tuple(candidates),
        unit="sessions" if as_units else "blocks",
        units=len(arms),
        mean=fit.mean,
        fit=fit,
        arms=arms,
        differences=y[:, first] - y[:, second],
        session=session,
    )


def compare_table(table: RunMatrix) -> PairDifferences | None:
    """The comparison of one workload; `None` where it has no blocks to compare."""
    if table.zero or len(table.candidates) < 2 or not len(table.arms):
        return None
    return compare_blocks(
        table.arms,
        table.candidates,
        baseline=table.aa_baseline,
        session=table.session,
        filled=table.filled,
    )
