"""Flags from the rates inside the runs: runs that never became steady, or have two levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binom

from schedlab.analyse.steady import Steadiness, steadiness
from schedlab.spec import Flag

#: Of steady runs so many look unsteady (both tests together); more than chance allows is a flag.
FALSE_SHARE, LEVEL = 0.03, 0.01
#: Two levels inside this share of a candidate's runs are a property of the candidate.
TWO_LEVELS_SHARE = 0.5
#: The fewest bins that `steadiness` judges.
BINS_LEAST = 12

Bins = Sequence[float]


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
    if unsteady > binom.isf(LEVEL, max(len(every), 1), FALSE_SHARE):
        flags.append(Flag("not-steady", workload, values={"runs": unsteady}))
    for label, each in judged.items():
        if levels := _two_levels([run for run in each if run]):
            low, high = levels
            flags.append(Flag("two-levels", workload, (label,), {"low": low, "high": high}))
    return tuple(flags)


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
