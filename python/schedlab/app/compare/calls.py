"""The sweep of block sizes and open modes as an experiment: modes are the candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlab.app.compare.comparison import Place, experiment_of, target_of
from schedlab.app.targets import describe
from schedlab.errors import SpecError, nearest
from schedlab.kinds import OVERRIDE
from schedlab.kinds.calls import MODES
from schedlab.nouns import Candidate, Experiment, Stopping, Workload
from schedlab.nouns.quantities import size_text
from schedlab.run.candidate_settings import AS_IS

SAME_BYTES = 5 << 20
#: The answer speaks of the block size that is nearest to this; all others are a curve.
USUAL_BYTES = 4096


def sweep_experiment(
    place: Place,
    *,
    block_sizes: Sequence[int],
    modes: Sequence[str],
    same_bytes: int | None,
    calls: int | None,
    direction: str,
    blocks: int,
    seed: int | None,
) -> Experiment:
    """Every open mode on every block size; SpecError for an unknown mode."""
    for mode in modes:
        if mode not in MODES:
            raise SpecError(f"mode {mode!r} is not known", nearest(mode, MODES))
    if not same_bytes and not calls:
        same_bytes = SAME_BYTES
    target = target_of(place)
    works = []
    chosen = min(block_sizes, key=lambda size: abs(math.log2(size / USUAL_BYTES)))
    for block in block_sizes:
        if same_bytes:
            works.append(_work(block, chosen, direction, {"total_bytes": same_bytes}, "same bytes"))
        if calls:
            works.append(_work(block, chosen, direction, {"calls": calls}, "same calls"))
    candidates = tuple(
        Candidate(mode, {"scheduler": AS_IS, f"{OVERRIDE}mode": mode}) for mode in modes
    )
    title, stopping = f"Block sizes and open modes on {describe(target)}", Stopping(blocks=blocks)
    return experiment_of("io", title, target, candidates, works, stopping=stopping, seed=seed)


def _work(
    block_bytes: int, chosen: int, direction: str, amount: dict[str, int], which: str
) -> Workload:
    """One block size; `which` half of the study it belongs to.

    The same bytes take a time that a line through the number of calls explains or not.
    """
    metric = "elapsed_s" if "total_bytes" in amount else "seconds_per_call"
    return Workload(
        label=f"{direction} {which} {size_text(block_bytes)}",
        kind="calls",
        metric=metric,
        parameters={"block_bytes": block_bytes, "direction": direction, **amount},
        secondary=tuple(m for m in ("elapsed_s", "seconds_per_call", "cpu_s") if m != metric),
        chosen={"block_bytes": chosen},
    )
