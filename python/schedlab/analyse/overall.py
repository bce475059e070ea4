"""The verdict on all workloads together, and when it is decided for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from schedlab.analyse.across import Joint, best_everywhere, compare_joint, join
from schedlab.analyse.comparison import Comparison
from schedlab.analyse.doubts import Findings, aa_interval, doubts_of, examine
from schedlab.analyse.headline import Scope, Wild, headline
from schedlab.analyse.looks import looks_for
from schedlab.analyse.matrix import Table
from schedlab.analyse.pairs import best_set, between, mark_added, pairs_of, seen_from, summary
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.question import (
    Judged,
    Question,
    halves_of,
    is_budget_used,
    mdd_of,
    needed_of,
    noise_of,
    starved_in,
    unfinished_in,
)
from schedlab.spec import CandidateSummary, Headline, Metric, Overall, Pair, WorkloadVerdict


def freeze(joint: Joint, question: Question) -> tuple[Joint, int | None]:
    """The joint data of the analysis that decided; all of it where none did, or none is early."""
    early_end = question.stopping.mode == "until-decided"
    if not question.blocked or not early_end or not len(joint.arms):
        return joint, None
    n = len(joint.arms)
    for look in looks_for(question.stopping):
        if look > n:
            break
        early = joint.first(look)
        comparison = compare_joint(early, blocked=True, alpha=question.level(look))
        if comparison is None:
            break
        pairs = joint_pairs(early, comparison, question)[0]
        if is_settled(early.candidates, pairs):
            return early, look
    return joint, None


def is_settled(candidates: Sequence[str], pairs: Sequence[Pair]) -> bool:
    """One best, or all of the best equivalent."""
    best = best_set(candidates, pairs)
    if len(best) == 1 or not pairs:
        return bool(pairs)
    return all(pair.verdict == "equivalent" for pair in between(pairs, best))


def joint_pairs(
    joint: Joint, comparison: Comparison, question: Question
) -> tuple[tuple[Pair, ...], Findings]:
    """The pairs over all workloads, and the findings from their residuals."""
    alone = joint.tables[0] if len(joint.tables) == 1 else None
    if alone is not None and len(alone.arms) != len(joint.arms):
        alone = None
    findings = examine(comparison, joint.aa_baseline, alone)
    aa = aa_interval(joint.arms, joint.aa_baseline, joint.session, comparison.alpha)
    findings = replace(findings, aa=aa)
    doubts = doubts_of(comparison, findings, alone, question.delta)
    if alone is None:
        bounded = [
            any(c in t.candidates and t.bounded(c).any() for t in joint.tables if len(t.arms))
            for c in joint.candidates
        ]
        doubts = replace(doubts, bounded=tuple(bool(b) for b in bounded))
    return pairs_of(comparison, question.delta, joint.sign, doubts), findings


def overall_of(
    joint: Joint,
    judged: Sequence[Judged],
    verdicts: Mapping[str, WorkloadVerdict],
    question: Question,
    others: Mapping[str, Sequence[WorkloadVerdict]],
) -> Overall:
    """The verdict on all workloads together."""
    names = tuple(table.samples.workload for table in joint.tables)
    alpha = question.level(len(joint.blocks))
    comparison = compare_joint(joint, blocked=question.blocked, alpha=alpha)
    if comparison is None:
        values = {"candidates": list(joint.candidates)}
        return Overall((), (), (), Headline("nothing-to-compare", values), names)
    pairs, findings = joint_pairs(joint, comparison, question)
    if (first := question.looked_at) and len(joint.blocks) > first:
        before = compare_joint(joint.first(first), blocked=question.blocked)
        if before is not None:
            pairs = mark_added(pairs, joint_pairs(joint.first(first), before, question)[0])
    partial = _partial_pairs(joint, question)
    compared = {label for pair in partial for label in (pair.a, pair.b)}
    lacking = [label for label in _lacking(joint, question) if label in compared]
    pairs, candidates = (*pairs, *partial), (*joint.candidates, *lacking)
    best = best_set(candidates, pairs)
    metric = _common_metric(joint)
    mdd = mdd_of(comparison, between(pairs, best), question)
    more = needed_of(comparison, between(pairs, best), question)
    scope = Scope(
        candidates=candidates,
        baseline=question.baseline,
        pairs=pairs,
        best_set=best,
        metric=metric.name if metric else "",
        higher_is_better=joint.sign > 0,
        margin=question.margin,
        mdd=mdd,
        needed=more,
        units=comparison.units,
        budget_used=is_budget_used(len(joint.blocks), question),
        early_late=halves_of(comparison),
        wild=Wild.of(findings.outliers, joint.candidates, joint.aa_baseline),
        unfinished=tuple(u for table in joint.tables for u in unfinished_in(table)),
        starved=starved_in(joint.tables),
    )
    counts = [verdicts[name] for name in names]
    return Overall(
        candidates=_overall_summaries(joint, candidates, pairs, question),
        pairs=pairs,
        best_set=best,
        headline=headline(scope, counts, {n: others[n] for n in names if n in others}),
        workloads=names,
        metric=metric,
        best_everywhere=_everywhere(best, joint, judged, question, alpha),
        higher_is_better=joint.sign > 0,
        unit=comparison.unit,
        units=comparison.units,
        margin=question.margin,
        mdd=mdd,
        needed=more,
        noise=noise_of(comparison, findings),
    )


def _lacking(joint: Joint, question: Question) -> list[str]:
    """Candidates that have some of the workloads, with the baseline, but not all."""
    seen = dict.fromkeys(c for table in joint.tables for c in table.candidates)
    return [c for c in question.order if c in seen and c not in joint.candidates]


def _partial_pairs(joint: Joint, question: Question) -> tuple[Pair, ...]:
    """Pairs of candidates that lack workloads, over those that both have."""
    result: list[Pair] = []
    lacking = _lacking(joint, question)
    for position, label in enumerate(lacking):
        own = [table for table in joint.tables if label in table.candidates]
        for other in (*joint.candidates, *lacking[position + 1 :]):
            common = [table for table in own if other in table.candidates]
            if not common:
                continue
            everybody = [
                c for c in question.order if all(c in table.candidates for table in common)
            ]
            part = join(common, everybody)
            if joint.sign != part.sign:
                continue  # A ratio of performance beside one of a metric: not comparable.
            level = question.level(len(part.blocks))
            comparison = compare_joint(part, blocked=question.blocked, alpha=level)
            if comparison is None:
                continue
            pair = seen_from(joint_pairs(part, comparison, question)[0], other, label)
            result += [pair] if pair else []
    return tuple(result)


def _everywhere(
    best: Sequence[str],
    joint: Joint,
    judged: Sequence[Judged],
    question: Question,
    alpha: float,
) -> str:
    """The winner, if no other is shown to be better by more than the margin on any workload."""
    if len(best) != 1 or len(joint.tables) < 2:
        return ""
    mine = [j for j in judged if any(j.table is table for table in joint.tables)]
    tested = [(j.comparison, j.table.sign) for j in mine if j.comparison is not None]
    complete = len(tested) == len(joint.tables)
    holds = complete and best_everywhere(best[0], tested, question.delta, alpha)
    return best[0] if holds else ""


def _overall_summaries(
    joint: Joint, candidates: Sequence[str], pairs: Sequence[Pair], question: Question
) -> tuple[CandidateSummary, ...]:
    """Candidates over all workloads; there is no arithmetic mean over different workloads."""
    result = []
    for label in candidates:
        beside = seen_from(pairs, label, question.baseline)
        if label not in joint.candidates:
            nothing = np.empty(0)
            row = summary(label, nothing, beside, mean=False)
            result.append(replace(row, codes=(*row.codes, "lacks-workload")))
            continue
        i = joint.candidates.index(label)
        starved = sum(_starved_runs(table, label) for table in joint.tables)
        if question.blocked:
            row = summary(label, _column(joint, i), beside, mean=False)
            result.append(replace(row, starved=starved))
            continue
        means = [groups[i].mean() for groups in joint.groups]
        runs = sum(len(groups[i]) for groups in joint.groups)
        level = np.array([np.dot(joint.weights, means)])
        result.append(replace(summary(label, level, beside, mean=False), runs=runs))
    return tuple(result)


def _column(joint: Joint, i: int) -> Floats:
    if joint.aa_baseline == i:
        return np.asarray((joint.arms[:, i] + joint.arms[:, -1]) / 2)
    return joint.arms[:, i]


def _starved_runs(table: Table, label: str) -> int:
    if label not in table.candidates or not table.starved:
        return 0
    return table.starved[table.candidates.index(label)]


def _common_metric(joint: Joint) -> Metric | None:
    """The metric that all workloads share, if they do."""
    metrics = {table.samples.metric for table in joint.tables}
    return metrics.pop() if len(metrics) == 1 else None


def is_decided(overall: Overall) -> bool:
    """Whether the overall verdict has one best, or a best set that is equivalent."""
    return is_settled([row.candidate for row in overall.candidates], overall.pairs)
