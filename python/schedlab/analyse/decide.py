"""Whether a running experiment may stop: asked by the executor after each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schedlab.analyse.sequential import is_look, largest_blocks, next_look
from schedlab.analyse.verdict import analyse
from schedlab.spec import Objective, Samples, Stopping, Verdict


@dataclass(frozen=True)
class Decision:
    """Stop or go on: `next_look` is the number of blocks at which to ask again.

    `verdict` is what was concluded at this look (`None` between looks), `more_blocks` the range
    of further blocks that would separate what is still open, where it can be told.
    """

    stop: bool
    reason: Literal["decided", "precise", "exhausted", "go on"]
    blocks: int
    next_look: int | None
    statement: str
    more_blocks: tuple[int, int] | None = None
    verdict: Verdict | None = None


def next_decision(
    samples: Sequence[Samples],
    *,
    baseline: str,
    stopping: Stopping,
    margin: float = 0.02,
    aa: tuple[str, str] | None = None,
    seed: int = 0,
    candidates: Sequence[str] = (),
    seconds_per_block: float = 0.0,
    goal: Objective | None = None,
) -> Decision:
    """What to do after the blocks in `samples`; cheap between looks. Arguments as `analyse`;
    `samples` are those that were frozen for the `goal`.
    """
    blocks = len(set().union(*(sample.blocks for sample in samples))) if samples else 0
    if not is_look(blocks, stopping):
        look = next_look(blocks, stopping)
        text = f"{blocks} blocks done; the next decision is due at {look}"
        return Decision(look is None, "exhausted" if look is None else "go on", blocks, look, text)
    verdict = analyse(
        samples,
        baseline=baseline,
        margin=margin,
        aa=aa,
        stopping=stopping,
        seed=seed,
        candidates=candidates,
        seconds_per_block=seconds_per_block,
        goal=goal,
        frozen=True,
    )
    look = next_look(blocks, stopping)
    reason: Literal["decided", "precise", "exhausted", "go on"] = "go on"
    if stopping.mode == "precision" and is_precise(verdict, stopping.precision):
        reason = "precise"
    elif stopping.mode == "until-decided" and verdict.decided:
        reason = "decided"
    elif look is None or blocks >= largest_blocks(stopping):
        reason = "exhausted"
    ranges = [p.blocks_needed for p in verdict.overall.pairs if p.blocks_needed is not None]
    more = (max(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None
    stop = reason != "go on"
    return Decision(stop, reason, blocks, None if stop else look, verdict.statement, more, verdict)


def is_precise(verdict: Verdict, precision: float) -> bool:
    """Whether every overall interval is narrower than ± `precision` (a share)."""
    widths = [
        math.log(pair.high / pair.low) / 2 if pair.low and pair.high else math.inf
        for pair in verdict.overall.pairs
    ]
    return bool(widths) and max(widths) < math.log1p(precision)
