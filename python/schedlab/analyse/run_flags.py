"""Flags from inside the runs: those that never became steady, have two levels, or two halves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from schedlab.analyse.quantiles import Floats, binomial_tail, t_tail
from schedlab.analyse.rule import ROUNDING
from schedlab.analyse.steady import Steadiness, steadiness
from schedlab.nouns import Flag, Metric, Workload

#: Of steady runs so many look unsteady (both tests together); more than chance allows is a flag.
FALSE_SHARE, LEVEL = 0.03, 0.01
#: Two levels inside this share of a candidate's runs are a property of the candidate.
TWO_LEVELS_SHARE = 0.5
#: The fewest bins that `steadiness` judges.
BINS_LEAST = 12

#: The fewest blocks whose halves are compared.
BLOCKS_LEAST = 6

#: Of a difference that fades less than this share is left, and not proven at this level.
FADES_TO, FADES_LEVEL, FADES_LEAST = 0.5, 0.05, 3

Bins = Sequence[float]
Halves = Mapping[str, Mapping[int, tuple[float, float]]]


def run_flags(workload: str, runs: Mapping[str, Sequence[Sequence[Bins]]]) -> tuple[Flag, ...]:
    """Flags of one workload; `runs` are, by candidate and run, the bins of each group.

    The bins are those of the measured window, without the ramp.
    """
    flags = []
    judged = {
        label: [[steadiness(bins) for bins in run if len(bins) >= BINS_LEAST] for run in each]
        for label, each in runs.items()
    }
    every = [run for each in judged.values() for run in each if run]
    unsteady = sum(any(not group.steady for group in run) for run in every)
    if binomial_tail(unsteady, len(every), FALSE_SHARE) <= LEVEL:
        flags.append(Flag("not-steady", workload, values={"runs": unsteady}))
    for label, each in judged.items():
        if levels := _two_levels([run for run in each if run]):
            low, high = levels
            flags.append(Flag("two-levels", workload, (label,), {"low": low, "high": high}))
    return tuple(flags)


def half_flags(
    work: Workload, metric: Metric, baseline: str, halves: Halves, margin: float
) -> tuple[Flag, ...]:
    """Candidates whose distance from the baseline is another one in the second half of a period.

    `halves` are, by candidate and block, the values of the two halves; `margin` is a log. One
    Student test per candidate over its blocks, with Bonferroni's correction: a flag is `proven`
    where the change is. One that only `fades` contradicts a claim, and says nothing by itself.
    """
    flags = []
    base = halves.get(baseline, {})
    for label, own in halves.items():
        blocks = sorted(own.keys() & base.keys())
        if label == baseline or len(blocks) < BLOCKS_LEAST:
            continue
        ratios = np.log([own[b] for b in blocks]) - np.log([base[b] for b in blocks])
        first, second = ratios.T
        level = LEVEL / max(len(halves) - 1, 1)
        is_proven = chance(second - first) < level and abs((second - first).mean()) > margin
        is_fading = fades(first, second, FADES_LEVEL / max(len(halves) - 1, 1))
        if is_proven or is_fading:
            facts = [_fact(metric, label, baseline, float(each.mean())) for each in ratios.T]
            values = {"early": facts[0], "late": facts[1],
                      "proven": bool(is_proven), "fades": is_fading}  # fmt: skip
            flags.append(Flag("changes-inside", work.label, (label, baseline), values))
    return tuple(flags)


def fades(first: Floats, second: Floats, level: float) -> bool:
    """Whether a difference is proven (at `level`) at first, and later less than half as large:
    no longer proven, or proven to be another one. The two have equal lengths.
    """
    if len(first) < FADES_LEAST or not first.mean():
        return False
    left = second.mean() / first.mean()
    is_lost = left < 0 or chance(second) > FADES_LEVEL or chance(second - first) < level
    return bool(chance(first) < level and left < FADES_TO and is_lost)


def wears_off(differences: Floats, level: float) -> bool:
    """Whether a difference shrinks from block to block (a straight line, Student's test at `level`)
    to less than half of its mean at the last one.
    """
    n = len(differences)
    if n < BLOCKS_LEAST:
        return False
    x = np.arange(n) - (n - 1) / 2
    mean, slope = differences.mean(), x @ differences / (x @ x)
    rest = differences - mean - slope * x
    error = math.sqrt(rest @ rest / (n - 2) / (x @ x))
    left = (mean + slope * x[-1]) / mean if mean else 1.0
    return bool(left < FADES_TO and t_tail(slope / max(error, ROUNDING), n - 2) < level)


def chance(values: Floats) -> float:
    """How probable so large a mean is where there is none: Student's test, two-sided."""
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(t_tail(values.mean() / max(error, ROUNDING), len(values) - 1))


def _fact(metric: Metric, label: str, baseline: str, log: float) -> dict[str, object]:
    """Which of the two was better, and by which ratio."""
    pair = (label, baseline) if (log > 0) == metric.higher_is_better else (baseline, label)
    return {
        "better": pair[0], "worse": pair[1], "ratio": math.exp(abs(log)),
        "metric": metric.name, "higher_is_better": metric.higher_is_better,
    }  # fmt: skip


def _two_levels(runs: Sequence[Sequence[Steadiness]]) -> tuple[float, float] | None:
    """The median levels where most runs of a candidate jump between two; 1/s."""
    firsts = [next((g.modes for g in run if g.modes), None) for run in runs]
    modes = [each for each in firsts if each is not None]
    if len(modes) < 2 or len(modes) < TWO_LEVELS_SHARE * len(runs):
        return None
    return (
        float(np.median([each.low for each in modes])),
        float(np.median([each.high for each in modes])),
    )
