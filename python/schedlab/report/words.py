"""Ratios in words, as people say them: `82× shorter (61 to 110×)`, `29 % slower`.

A ratio is always better : worse ≥ 1. Below 2 it is a percentage of the thing that it is
compared with, from 2 on a multiple; above 1,000 only that it is above. Direction words depend on
what the metric is: a rate is faster, a time shorter, a fairness more even, CPU time less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from schedlab.errors import SpecError
from schedlab.report.texts import Texts
from schedlab.spec import Experiment, Fact, Metric

TIMES_FROM = 2.0
TIMES_MAX = 1000.0
ONE_DECIMAL_BELOW = 1.1
# Shares are printed with two decimals at most.
SMALLEST_PERCENT = 0.01
Speech = Literal["rate", "time", "even", "less", "fewer", "more", "higher", "lower", "mixed"]
Side = Literal["better", "worse"]
# What is used up, and what is counted: there is more or less of it, and fewer of them.
USED = ("cpu_s", "user_s", "system_s", "rss_bytes")
COUNTED = ("major_faults", "context_switches", "calculations")


def speech(metric: Metric | None) -> Speech:
    """Which words of direction a metric takes; `mixed` where several metrics are averaged."""
    if metric is None:
        return "mixed"
    name, unit = metric.name, metric.unit
    is_counted = name in COUNTED or (unit == "B" and name.endswith("_bytes"))
    if metric.higher_is_better:
        if "fairness" in name or "jain" in name:
            return "even"
        return "more" if is_counted else "rate" if unit.endswith("/s") else "higher"
    if name in USED or ("cpu" in name and "_per_" in name):
        return "less"
    if is_counted:
        return "fewer"
    return "time" if unit in ("ns", "us", "µs", "ms", "s") else "lower"


def metric_of(experiment: Experiment, name: str, higher_is_better: bool = True) -> Metric | None:
    """The metric of a fact by its name; `None` for the mean of several."""
    if not name:
        return None
    try:
        return experiment.metric_named(name)
    except SpecError:
        return Metric(name, "", higher_is_better, name.replace("_", " "))


@dataclass(frozen=True)
class Rounding:
    """The form of a ratio: a multiple, or percent with `decimals`."""

    times: bool
    decimals: int = 0


def amount(texts: Texts, ratio: float, side: Side, kind: Speech, *, whole: bool = False) -> str:
    """`82×` or `29 %` for better : worse = `ratio`, from the side of the better or the worse."""
    return _amount(texts, max(ratio, 1 / ratio), _rounding(ratio, whole), _grows(side, kind))


def between(
    texts: Texts, ratio: float, low: float, high: float | None, side: Side, kind: Speech
) -> str:
    """`61 to 110×` or `22 to 37 %`: the interval in the form of its ratio.

    "" where it is open, or where both ends read the same.
    """
    rounded, grows = _rounding(ratio, whole=False), _grows(side, kind)
    if high is None or low > TIMES_MAX:
        return ""
    ends = [low, high]
    forms = [_end(end, rounded, grows) for end in ends]
    numbers = [_number(texts, end, form, grows) for end, form in zip(ends, forms, strict=True)]
    if forms[0].times != forms[1].times or ends[1] > TIMES_MAX:
        shown = [_amount(texts, e, f, grows) for e, f in zip(ends, forms, strict=True)]
        return texts("ratio.range", low=shown[0], high=shown[1])
    if numbers[0] == numbers[1]:
        return ""
    key = "ratio.times_range" if forms[0].times else "ratio.percent_range"
    times = _times(texts, ends[1])
    return texts(key, low=numbers[0], high=numbers[1], times=times).replace(" %", "\u00a0%")


def _rounding(ratio: float, whole: bool) -> Rounding:
    r = max(ratio, 1 / ratio)
    if r >= TIMES_FROM - 0.005:  # 99.5 % and more is no percentage
        return Rounding(times=True)
    return Rounding(times=False, decimals=0 if whole or r >= ONE_DECIMAL_BELOW else 1)


def _end(end: float, rounded: Rounding, grows: bool) -> Rounding:
    """The form of an end: that of the ratio, but never a percentage of 100 or more."""
    if not rounded.times and end >= TIMES_FROM and grows:
        return Rounding(times=True)
    return rounded


def _grows(side: Side, kind: Speech) -> bool:
    """Whether this side has the larger figure of the two."""
    larger_is_better = kind in ("rate", "even", "more", "higher", "mixed")
    return larger_is_better == (side == "better")


def _number(texts: Texts, ratio: float, rounded: Rounding, grows: bool) -> str:
    """The bare number of a ratio in its form."""
    if rounded.times:
        return _two_digits(texts, ratio)
    percent = 100 * (ratio - 1 if grows else 1 - 1 / ratio)
    decimals = rounded.decimals
    if percent and abs(round(percent, decimals)) == 0:
        decimals = min(6, -math.floor(math.log10(abs(percent))))
    return texts.number(percent, decimals)


def _two_digits(texts: Texts, value: float) -> str:
    rounded = float(f"{value:.2g}")
    decimals = 0 if rounded >= 10 else 1 if rounded >= 1 else 2
    return texts.number(rounded, decimals)


def _amount(texts: Texts, ratio: float, rounded: Rounding, grows: bool) -> str:
    if rounded.times and ratio > TIMES_MAX:
        return texts("ratio.over", number=texts.number(TIMES_MAX, 0))
    number = _number(texts, ratio, rounded, grows)
    if rounded.times:
        return texts("ratio.times", number=number, times=_times(texts, ratio))
    return texts("ratio.percent", number=number).replace(" %", "\u00a0%")


def _times(texts: Texts, ratio: float) -> str:
    """The word for times after a number, in its plural form."""
    rounded = float(f"{ratio:.2g}")
    if rounded < 10:  # printed with a decimal
        return texts.fraction_form("ratio.times_noun")
    return texts.form("ratio.times_noun", round(rounded))


def word(texts: Texts, side: Side, kind: Speech) -> str:
    """`faster`, `shorter`, `less even`, …"""
    return texts(f"word.{kind}_{side}")


def short(
    texts: Texts, fact: Fact, metric: Metric | None, side: Side, form: str = "format.bracket"
) -> str:
    """`46× shorter (38 to 55×)`, without a name; `form` joins the two."""
    kind = _speech_of(fact, metric)
    words = texts("ratio.words", amount=_fact_amount(texts, fact, side, kind),
                  word=word(texts, side, kind))  # fmt: skip
    return bracketed(texts, words, fact, side, kind, form)


def gain(texts: Texts, fact: Fact, metric: Metric | None, form: str = "gain") -> str:
    """`29 % faster than none (22 to 37 %)`: what the better one of a fact wins.

    `form` is `gain`, or `does` for a clause with the winner's name.
    """
    kind = _speech_of(fact, metric)
    words = texts(
        f"{form}.{kind}",
        name=fact.better,
        amount=_fact_amount(texts, fact, "better", kind),
        what=texts.metric(metric) if metric else "",
        other=fact.worse,
    )
    return bracketed(texts, words, fact, "better", kind)


def loss(
    texts: Texts,
    fact: Fact,
    metric: Metric | None,
    form: str = "loss",
    name: str = "",
    names_metric: bool = False,
) -> str:
    """`bfq is 29 % slower (22 to 37 %)`: what the worse one of a fact loses.

    `form` is a section of the catalogue: `loss` (a sentence about a candidate), `actor` (about
    the other processes of a run, called `name`) or `lost` (the metric as a noun). With
    `names_metric` it is `bfq has 29 % lower throughput`: the metric is not the one that decides.
    """
    kind = _speech_of(fact, metric)
    words = texts(
        f"{form}.higher" if names_metric and kind in ("rate", "even") else f"{form}.{kind}",
        amount=_fact_amount(texts, fact, "worse", kind),
        what=texts.metric(metric) if metric else "",
        name=name or fact.worse,
    )
    return bracketed(texts, words, fact, "worse", kind)


def bracketed(
    texts: Texts, words: str, fact: Fact, side: Side, kind: Speech, form: str = "format.bracket"
) -> str:
    """Words with the interval of the fact behind them, where it has one."""
    if fact.low is None or fact.open_end:
        return words
    inside = between(texts, fact.ratio, fact.low, fact.high, side, kind)
    return texts(form, text=words, inside=inside) if inside else words


def _fact_amount(texts: Texts, fact: Fact, side: Side, kind: Speech) -> str:
    if fact.open_end and fact.low is not None:
        return texts("ratio.at_least", amount=amount(texts, fact.low, side, kind))
    return amount(texts, fact.ratio, side, kind)


def _speech_of(fact: Fact, metric: Metric | None) -> Speech:
    return speech(metric) if metric else "mixed"


def share(texts: Texts, value: float) -> str:
    """A share as `12 %`, above 1 as a ratio: `2.4×`."""
    if value > 1:
        return _amount(texts, 1 + value, Rounding(times=True), grows=True)
    percent = 100 * value
    decimals = 0 if percent >= 9.95 or f"{percent:.1f}".endswith(".0") else 1
    if 0 < percent < SMALLEST_PERCENT / 2:
        return texts("format.less_than", amount=_percent(texts, SMALLEST_PERCENT, 2))
    return _percent(texts, percent, 2 if 0 < percent < 0.095 else decimals)


def _percent(texts: Texts, percent: float, decimals: int) -> str:
    return texts("format.percent", number=texts.number(percent, decimals)).replace(" ", "\u00a0")
