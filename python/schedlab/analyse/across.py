"""What all workloads say together: weighted means inside each block, and "best everywhere"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.comparison import Comparison
from schedlab.analyse.intervals import compare_blocked
from schedlab.analyse.matrix import Floats, Table
from schedlab.analyse.sequential import ONE_LOOK, Levels
from schedlab.analyse.unblocked import compare_unblocked


@dataclass(frozen=True)
class Joint:
    """Several workloads as one: those that count, the candidates in all of them, their logs.

    Blocked data: `y` (n × k) and `twin` (n, the A/A arm, NaN where it lacks a workload) are
    weighted means of logs. `sign` is −1 where all metrics are lower-is-better; with metrics of
    both directions those are turned round by `weights`, and higher is better.
    """

    tables: tuple[Table, ...]
    candidates: tuple[str, ...]
    weights: tuple[float, ...]
    sign: float
    y: Floats
    twin: Floats
    blocks: tuple[int, ...]

    @property
    def groups(self) -> list[list[Floats]]:
        """Per workload the runs of each common candidate."""
        return [
            [table.groups[table.candidates.index(label)] for label in self.candidates]
            for table in self.tables
        ]


def join(tables: Sequence[Table], order: Sequence[str]) -> Joint:
    """The workloads that bear on the question: not negative controls, zeros, or single candidates.

    Where all are of one such kind, they are all there is to say.
    """
    sound = [table for table in tables if not table.zero]
    sound = [table for table in sound if len(table.candidates) > 1] or sound
    counted = [table for table in sound if not table.samples.negative_control] or sound
    candidates = tuple(c for c in order if counted and all(c in t.candidates for t in counted))
    signs = [table.sign for table in counted]
    sign = -1.0 if signs and max(signs) < 0 else 1.0
    raw = np.array([t.samples.weight * t.sign * sign for t in counted])
    weights = raw / np.abs(raw).sum() if len(raw) else raw
    common = sorted(set.intersection(*(set(t.blocks) for t in counted))) if counted else []
    y = np.zeros((len(common), len(candidates)))
    twin = np.zeros(len(common))
    for table, weight in zip(counted, weights, strict=True):
        rows = np.flatnonzero(np.isin(table.blocks, common))
        columns = [table.candidates.index(label) for label in candidates]
        if len(table.y):
            y += weight * table.y[rows][:, columns]
            twin += weight * table.twin[rows]
    return Joint(
        tables=tuple(counted),
        candidates=candidates,
        weights=tuple(weights.tolist()),
        sign=sign,
        y=y,
        twin=twin,
        blocks=tuple(common),
    )


def compare_joint(
    joint: Joint, *, blocked: bool, levels: Levels = ONE_LOOK, seed: int = 0
) -> Comparison | None:
    """All pairs over all workloads; `None` where no block or candidate is common to them."""
    if not joint.candidates or (blocked and not joint.blocks):
        return None
    if blocked:
        return compare_blocked(joint.y, joint.candidates, levels=levels, seed=seed)
    return compare_unblocked(joint.groups, joint.candidates, weights=joint.weights, seed=seed)


def best_everywhere(
    comparisons: Sequence[Comparison],
    signs: Sequence[float],
    margins: Sequence[float],
    alpha: float = 0.05,
) -> tuple[str, ...]:
    """Candidates that on every workload are shown not to be beaten by more than the margin.

    Per workload the p-value of a candidate is the largest adjusted one of "worse than j by at
    least δ"; Holm's procedure over the workloads must reject all of them.
    """
    if not comparisons:
        return ()
    common = [c for c in comparisons[0].candidates if all(c in x.candidates for x in comparisons)]
    result = []
    for label in common if len(common) > 1 else []:
        p = np.sort(
            [
                _beaten_p(comparison, label, sign, margin)
                for comparison, sign, margin in zip(comparisons, signs, margins, strict=True)
            ]
        )
        if (p * np.arange(len(p), 0, -1) <= alpha).all():
            result.append(label)
    return tuple(result)


def _beaten_p(comparison: Comparison, label: str, sign: float, margin: float) -> float:
    """Largest p-value against "some other is better than `label` by the margin or more"."""
    mine = comparison.candidates.index(label)
    side = np.where(comparison.first == mine, sign, -sign)
    shifted = side * comparison.mean + np.log1p(margin)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = shifted / comparison.standard_error
    p = np.where(shifted > 0, comparison.p_value(t), 1.0)
    involved = (comparison.first == mine) | (comparison.second == mine)
    return float(np.nan_to_num(p[involved], nan=1.0).max(initial=0.0))
