"""The whole procedure: from samples to the verdict of an experiment, in codes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from schedlab.analyse.across import Joint, counted, join, passing
from schedlab.analyse.change_points import change_points
from schedlab.analyse.comparison import compare_blocks, compare_table
from schedlab.analyse.doubts import Findings, aa_interval, doubts_of, examine
from schedlab.analyse.flags import check_means, table_flags
from schedlab.analyse.headline import Scope, Wild, headline
from schedlab.analyse.looks import Extension, largest_blocks, looks_for
from schedlab.analyse.matrix import SESSIONS_AS_UNITS, Table, arrange, candidate_order
from schedlab.analyse.objectives import actor_of, apart_from_goal, choose
from schedlab.analyse.overall import freeze, is_decided, overall_of
from schedlab.analyse.pairs import best_set, between, mark_added, pairs_of, summaries
from schedlab.analyse.pareto import pareto
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
from schedlab.analyse.rule import ALPHA, UNITS_TO_WANDER
from schedlab.errors import SpecError
from schedlab.spec import (
    Flag,
    Headline,
    Objective,
    Overall,
    Pair,
    ParetoPoint,
    Population,
    PublishedMean,
    Samples,
    Segment,
    Stopping,
    StoppingState,
    Verdict,
    WorkloadVerdict,
    boot_of,
)

#: The columns of samples.
ROWWISE = ("candidates", "blocks", "values", "cpu_share", "bounds", "sessions", "layouts")


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
    device: str = "",
    mdd_before: float | None = None,
    extension: Extension | None = None,
) -> Verdict:
    """The verdict on the primary metric of every workload, and on all together.

    `samples`: one entry per workload; `secondary`: further metrics of the same workloads, judged
    alike but not part of the overall verdict. `aa` names the baseline and its A/A arm, `margin`
    is the difference that does not matter (a share). `candidates` gives their order, else the
    baseline is first. `seconds_per_block` tells the work that is left as time. A `goal` chooses
    the metric that decides among all that were reported, unless the primary ones were `frozen`
    for it. Flags name the `published` means that do not follow. `device` and `mdd_before` (the
    smallest difference that the pilot promised to show) are passed on. `extension` says how a
    finished experiment was continued (`looks.extension`).

    Raises SpecError for no samples, a workload given twice, or a baseline without runs.
    """
    _check(samples)
    aa_label = aa[1] if aa else None
    flags: list[Flag] = []
    wrong_means = check_means(samples, published)
    if goal is not None:
        samples, secondary, flags = choose(samples, secondary, goal, frozen=frozen)
    order = candidate_order(samples, baseline, aa_label, candidates)
    controls = sum(sample.negative_control for sample in samples)
    question = Question(
        order, baseline, aa_label, margin, blocked, stopping, seed, seconds_per_block,
        max(1, len(samples) - controls), extension,
    )  # fmt: skip
    tables = [_table(sample, question) for sample in samples]
    judged = _claimed([_judge(table, question) for table in tables], question)
    others = _secondary(secondary, question, {s.workload: s.metric.name for s in samples})
    joint, frozen_at = freeze(_bearing(tables, flags, order), question)
    verdicts = {
        each.table.samples.workload: _workload_verdict(each, question, others) for each in judged
    }
    overall = overall_of(joint, judged, verdicts, question, others)
    return Verdict(
        headline=_first(joint, verdicts, overall),
        baseline=baseline,
        design="blocked" if blocked else "unblocked",
        stopping=_stopping(joint, question, frozen_at),
        population=_population(joint, samples, question, device),
        workloads=verdicts,
        overall=overall,
        secondary=others,
        flags=(*_design_flags(question), *_joint_flags(joint, tables), *flags, *wrong_means),
        goal=goal,
        decided=is_decided(overall),
        mdd_before=mdd_before,
        pareto=_pareto(verdicts, others),
    )


def _bearing(tables: Sequence[Table], flags: Sequence[Flag], order: Sequence[str]) -> Joint:
    """The workloads that bear on the question, as one."""
    apart = apart_from_goal(flags)
    return join(counted([t for t in tables if t.samples.workload not in apart]), order)


def _first(joint: Joint, verdicts: Mapping[str, WorkloadVerdict], overall: Overall) -> Headline:
    """The headline of all workloads, or of the only one that bears on the question."""
    alone = len(joint.tables) == 1
    return verdicts[joint.tables[0].samples.workload].headline if alone else overall.headline


def _check(samples: Sequence[Samples]) -> None:
    if not samples:
        raise SpecError("there is nothing to analyse", "run the experiment first")
    labels = [sample.workload for sample in samples]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise SpecError(f"workload {twice!r} is named twice", "name one primary metric of each")


def _pareto(
    verdicts: Mapping[str, WorkloadVerdict], others: Mapping[str, Sequence[WorkloadVerdict]]
) -> dict[str, tuple[ParetoPoint, ...]]:
    """Throughput beside latency of the workloads that measure both."""
    tables = {label: pareto((own, *others.get(label, ()))) for label, own in verdicts.items()}
    return {label: points for label, points in tables.items() if points}


def _table(sample: Samples, question: Question) -> Table:
    aa = (question.baseline, question.aa_label) if question.aa_label else None
    return arrange(sample, question.order, aa, blocked=question.blocked)


def _judge(table: Table, question: Question, *, warning: bool = False) -> Judged:
    """One metric of one workload; a `warning` (a further metric) always has the level 0.05."""
    alpha = ALPHA if warning else question.workload_level(len(table.blocks))
    comparison = compare_table(table, alpha)
    if comparison is None:
        return Judged(table, None, Findings(), ())
    findings = examine(comparison, table.aa_baseline, table)
    aa_alpha = alpha / (1 if warning else question.workloads)
    aa = aa_interval(table.arms, table.aa_baseline, table.session, aa_alpha)
    findings = replace(findings, aa=aa)
    doubts = doubts_of(comparison, findings, table, question.delta)
    pairs = pairs_of(comparison, question.delta, table.sign, doubts)
    if not warning and 0 < question.looked_at < len(table.blocks):
        first = _table(_first_blocks(table, question.looked_at), question)
        pairs = mark_added(pairs, _judge(first, question).pairs)
    return Judged(table, comparison, findings, pairs)


def _first_blocks(table: Table, count: int) -> Samples:
    """The samples of the first blocks, as the first analysis had them."""
    sample, kept = table.samples, set(table.blocks[:count])
    rows = [i for i, block in enumerate(sample.blocks) if block in kept]
    columns: dict[str, Any] = {
        name: tuple(column[i] for i in rows)
        for name in ROWWISE
        if (column := getattr(sample, name))
    }
    return replace(sample, **columns)


def _claimed(judged: Sequence[Judged], question: Question) -> list[Judged]:
    """Claims that remain when all workloads are counted; controls are no part of the family."""
    family = [
        j for j in judged if j.comparison is not None and not j.table.samples.negative_control
    ]
    sequential = question.blocked and question.stopping.mode != "fixed"
    if len(family) < 2 or sequential:
        return list(judged)
    level = family[0].comparison.alpha if family[0].comparison else ALPHA
    smallest = [min((pair.p or 0.0 for pair in each.pairs), default=1.0) for each in family]
    allowed = passing(smallest, level)
    refused = {id(each) for each, ok in zip(family, allowed, strict=True) if not ok}
    return [
        replace(each, pairs=tuple(_unclaimed(p) for p in each.pairs))
        if id(each) in refused
        else each
        for each in judged
    ]


def _unclaimed(pair: Pair) -> Pair:
    if pair.verdict not in ("better", "worse"):
        return pair
    return replace(pair, verdict="undecided", codes=(*pair.codes, "not-after-W"))


def _workload_verdict(
    judged: Judged, question: Question, others: Mapping[str, Sequence[WorkloadVerdict]]
) -> WorkloadVerdict:
    """Everything that is reported of one metric of one workload."""
    table, pairs, sample = judged.table, judged.pairs, judged.table.samples
    comparison = judged.comparison
    best = best_set(table.candidates, pairs)
    level = table.arms.mean(axis=1) if len(table.arms) else np.empty(0)
    splits = change_points(level, question.seed) if len(level) else ()
    units = comparison.units if comparison else 0
    mdd = mdd_of(comparison, between(pairs, best), question)
    more = needed_of(comparison, between(pairs, best), question)
    scope = Scope(
        candidates=table.candidates,
        baseline=question.baseline,
        pairs=pairs,
        best_set=best,
        metric=sample.metric.name,
        higher_is_better=sample.metric.higher_is_better,
        margin=question.margin,
        workload=sample.workload,
        mdd=mdd,
        needed=more,
        units=units,
        budget_used=is_budget_used(len(table.blocks), question),
        early_late=halves_of(comparison),
        wild=Wild.of(judged.findings.outliers, table.candidates, table.baseline),
        unfinished=unfinished_in(table),
        starved=starved_in([table]),
    )
    mine = {sample.workload: others.get(sample.workload, ())}
    return WorkloadVerdict(
        workload=sample.workload,
        metric=sample.metric,
        blocks=len(table.blocks) if question.blocked else min(len(g) for g in table.groups),
        candidates=summaries(table, pairs, question.baseline),
        pairs=pairs,
        best_set=best,
        headline=headline(scope, (), mine),
        unit=comparison.unit if comparison else "blocks" if question.blocked else "runs",
        units=units,
        actor=sample.actor,
        control=sample.negative_control,
        nothing_to_order=sample.nothing_to_order,
        margin=question.margin,
        mdd=mdd,
        needed=more,
        noise=noise_of(comparison, judged.findings),
        flags=table_flags(table, comparison, pairs, judged.findings, question.delta, splits),
        change_points=tuple(table.blocks[i] for i in splits),
        segments=_segments(table, splits, question),
    )


def _segments(table: Table, splits: Sequence[int], question: Question) -> tuple[Segment, ...]:
    """The parts between the change points, each with its own intervals at 95 %."""
    if not splits:
        return ()
    edges = [0, *splits, len(table.blocks)]
    result = []
    for start, stop in pairwise(edges):
        part = compare_blocks(
            table.arms[start:stop],
            table.candidates,
            baseline=table.aa_baseline,
            session=np.zeros(stop - start, np.intp),
            steps=table.steps,
        )
        pairs = pairs_of(part, question.delta, table.sign)
        result.append(Segment(table.blocks[start], table.blocks[stop - 1], pairs))
    return tuple(result)


def _secondary(
    samples: Sequence[Samples], question: Question, primary: Mapping[str, str]
) -> dict[str, tuple[WorkloadVerdict, ...]]:
    """The other metrics of each workload, without those that no run reported."""
    result: dict[str, tuple[WorkloadVerdict, ...]] = {}
    for sample in samples:
        if any(math.isfinite(value) for value in sample.values):
            of = primary.get(sample.workload, "")
            named = replace(sample, actor=sample.actor or actor_of(sample.metric.name, of))
            judged = _judge(_table(named, question), question, warning=True)
            secondary = _workload_verdict(judged, question, {})
            result[sample.workload] = (*result.get(sample.workload, ()), secondary)
    return result


def _stopping(joint: Joint, question: Question, frozen_at: int | None) -> StoppingState:
    stopping, blocks = question.stopping, len(joint.blocks)
    if not question.blocked:
        return StoppingState(mode="none")
    looks = looks_for(stopping)
    alpha = question.level(blocks)
    return StoppingState(
        mode=stopping.mode,
        blocks=blocks,
        blocks_max=largest_blocks(stopping),
        looks=looks,
        looks_taken=max(1, sum(look <= blocks for look in looks)),
        alpha=alpha,
        error=question.extension.error if question.extension else ALPHA,
        budget_used=is_budget_used(blocks, question),
        frozen_at=frozen_at,
        precision=stopping.precision,
    )


def _population(
    joint: Joint, samples: Sequence[Samples], question: Question, device: str
) -> Population:
    sessions = len({name for sample in samples for name in sample.sessions}) or 1
    layouts = len({name for sample in samples for name in sample.layouts}) or sessions
    boots = len({boot_of(name) for sample in samples for name in sample.sessions}) or 1
    fewest = min((table.sessions for table in joint.tables), default=1)
    claims = question.blocked and fewest >= SESSIONS_AS_UNITS
    return Population(
        workloads=len(joint.tables),
        blocks=len(joint.blocks),
        sessions=sessions,
        boots=boots,
        layouts=layouts,
        device=device,
        seconds=question.seconds_per_block * len(joint.blocks),
        claims_sessions=claims,
        claims_boots=claims and boots >= SESSIONS_AS_UNITS,
        steady_assumed=question.blocked and len(joint.blocks) < UNITS_TO_WANDER,
    )


def _joint_flags(joint: Joint, tables: Sequence[Table]) -> Iterator[Flag]:
    """Candidates that some workload has and the overall verdict lacks."""
    everybody = dict.fromkeys(label for table in tables for label in table.candidates)
    for label in everybody:
        if label not in joint.candidates and joint.tables:
            lacks = [t.samples.workload for t in joint.tables if label not in t.candidates]
            if lacks:
                yield Flag("lacks-workload", "", (label,), {"workloads": lacks})
    for table in tables:
        if len(table.candidates) == 1 < len(everybody):
            yield Flag("only-one", table.samples.workload, (table.candidates[0],))


def _design_flags(question: Question) -> tuple[Flag, ...]:
    """Limits from the design itself, and a second analysis that was not announced."""
    if not question.blocked:
        return (Flag("unblocked"),)
    added = question.extension
    if added is not None and added.code == "unannounced":
        values = {"error": added.error, "first_blocks": added.first_blocks}
        return (Flag("extension", values=values),)
    return ()
