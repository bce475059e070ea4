"""All workloads together: weighted means inside each block, claims over workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.analyse import rule
from schedlab.analyse.comparison import Comparison, compare_blocks, compare_runs
from schedlab.analyse.matrix import Table
from schedlab.analyse.quantiles import Floats, t_quantile

#: Up to so many workloads the smallest p-values go through Holm, above through Benjamini–Hochberg.
HOLM_WORKLOADS = 10


@dataclass(frozen=True)
class Joint:
    """Several workloads as one: those that count, the candidates in all of them, their logs.

    `arms` (n × a) are weighted means of the logs of the blocks that all have. `sign` is −1 where
    all metrics are lower-is-better; with metrics of both directions those are turned round by
    `weights`, and higher is better.
    """

    tables: tuple[Table, ...]
    candidates: tuple[str, ...]
    weights: tuple[float, ...]
    sign: float
    arms: Floats
    aa_baseline: int | None
    session: NDArray[np.intp]
    blocks: tuple[int, ...]
    steps: Floats
    missing: float
    filled: int

    @property
    def groups(self) -> list[list[Floats]]:
        """Per workload the runs of each common candidate."""
        return [[t.groups[t.candidates.index(c)] for c in self.candidates] for t in self.tables]

    def first(self, blocks: int) -> Joint:
        """The same after its first blocks."""
        from dataclasses import replace

        return replace(
            self,
            arms=self.arms[:blocks],
            session=self.session[:blocks],
            blocks=self.blocks[:blocks],
        )


def counted(tables: Sequence[Table]) -> list[Table]:
    """The workloads that bear on the question: not controls, zeros, or single candidates.

    Where all are of one such kind, there is nothing else to say.
    """
    sound = [table for table in tables if not table.zero]
    sound = [table for table in sound if len(table.candidates) > 1] or sound
    return [table for table in sound if not table.samples.negative_control] or sound


def join(tables: Sequence[Table], order: Sequence[str]) -> Joint:
    """The given workloads as one (see `counted`), in blocks that all of them have."""
    candidates = tuple(c for c in order if tables and all(c in t.candidates for t in tables))
    signs = [table.sign for table in tables]
    sign = -1.0 if signs and max(signs) < 0 else 1.0
    raw = np.array([t.samples.weight * t.sign * sign for t in tables])
    weights = raw / np.abs(raw).sum() if len(raw) else raw
    common = sorted(set.intersection(*(set(t.blocks) for t in tables))) if tables else []
    has_aa = bool(tables) and all(table.has_aa for table in tables)
    baseline = tables[0].candidates[tables[0].baseline or 0] if has_aa else ""
    has_aa = has_aa and baseline in candidates
    arms = np.zeros((len(common), len(candidates) + has_aa))
    steps, missing, filled = np.zeros(len(candidates)), 0.0, 0
    session = np.zeros(len(common), np.intp)
    for table, weight in zip(tables, weights, strict=True):
        columns = [table.candidates.index(label) for label in candidates]
        steps = np.hypot(steps, weight * table.steps[columns])
        if not len(table.arms):
            continue
        rows = np.flatnonzero(np.isin(table.blocks, common))
        columns += [table.arms.shape[1] - 1] * has_aa
        arms += weight * table.arms[rows][:, columns]
        gaps = ~table.observed[rows][:, columns]
        missing += abs(float(weight)) * float(gaps.mean()) if gaps.size else 0.0
        filled += int(gaps.sum())
        session = table.session[rows]
    return Joint(
        tables=tuple(tables),
        candidates=candidates,
        weights=tuple(weights.tolist()),
        sign=sign,
        arms=arms,
        aa_baseline=candidates.index(baseline) if has_aa else None,
        session=session,
        blocks=tuple(common),
        steps=steps,
        missing=missing,
        filled=filled if len(tables) == 1 else 0,
    )


def compare_joint(joint: Joint, *, blocked: bool, alpha: float = rule.ALPHA) -> Comparison | None:
    """All pairs over all workloads; `None` where no block or two candidates are common to them."""
    if len(joint.candidates) < 2 or (blocked and not len(joint.arms)):
        return None
    if blocked:
        return compare_blocks(
            joint.arms,
            joint.candidates,
            baseline=joint.aa_baseline,
            session=joint.session,
            alpha=alpha,
            steps=joint.steps,
            missing=joint.missing,
            filled=joint.filled,
        )
    steps = [t.steps[[t.candidates.index(c) for c in joint.candidates]] for t in joint.tables]
    return compare_runs(joint.groups, joint.weights, joint.candidates, alpha, steps)


def passing(p: Sequence[float], alpha: float) -> list[bool]:
    """Which workloads may claim, from the smallest p-value of each: Holm (1979) or BH (1995)."""
    count = len(p)
    order = np.argsort(np.asarray(p), kind="stable")
    ordered = np.asarray(p)[order]
    allowed = [False] * count
    if count <= HOLM_WORKLOADS:
        for rank, index in enumerate(order.tolist()):
            if ordered[rank] > alpha / (count - rank):
                break
            allowed[index] = True
        return allowed
    below = np.flatnonzero(ordered <= alpha * np.arange(1, count + 1) / count)
    for index in order[: below.max() + 1 if len(below) else 0].tolist():
        allowed[index] = True
    return allowed


def best_everywhere(
    label: str,
    comparisons: Sequence[tuple[Comparison, float]],
    margin: float,
    alpha: float = rule.ALPHA,
) -> bool:
    """Whether `label` is shown not to be beaten by more than the margin (log) on any workload.

    Intersection–union (Berger 1982): on every workload, against every rival, the lower one-sided
    bound exceeds −margin; all must hold, so nothing is corrected. `comparisons` come with signs.
    """
    for comparison, sign in comparisons:
        if comparison.fit is None or label not in comparison.candidates:
            return False
        mine = comparison.candidates.index(label)
        first, second = comparison.pairs
        involved = (first == mine) | (second == mine)
        side = np.where(first == mine, sign, -sign)[involved]
        error = comparison.fit.error[involved]
        if comparison.units < 2:
            return False
        low = side * comparison.mean[involved] - t_quantile(2 * alpha, comparison.units - 1) * error
        if not (low > -margin).all():
            return False
    return bool(comparisons)
