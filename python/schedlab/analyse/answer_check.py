"""Properties that every answer has: its code, its numbers and its cells say the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

from schedlab.analyse.choice import UNBOUNDED
from schedlab.analyse.contradictions import Claim, claims_of
from schedlab.nouns import Flag
from schedlab.nouns.answer import Answer, Row

#: Rounding of the arithmetic.
TOUCHING = 1e-9


def check(answer: Answer) -> list[str]:
    """Contradictions in an answer, in English; empty for a sound one."""
    return [
        *_cells(answer), *_bound(answer), *_code(answer), *_parts(answer), *_conditions(answer)
    ]  # fmt: skip


def _cells(answer: Answer) -> Iterator[str]:
    """low ≤ loss ≤ up in every cell, and somebody leads every row."""
    for row, cells in answer.cells.items():
        for label, cell in cells.items():
            up = math.inf if cell.up is None else cell.up
            if not 0 <= cell.low <= cell.loss + TOUCHING or cell.loss > up + TOUCHING:
                yield f"{row}, {label}: {cell.low} ≤ {cell.loss} ≤ {up} does not hold"
            if cell.best != (cell.up == 0):
                yield f"{row}, {label}: best, and yet at most {up} behind"
            if cell.open and cell.up is not None:
                yield f"{row}, {label}: starved, and yet with a bound"
    names = {row.name for row in answer.rows}
    if len(names) < len(answer.rows) or names != set(answer.cells):
        yield "the rows are not those of the cells"


def _bound(answer: Answer) -> Iterator[str]:
    """No cell of what is taken is above the bound that is printed."""
    if answer.bound is None or not answer.take:
        return
    for row in answer.counted:
        cell = answer.cell(row, answer.take)
        if cell is None or cell.up is None or cell.up > answer.bound + TOUCHING:
            yield f"{row}: {answer.take} may be further behind than the bound {answer.bound}"
    if answer.behind > answer.bound + TOUCHING:
        yield f"{answer.behind} behind, and yet at most {answer.bound}"
    if answer.advice is not None and answer.advice.target >= answer.bound:
        yield f"the advice brings {answer.advice.target}, the bound is {answer.bound}"


def _code(answer: Answer) -> Iterator[str]:
    """Contradictions between the code of an answer and its cells."""
    code, take, base = answer.code, answer.take, answer.base
    low = {
        label: [c.low for row in answer.counted if (c := answer.cell(row, label)) is not None]
        for label in answer.candidates
    }
    # What guarantees something else is not compared, nor what has too few runs.
    compared = answer.guarantees[0].candidates if answer.guarantees else answer.candidates
    unfit = {(of.candidate, of.row) for of in answer.unfit}
    fit = [label for label in compared if any((label, row) not in unfit and
           answer.cell(row, label) for row in answer.counted)]  # fmt: skip
    if code == "nothing":
        if take:
            yield f"nothing to compare, and yet {take} is taken"
        return
    if code in ("one-run", "unbounded"):
        if take != base and base not in answer.excluded:
            yield f"no bound, and yet {take} is taken"
        if answer.bound is not None and answer.bound <= UNBOUNDED:
            yield f"no bound, and yet {answer.bound}"
        return
    if answer.bound is None:
        yield f"{code} without a bound"
    if code == "best":
        for label in fit:
            rows = [row for row in answer.counted if (label, row) not in unfit]
            cells = [answer.cell(row, label) for row in rows]
            if label != take and any(cell and cell.low <= 0 for cell in cells):
                yield f"{take} is best on every row, and yet {label} may be"
    if code in ("same", "same-0"):
        for label in answer.same:
            cells = [answer.cell(row, label) for row in answer.counted]
            if any(c is None or c.up is None or c.up > answer.margin + TOUCHING for c in cells):
                yield f"{label} is the same, and yet may be further behind"
        if take not in answer.same:
            yield f"{take} is taken, and not among the same"
    if code.startswith("trade") and not answer.costs_more:
        if any(max(low[label]) <= answer.margin for label in fit):
            yield "each candidate loses somewhere, and yet one may not"
        if code == "trade" and not (answer.others or 0.0) > (answer.bound or 0.0):
            yield "every other loses more, and yet not more than the bound"
    if code == "keep" and (take != base or any(low[base])):
        yield f"nothing is proven better than {base}, and yet it is proven behind"


def _parts(answer: Answer) -> Iterator[str]:
    """The further sentences copy cells."""
    for loss in [answer.base_loss, answer.loser, *answer.prices]:
        if loss is None:
            continue
        cell = answer.cell(loss.row, loss.candidate)
        if cell is None or (cell.loss, cell.low, cell.up) != (loss.loss, loss.low, loss.up):
            yield f"{loss.candidate} on {loss.row}: not its cell"
        elif loss.low <= 0:
            yield f"{loss.candidate} on {loss.row}: behind, and yet not proven"
    if any(p.candidate != answer.take or p.loss <= answer.row(p.row).margin for p in answer.prices):
        yield "a price that is none"
    if answer.base_loss and (answer.keeps or answer.base_loss.candidate != answer.base):
        yield "a gain over the baseline that is none"
    if answer.take in answer.excluded:
        yield f"{answer.take} misses a requirement, and yet is taken"
    if answer.applies and (answer.open_requirements or answer.costs_more or answer.doubt):
        yield f"{answer.take} is to be applied, and yet it is not settled"


def _conditions(answer: Answer) -> Iterator[str]:
    """Nothing is called proven beside what contradicts it; worked out from the flags again."""
    if answer.code in ("nothing", "one-run", "unbounded"):
        return
    if (answer.code == "doubt") != bool(answer.doubt):
        yield f"{answer.code}, and yet {len(answer.doubt)} doubts"
    if answer.code == "doubt":
        return
    if answer.costs_more and answer.code != "trade":
        yield f"a price is larger than the gain, and yet {answer.code}"
    for row in answer.rows:
        if row.control and row.role != "secondary":
            if row.counted:
                yield f"{row.name}: a control is counted"
            if any(cell.low > 0 for cell in answer.cells[row.name].values()):
                yield f"{row.name}: the control differs, and yet {answer.code}"
    for claim in claims_of(answer):
        of = next((row for row in answer.rows if row.name == claim.row and row.metric), None)
        for flag in answer.flags if of else ():
            if flag.workload == claim.row and _denies(flag, claim, of, answer.margin):  # type: ignore[arg-type]
                yield f"{claim.row}: {claim.ahead} is proven ahead, and yet {flag.kind}"


def _denies(flag: Flag, claim: Claim, of: Row, margin: float) -> bool:
    """Whether the values of a flag, as they are printed, say the opposite of what is claimed."""
    if flag.kind == "aa-differs":
        return abs(math.log(flag.values["ratio"])) > claim.effect + TOUCHING
    if flag.kind == "carry-over":
        higher = of.metric is not None and of.metric.higher_is_better
        ahead = {
            (a, b) if (log > 0) == higher else (b, a) for a, b, log, _ in flag.values["adjusted"]
        }
        return (claim.behind, claim.ahead) in ahead
    if flag.kind in ("changes-inside", "candidate-time"):
        halves = [flag.values[half] for half in ("early", "late")]
        return {*flag.candidates} == {claim.ahead, claim.behind} and any(
            half["better"] == claim.behind and math.log(half["ratio"]) > margin for half in halves
        )
    return False
