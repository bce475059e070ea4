"""Whether two answers to one question, each about one row, recommend the same candidate."""

from __future__ import annotations

from typing import Literal

from schedlab.nouns.answer import Answer

#: `open`: where no bound decides, so that both may yet be right.
AgreementCode = Literal["agree", "disagree", "open"]


def recommended(answer: Answer) -> tuple[str, ...]:
    """The proven best candidate, or all within the margin; nothing while it is open."""
    return (answer.take,) if answer.code == "best" else answer.same


def possible(answer: Answer) -> tuple[str, ...]:
    """The recommended candidates, else all that are not proven behind."""
    cells = answer.cells[answer.counted[0]] if answer.counted else {}
    behind = {name for name, cell in cells.items() if cell.low > 0}
    return recommended(answer) or tuple(n for n in answer.candidates if n not in behind)


def agreement(first: Answer, second: Answer) -> AgreementCode:
    """`agree`: both recommend a candidate; `disagree`: no candidate can be right for both."""
    if {*recommended(first)} & {*recommended(second)}:
        return "agree"
    return "open" if {*possible(first)} & {*possible(second)} else "disagree"
