"""Racing: a challenger gets further blocks only while it may still be better than the incumbent.

Its blocks are looked at at sequential levels (analyse/looks.py), so that looking often costs no
truth. The noise of a difference is pooled over all challengers and A/A blocks, on top of what is
assumed at the start; to become the incumbent, a challenger must also pass by the noise of its own
blocks. One that does not clearly lead goes even if its interval would allow more: most settings
change nothing, and each would use up all its blocks. It may still be among the best three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schedlab.analyse.looks import boundaries
from schedlab.analyse.quantiles import t_quantile

BLOCKS_MOST = 6
# Standard errors by which a challenger must lead to get another block.
LEAD = 0.5
LOOKS = tuple(range(1, BLOCKS_MOST + 1))
Decision = Literal["promote", "drop", "more"]


@dataclass(frozen=True)
class Noise:
    """Squared deviations of paired log differences, and their degrees of freedom."""

    squares: float = 0.0
    freedom: int = 0

    def with_differences(self, differences: Sequence[float]) -> Noise:
        """Those of a challenger, around their own mean."""
        if len(differences) < 2:
            return self
        mean = sum(differences) / len(differences)
        squares = sum((each - mean) ** 2 for each in differences)
        return Noise(self.squares + squares, self.freedom + len(differences) - 1)

    def with_aa(self, difference: float) -> Noise:
        """One difference between two runs of the same candidate: its mean is 0."""
        return Noise(self.squares + difference**2, self.freedom + 1)

    @property
    def spread(self) -> float:
        """Standard deviation of one difference; infinite without data."""
        return math.sqrt(self.squares / self.freedom) if self.freedom else math.inf

    def half_width(self, blocks: int, level: float) -> float:
        """Half of the interval of the mean of `blocks` differences; infinite without data."""
        if not self.freedom:
            return math.inf
        return float(t_quantile(level / 2, self.freedom)) * self.spread / math.sqrt(blocks)


# Before anything was measured: 10 %, worth two differences.
ASSUMED = Noise(2 * 0.1**2, 2)


@dataclass(frozen=True)
class Interval:
    """Mean log difference of a challenger to the incumbent; above 0 it is better.

    `low` and `high` are by the pooled noise, `sure_low` also by that of its own blocks.
    """

    mean: float
    low: float
    high: float
    sure_low: float


def interval(differences: Sequence[float], noise: Noise) -> Interval:
    """The interval after so many blocks, at the level of that look."""
    n = len(differences)
    level = boundaries(LOOKS)[min(n, BLOCKS_MOST) - 1]
    mean = sum(differences) / n
    half = noise.half_width(n, level)
    own = Noise().with_differences(differences)
    widest = max(half, own.half_width(n, level))
    return Interval(mean, mean - half, mean + half, mean - widest)


def decide(differences: Sequence[float], noise: Noise, margin: float) -> Decision:
    """The fate of a challenger: an advantage within the margin is none."""
    if not differences:
        return "more"
    estimate = interval(differences, noise)
    if len(differences) >= 2 and estimate.sure_low > 0 and estimate.mean > margin:
        return "promote"
    lead = LEAD * noise.spread / math.sqrt(len(differences))
    if estimate.high <= margin or estimate.mean <= margin + lead or len(differences) >= BLOCKS_MOST:
        return "drop"
    return "more"
