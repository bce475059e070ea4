"""Contradictions of an answer: with one it is in doubt, and nothing is applied.

A claim is that one candidate is proven ahead of another on a row. It is contradicted by a negative
control that differs, by an A/A arm that differs by more, by an effect of the previous run without
which it does not hold, and by periods or blocks whose two halves decide differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedlab.analyse.doubts import Findings, examine
from schedlab.analyse.losses import RowPairs
from schedlab.analyse.matrix import RunMatrix, arrange
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.rule import Fit, fit_of
from schedlab.analyse.run_flags import FADES_LEVEL, fades, wears_off
from schedlab.nouns import Flag, Samples
from schedlab.nouns.answer import Answer, Doubt

if TYPE_CHECKING:
    from schedlab.analyse.answer import Question, RowArrays

INSIDE = "changes-inside"
#: Codes of answers that call differences too small to matter.
SAME = ("same", "same-0")


@dataclass(frozen=True)
class Claim:
    """`ahead` is proven ahead of `behind` on `row`, by about `effect` (a log)."""

    row: str
    ahead: str
    behind: str
    effect: float


@dataclass(frozen=True)
class _Part:
    """A workload with the findings from its residuals, and its share in the row."""

    share: float
    table: RunMatrix
    fit: Fit
    findings: Findings


@dataclass(frozen=True)
class _Place:
    """A counted row of an answer, with its pairs, its claims, and the workloads it is made of.

    Another candidate than what is taken may be ahead by the `bound`.
    """

    name: str
    take: str
    margin: float
    bound: float
    pairs: RowPairs
    claims: tuple[Claim, ...]
    parts: tuple[_Part, ...]
    inside: tuple[Flag, ...]

    def is_told(self, names: Sequence[str]) -> bool:
        """Whether the answer says something of these two."""
        return self.take in names or self.claims_of(names)

    def claims_of(self, names: Sequence[str]) -> bool:
        """Whether one of these two is claimed to be ahead of the other."""
        return any({claim.ahead, claim.behind} == {*names} for claim in self.claims)

    def turns(self, names: Sequence[str]) -> bool:
        """Whether the first half of the blocks decides unlike the second."""
        early, late = self.halves(names)
        return len(early) > 0 and self.differ(early.mean(), late.mean())

    def halves(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """The difference of two in the first half of the blocks, and in the second; logs."""
        differences = self.differences(names)
        half = len(differences) // 2
        return differences[:half], differences[len(differences) - half :]

    def differences(self, names: Sequence[str]) -> Floats:
        """The difference of two in each block that has both, in their order; logs."""
        values, labels = self.pairs.row.values(), self.pairs.row.labels
        one, other = (values[:, labels.index(name)] for name in names)
        return (one - other)[np.isfinite(one - other)]

    def differ(self, early: float, late: float) -> bool:
        """Whether two differences are not beyond the margin on one side, and not both within it."""
        sides = [0 if abs(each) <= self.margin else np.sign(each) for each in (early, late)]
        return bool(sides[0] != sides[1])


def claims_of(answer: Answer) -> tuple[Claim, ...]:
    """The differences that an answer calls proven; where none is to matter, beyond the margin."""
    claims = {}
    least = answer.margin if answer.code in SAME else 0.0
    for row in answer.counted:
        cells = answer.cells[row]
        leader = min(cells, key=lambda label: (cells[label].loss, label != answer.take))
        for label, cell in cells.items():
            if cell.low <= 0 or cell.loss <= least or label == leader:
                continue
            told = [of.candidate for of in (answer.base_loss, answer.loser) if of and of.row == row]
            if answer.code.startswith(("best", "trade")) or label in told:
                claims[row, label] = Claim(row, leader, label, cell.loss)
    return tuple(claims.values())


def contradictions(
    study: RowArrays, answer: Answer, conditions: Sequence[Flag]
) -> tuple[Doubt, ...]:
    """The doubts of an answer, the gravest first; `conditions` are flags from inside the runs."""
    places = _places(study, answer, conditions)
    found = [
        [doubt for place in places for doubt in _aa(place)],
        [doubt for place in places for doubt in _carried(place)],
        *([doubt for place in places for doubt in check(place)]
          for check in (_inside, _changing, _wandering)),
    ]  # fmt: skip
    return (*_controls(answer), *(doubt for each in found for doubt in each))


def _places(study: RowArrays, answer: Answer, conditions: Sequence[Flag]) -> list[_Place]:
    question, claims = study.question, claims_of(answer)
    known = {sample.workload: sample for sample in study.samples}
    mixed = [row for row in study.rows if row.role == "part" and row.share > 0]
    places = []
    for index in study.counted:
        row = study.rows[index]
        of = mixed if row.metric is None else [row]
        parts = [_part(known[each.workload], each.share or 1.0, question) for each in of]
        works = {each.workload for each in of}
        places.append(
            _Place(
                row.name,
                answer.take,
                question.margin,
                max(question.margin, answer.bound or 0.0),
                study.pairs[index],
                tuple(claim for claim in claims if claim.row == row.name),
                tuple(part for part in parts if part),
                tuple(f for f in conditions if f.kind == INSIDE and f.workload in works),
            )
        )
    return places


def _part(sample: Samples, share: float, question: Question) -> _Part | None:
    if not question.blocked:
        return None
    table = arrange(sample, question.labels, question.aa, blocked=True)
    fit = fit_of(table)
    return None if fit is None else _Part(share, table, fit, examine(fit, table))


def _controls(answer: Answer) -> Iterator[Doubt]:
    for row in answer.rows:
        cells = answer.cells[row.name]
        differ = tuple(label for label, cell in cells.items() if cell.low > 0)
        if row.control and row.role != "secondary" and differ:
            yield Doubt("control", row.name, differ, max(cells[label].loss for label in differ))


def _aa(place: _Place) -> Iterator[Doubt]:
    """The A/A arm differs from its baseline by more than what is claimed."""
    row = place.pairs.row
    if row.aa is None or not place.claims:
        return
    apart = row.y[:, row.k] - row.y[:, row.aa]
    apart = apart[np.isfinite(apart)]
    size = abs(float(apart.mean())) if len(apart) else 0.0
    least = min(claim.effect for claim in place.claims)
    if size > least:
        yield Doubt("aa", place.name, (row.labels[row.aa],), size, least)


def _carried(place: _Place) -> Iterator[Doubt]:
    """Candidates act on the runs that follow, and as they were measured, or each following itself
    for ever, a claim is not true, or another is further ahead of what is taken than its bound.
    """
    carried, row = place.pairs.carried, place.pairs.row
    if carried is None:
        return
    values, mean = row.values(), place.pairs.top.mean
    claims = {(claim.ahead, claim.behind): claim.effect for claim in place.claims}
    there = [label for label, known in zip(row.labels, row.there, strict=True) if known]
    others = [(label, place.take) for label in there if label != place.take]
    for ahead, behind in dict.fromkeys([*claims, *others]):
        a, b = row.labels.index(ahead), row.labels.index(behind)
        lasting = float(mean[b, a] + carried.effects[a] - carried.effects[b])
        measured = float(np.nanmean(values[:, a] - values[:, b]))
        claimed = claims.get((ahead, behind))
        if lasting > place.bound if claimed is None else min(lasting, measured) <= 0:
            yield Doubt("carry-over", place.name, (ahead, behind), lasting, claimed)
            return


def _inside(place: _Place) -> Iterator[Doubt]:
    """The halves of the periods."""
    for flag in place.inside:
        first = flag.candidates[0]
        early, late = (
            math.log(fact["ratio"]) * (1 if fact["better"] == first else -1)
            for fact in (flag.values["early"], flag.values["late"])
        )
        is_lost = flag.values["fades"] and place.claims_of(flag.candidates)
        is_proven = flag.values["proven"] and place.is_told(flag.candidates)
        if is_lost or (is_proven and place.differ(early, late)):
            yield Doubt("halves", place.name, flag.candidates)


def _changing(place: _Place) -> Iterator[Doubt]:
    """A candidate changes with time, and the first blocks decide unlike the last ones."""
    for part in place.parts:
        first, second = part.fit.pairs
        for pair in part.findings.aging.pairs if part.findings.aging else ():
            names = tuple(part.table.candidates[int(side[pair])] for side in (first, second))
            if place.is_told(names) and place.turns(names):
                yield Doubt("candidate-time", place.name, names)
                return
    level = FADES_LEVEL / max(len(place.claims), 1)
    for claim in place.claims:
        names = (claim.ahead, claim.behind)
        if fades(*place.halves(names), level) or wears_off(place.differences(names), level):
            yield Doubt("candidate-time", place.name, names)
            return


def _wandering(place: _Place) -> Iterator[Doubt]:
    """Differences wander, and a claim is that of one half of the blocks."""
    if not any(part.findings.unsteady for part in place.parts):
        return
    for claim in place.claims:
        if place.turns((claim.ahead, claim.behind)):
            yield Doubt("unsteady", place.name, (claim.ahead, claim.behind))
            return
