"""When to stop: looks with spent alpha, precision mode, and how much more is allowed.

With `until-decided` a decision is made at six numbers of blocks only. Two things are asked of it:
a difference is claimed only where it is significant at the alpha spent at that look (0.05 in
all, so that a false difference stays below 0.05 over the whole experiment), and the interval must
lie on one side of the margin. The intervals of a look are at 98 %, so that they cover at 95 %
whenever the experiment stops (a constant level over the looks: Pocock 1977; repeated confidence
intervals: Jennison and Turnbull 1989).
"""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.spec import Stopping

LOOKS = (12, 16, 20, 26, 32, 40)
SPENT_ALPHA = (0.002, 0.004, 0.007, 0.010, 0.012, 0.015)
LOOK_ALPHA = 0.02
ALPHA = 0.05
#: Precision mode looks after every fourth block from the first look on.
PRECISION_STEP = 4


@dataclass(frozen=True)
class Levels:
    """Error rates at one look: of the intervals, and of the claim that two candidates differ."""

    interval: float = ALPHA
    claim: float = ALPHA


ONE_LOOK = Levels()


def levels_at(blocks: int, stopping: Stopping) -> Levels:
    """The error rates after `blocks` blocks.

    Between two looks the claim has the level of the next one, after the last that of the last.
    """
    if stopping.mode != "until-decided":
        return ONE_LOOK
    later = (alpha for look, alpha in zip(LOOKS, SPENT_ALPHA, strict=True) if look >= blocks)
    return Levels(LOOK_ALPHA, next(later, SPENT_ALPHA[-1]))


def largest_blocks(stopping: Stopping) -> int:
    """The largest number of blocks of the experiment (40 where nothing larger is asked for)."""
    if stopping.mode == "until-decided":
        return stopping.blocks if stopping.blocks >= LOOKS[0] else LOOKS[-1]
    return max(stopping.blocks, LOOKS[-1])


def next_look(blocks: int, stopping: Stopping) -> int | None:
    """The number of blocks at which to decide next, after `blocks` are done; `None`: none."""
    largest = largest_blocks(stopping)
    if stopping.mode == "fixed":
        following = stopping.blocks
    elif stopping.mode == "precision":
        steps = max(0, blocks - LOOKS[0]) // PRECISION_STEP + 1
        following = LOOKS[0] + PRECISION_STEP * steps if blocks >= LOOKS[0] else LOOKS[0]
    else:
        following = next((look for look in LOOKS if look > blocks), largest)
    following = min(following, largest)
    return following if following > blocks else None


def is_look(blocks: int, stopping: Stopping) -> bool:
    """Whether a decision is due after `blocks` blocks."""
    return next_look(blocks - 1, stopping) == blocks


def blocks_left(blocks: int, stopping: Stopping, seconds_per_block: float = 0.0) -> int:
    """How many more blocks the largest number and the time budget allow."""
    left = largest_blocks(stopping) - blocks
    if stopping.budget_s > 0 and seconds_per_block > 0:
        left = min(left, int(stopping.budget_s / seconds_per_block) - blocks)
    return max(left, 0)


def how_stopped(blocks: int, stopping: Stopping) -> str:
    """The sentence in the report: which rule ends the experiment, and at what error rate."""
    if stopping.mode == "precision":
        return (
            f"precision: stops when every interval is narrower than ±{100 * stopping.precision:g} "
            f"%; {blocks} blocks"
        )
    if stopping.mode == "until-decided":
        levels = levels_at(blocks, stopping)
        looks = sum(look <= blocks for look in LOOKS)
        return (
            f"until decided: {blocks} blocks, {looks} of at most {len(LOOKS)} looks taken; "
            f"alpha {levels.claim:g} spent at this one, intervals cover 95 % over all looks"
        )
    return f"fixed number of blocks: {blocks}, one look at the end"
