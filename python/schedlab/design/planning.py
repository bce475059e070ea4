"""From a pilot block and a time budget to a plan: time of a run, workloads, blocks.

The pilot block is block 1 of the experiment; its order was drawn as any other. It fixes the time
of a run and the workloads once; from then on nothing of the plan depends on outcomes but the
number of blocks (early stopping).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from schedlab.errors import SpecError
from schedlab.nouns import AA_SUFFIX
from schedlab.nouns.quantities import duration_text

BLOCKS_WANTED = 6
BLOCKS_LEAST = 4
BLOCKS_MOST = 40
RUN_SHORTEST_S, RUN_LONGEST_S = 0.4, 60.0
#: The smallest difference that a plan names the time for.
TARGET_SHARE = 0.10

#: The smallest difference (a share) that shows: of (σ of a run, blocks, candidates).
Foreseen = Callable[[float, int, int], float | None]
#: Why a workload does not fit: not even beside nothing else, or because others come first.
Reason = Literal["time", "others"]


@dataclass(frozen=True)
class PilotRun:
    """One run of the pilot block.

    `log_value` is the log of the primary metric, `overhead_s` the time to set, settle and
    prepare, `measured_s` the measured time, of which `shortest_s` is the least that is allowed.
    `bins` are the rates of its 100 ms bins, empty where the workload has none (its time is then
    not free to choose).
    """

    workload: str
    candidate: str
    log_value: float
    overhead_s: float
    measured_s: float
    bins: tuple[float, ...] = ()
    shortest_s: float = RUN_SHORTEST_S


@dataclass(frozen=True)
class BudgetPlan:
    """The use of the budget.

    `run_s` is the measured time of a run per workload, `left_out` why others do not fit; `blocks`
    include the pilot block. `bound` is how far behind the best (a share) what is taken will be at
    most. `ask`: so few blocks fit that the user should be asked; `target_s` is the time that
    `target` (a share) would need. `fits` is false where not even four blocks of one workload fit.
    `spread` is σ of the overall mean, with 80 % no larger (one block shows it badly).
    """

    fits: bool
    ask: bool
    blocks: int
    workloads: tuple[str, ...]
    run_s: dict[str, float]
    left_out: dict[str, Reason]
    seconds: float
    seconds_per_block: float
    spread: float
    bound: float | None
    target: float = TARGET_SHARE
    target_s: float | None = None


@dataclass(frozen=True)
class _Cost:
    """The pilot's figures of one workload, per run."""

    workload: str
    runs: int
    overhead_s: float
    measured_s: float
    variance: float
    between: float
    within: float
    free: bool
    shortest_s: float

    def block_s(self, run_s: float) -> float:
        return self.runs * (self.overhead_s + run_s)

    def variance_at(self, run_s: float) -> float:
        """σ² of one run of this length: σ_r² + σ_w²/t."""
        return self.between + self.within / run_s if self.free else self.variance


def batch_variance(bins: Sequence[float], batch: int = 5) -> float | None:
    """Variance of the log mean of a run times its number of bins, from batch means.

    `None` where the bins are too few or not positive.
    """
    count = len(bins) // batch
    if count < 4:
        return None
    means = [sum(bins[i * batch : (i + 1) * batch]) / batch for i in range(count)]
    centre = sum(means) / count
    if centre <= 0:
        return None
    spread = sum((mean - centre) ** 2 for mean in means) / (count - 1)
    return spread * batch / centre**2


def best_run_s(overhead_s: float, within: float, between: float) -> float:
    """The length of a run at which a second is worth most: √(o·σ_w²/σ_r²), clamped."""
    if between <= 0:
        return RUN_LONGEST_S
    return min(max(math.sqrt(overhead_s * within / between), RUN_SHORTEST_S), RUN_LONGEST_S)


def plan_budget(
    pilot: Sequence[PilotRun],
    budget_s: float,
    foreseen: Foreseen,
    *,
    weights: dict[str, float] | None = None,
    controls: Collection[str] = (),
    unordered: Collection[str] = (),
) -> BudgetPlan:
    """The plan for `budget_s` seconds in all, the pilot block among them.

    Six blocks of all workloads in which a scheduler can matter, else five, else four; where not
    even these fit, four of the first ones that do, in their order. Never by their variance: that
    is what one block of a busy machine shows least, and it would omit what the question is about.
    One that leaves nothing to order (`unordered`) or a negative control (`controls`) is added
    where it fits. Then the best time of a run; what remains goes to more blocks, at most 40.
    SpecError where only controls fit.
    """
    pooled, freedom = _pooled_variance(pilot)
    costs = _costs(pilot, pooled)
    named = {run.candidate for run in pilot if not run.candidate.endswith(AA_SUFFIX)}
    candidates = max(2, len(named))
    spent = sum(run.overhead_s + run.measured_s for run in pilot)
    left_s = budget_s - spent
    counted = [cost for cost in costs if cost.workload not in controls] or costs
    first = [cost for cost in counted if cost.workload not in unordered] or counted
    for blocks in range(BLOCKS_WANTED, BLOCKS_LEAST - 1, -1):
        if _seconds(first, blocks) <= left_s:
            break
    order = sorted(costs, key=lambda cost: (cost not in counted, cost not in first))
    kept = _that_fit(order, left_s, blocks)
    if not any(cost in counted for cost in kept):
        only = min(counted, key=lambda cost: cost.block_s(_shortest(cost)))
        if kept:
            needed = duration_text(math.ceil(spent + _seconds([only], blocks)))
            raise SpecError(
                f"only the control fits into {duration_text(budget_s)}: {needed} are needed",
                f"--budget {needed.replace(' ', '')}",
            )
        kept = [only]
    left_out: dict[str, Reason] = {
        cost.workload: "time" if _seconds([cost], blocks) > left_s else "others"
        for cost in costs
        if cost not in kept
    }
    kept = [cost for cost in costs if cost in kept]
    run_s = _lengths(kept, budget_s - spent, blocks)
    per_block = sum(cost.block_s(run_s[cost.workload]) for cost in kept)
    fits = spent + (blocks - 1) * per_block <= budget_s * (1 + 1e-9)
    if fits:
        blocks = min(BLOCKS_MOST, max(blocks, 1 + int((budget_s - spent) / per_block)))
    spread = _joint_spread(kept, run_s, weights or {}) * _caution(freedom)
    few = blocks < BLOCKS_WANTED
    return BudgetPlan(
        fits=fits,
        ask=few,
        blocks=blocks,
        workloads=tuple(cost.workload for cost in kept),
        run_s=run_s,
        left_out=left_out,
        seconds=spent + (blocks - 1) * per_block,
        seconds_per_block=per_block,
        spread=spread,
        bound=foreseen(spread, blocks, candidates),
        target_s=_time_for(TARGET_SHARE, spread, candidates, per_block, spent, foreseen),
    )


def _costs(pilot: Sequence[PilotRun], pooled: float) -> list[_Cost]:
    """Per workload: runs, seconds, and the variance of a run split by its own bins.

    One pilot block cannot separate a workload's own variance from its candidates' differences, so
    σ² comes from the residuals of candidates × workloads (all of them pooled), and what the bins
    explain within a run is taken out of it. The two runs of the baseline are among them.
    """
    names = list(dict.fromkeys(run.workload for run in pilot))
    costs = []
    for name in names:
        runs = [run for run in pilot if run.workload == name]
        measured = sum(run.measured_s for run in runs) / len(runs)
        parts = [(batch_variance(run.bins), run) for run in runs]
        within = [v * run.measured_s / len(run.bins) for v, run in parts if v is not None]
        inner = sum(within) / len(within) if within else 0.0
        variance = max(pooled, inner / measured)
        costs.append(
            _Cost(
                workload=name,
                runs=len(runs),
                overhead_s=sum(run.overhead_s for run in runs) / len(runs),
                measured_s=measured,
                variance=variance,
                between=max(variance - inner / measured, 0.0),
                within=inner,
                free=bool(within),
                shortest_s=max(run.shortest_s for run in runs),
            )
        )
    return costs


def _pooled_variance(pilot: Sequence[PilotRun]) -> tuple[float, int]:
    """Variance of one run, and how many differences it comes from.

    Of the A/A pairs, else the residual of workload + candidate.

    The residual holds the true differences of candidates between workloads as well: beside
    writers one scheduler may be 50 times better, elsewhere not at all. So A/A pairs come first.
    """
    if any(run.candidate.endswith(AA_SUFFIX) for run in pilot):
        return _aa_variance(pilot)
    arms = list(dict.fromkeys(run.candidate for run in pilot))
    values = {(run.workload, run.candidate): run.log_value for run in pilot}
    names = list(dict.fromkeys(run.workload for run in pilot))
    full = [[values.get((w, c)) for c in arms] for w in names]
    rows = [row for row in full if all(v is not None for v in row)]
    table = [[float(v) for v in row if v is not None] for row in rows]
    if len(table) < 2 or len(arms) < 2:
        return _aa_variance(pilot)
    total = [sum(row) / len(row) for row in table]
    columns = [sum(row[c] for row in table) / len(table) for c in range(len(arms))]
    grand = sum(total) / len(total)
    residual = sum(
        (value - total[i] - columns[c] + grand) ** 2
        for i, row in enumerate(table)
        for c, value in enumerate(row)
    )
    freedom = (len(table) - 1) * (len(arms) - 1)
    return residual / freedom, freedom


def _aa_variance(pilot: Sequence[PilotRun]) -> tuple[float, int]:
    """From the baseline and its A/A arm alone, where there is nothing else."""
    values = {(run.workload, run.candidate): run.log_value for run in pilot}
    squares = [
        (value - values[workload, name.removesuffix(AA_SUFFIX)]) ** 2 / 2
        for (workload, name), value in values.items()
        if name.endswith(AA_SUFFIX) and (workload, name.removesuffix(AA_SUFFIX)) in values
    ]
    return (sum(squares) / len(squares), len(squares)) if squares else (0.0, 1)


def _caution(freedom: int) -> float:
    """σ that a pilot exceeds with 80 % over the σ that it shows: √(ν/χ²(.2; ν)).

    A promise from a handful of differences would be broken every other time otherwise. χ² by
    Wilson and Hilferty (1931).
    """
    part = 2 / (9 * freedom)
    quantile = freedom * (1 - part - 0.8416 * math.sqrt(part)) ** 3
    return math.sqrt(freedom / quantile)


def _shortest(cost: _Cost) -> float:
    return min(cost.measured_s, cost.shortest_s) if cost.free else cost.measured_s


def _wanted(cost: _Cost) -> float:
    if not cost.free:
        return cost.measured_s
    return best_run_s(cost.overhead_s, cost.within, cost.between)


def _seconds(costs: Sequence[_Cost], blocks: int) -> float:
    """The time of all blocks but the pilot, with the shortest runs."""
    return (blocks - 1) * sum(cost.block_s(_shortest(cost)) for cost in costs)


def _that_fit(costs: Sequence[_Cost], left_s: float, blocks: int) -> list[_Cost]:
    """The workloads of which `blocks` fit: each that does beside those that come before it."""
    kept: list[_Cost] = []
    for cost in costs:
        if _seconds([*kept, cost], blocks) <= left_s:
            kept.append(cost)
    return kept


def _lengths(kept: Sequence[_Cost], left_s: float, blocks: int) -> dict[str, float]:
    """The best length of the runs, all shortened by one factor where they do not fit."""
    wanted = {cost.workload: _wanted(cost) for cost in kept}

    def seconds(share: float) -> float:
        return (blocks - 1) * sum(cost.block_s(_at(cost, share)) for cost in kept)

    def _at(cost: _Cost, share: float) -> float:
        low = _shortest(cost)
        return low + share * max(wanted[cost.workload] - low, 0.0)

    low, high = 0.0, 1.0
    if seconds(1.0) <= left_s:
        low = 1.0
    else:
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if seconds(middle) <= left_s else (low, middle)
    return {cost.workload: math.floor(1000 * _at(cost, low)) / 1000 for cost in kept}


def _joint_spread(
    kept: Sequence[_Cost], run_s: dict[str, float], weights: dict[str, float]
) -> float:
    """σ of the weighted mean of the workloads inside a block."""
    shares = [weights.get(cost.workload, 1.0) for cost in kept]
    total = sum(shares) or 1.0
    variance = sum(
        (share / total) ** 2 * cost.variance_at(run_s[cost.workload])
        for share, cost in zip(shares, kept, strict=True)
    )
    return math.sqrt(variance)


def _time_for(
    target: float,
    spread: float,
    candidates: int,
    per_block_s: float,
    spent_s: float,
    foreseen: Foreseen,
) -> float | None:
    """Seconds until the bound is `target`; `None` beyond the most blocks."""
    for blocks in range(BLOCKS_LEAST, 10 * BLOCKS_MOST):
        seen = foreseen(spread, blocks, candidates)
        if seen is not None and seen <= target:
            return spent_s + (blocks - 1) * per_block_s
    return None
