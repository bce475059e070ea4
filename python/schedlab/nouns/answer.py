"""The answer of an experiment: what to take, and at most how far behind the best it can be.

Codes and numbers only; the catalogue of `report` makes the sentences. The *loss* of a candidate on
a row (a workload × a metric) is how far the best of that row is ahead of it: a natural logarithm
≥ 0, in either direction of the metric. **Every loss, bound and margin here is such a logarithm**;
of a rate it is printed as 1 − e^−loss ("21 % less"), of a time as e^loss − 1 ("27 % longer"), from
a loss of ln 2 on as a ratio ("2.4x longer", "half the rate").
The arithmetic is in docs/concepts/statistics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schedlab.nouns.experiment import Objective
from schedlab.nouns.findings import ComparedStatement, Flag, KneeFigure, ParetoPoint, Population
from schedlab.nouns.metrics import Metric

ANSWER_SCHEMA = 3
MIX = "(mix)"

#: In the order in which the first that applies is taken.
AnswerCode = Literal[
    "nothing",  # no row with two candidates
    "one-run",  # one unit: figures, no bound
    "unbounded",  # the bound is infinite or above 1,000x
    "doubt",  # something that is known speaks against the answer: `doubt` says what
    "best",  # what is taken is proven the best on every counted row
    "same",  # the bound is within the margin; `same` names all of which that holds
    "same-0",  # as `same`, and the bound is 0: no other is better on any row
    "trade",  # each candidate loses somewhere; every other at least `others`, above the bound;
    # or the largest price is larger than the gain (`costs_more`)
    "trade-open",  # each candidate loses somewhere; that every other loses more is not proven
    "keep",  # the baseline: nothing is proven better
    "for-now",  # anything else: take it for now
]
Role = Literal["primary", "secondary", "mix", "part"]
Why = Literal["", "one-candidate", "not-positive", "control", "other-goal", "parameter"]
#: What was repeated, so that an interval can be given: the highest level that was.
Unit = Literal["blocks", "sessions", "hosts", "runs", "seeds"]
Scope = Literal["this-boot", "boots", "hosts", "runs", "simulated"]


@dataclass(frozen=True)
class Row:
    """One workload × one metric. `name` is the key of `Answer.cells`, and is unique: the label of
    the workload for its primary row, "LABEL: METRIC" for the others, `MIX` for the mix.

    `role`: a `primary` row is what the answer speaks of; a `secondary` one can be its price. With
    shares the one `mix` row ("your mix"; `MIX` is its workload, too, it has no metric and no
    values) is what the answer speaks of, and the rows that it is made of are `part`s, `share`
    their weight (they sum to 1; 0 elsewhere). `counted`: the answer speaks of it; where a primary
    row or part is not, `why` says so. `margin` is a logarithm. `actor` is whose figure it is where
    a run has several at work ("writers", "readers"). `blocks` with a value (where there are no
    blocks: runs of the candidate with the most). `higher_is_better` and the unit belong to the
    metric.
    `step` is the resolution of a value in the unit of the metric (0: not known). `exact`: no
    candidate's value differs from run to run, so that its figures are those of every run.
    `adjusted`: its losses are without the effects of each run on the next one.
    """

    name: str
    workload: str
    metric: Metric | None
    role: Role
    margin: float
    counted: bool
    why: Why = ""
    share: float = 0.0
    actor: str = ""
    blocks: int = 0
    step: float = 0.0
    exact: bool = False
    control: bool = False
    nothing_to_order: bool = False
    adjusted: bool = False


@dataclass(frozen=True)
class CellAnswer:
    """One candidate on one row.

    `value` is the geometric mean of its runs in the unit of the metric (`None`: the mix; the
    arithmetic mean where a value has no logarithm), of the baseline over both of its arms. `loss`
    is the estimate (0: it leads), [`low`, `up`] its interval, `low` > 0: proven behind. `up` is
    `None` where no bound can be given; with `open`, because some of its runs starved, so that its
    value is itself a bound ("at least 20x behind"). `best`: nothing may be ahead of it (`up` is 0).
    `starved` of its `runs` gave bounds; `unfinished`: all of them.
    """

    value: float | None
    loss: float
    low: float
    up: float | None
    best: bool = False
    open: bool = False
    runs: int = 0
    starved: int = 0

    @property
    def unfinished(self) -> bool:
        """Whether each of its runs starved."""
        return 0 < self.runs == self.starved


@dataclass(frozen=True)
class Loss:
    """How far a candidate is behind the best of a row; a copy of its cell."""

    candidate: str
    row: str
    loss: float
    low: float
    up: float | None
    open: bool = False


@dataclass(frozen=True)
class Advice:
    """`blocks` more (sessions, hosts, runs, where these are the units) bring the bound to about
    `target`, a logarithm, in `seconds` (`None`: not known).
    """

    blocks: int
    target: float
    seconds: float | None = None


@dataclass(frozen=True)
class DecisiveRun:
    """One run decides: without it the bound is less than half.

    `factor` ≥ 1.5 is how far the run in `block` (from 1) was from the others of its candidate
    on `row`, `worse` or better. `take`, `bound` and `code` are the answer without it.
    """

    block: int
    candidate: str
    row: str
    factor: float
    worse: bool
    take: str
    bound: float
    code: AnswerCode


DoubtKind = Literal[
    "control",  # a negative control shows a difference
    "aa",  # the A/A arm differs by `size`, more than the `claimed` effect
    "carry-over",  # without the effect of the run before it, nothing is left of the claim
    "halves",  # the two halves of its periods say different things
    "candidate-time",  # the first and the last blocks do, because a candidate changes
    "unsteady",  # they do, because differences wander
]


@dataclass(frozen=True)
class Doubt:
    """Something known that contradicts the answer, on `row`, of these `candidates`.

    `size` and `claimed` are logarithms: the difference of the A/A arm, or the least effect that is
    left, and the effect that it speaks against (`None`: none is of that kind).
    """

    kind: DoubtKind
    row: str
    candidates: tuple[str, ...] = ()
    size: float | None = None
    claimed: float | None = None


#: From the nearest to the farthest that an answer may be meant for.
RungName = Literal["this-boot", "next-boot", "layout", "host"]


@dataclass(frozen=True)
class Rung:
    """The bound of what is taken for a wider claim; `bound` (a logarithm) is `None` where
    nothing is known of it. It is estimated from so many `results`.
    """

    name: RungName
    bound: float | None = None
    results: int = 0


@dataclass(frozen=True)
class Unfit:
    """A candidate ("": all) that cannot be called the best of `row` ("": of any), and decides
    nothing there. Where it is all of them, no row is left, and `row` is the workload.

    `runs` of it count, of `tried` ones; `reasons` are the checks that the others failed.
    """

    candidate: str
    row: str = ""
    runs: int = 0
    tried: int = 0
    reasons: tuple[str, ...] = ()


Met = Literal["met", "missed", "open"]


@dataclass(frozen=True)
class Requirement:
    """A hard requirement: `row` below (`below`), or above, `limit` in the unit of its metric.

    `candidates`: proven to meet it, proven to miss it (it cannot be taken), or not settled.
    """

    row: str
    limit: float
    below: bool
    candidates: Mapping[str, Met] = field(default_factory=dict)


@dataclass(frozen=True)
class OfGuarantee:
    """Candidates that guarantee the same about what was written (`WorkloadKind.guarantee`), and
    what to take among them; `None` for those of the baseline, of which the whole answer speaks.
    """

    guarantee: str
    candidates: tuple[str, ...]
    answer: Answer | None


@dataclass(frozen=True)
class OfKind:
    """Hosts whose devices are of one model and firmware, by name, and what to take there."""

    device: str
    hosts: tuple[str, ...]
    answer: Answer


@dataclass(frozen=True)
class Answer:
    """The recommended candidate, and the bound on its loss.

    `take`: the candidate ("" for `nothing`); `base`: the baseline, which one has; `keeps` says
    that they are the same. `candidates` are all, in their order. `same`: those whose bound is
    within the margin (codes `same`, `same-0`). Of what is taken: `bound` on its largest loss over
    the counted rows (`None`: no bound), the estimate `behind` of that loss, and `worst_row`, the
    row of that estimate. `base_loss`: where the
    baseline is proven behind, largest first (`None`: nowhere, or it is what is taken); `loser`:
    the same of the other candidate that is furthest behind, told where `base_loss` is not.
    `others` (codes `trade…`): every other candidate loses at least that somewhere.

    `margin`: differences up to it do not matter. `confidence` of all bounds of one row together
    (.95). `blocks` were measured; `units` of `used` are what the intervals rest on. `level`: the
    part of the error that this look may use (1: the only look). `scope`: what it holds for.
    `rows` are all, `counted` the names of those that the answer speaks of. `prices`: secondary
    rows on which what is taken is proven behind by more than their margin, largest first.
    `excluded`: candidates that a requirement removed; they stay in every loss, so that
    `requirement_price` is what that costs: where what is taken is proven behind one of them.

    `doubt`: what contradicts the answer, the gravest first. `unfit`: candidates with too few runs
    to be compared. `rungs`: what the bound becomes for wider claims.

    `guarantees`: where candidates guarantee different things, the groups that are compared inside;
    the answer speaks of the first one, and its cells are those of all.

    `kinds`: where several hosts were measured, the kinds of device with an answer of their own.

    The rest is for the pages: `seconds` a block takes (`None`: not known), `flags`, `goal`,
    `population`, `statements` of a study, `knees`, and `pareto` by workload.
    """

    code: AnswerCode
    take: str
    base: str
    candidates: tuple[str, ...]
    bound: float | None
    behind: float
    margin: float
    blocks: int
    units: int
    used: Unit
    scope: Scope
    rows: tuple[Row, ...]
    counted: tuple[str, ...]
    cells: Mapping[str, Mapping[str, CellAnswer]]
    same: tuple[str, ...] = ()
    worst_row: str = ""
    base_loss: Loss | None = None
    loser: Loss | None = None
    others: float | None = None
    prices: tuple[Loss, ...] = ()
    doubt: tuple[Doubt, ...] = ()
    rungs: tuple[Rung, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    excluded: tuple[str, ...] = ()
    requirement_price: Loss | None = None
    unfit: tuple[Unfit, ...] = ()
    advice: Advice | None = None
    wild: DecisiveRun | None = None
    guarantees: tuple[OfGuarantee, ...] = ()
    kinds: tuple[OfKind, ...] = ()
    confidence: float = 0.95
    level: float = 1.0
    seconds: float | None = None
    goal: Objective | None = None
    population: Population | None = None
    flags: tuple[Flag, ...] = ()
    statements: tuple[ComparedStatement, ...] = ()
    knees: tuple[KneeFigure, ...] = ()
    pareto: Mapping[str, tuple[ParetoPoint, ...]] = field(default_factory=dict)
    schema: int = ANSWER_SCHEMA

    @property
    def keeps(self) -> bool:
        """Whether what is taken is what one has."""
        return self.take == self.base

    @property
    def applies(self) -> bool:
        """Whether the change is worth proposing: `Next: apply`."""
        is_settled = self.code in ("best", "same", "trade") and not self.open_requirements
        return bool(self.take) and not self.keeps and is_settled and not self.costs_more

    @property
    def costs_more(self) -> bool:
        """Whether the largest price of what is taken is larger than its gain over the baseline."""
        gain = self.base_loss.loss if self.base_loss else 0.0
        return bool(self.prices) and not self.keeps and self.prices[0].loss > gain

    @property
    def open_requirements(self) -> tuple[Requirement, ...]:
        """The requirements that what is taken is not proven to meet."""
        return tuple(r for r in self.requirements if r.candidates.get(self.take) != "met")

    def row(self, name: str) -> Row:
        """The row of that name."""
        return next(row for row in self.rows if row.name == name)

    def cell(self, row: str, candidate: str) -> CellAnswer | None:
        """One cell; `None` where the candidate has no runs on that row."""
        return self.cells[row].get(candidate)
