"""All pairs of candidates of one workload, or of several, whichever design the data came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse import rule
from schedlab.analyse.matrix import SESSIONS_AS_UNITS, Table
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import Fit, pair_index
from schedlab.analyse.unpaired import Unpaired, compare_unpaired

Unit = Literal["blocks", "sessions", "runs"]


@dataclass(frozen=True)
class Comparison:
    """Differences of logs, a minus b, for all pairs of `candidates`, at the level `alpha`.

    `half_width`, `error` and `mean` (P) follow `pairs`; half-widths are infinite without an
    interval. `differences` (n × P) are those of the units, empty without blocks. `arms`
    (n × a) are their logs, `session` (n) numbers their sessions. `spread` is the standard
    deviation of one run.
    """

    candidates: tuple[str, ...]
    alpha: float
    unit: Unit
    units: int
    mean: Floats
    error: Floats
    half_width: Floats
    spread: float
    fit: Fit | None = None
    unpaired: Unpaired | None = None
    arms: Floats = field(default_factory=lambda: np.empty((0, 0)))
    differences: Floats = field(default_factory=lambda: np.empty((0, 0)))
    session: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second candidate of every pair."""
        return pair_index(len(self.candidates))

    @property
    def spreads(self) -> Floats:
        """Per pair the standard deviation of one run: the pair's own where it is above `spread`.

        The pooled one is too small for a candidate that scatters more than the others.
        """
        ratio = np.ones_like(self.mean)
        if self.fit is not None:
            np.divide(self.fit.own, self.fit.pooled, out=ratio, where=self.fit.pooled > 0)
        return np.asarray(self.spread * np.maximum(ratio, 1.0))

    def p_value(self, margin: float) -> Floats:
        """Family-wise p-values against "within ± margin" (logs)."""
        if self.fit is not None:
            return rule.p_value(self.fit, margin)
        if self.unpaired is not None:
            return self.unpaired.p_value(margin)
        return np.ones_like(self.mean)


def compare_blocks(
    arms: Floats,
    candidates: Sequence[str],
    *,
    baseline: int | None,
    session: NDArray[np.intp],
    alpha: float = rule.ALPHA,
    steps: Floats | None = None,
    missing: float = 0.0,
    filled: int = 0,
) -> Comparison:
    """The rule of `rule.py` on blocks, or on the means of the sessions where there are enough.

    `baseline` names the column of which the last one is the A/A arm; `steps` (k) is the
    resolution as a share.
    """
    names = np.unique(session)
    as_units = len(names) >= SESSIONS_AS_UNITS
    if as_units:
        arms = np.array([arms[session == name].mean(axis=0) for name in names])
        session, filled = names, 0
    floor = 0.0 if steps is None else rule.resolution_floor(steps, len(arms))
    segments = session if 1 < len(names) < SESSIONS_AS_UNITS else None
    fit = rule.fit(
        arms, baseline=baseline, floor=floor, missing=missing, filled=filled, segments=segments
    )
    if as_units:
        fit = fit.steady
    k = len(candidates)
    y = arms[:, :k].copy()
    if baseline is not None:
        y[:, baseline] = (arms[:, baseline] + arms[:, k]) / 2
    first, second = pair_index(k)
    return Comparison(
        candidates=tuple(candidates),
        alpha=alpha,
        unit="sessions" if as_units else "blocks",
        units=len(arms),
        mean=fit.mean,
        error=fit.own,
        half_width=rule.half_width(fit, alpha),
        spread=float(fit.spread),
        fit=fit,
        arms=arms,
        differences=y[:, first] - y[:, second],
        session=session,
    )


def compare_table(table: Table, alpha: float = rule.ALPHA) -> Comparison | None:
    """The comparison of one workload; `None` where there is nothing to compare."""
    if table.zero or len(table.candidates) < 2:
        return None
    if not len(table.arms):
        return None if not all(len(group) for group in table.groups) else runs_of(table, alpha)
    return compare_blocks(
        table.arms,
        table.candidates,
        baseline=table.aa_baseline,
        session=table.session,
        alpha=alpha,
        steps=table.steps,
        missing=table.filled / table.cells,
        filled=table.filled,
    )


def runs_of(table: Table, alpha: float = rule.ALPHA) -> Comparison:
    """The comparison of a workload that was not run in blocks."""
    return compare_runs([table.groups], (1.0,), table.candidates, alpha, [table.steps])


def compare_runs(
    workloads: Sequence[Sequence[Floats]],
    weights: Sequence[float],
    candidates: Sequence[str],
    alpha: float = rule.ALPHA,
    steps: Sequence[Floats] = (),
) -> Comparison:
    """Welch's comparison over workloads (see `unpaired.py`)."""
    floor: Floats | float = 0.0
    for own, weight, groups in zip(steps, weights, workloads, strict=False):
        fewest = min(len(group) for group in groups)
        floor = np.hypot(floor, rule.resolution_floor(own, max(fewest, 1), weight))
    pairs = compare_unpaired(workloads, weights, floor)
    units = min((len(runs) for groups in workloads for runs in groups), default=0)
    return Comparison(
        candidates=tuple(candidates),
        alpha=alpha,
        unit="runs",
        units=pairs.runs if units > 1 else units,
        mean=pairs.mean,
        error=pairs.error,
        half_width=pairs.half_width(alpha),
        spread=pairs.spread,
        unpaired=pairs,
    )
