"""When to stop: the bound is small enough, or nothing more can be decided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from schedlab.nouns import Stopping
from schedlab.nouns.answer import Answer


@dataclass(frozen=True)
class Decision:
    """Whether to stop after `blocks`, and why."""

    stop: bool
    reason: Literal["decided", "precise", "exhausted", "go on"]
    blocks: int


def decision(answer: Answer, stopping: Stopping) -> Decision:
    """Whether to go on after the blocks of `answer`.

    Decided is what is proven the best, or within the margin of it; precise a bound up to
    `stopping.precision` (a share).
    """
    blocks = answer.blocks
    bound = math.inf if answer.bound is None else answer.bound
    if stopping.mode == "precision" and bound <= math.log1p(stopping.precision):
        return Decision(True, "precise", blocks)
    if stopping.mode == "until-decided" and answer.code in ("best", "same", "same-0"):
        return Decision(True, "decided", blocks)
    if blocks >= stopping.blocks:
        return Decision(True, "exhausted", blocks)
    return Decision(False, "go on", blocks)
