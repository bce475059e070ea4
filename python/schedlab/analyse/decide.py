"""Whether a running experiment may stop: asked by the executor after each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from schedlab.analyse.looks import is_look, next_look
from schedlab.analyse.pairs import between
from schedlab.analyse.verdict import analyse
from schedlab.spec import Objective, Samples, Stopping, Verdict, WorkloadVerdict


@dataclass(frozen=True)
class Decision:
    """Stop or continue: `next_look` is the number of blocks of the next interim analysis.

    `workloads` are those that still get runs: all, until the overall verdict is decided and
    frozen; from then on those that are not decided themselves. `verdict` is what was concluded at
    this look (`None` between looks), `more_blocks` the range of further blocks that would decide
    what is still open, where that is known.
    """

    stop: bool
    reason: Literal["decided", "precise", "exhausted", "go on"]
    blocks: int
    next_look: int | None
    workloads: tuple[str, ...] = ()
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
    `samples` are those that were frozen for the `goal`. Workloads that were stopped earlier may
    have fewer blocks.
    """
    blocks = max((len(set(sample.blocks)) for sample in samples), default=0)
    everything = tuple(sample.workload for sample in samples)
    if not samples or not is_look(blocks, stopping):
        look = next_look(blocks, stopping)
        reason: Literal["exhausted", "go on"] = "exhausted" if look is None else "go on"
        return Decision(look is None, reason, blocks, look, everything)
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
    return _decision(verdict, blocks, stopping, everything)


def _decision(
    verdict: Verdict, blocks: int, stopping: Stopping, everything: tuple[str, ...]
) -> Decision:
    look = next_look(blocks, stopping)
    needed = verdict.overall.needed
    result = Decision(
        stop=False,
        reason="go on",
        blocks=blocks,
        next_look=look,
        workloads=everything,
        more_blocks=(needed.blocks_low, needed.blocks_high) if needed else None,
        verdict=verdict,
    )
    if stopping.mode == "precision" and is_precise(verdict, stopping.precision):
        return replace(result, stop=True, reason="precise", next_look=None, workloads=())
    if stopping.mode == "until-decided" and verdict.decided:
        left = tuple(name for name in everything if not _is_over(verdict.workloads[name], verdict))
        if not left:
            return replace(result, stop=True, reason="decided", next_look=None, workloads=())
        result = replace(result, workloads=left)
    if look is None:
        return replace(result, stop=True, reason="exhausted", next_look=None)
    return result


def _is_over(work: WorkloadVerdict, verdict: Verdict) -> bool:
    """Whether a workload needs no more runs: decided, a control, or not comparable."""
    if work.control or not work.pairs or len(verdict.overall.workloads) < 2:
        return True
    if len(work.best_set) == 1:
        return True
    return all(pair.verdict == "equivalent" for pair in between(work.pairs, work.best_set))


def is_precise(verdict: Verdict, precision: float) -> bool:
    """Whether every overall interval is narrower than ± `precision` (a share)."""
    widths = [
        math.log(pair.high / pair.low) / 2 if pair.low and pair.high else math.inf
        for pair in verdict.overall.pairs
    ]
    return bool(widths) and max(widths) < math.log1p(precision)
