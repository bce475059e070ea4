"""Comparing sessions: two result folders are two sessions by construction.

Runs of one boot and one set of files share what the next boot changes, so that runs are no units
between folders. Sessions are: Welch (1947) on their means, Games and Howell for several pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schedlab.nouns import Samples

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
