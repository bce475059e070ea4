"""Comparing sessions: two result folders are two sessions by construction.

Runs of one boot and one set of files share what the next boot changes, so that runs are no units
between folders. Sessions are: Welch (1947) on their means, Games and Howell for several pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedlab.analyse.quantiles import Floats
from schedlab.spec import Samples

FEWEST_SESSIONS = 2


def session_means(
    values: Sequence[float], sessions: Sequence[str], blocks: Sequence[int]
) -> dict[str, float]:
    """The mean log of every session: blocks first, so that each counts once."""
    cells: dict[tuple[str, int], list[float]] = {}
    for value, session, block in zip(values, sessions, blocks, strict=True):
        if math.isfinite(value) and value > 0:
            cells.setdefault((session, block), []).append(math.log(value))
    by_session: dict[str, list[float]] = {}
    for (session, _), logs in cells.items():
        by_session.setdefault(session, []).append(float(np.mean(logs)))
    return {session: float(np.mean(means)) for session, means in by_session.items()}


def one_each(sample: Samples) -> Samples:
    """Of every candidate its mean over all runs, as one run: what one session has to tell."""
    lines = {label: i for i, label in reversed([*enumerate(sample.candidates)])}
    first = sample.of_lines(sorted(lines.values()))
    means = session_means(sample.values, sample.candidates, sample.blocks)
    values = tuple(math.exp(means.get(label, math.nan)) for label in first.candidates)
    return replace(first, values=values, blocks=(0,) * len(values))


@dataclass(frozen=True)
class Components:
    """Variance components of a difference of logs, as standard deviations."""

    within: float
    between: float

    def error(self, sessions: int, blocks: int) -> float:
        """Standard error of the mean over `sessions` with `blocks` each: √(τ²/S + σ²/(S·n))."""
        return math.sqrt((self.between**2 + self.within**2 / blocks) / sessions)


def components(differences: Sequence[Floats]) -> Components | None:
    """From the differences of one pair, one array of blocks per session; `None` for one session."""
    if len(differences) < FEWEST_SESSIONS or min(len(d) for d in differences) < 2:
        return None
    means = np.array([d.mean() for d in differences])
    freedom = sum(len(d) - 1 for d in differences)
    within = sum(float(((d - d.mean()) ** 2).sum()) for d in differences) / freedom
    size = len(differences) / sum(1 / len(d) for d in differences)
    between = max(0.0, float(means.var(ddof=1)) - within / size)
    return Components(math.sqrt(within), math.sqrt(between))
