"""The whole procedure: from samples to the answer, in codes and numbers.

What is taken, with a bound on the largest loss over the primary rows (docs/concepts/statistics.md).
Readings of the specification where it leaves a choice: a candidate without a run on a counted row
has no bound; candidates that a requirement removes are in every loss, and only cannot be taken;
passed ends lower the printed bound of what is taken, not below its estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from schedlab.analyse.advice import advise
from schedlab.analyse.cells import behind, cells_of, price_of
from schedlab.analyse.choice import Choice, choose, look_of, others
from schedlab.analyse.contradictions import contradictions
from schedlab.analyse.losses import ALPHA, RowLosses, RowPairs, losses, lower, pairs_of, upper
from schedlab.analyse.matrix import candidate_order
from schedlab.analyse.mix import mix
from schedlab.analyse.objectives import actor_of, apart_from_goal
from schedlab.analyse.objectives import choose as choose_metrics
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.requirements import judged
from schedlab.analyse.rows import Booleans, RowData, row_data
from schedlab.analyse.rungs import rungs
from schedlab.analyse.wild import wild_run
from schedlab.errors import SpecError
from schedlab.nouns import Flag, Objective, Population, Require, Samples, StoredSession, boot_of
from schedlab.nouns.answer import (
    MIX,
    Advice,
    Answer,
    CellAnswer,
    DecisiveRun,
    Loss,
    Role,
    Row,
    Scope,
    Unfit,
    Unit,
    Why,
)


@dataclass(frozen=True)
class Question:
    """The arguments of `answer`."""

    labels: tuple[str, ...]
    baseline: str
    margin: float
    aa: tuple[str, str] | None
    blocked: bool
    ends: tuple[int, ...] | None
    shares: bool
    requires: tuple[Require, ...]
    seconds: float | None
    simulated: bool = False
    noiseless: bool = False
    among: int = 1

    @property
    def base(self) -> int:
        """The column of the baseline."""
        return self.labels.index(self.baseline)


def answer(
    samples: Sequence[Samples],
    *,
    baseline: str,
    margin: float = 0.02,
    blocked: bool = True,
    aa: tuple[str, str] | None = None,
    secondary: Sequence[Samples] = (),
    candidates: Sequence[str] = (),
    ends: Sequence[int] | None = (),
    shares: bool = False,
    requires: Sequence[Require] = (),
    seconds_per_block: float | None = None,
    goal: Objective | None = None,
    frozen: bool = False,
    device: str = "",
    simulated: bool = False,
    noiseless: bool = False,
    by_boot: bool = False,
    among: int = 1,
    conditions: Sequence[Flag] = (),
    history: Mapping[str, Sequence[StoredSession]] | None = None,
) -> Answer:
    """The answer from the primary metric of every workload.

    `samples`: one entry per workload; `secondary`: further metrics of the same workloads, which
    may be a price. `aa` names the baseline and its A/A arm, `margin` is the difference that does
    not matter (a share). `candidates` gives their order, else the baseline is first. `ends` are
    the numbers of blocks that were announced before the runs they call for, `None`: this is the
    only look. With `shares` the workloads become one, by their weights. A `goal` chooses the
    metrics that decide among all that were reported, unless the primary ones were `frozen` for
    it. `simulated`: the blocks are seeds of a model. `noiseless`: the values are of a model or of
    virtual time, where equal ones are a fact. `by_boot`: sessions of one boot (an extension) are no
    units. `among`: the number of such answers whose errors count together.
    `conditions` are flags from inside the runs, which may contradict the answer. `history` has the
    stored sessions of each workload, its own among them.

    Raises SpecError for no samples, a workload given twice, or a baseline without runs.
    """
    _check(samples)
    flags: list[Flag] = []
    if goal is not None:
        samples, secondary, flags = choose_metrics(samples, secondary, goal, frozen=frozen)
    seconds = seconds_per_block
    question = Question(
        labels=candidate_order((*samples, *secondary), baseline, aa[1] if aa else None, candidates),
        baseline=baseline,
        margin=math.log1p(margin),
        aa=aa,
        blocked=blocked,
        ends=None if ends is None or not blocked else tuple(ends),
        shares=shares,
        requires=tuple(requires),
        seconds=seconds if seconds and math.isfinite(seconds) and seconds > 0 else None,
        simulated=simulated,
        noiseless=noiseless,
        among=among,
    )
    study = RowArrays.from_samples(
        [s.by_boot() if by_boot else s for s in samples],
        [s.by_boot() if by_boot else s for s in secondary],
        question,
        apart_from_goal(flags),
    )
    found = _with_doubts(study.answer(), study, conditions)
    return replace(
        found,
        rungs=rungs(study, found, history or {}),
        goal=goal,
        flags=tuple(flags),
        population=_population(samples, study, question, device),
    )


def _with_doubts(answer: Answer, study: RowArrays, conditions: Sequence[Flag]) -> Answer:
    """The answer with what contradicts it; where a price is larger than the gain, as a choice."""
    if answer.code in ("nothing", "one-run", "unbounded"):
        return answer
    if doubt := contradictions(study, answer, conditions):
        return replace(answer, code="doubt", doubt=doubt, same=())
    return replace(answer, code="trade", same=()) if answer.costs_more else answer


def _check(samples: Sequence[Samples]) -> None:
    if not samples:
        raise SpecError("there is nothing to analyse", "run the experiment first")
    labels = [sample.workload for sample in samples]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise SpecError(f"workload {twice!r} is named twice", "name one primary metric of each")


@dataclass(frozen=True)
class RowArrays:
    """The rows of a question as arrays, each beside its description.

    `rows` and `pairs` are parallel; with shares the mix is the first. `samples` are those of the
    primary rows, `apart` the workloads without a metric of the goal.
    """

    question: Question
    rows: tuple[Row, ...]
    pairs: tuple[RowPairs, ...]
    samples: tuple[Samples, ...] = ()
    apart: frozenset[str] = frozenset()

    @classmethod
    def from_samples(
        cls,
        samples: Sequence[Samples],
        secondary: Sequence[Samples],
        question: Question,
        apart: set[str],
    ) -> RowArrays:
        """The rows of all samples; the workloads `apart` have no metric of the goal."""
        rows, pairs = [], []
        metric_of = {s.workload: s.metric.name for s in samples}
        for sample, role in [
            *((s, "primary") for s in samples),
            *((s, "secondary") for s in secondary if np.isfinite(s.values).any()),
        ]:
            primary = role == "primary"
            name = sample.workload if primary else f"{sample.workload}: {sample.metric.name}"
            data = row_data(
                sample, question.labels, question.aa, blocked=question.blocked, name=name,
                noiseless=question.noiseless,
            )  # fmt: skip
            beside = "parameter" if sample.of_parameter else ""
            why = _why(sample, data, apart) if primary else beside
            rows.append(_row(name, sample, data, role, why, metric_of, question))  # type: ignore[arg-type]
            pairs.append(pairs_of(data))
            rows[-1] = replace(rows[-1], adjusted=pairs[-1].carried is not None)
        study = cls(question, tuple(rows), tuple(pairs), tuple(samples), frozenset(apart))
        return study._mixed() if question.shares else study

    def _mixed(self) -> RowArrays:
        """The same with the counted rows as parts of one."""
        weight_of = {s.workload: s.weight for s in self.samples}
        rows = list(self.rows)
        candidates = [i for i, row in enumerate(rows) if row.counted]
        parts = [i for i in candidates if weight_of[rows[i].workload] > 0]
        total = sum(weight_of[rows[i].workload] for i in parts)
        if total <= 0:
            return self
        for i in candidates:
            rows[i] = replace(rows[i], role="part", counted=False)
        shares = [weight_of[rows[i].workload] / total for i in parts]
        for i, share in zip(parts, shares, strict=True):
            rows[i] = replace(rows[i], role="part", counted=False, share=share)
        joint = mix([self.pairs[i].row for i in parts], shares)
        whole = Row(
            MIX, MIX, None, "mix", self.question.margin, True, blocks=len(joint.row.blocks),
            adjusted=joint.carried is not None,
        )  # fmt: skip
        return replace(self, rows=(whole, *rows), pairs=(joint, *self.pairs))

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """The rows that the answer speaks of."""
        return tuple(i for i, row in enumerate(self.rows) if row.counted)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The blocks in which any primary row has a value."""
        named = {b for row, p in zip(self.rows, self.pairs, strict=True) if row.role != "secondary"
                 for b in p.row.blocks}  # fmt: skip
        return tuple(sorted(named))

    @cached_property
    def look(self) -> float:
        """The part of the error that this look may use."""
        question = self.question
        return look_of(len(self.blocks), question.ends) / question.among

    @cached_property
    def allowed(self) -> Booleans:
        """The candidates that miss no requirement; all of them, where none would be left."""
        missed = {c for each in self.requirements for c, m in each.candidates.items()
                  if m == "missed"}  # fmt: skip
        allowed = np.array([label not in missed for label in self.question.labels])
        return allowed if allowed.any() else np.ones(len(allowed), bool)

    @cached_property
    def requirements(self):  # type: ignore[no-untyped-def]
        """Each requirement with what is proven of every candidate."""
        data, level = [p.row for p in self.pairs], self.look * ALPHA
        return judged(self.question.requires, self.rows, data, level)

    def choose(
        self, pairs: Sequence[RowPairs], passed: Sequence[Floats] = (), look: float | None = None
    ) -> Choice:
        """The choice from some pairs of the counted rows, at this look or another."""
        return choose(
            pairs,
            base=self.question.base,
            delta=self.question.margin,
            look=look or self.look,
            allowed=self.allowed & ~self._twins,
            passed=passed,
        )

    @cached_property
    def _twins(self) -> Booleans:
        """The candidates that equal the baseline on every row: nothing speaks for a change."""
        twins = [self.pairs[i].twins[self.question.base] for i in self.counted]
        alike = np.logical_and.reduce(twins) if twins else np.zeros(len(self.question.labels), bool)
        alike[self.question.base] = False
        return alike

    @property
    def _parts(self) -> list[int]:
        """The rows that a mix is made of."""
        return [i for i, row in enumerate(self.rows) if row.role == "part" and row.share > 0]

    def _again(self, change: Callable[[int, RowData], RowPairs]) -> list[RowPairs]:
        """The counted rows (the parts of a mix joined again), with each row changed."""
        parts = self._parts
        if not parts:
            return [change(i, self.pairs[i].row) for i in self.counted]
        rows = [change(i, self.pairs[i].row).row for i in parts]
        return [mix(rows, [self.rows[i].share for i in parts])]

    def _passed(self) -> list[Floats]:
        """The bounds (k) at the announced ends that were passed, from the runs of then.

        Only of the same rows and candidates: another bound was about something else.
        """
        passed = []
        for end in self.question.ends or ():
            if end >= len(self.blocks):
                continue
            kept = set(self.blocks[:end])
            samples = [each.of_blocks(kept) for each in self.samples]
            then = RowArrays.from_samples(samples, (), self.question, set(self.apart))
            if then._compared == self._compared:
                pairs = [then.pairs[i] for i in then.counted]
                passed.append(self.choose(pairs, look=then.look).reach)
        return passed

    @property
    def _compared(self) -> list[tuple[str, list[bool]]]:
        """The counted rows (and parts of a mix), and which candidates have values there."""
        used = [*self.counted, *self._parts]
        return [(self.rows[i].name, self.pairs[i].row.there.tolist()) for i in used]

    def losses(self, index: int) -> RowLosses:
        """The losses on any row, at the levels of the counted ones."""
        k, count = len(self.question.labels), max(len(self.counted), 1)
        return losses(self.pairs[index], upper(self.look, k, count), lower(self.look, k, count))

    def answer(self) -> Answer:
        """All of it."""
        question = self.question
        pairs = [self.pairs[i] for i in self.counted]
        choice = self.choose(pairs, self._passed() if pairs else ())
        if not any(_is_comparable(p.row) for p in self.pairs):
            return self._nothing(choice)
        cells = self._cells(choice)
        take, base = question.labels[choice.take], question.baseline
        bound = choice.bound if math.isfinite(choice.bound) else None
        point = [rows.point[choice.take] for rows in choice.rows]
        gains = behind(cells, base, self.counted_names) if take != base else []
        silent = gains or choice.code in ("one-run", "unbounded", "trade", "trade-open")
        losers = [
            max(own, key=lambda loss: loss.low)
            for label in question.labels
            if label not in (take, base) and not silent
            if (own := behind(cells, label, self.counted_names))
        ]
        missed = tuple(c for c, ok in zip(question.labels, self.allowed, strict=True) if not ok)
        is_trade = choice.code in ("trade", "trade-open")
        used, scope = self._used()
        return Answer(
            code=choice.code,
            take=take,
            base=base,
            candidates=question.labels,
            bound=bound,
            behind=float(choice.worst[choice.take]),
            margin=question.margin,
            blocks=len(self.blocks) if question.blocked else 0,
            units=choice.units,
            used=used,
            scope=scope,
            rows=self.rows,
            counted=self.counted_names,
            cells=cells,
            same=self._same(choice),
            worst_row=self.counted_names[int(np.argmax(point))] if point else "",
            base_loss=max(gains, key=lambda loss: loss.low) if gains else None,
            loser=max(losers, key=lambda loss: loss.low) if losers else None,
            others=others(choice.rows, choice.sure, choice.take) if is_trade else None,
            prices=self._prices(cells, take),
            requirements=self.requirements,
            excluded=missed,
            requirement_price=price_of(missed, cells, take, self.counted_names),
            unfit=self._unfit(),
            advice=self._advice(choice),
            wild=self._wild(choice),
            level=self.look,
            seconds=question.seconds,
        )

    def _nothing(self, choice: Choice) -> Answer:
        """No row has two candidates."""
        used, scope = self._used()
        question = self.question
        return Answer(
            code="nothing", take="", base=question.baseline, candidates=question.labels,
            bound=None, behind=0.0, margin=question.margin,
            blocks=len(self.blocks) if question.blocked else 0,
            units=max((len(p.row.blocks) for p in self.pairs), default=0), used=used, scope=scope,
            rows=self.rows, counted=(), cells=self._cells(choice), level=self.look,
            seconds=question.seconds, requirements=self.requirements, unfit=self._unfit(),
        )  # fmt: skip

    def _unfit(self) -> tuple[Unfit, ...]:
        """The candidates with too few runs to be compared, on each row that could be counted."""
        return tuple(
            Unfit(self.question.labels[i], row.name, int(np.isfinite(pairs.row.y[:, i]).sum()))
            for row, pairs in zip(self.rows, self.pairs, strict=True)
            if row.role in ("primary", "part")
            for i in np.flatnonzero(pairs.row.there & ~pairs.fit).tolist()
        )

    @property
    def counted_names(self) -> tuple[str, ...]:
        """The names of the rows that the answer speaks of."""
        return tuple(self.rows[i].name for i in self.counted)

    def _cells(self, choice: Choice) -> dict[str, dict[str, CellAnswer]]:
        """Every cell; of what is taken no bound is above the one that is printed."""
        cells: dict[str, dict[str, CellAnswer]] = {}
        for i, (row, pairs) in enumerate(zip(self.rows, self.pairs, strict=True)):
            result = choice.rows[self.counted.index(i)] if i in self.counted else self.losses(i)
            if row.counted:
                up = result.up.copy()
                up[choice.take] = max(
                    min(up[choice.take], choice.bound), float(result.point[choice.take])
                )
                result = replace(result, up=up)
            cells[row.name] = cells_of(pairs.row, row, result)
        return cells

    def _same(self, choice: Choice) -> tuple[str, ...]:
        """All candidates whose bound is within the margin."""
        if choice.code not in ("same", "same-0"):
            return ()
        return tuple(
            label
            for i, label in enumerate(self.question.labels)
            if self.allowed[i] and (i == choice.take or choice.reach[i] <= self.question.margin)
        )

    def _prices(self, cells: Mapping[str, Mapping[str, CellAnswer]], take: str) -> tuple[Loss, ...]:
        """The secondary rows on which what is taken is proven behind by more than the margin."""
        rows = [row for row in self.rows if row.role == "secondary" and not row.why]
        prices = [
            loss for row in rows for loss in behind(cells, take, [row.name])
            if loss.loss > row.margin
        ]  # fmt: skip
        return tuple(sorted(prices, key=lambda loss: -loss.loss))

    def _advice(self, choice: Choice) -> Advice | None:
        question = self.question
        if not math.isfinite(choice.bound) or not choice.rows:
            return None
        ahead = max(range(len(choice.rows)), key=lambda i: choice.rows[i].up[choice.take])
        pairs = self.pairs[self.counted[ahead]]
        k, count = len(question.labels), len(self.counted)
        estimate = float(choice.worst[choice.take])
        announced = sum(end <= len(self.blocks) for end in question.ends or ())
        return advise(
            pairs.top,
            units=choice.units,
            worst=estimate,
            bound=choice.bound,
            now=upper(self.look, k, count).pooled,
            then=upper(_next_look(announced, question), k, count).pooled,
            delta=question.margin,
            seconds=self._seconds_per_unit(choice.units),
            rounding=min(self._rounding(pairs, choice.take), choice.bound - estimate),
        )

    def _rounding(self, pairs: RowPairs, take: int) -> float:
        """The part of rounding in the bound of a candidate: its own, and that of the one that may
        be furthest ahead.
        """
        k, count = len(self.question.labels), len(self.counted)
        ahead = pairs.top.mean[take] + pairs.half_width(upper(self.look, k, count))[take]
        ahead = np.where(pairs.fit & (np.arange(k) != take), ahead, -np.inf)
        own = pairs.row.rounding
        return float(own[take] + own[int(np.nanargmax(ahead))])

    def _seconds_per_unit(self, units: int) -> float | None:
        seconds = self.question.seconds
        return seconds * len(self.blocks) / units if seconds and units else None

    def _wild(self, choice: Choice) -> DecisiveRun | None:
        """The one run without which the bound is less than half."""
        if choice.code == "one-run" or not choice.rows:
            return None
        parts = self._parts or list(self.counted)

        def again(index: int, changed: RowData) -> Choice:
            return self.choose(
                self._again(lambda i, _: pairs_of(changed) if i == parts[index] else self.pairs[i])
            )

        return wild_run([self.pairs[i].row for i in parts], choice.bound, again, self.blocks)

    def _used(self) -> tuple[Unit, Scope]:
        """The repeated unit, and the scope of the answer."""
        rows = [p.row for p in self.pairs]
        if not self.question.blocked:
            return "runs", "runs"
        if any(len(np.unique(row.host)) > 1 for row in rows):
            return "hosts", "hosts"
        several = any(len(np.unique(row.session)) > 1 for row in rows)
        if self.question.simulated:
            return "sessions" if several else "seeds", "simulated"
        boots = len({b for row in rows for b in row.boots})
        return "sessions" if several else "blocks", "boots" if boots > 1 else "this-boot"


def _next_look(announced: int, question: Question) -> float:
    """λ at the next announced end, where `announced` ends are reached."""
    if not question.ends:
        return look_of(0, question.ends)
    return look_of(announced, range(announced + 1))


def _is_comparable(row: RowData) -> bool:
    return int(row.there.sum()) > 1


def _why(sample: Samples, row: RowData, apart: set[str]) -> Why:
    """Why a primary row does not count; "" where it does."""
    if not row.there.any():
        return "not-positive"
    if not _is_comparable(row):
        return "one-candidate"
    if sample.of_parameter:
        return "parameter"
    if sample.workload in apart:
        return "other-goal"
    if sample.negative_control:
        return "control"
    return ""


def _row(
    name: str,
    sample: Samples,
    data: RowData,
    role: Role,
    why: Why,
    metric_of: Mapping[str, str],
    question: Question,
) -> Row:
    return Row(
        name=name,
        workload=sample.workload,
        metric=sample.metric,
        role=role,
        margin=question.margin,
        counted=role == "primary" and not why,
        why=why,
        actor=sample.actor or actor_of(sample.metric.name, metric_of.get(sample.workload, ""))
        if role == "secondary"
        else sample.actor,
        blocks=len(data.blocks),
        step=data.step,
        exact=data.exact,
        control=sample.negative_control,
        nothing_to_order=sample.nothing_to_order,
    )


def _population(
    samples: Sequence[Samples], study: RowArrays, question: Question, device: str
) -> Population:
    names = {name for sample in samples for name in sample.sessions}
    blocks, counted = len(study.blocks), [r for r in study.rows if r.counted and r.role != "mix"]
    parts = [row for row in study.rows if row.role == "part"]
    return Population(
        workloads=len(parts or counted), blocks=blocks, sessions=len(names) or 1,
        boots=len({*map(boot_of, names)}) or 1, device=device,
        seconds=(question.seconds or 0.0) * blocks,
    )  # fmt: skip
