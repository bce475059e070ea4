"""Published figures of a study beside the same figures of an experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from schedlab.analyse.quantiles import half_width
from schedlab.nouns import ComparedStatement, Statement

#: The values of a metric on a workload under a candidate, by block.
Values = Mapping[tuple[str, str, str], Mapping[int, float]]
_Place = tuple[str, str]


def compared(statements: Sequence[Statement], values: Values) -> tuple[ComparedStatement, ...]:
    """Each statement with its figure; one whose runs are missing has none."""
    return tuple(_compared(each, _figures(each, values)) for each in statements)


def _compared(of: Statement, figures: Mapping[_Place, Sequence[float]]) -> ComparedStatement:
    """`figures` are the figure by place: the first of all blocks together, then of each block."""
    if not figures:
        return ComparedStatement(of.says, of.published, None, None)
    sign = -1 if of.take == "largest" else 1
    first, *others = sorted(figures, key=lambda place: sign * figures[place][0])
    figure = figures[first][0]
    comes_out: bool | None = None
    if of.least is not None or of.most is not None:
        comes_out = (of.least is None or figure >= of.least) and (
            of.most is None or figure <= of.most
        )
    if of.at:
        is_clear = not others or _is_apart(figures[first][1:], figures[others[0]][1:])
        comes_out = first[0] == of.at and comes_out is not False if is_clear else None
    return ComparedStatement(of.says, of.published, figure, comes_out, *first)


def _is_apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two figures differ by more than half of the interval of their paired difference."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    return abs(_mean(differences)) > half_width(differences)


def _figures(of: Statement, values: Values) -> dict[_Place, list[float]]:
    """By workload and candidate the figure of all blocks, and of each one; only of places that,
    like what they are divided by, have a value in every block of the first of them.
    """
    over_workloads = of.over_workloads or (of.workloads if of.over else ())
    longest = max(len(of.workloads), len(over_workloads))
    workloads = of.workloads * (longest if len(of.workloads) == 1 else 1)
    overs = over_workloads * (longest if len(over_workloads) == 1 else 1) or ("",) * longest
    found: dict[_Place, list[float]] = {}
    for workload, over in zip(workloads, overs, strict=True):
        for candidate in of.candidates:
            mine = values.get((of.metric, workload, candidate), {})
            base = values.get((of.metric, over, of.over or candidate), {}) if over else None
            blocks = [block for block in mine if base is None or block in base]
            if not blocks:
                continue
            above = [mine[block] for block in blocks]
            below = [1.0 if base is None else base[block] for block in blocks]
            pairs = [(_mean(above), _mean(below)), *zip(above, below, strict=True)]
            # Of one workload over several, a place is what it is divided by.
            place = (over if len(of.workloads) < longest else workload, candidate)
            found[place] = [a - b if of.is_difference else _ratio(a, b) for a, b in pairs]
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _ratio(above: float, below: float) -> float:
    """Zero over zero is no change: where everything fits into the buffer of a device."""
    return 1.0 if above == below else above / below if below else math.inf
