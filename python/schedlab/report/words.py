"""Losses in words: `27 % longer (18 to 35 %) ▼`. Every form of a report prints these.

A loss is a natural logarithm; it is printed in the direction of its metric (`Way`), in per cent and
from twofold on as a ratio, and so is everything beside it. Upper ends are rounded up and lower ends
down, so that no printed interval is narrower than the one that was worked out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Literal

from schedlab.errors import SpecError
from schedlab.nouns import Experiment, Metric
from schedlab.nouns.answer import CellAnswer
from schedlab.report.texts import NO_BREAK, Texts

End = Literal["point", "low", "up"]
TIMES_FROM = 2.0
SMALLEST_PERCENT = 0.01
# A larger loss is "over" this, and an interval that ends beyond it has no end worth printing.
HUGE = math.log(1e6)
# The mark of a candidate that is proven behind: colour never carries the meaning alone.
BEHIND = "▼"
ROUNDING = {"point": ROUND_HALF_EVEN, "low": ROUND_FLOOR, "up": ROUND_CEILING}
# An interval that is no proof and ends beyond this, or rests on so few units, is not printed yet.
TOO_WIDE, FEW_UNITS = math.log(10), 4
EQUAL = 1e-9
CPU_TIMES = ("cpu_s", "user_s", "system_s", "cpu_per_request_ns")
# Decimals of a number below each of these; a percentage of less has as many as show it.
DECIMALS_MAX = 6


def metric_of(experiment: Experiment, name: str) -> Metric:
    """The metric of that name; a name that is not known stands for itself."""
    try:
        return experiment.metric_named(name)
    except SpecError:
        return Metric(name, "", True, name.replace("_", " "))


@dataclass(frozen=True)
class Way:
    """How a change of a metric is said: `word` in the catalogue; where the value `shrinks`, a
    change of a logarithm x is 1 − e^−x of it, else e^x − 1.
    """

    word: str
    shrinks: bool


def way(metric: Metric | None, gain: bool = False) -> Way:
    """The way of a loss, or of a gain; without a metric that of a mix."""
    if metric is None:
        return Way("better" if gain else "behind", shrinks=False)
    if metric.higher_is_better:
        return Way("more", shrinks=False) if gain else Way("less", shrinks=True)
    if sort(metric) == "time":
        return Way("shorter", shrinks=True) if gain else Way("longer", shrinks=False)
    return Way("less", shrinks=True) if gain else Way("more", shrinks=False)


def sort(metric: Metric | None) -> str:
    """`rate`, `time`, `count` (of which less is better) or `mix`: which phrases fit."""
    if metric is None:
        return "mix"
    if metric.higher_is_better:
        return "rate"
    is_time = metric.unit in ("s", "ms", "ns") and metric.name not in CPU_TIMES
    return "time" if is_time else "count"


def rounded(
    loss: float, end: End = "point", times: bool = False, shrinks: bool = False
) -> tuple[Decimal, bool]:
    """The number that is printed of a loss, and whether it is a ratio (else per cent).

    With `times` it is one, whatever its size: beside one that is, as two units in a phrase mislead.
    """
    ratio = math.exp(min(loss, HUGE))
    if ratio < TIMES_FROM and not times:
        percent = _digits(-100 * math.expm1(-loss) if shrinks else 100 * math.expm1(loss), end)
        if percent < (50 if shrinks else 100):
            return percent, False
        ratio = TIMES_FROM
    return _digits(ratio, end, 2 if ratio < TIMES_FROM else 1), True


def is_times(up: float | None, shrinks: bool = False) -> bool:
    """Whether what is printed beside this upper end is a ratio, as that is."""
    return up is not None and rounded(up, "up", shrinks=shrinks)[1]


def _digits(value: float, end: End, decimals: int = 1) -> Decimal:
    """So many decimals below 10, none above and of a ratio of 1; where it is small, or a ratio is
    near 1, as many as show it.
    """
    # A result that is exact but for its last bits must not be rounded away from itself.
    exact = Decimal(f"{value:.12g}")
    if exact >= 10 or (exact == 1 and decimals == 2):
        decimals = 0
    small = exact - 1 if decimals == 2 else exact  # what shows that a ratio is no 1.00
    if 0 < small < Decimal("0.01" if decimals == 2 else "0.1"):
        decimals = min(DECIMALS_MAX, -small.adjusted())
    number = exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUNDING[end])
    if number == 10 or (number == TIMES_FROM and decimals >= 2):  # rounded to it: not 10.0, 2.00
        decimals = 0 if number == 10 else 1
    return number.quantize(Decimal(1).scaleb(-decimals))


def amount(
    texts: Texts,
    loss: float,
    end: End = "point",
    bare: bool = False,
    times: bool = False,
    shrinks: bool = False,
    cell: bool = False,
) -> str:
    """`27 %` or `38×`; `bare` stands alone, and in a `cell` there is little room, where a language
    has other forms for these.
    """
    number, is_ratio = rounded(loss, end, times, shrinks)
    key = f"ratio.{'bare_' if bare else ''}{'times' if is_ratio else 'percent'}"
    if cell:
        key = "ratio.cell_times" if is_ratio else "ratio.bare_percent"
    words = texts(key, number=_shown(texts, number), times=_times(texts, number))
    words = texts("ratio.over", amount=words) if loss > HUGE and end == "point" else words
    return words.replace(" %", f"{NO_BREAK}%")


def bounded(up: float | None) -> float | None:
    """The upper end of an interval, where there is one that can be printed."""
    return up if up is not None and up <= HUGE else None


def between(texts: Texts, low: float, up: float, bare: bool = False, shrinks: bool = False) -> str:
    """`18 to 35 %` or `24 to 61×`: the unit of the upper end is that of both."""
    times = is_times(up, shrinks)
    numbers = (rounded(low, "low", times, shrinks)[0], rounded(up, "up", times, shrinks)[0])
    key = f"ratio.{'bare_' if bare else ''}{'times' if times else 'percent'}_range"
    ends = _shown(texts, numbers[0]) if numbers[0] else "0", _shown(texts, numbers[1])
    words = texts(key, low=ends[0], high=ends[1], times=_times(texts, numbers[1]))
    return words.replace(" %", f"{NO_BREAK}%")


def _shown(texts: Texts, number: Decimal) -> str:
    decimals = max(0, -int(number.as_tuple().exponent))
    return texts.number(float(number), decimals)


def _times(texts: Texts, number: Decimal) -> str:
    """The word for times after a number, in its form."""
    if int(number.as_tuple().exponent) < 0:  # printed with a decimal
        return texts.fraction_form("ratio.times_noun")
    return texts.form("ratio.times_noun", int(number))


def said(
    texts: Texts,
    how: Way,
    loss: float,
    end: End = "point",
    times: bool = False,
    cell: bool = False,
) -> str:
    """`27 % longer`, `49 % less`, `half`, `38× longer`; in a `cell`, or a sentence."""
    number, is_ratio = rounded(loss, end, times, how.shrinks)
    if end == "point" and how.word == "less" and is_ratio and number == TIMES_FROM:
        return texts("change.half")
    of = amount(texts, loss, end, times=times, shrinks=how.shrinks, cell=cell)
    return _with_word(texts, how, of, is_ratio)


def said_between(texts: Texts, how: Way, low: float, up: float | None) -> str:
    """`21 to 56× longer`, `at least 20× longer` where the far end is open; of equal ends one."""
    if up is not None and up - low < EQUAL:
        return said(texts, how, low)
    if (end := bounded(up)) is None:
        return texts("cell.at_least", value=said(texts, how, low, "low"))
    words = between(texts, low, end, shrinks=how.shrinks)
    return _with_word(texts, how, words, is_times(end, how.shrinks))


def _with_word(texts: Texts, how: Way, words: str, is_ratio: bool) -> str:
    word = "lower" if how.word == "less" and is_ratio else how.word
    return texts(f"change.{word}", amount=words)


def cell(
    texts: Texts, of: CellAnswer, metric: Metric | None, few: bool = False, exact: bool = False
) -> str:
    """How far a candidate is behind on a row: the note of its cell in every table.

    `few`: too few units for an interval worth printing; `exact`: it is the same in every run.
    """
    how = way(metric)
    if of.best:
        return texts("cell.best")
    if of.open:
        least = texts("cell.at_least", value=said(texts, how, of.low, "low", cell=True))
        return _marked(least, of) if of.low > 0 else texts("cell.open")
    up = bounded(of.up)
    if exact and up is not None:
        return _marked(texts("cell.every_run", amount=said(texts, how, of.loss, cell=True)), of)
    if up is None or few or (up > TOO_WIDE and of.low == 0):
        key = "cell.unbounded" if of.loss > 0 else "cell.ahead_unbounded"
        return _marked(texts(key, amount=said(texts, how, of.loss, cell=True)), of)
    if of.loss == 0:
        return texts("cell.ahead", amount=said(texts, how, up, "up", cell=True))
    words = said(texts, how, of.loss, times=is_times(up, how.shrinks), cell=True)
    # An interval is not broken over lines, nor parted from its mark.
    inside = between(texts, of.low, up, bare=True, shrinks=how.shrinks).replace(" ", NO_BREAK)
    return _marked(texts("cell.bracket", text=words, inside=inside), of)


def _marked(text: str, of: CellAnswer) -> str:
    return f"{text}{NO_BREAK}{BEHIND}" if of.low > 0 else text


def share(texts: Texts, value: float) -> str:
    """A share as `12 %`, above 1 as a ratio: `2.4×`."""
    if value > 1:
        return amount(texts, math.log1p(value))
    percent = 100 * value
    decimals = 0 if percent >= 9.95 or f"{percent:.1f}".endswith(".0") else 1
    if 0 < percent < SMALLEST_PERCENT / 2:
        return texts("format.less_than", amount=_percent(texts, SMALLEST_PERCENT, 2))
    return _percent(texts, percent, 2 if 0 < percent < 0.095 else decimals)


def _percent(texts: Texts, percent: float, decimals: int) -> str:
    return texts("format.percent", number=texts.number(percent, decimals)).replace(" ", NO_BREAK)
