"""Properties that every answer has: its code, its numbers and its cells say the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

from schedlab.analyse.choice import UNBOUNDED
from schedlab.spec.answer import Answer

#: Rounding of the arithmetic.
TOUCHING = 1e-9


def check(answer: Answer) -> list[str]:
    """Contradictions in an answer, in English; empty for a sound one."""
    return [*_cells(answer), *_bound(answer), *_code(answer), *_parts(answer)]


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
    # What guarantees something else is not compared.
    compared = answer.guarantees[0].candidates if answer.guarantees else answer.candidates
    taken = [label for label in compared if label not in answer.excluded]
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
        for label in taken:
            if label != take and any(each <= 0 for each in low[label]):
                yield f"{take} is best on every row, and yet {label} may be"
    if code in ("same", "same-0"):
        for label in answer.same:
            cells = [answer.cell(row, label) for row in answer.counted]
            if any(c is None or c.up is None or c.up > answer.margin + TOUCHING for c in cells):
                yield f"{label} is the same, and yet may be further behind"
        if take not in answer.same:
            yield f"{take} is taken, and not among the same"
    if code in ("trade", "trade-open") and any(max(low[c]) <= answer.margin for c in taken):
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
