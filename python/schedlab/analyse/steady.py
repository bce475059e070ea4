"""Where a run becomes steady: MSER-5 on the rates of its 100 ms bins, and two modes inside it.

White (1997): cut where the squared standard error of the mean of the rest is least. Bins are
averaged in batches of 5 (of 2 below 50 bins); at most half of a run is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.change_points import trend
from schedlab.analyse.quantiles import Floats
from schedlab.analyse.residuals import TwoModes, two_modes

FEW_BINS = 50
BATCH, SMALL_BATCH = 5, 2
FEWEST_BATCHES = 6
#: The first cut is taken whose squared error is at most so many times the least.
NEARLY = 1.25
#: A cut is accepted if the cut part differs by so many standard errors and by this share.
CUT_ERRORS, CUT_SHARE = 3.0, 0.02
SLOPE_LEVEL, SLOPE_SHARE = 0.01, 0.10


@dataclass(frozen=True)
class Steadiness:
    """The findings from the bins of one run.

    `cut` is how many bins belong to the ramp (0: none was accepted), `mean` that of the rest.
    `steady` is false where half was cut or the rest still slopes.
    """

    cut: int
    mean: float
    steady: bool
    modes: TwoModes | None = None


def steadiness(bins: Sequence[float]) -> Steadiness:
    """Ramp, slope and modes of the rates in the 100 ms bins of a run."""
    rates = np.asarray(bins, dtype=np.float64)
    size = BATCH if len(rates) >= FEW_BINS else SMALL_BATCH
    count = len(rates) // size
    if count < FEWEST_BATCHES:
        mean = float(rates.mean()) if len(rates) else float("nan")
        return Steadiness(0, mean, steady=True)
    batches = rates[: count * size].reshape(count, size).mean(axis=1)
    cut = _least_error(batches)
    cut = cut if _differs(batches, cut) else 0
    rest = rates[cut * size :]
    return Steadiness(
        cut=cut * size,
        mean=float(rest.mean()),
        steady=cut < count // 2 and not _slopes(batches[cut:]),
        modes=two_modes(rest),
    )


def _least_error(batches: Floats) -> int:
    """How many batches to cut so that the squared error of the mean of the rest is least.

    The first cut that is nearly as good: the least one wanders along a steady rest.
    """
    n = len(batches)
    errors = np.array([batches[d:].var() / (n - d) for d in range(n // 2 + 1)])
    return int(np.flatnonzero(errors <= NEARLY * errors.min())[0])


def _differs(batches: Floats, cut: int) -> bool:
    if cut == 0:
        return False
    before, rest = batches[:cut], batches[cut:]
    gap = abs(float(before.mean() - rest.mean()))
    error = float(rest.std(ddof=1)) * np.sqrt(1 / len(before) + 1 / len(rest))
    return bool(gap > CUT_ERRORS * error and gap > CUT_SHARE * abs(float(rest.mean())))


def _slopes(rest: Floats) -> bool:
    """Whether the rest still changes by more than a tenth, beyond chance."""
    drift = trend(rest)
    small = drift is None or abs(drift.change) <= SLOPE_SHARE * abs(float(rest.mean()))
    return drift is not None and not small and drift.p < SLOPE_LEVEL


def common_ramp(pilot: Sequence[Sequence[float]]) -> tuple[int, bool]:
    """(bins to cut from every run of a workload, whether all runs are steady then).

    One number for all candidates: the largest accepted cut of the pilot block's runs. Where a run
    is not steady the pilot doubles its time.
    """
    results = [steadiness(bins) for bins in pilot]
    return max((each.cut for each in results), default=0), all(each.steady for each in results)
