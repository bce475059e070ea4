"""When to stop: looks with spent alpha, precision mode, and how much more would be needed."""

from __future__ import annotations

from schedlab.spec import Stopping

#: Decisions are made at these numbers of blocks only, each with its share of 0.05.
LOOKS = (12, 16, 20, 26, 32, 40)
SPENT_ALPHA = (0.002, 0.004, 0.007, 0.010, 0.012, 0.015)
ALPHA = 0.05


def alpha_at(blocks: int, stopping: Stopping) -> float:
    """The error rate that the intervals after `blocks` blocks may have.

    Between two looks it is that of the next one, after the last that of the last.
    """
    if stopping.mode != "until-decided":
        return ALPHA
    later = (alpha for look, alpha in zip(LOOKS, SPENT_ALPHA, strict=True) if look >= blocks)
    return next(later, SPENT_ALPHA[-1])


def largest_blocks(stopping: Stopping) -> int:
    """The largest number of blocks of the experiment."""
    if stopping.mode == "until-decided":
        return stopping.blocks if stopping.blocks >= LOOKS[0] else LOOKS[-1]
    return max(stopping.blocks, LOOKS[-1])


def how_stopped(blocks: int, stopping: Stopping) -> str:
    """The sentence in the report: which rule ended the experiment, and at what error rate."""
    if stopping.mode == "precision":
        return (
            f"stopped by precision: intervals to be narrower than ±{100 * stopping.precision:g} %;"
            f" {blocks} blocks"
        )
    if stopping.mode == "until-decided":
        alpha = alpha_at(blocks, stopping)
        looks = sum(look <= blocks for look in LOOKS)
        return (
            f"stopped when decided: {blocks} blocks, {looks} of at most {len(LOOKS)} looks taken, "
            f"alpha {alpha:g} spent at this one"
        )
    return f"fixed number of blocks: {blocks}, one look at the end"
