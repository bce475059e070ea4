"""The whole procedure: from samples to the verdict of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from schedlab.analyse.across import Joint, best_everywhere, compare_joint, join
from schedlab.analyse.change_points import change_points
from schedlab.analyse.comparison import Comparison
from schedlab.analyse.flags import check_means, table_flags
from schedlab.analyse.intervals import compare_blocked
from schedlab.analyse.matrix import Floats, Table, arrange, candidate_order
from schedlab.analyse.noise_floor import Margins, blocked_margins, unblocked_margins
from schedlab.analyse.objectives import apart_from_goal, choose
from schedlab.analyse.pairs import best_set, pairs_of, seen_from, summaries, summary
from schedlab.analyse.pareto import pareto
from schedlab.analyse.sensitivity import fragile
from schedlab.analyse.sequential import ALPHA, ONE_LOOK, blocks_left, how_stopped, levels_at
from schedlab.analyse.statement import Effort, state
from schedlab.analyse.unblocked import compare_unblocked
from schedlab.errors import SpecError
from schedlab.spec import (
    CandidateSummary,
    Flag,
    Metric,
    Objective,
    Overall,
    Pair,
    PublishedMean,
    Samples,
    Segment,
    Stopping,
    Verdict,
    WorkloadVerdict,
)

NOT_IN_BLOCKS = "as measured: not run in blocks, nothing decided when to stop"


@dataclass(frozen=True)
class Question:
    """What is the same for every workload of an analysis."""

    order: tuple[str, ...]
    baseline: str
    twin: str | None
    margin: float
    blocked: bool
    stopping: Stopping
    seed: int
    seconds_per_block: float


def analyse(
    samples: Sequence[Samples],
    *,
    baseline: str,
    margin: float = 0.02,
    blocked: bool = True,
    aa: tuple[str, str] | None = None,
    stopping: Stopping = Stopping(),  # noqa: B008 - frozen
    secondary: Sequence[Samples] = (),
    seed: int = 0,
    candidates: Sequence[str] = (),
    seconds_per_block: float = 0.0,
    goal: Objective | None = None,
    frozen: bool = False,
    published: Sequence[PublishedMean] = (),
) -> Verdict:
    """The verdict on the primary metric of every workload, and on all together.

    `samples`: one entry per workload; `secondary`: further metrics of the same workloads, judged
    alike but not part of the overall verdict. `aa` names the baseline and its A/A arm, `margin`
    is the difference that does not matter (a share; raised where the noise floor of the A/A arm
    is larger, see `noise_floor.Margins`). `candidates` gives their order, else the baseline is
    first. `seconds_per_block` tells the work that is left as time, bounded by the budget of
    `stopping`. A `goal` chooses the metric that decides among all that were reported, unless the
    primary ones were `frozen` for it. Flags name the `published` means that do not follow.

    Raises SpecError for no samples, a workload given twice, or a baseline without runs.
    """
    if not samples:
        raise SpecError("there is nothing to analyse", "run the experiment first")
    labels = [sample.workload for sample in samples]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise SpecError(f"workload {twice!r} is given twice", "give one primary metric of each")
    twin = aa[1] if aa else None
    flags: list[Flag] = []
    wrong_means = check_means(samples, published)
    if goal is not None:
        samples, secondary, flags = choose(samples, secondary, goal, frozen=frozen)
    order = candidate_order(samples, baseline, twin, candidates)
    question = Question(order, baseline, twin, margin, blocked, stopping, seed, seconds_per_block)
    judged = [_judge(sample, question) for sample in samples]
    tables = [table for table, _, _ in judged]
    verdicts = {verdict.workload: verdict for _, _, verdict in judged}
    apart = apart_from_goal(flags)
    joint = join([table for table in tables if table.samples.workload not in apart], order)
    overall, blocks = _overall(joint, judged, question)
    others = _secondary(secondary, question)
    return Verdict(
        statement=_headline(overall, verdicts, joint, goal),
        baseline=baseline,
        design="blocked" if blocked else "unblocked",
        stopping=how_stopped(blocks, stopping) if blocked else NOT_IN_BLOCKS,
        confidence=1 - ALPHA,
        workloads=verdicts,
        overall=overall,
        secondary=others,
        flags=(*_design_flags(question), *_joint_flags(joint, tables), *flags, *wrong_means),
        goal=goal,
        decided=overall.reason in ("winner", "tied"),
        pareto={
            label: points
            for label, verdict in verdicts.items()
            if (points := pareto((verdict, *others.get(label, ()))))
        },
    )


def _judge(sample: Samples, question: Question) -> tuple[Table, Comparison | None, WorkloadVerdict]:
    """One metric of one workload, by steps 5 to 8."""
    aa = (question.baseline, question.twin) if question.twin else None
    table = arrange(sample, question.order, aa, blocked=question.blocked)
    comparison = _compare(table, question)
    margins = _margins(table, question)
    pairs = _pairs(comparison, table.y, margins, table.sign)
    best = best_set(table.candidates, pairs)
    blocks = len(table.blocks) if question.blocked else min(len(g) for g in table.groups)
    reason, text = state(
        sample.metric,
        table.candidates,
        pairs,
        best,
        margin=margins.equivalence,
        effort=_effort(question, blocks),
    )
    splits = change_points(table.y.mean(axis=1), question.seed) if len(table.y) else ()
    verdict = WorkloadVerdict(
        workload=sample.workload,
        metric=sample.metric,
        blocks=blocks,
        candidates=summaries(table, pairs, question.baseline),
        pairs=pairs,
        best_set=best,
        statement=text,
        noise_floor=margins.floor,
        margin=margins.difference,
        flags=table_flags(table, pairs, margins, splits, blocked=question.blocked),
        change_points=tuple(table.blocks[i] for i in splits),
        reason=reason,
        segments=_segments(table, splits, margins, question.seed),
    )
    return table, comparison, verdict


def _compare(table: Table, question: Question) -> Comparison | None:
    """The comparison of a workload; `None` where a value has no logarithm or no block is left."""
    if table.zero or (question.blocked and not table.blocks):
        return None
    if question.blocked:
        levels = levels_at(len(table.blocks), question.stopping)
        return compare_blocked(table.y, table.candidates, levels=levels, seed=question.seed)
    return compare_unblocked([table.groups], table.candidates, seed=question.seed)


def _pairs(
    comparison: Comparison | None, y: Floats, margins: Margins, sign: float
) -> tuple[Pair, ...]:
    """The verdicts on all pairs, those that signed ranks do not confirm marked as fragile."""
    if comparison is None:
        return ()
    pairs = pairs_of(comparison, margins, sign)
    doubts = fragile(y, pairs, margins, sign)
    return tuple(
        replace(pair, fragile=True) if doubt else pair
        for pair, doubt in zip(pairs, doubts, strict=True)
    )


def _segments(
    table: Table, splits: Sequence[int], margins: Margins, seed: int
) -> tuple[Segment, ...]:
    """The parts between the change points, each with its own intervals at 95 %."""
    if not splits:
        return ()
    edges = [0, *splits, len(table.blocks)]
    return tuple(
        Segment(
            table.blocks[start],
            table.blocks[stop - 1],
            pairs_of(
                compare_blocked(table.y[start:stop], table.candidates, seed=seed),
                margins,
                table.sign,
            ),
        )
        for start, stop in pairwise(edges)
    )


def _margins(table: Table, question: Question) -> Margins:
    """The margins of one workload, from its A/A arm."""
    if question.twin is None or question.baseline not in table.candidates:
        return Margins(question.margin, question.margin)
    if question.blocked:
        return blocked_margins(question.margin, table.twin, question.seed)
    arms = [[table.twin, table.groups[table.candidates.index(question.baseline)]]]
    return unblocked_margins(question.margin, arms, (1.0,), question.seed)


def _overall(
    joint: Joint,
    judged: Sequence[tuple[Table, Comparison | None, WorkloadVerdict]],
    question: Question,
) -> tuple[Overall, int]:
    """Steps 5 to 8 on all workloads together, and on how many blocks."""
    blocked = question.blocked
    blocks = len(joint.blocks) if blocked else min(v.blocks for _, _, v in judged)
    levels = levels_at(blocks, question.stopping) if blocked else ONE_LOOK
    if len(joint.tables) == 1 and len(judged) == 1:
        comparison = judged[0][1]
    else:
        comparison = compare_joint(joint, blocked=blocked, levels=levels, seed=question.seed)
    if comparison is None:
        text = "no overall verdict: the workloads have no block or candidate in common"
        return Overall((), (), (), text, reason="no-interval"), blocks
    margins = _joint_margins(joint, question)
    pairs = _pairs(comparison, joint.y, margins, joint.sign)
    best = best_set(joint.candidates, pairs)
    reason, text = state(
        _common_metric(joint),
        joint.candidates,
        pairs,
        best,
        margin=margins.equivalence,
        effort=_effort(question, blocks),
    )
    counted = [entry for entry in judged if entry[0] in joint.tables and entry[1] is not None]
    return Overall(
        candidates=_overall_summaries(joint, pairs, question),
        pairs=pairs,
        best_set=best,
        statement=text,
        best_everywhere=best_everywhere(
            [comparison for _, comparison, _ in counted if comparison is not None],
            [table.sign for table, _, _ in counted],
            [verdict.margin for _, _, verdict in counted],
            levels.claim,
        ),
        reason=reason,
        higher_is_better=joint.sign > 0,
        margin=margins.difference,
        noise_floor=margins.floor,
    ), blocks


def _effort(question: Question, blocks: int) -> Effort:
    """What the experiment may still cost."""
    if not question.blocked:
        return Effort(0, "runs of each", "by these runs", "these runs")
    left = blocks_left(blocks, question.stopping, question.seconds_per_block)
    return Effort(left=left, seconds_per_block=question.seconds_per_block)


def _overall_summaries(
    joint: Joint, pairs: Sequence[Pair], question: Question
) -> tuple[CandidateSummary, ...]:
    """Candidates over all workloads; there is no arithmetic mean over different workloads."""
    result = []
    for i, label in enumerate(joint.candidates):
        beside = seen_from(pairs, label, question.baseline)
        if question.blocked:
            result.append(summary(label, joint.y[:, i], beside, mean=False))
            continue
        means = [groups[i].mean() for groups in joint.groups]
        level = np.array([np.dot(joint.weights, means)])
        runs = sum(len(groups[i]) for groups in joint.groups)
        result.append(replace(summary(label, level, beside, mean=False), runs=runs))
    return tuple(result)


def _common_metric(joint: Joint) -> Metric | None:
    """The metric that all workloads share, if they do."""
    metrics = {table.samples.metric for table in joint.tables}
    return metrics.pop() if len(metrics) == 1 else None


def _joint_margins(joint: Joint, question: Question) -> Margins:
    """The margins over all workloads, from their A/A arms together."""
    if question.twin is None or question.baseline not in joint.candidates:
        return Margins(question.margin, question.margin)
    if question.blocked:
        return blocked_margins(question.margin, joint.twin, question.seed)
    column = joint.candidates.index(question.baseline)
    arms = [
        [table.twin, groups[column]]
        for table, groups in zip(joint.tables, joint.groups, strict=True)
    ]
    return unblocked_margins(question.margin, arms, joint.weights, question.seed)


def _secondary(
    samples: Sequence[Samples], question: Question
) -> dict[str, tuple[WorkloadVerdict, ...]]:
    """The other metrics of each workload; those that no run reported are left out."""
    result: dict[str, tuple[WorkloadVerdict, ...]] = {}
    for sample in samples:
        if any(np.isfinite(value) for value in sample.values):
            judged = _judge(sample, question)[2]
            result[sample.workload] = (*result.get(sample.workload, ()), judged)
    return result


def _joint_flags(joint: Joint, tables: Sequence[Table]) -> Iterator[Flag]:
    """Blocks and candidates that some workload has and the overall verdict lacks."""
    blocks = set().union(*(table.blocks for table in joint.tables)) - set(joint.blocks)
    if blocks:
        text = (
            f"{len(blocks)} blocks are incomplete on some workload and are not part of the overall "
            "verdict"
        )
        yield Flag("dropped-block", text, values={"blocks": sorted(blocks)})
    everybody = dict.fromkeys(label for table in tables for label in table.candidates)
    for label in everybody:
        if label not in joint.candidates:
            text = f"{label} lacks a workload and is not part of the overall verdict"
            yield Flag("lacks-workload", text, candidates=(label,))
    for table in tables:
        if len(table.candidates) == 1 < len(everybody):
            (label,), name = table.candidates, table.samples.workload
            text = f"only {label} has runs of {name}: there is nothing to compare it with"
            yield Flag("only-one", text, name, (label,))


def _design_flags(question: Question) -> tuple[Flag, ...]:
    """What the design itself forbids to conclude."""
    if question.blocked:
        return ()
    return (
        Flag(
            "unblocked",
            "the runs were not made in random blocks: any drift of the machine is confounded with "
            "the candidates, and the intervals do not show it",
        ),
    )


def _headline(
    overall: Overall,
    workloads: dict[str, WorkloadVerdict],
    joint: Joint,
    goal: Objective | None,
) -> str:
    """The sentence that a report opens with; a goal that was asked for comes first."""
    wanted = f"for {goal}: " if goal else ""
    if len(workloads) == 1:
        return wanted + next(iter(workloads.values())).statement
    labels = [table.samples.workload for table in joint.tables]
    where = f"over {len(labels)} workloads" if len(labels) != 1 else f"on {labels[0]}"
    return f"{wanted}{where}: {overall.statement}"
