"""The question of an analysis, and figures that every part of it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.comparison import Comparison
from schedlab.analyse.detectable import POWER_QUANTILE, detectable, needed, total_needed
from schedlab.analyse.doubts import Findings, early_and_late
from schedlab.analyse.headline import Unfinished
from schedlab.analyse.looks import Extension, largest_blocks, level_at
from schedlab.analyse.matrix import Table
from schedlab.analyse.pairs import by_blocks, farthest
from schedlab.analyse.rule import ALPHA
from schedlab.spec import Needed, Noise, Pair, Stopping

#: From so many blocks on a fixed number of blocks counts as a budget that is used up.
MANY_BLOCKS = 40


@dataclass(frozen=True)
class Question:
    """Parameters of an analysis that all workloads share; `margin` is a share."""

    order: tuple[str, ...]
    baseline: str
    aa_label: str | None
    margin: float
    blocked: bool
    stopping: Stopping
    seed: int
    seconds_per_block: float
    workloads: int
    extension: Extension | None = None

    @property
    def delta(self) -> float:
        """The margin as a difference of logs."""
        return math.log1p(self.margin)

    def level(self, blocks: int, share: float = 1.0) -> float:
        """The level of intervals and claims after so many blocks."""
        if not self.blocked:
            return ALPHA
        if self.extension is not None:
            extended = blocks > self.extension.first_blocks
            return self.extension.alpha if extended else self.extension.first_alpha
        return level_at(blocks, self.stopping, ALPHA * share)

    @property
    def looked_at(self) -> int:
        """The blocks of a first analysis before an unannounced extension, else 0."""
        added = self.extension
        return added.first_blocks if added and added.code == "unannounced" else 0

    def workload_level(self, blocks: int) -> float:
        """That of one workload: with early stopping each has its own boundaries from .05/W."""
        sequential = self.stopping.mode != "fixed" and self.workloads > 1
        return self.level(blocks, 1 / self.workloads if sequential else 1.0)


@dataclass(frozen=True)
class Judged:
    """One metric of one workload, with the basis of its verdict."""

    table: Table
    comparison: Comparison | None
    findings: Findings
    pairs: tuple[Pair, ...]


def mdd_of(
    comparison: Comparison | None, pairs: Sequence[Pair], question: Question
) -> float | None:
    """The smallest difference that would have shown, as a share; `None` where any could hide.

    Of the open ones of these `pairs` the noisiest decides, and nothing that its interval allows
    would have shown.
    """
    if comparison is None or comparison.units < 2:
        return None
    if comparison.unit == "runs":
        half = float(np.median(comparison.half_width))
        exponent = half + POWER_QUANTILE * float(np.median(comparison.error)) + question.delta
    else:
        k, spread = len(comparison.candidates), _widest(comparison, pairs)
        mdd = detectable(spread, comparison.units, k, question.margin, comparison.alpha)
        exponent = math.inf if mdd is None else math.log1p(mdd)
    exponent = max(exponent, farthest(pairs))
    return math.expm1(exponent) if exponent < 700 else None


def _widest(comparison: Comparison, pairs: Sequence[Pair]) -> float:
    """The standard deviation of one run of the noisiest open pair, at least that of all."""
    return max(
        (_spread_of(comparison, pair) for pair in pairs if pair.verdict == "undecided"),
        default=comparison.spread,
    )


def _spread_of(comparison: Comparison, pair: Pair) -> float:
    names, (first, second) = comparison.candidates, comparison.pairs
    for a, b, spread in zip(first, second, comparison.spreads, strict=True):
        if {names[a], names[b]} == {pair.a, pair.b}:
            return float(spread)
    return comparison.spread  # A pair over fewer workloads.


def needed_of(
    comparison: Comparison | None, pairs: Sequence[Pair], question: Question
) -> Needed | None:
    """What more would decide the pairs of the best set that are open."""
    still = [pair for pair in pairs if pair.verdict == "undecided"]
    if comparison is None or comparison.unit == "runs" or comparison.units < 2 or not still:
        return None
    k, units, margin = len(comparison.candidates), comparison.units, question.margin
    totals = [
        total_needed(math.log(pair.ratio), _spread_of(comparison, pair), k, margin, units)
        if by_blocks(pair)
        else None
        for pair in still
    ]
    spread = _widest(comparison, still)
    return needed(totals, units, spread, k, margin, question.seconds_per_block)


def noise_of(comparison: Comparison | None, findings: Findings) -> Noise:
    """The standard deviations and the A/A interval of a comparison."""
    if comparison is None:
        return Noise()
    aa = findings.aa
    known = math.isfinite(comparison.spread)
    return Noise(
        run=comparison.spread if known else None,
        aa=aa.spread if aa else None,
        session=findings.session_spread,
        aa_ratio=math.exp(aa.mean) if aa else None,
        aa_low=math.exp(aa.mean - aa.half_width) if aa and math.isfinite(aa.half_width) else None,
        aa_high=math.exp(aa.mean + aa.half_width)
        if aa and math.isfinite(aa.half_width) and aa.mean + aa.half_width < 700
        else None,
    )


def halves_of(comparison: Comparison | None) -> dict[tuple[str, str], tuple[float, float]]:
    """Log ratios of every pair in the first and in the second half of the blocks."""
    if comparison is None or not len(comparison.differences):
        return {}
    first, second = comparison.pairs
    labels = comparison.candidates
    return {
        (labels[a], labels[b]): early_and_late(comparison, p)
        for p, (a, b) in enumerate(zip(first, second, strict=True))
    }


def is_budget_used(blocks: int, question: Question) -> bool:
    """Whether nothing more was allowed, or would be sensible without a new plan."""
    stopping = question.stopping
    if not question.blocked:
        return True
    if stopping.mode != "fixed":
        largest = largest_blocks(stopping)
    else:
        largest = max(MANY_BLOCKS, stopping.blocks)
    seconds = question.seconds_per_block
    if stopping.budget_s > 0 and seconds > 0 and (blocks + 1) * seconds > stopping.budget_s:
        return True
    return blocks >= largest


def starved_in(tables: Sequence[Table]) -> dict[str, tuple[int, int]]:
    """Per candidate with bounds its runs that starved, and all of its runs (without A/A arm)."""
    counts: dict[str, tuple[int, int]] = {}
    for table in tables:
        for label, starved, runs in zip(
            table.candidates, table.starved, table.groups, strict=False
        ):
            before = counts.get(label, (0, 0))
            counts[label] = (before[0] + starved, before[1] + len(runs))
    return {label: count for label, count in counts.items() if count[0]}


def unfinished_in(table: Table) -> tuple[Unfinished, ...]:
    """Candidates whose runs are bounds in all blocks."""
    if not len(table.arms):
        return ()
    sample = table.samples
    return tuple(
        Unfinished(label, sample.workload, sample.time_s or None)
        for i, label in enumerate(table.candidates)
        if table.bounds[:, i][table.observed[:, i]].all() and table.bounds[:, i].any()
    )
