"""What the baseline differs from itself by (the A/A arm), and the margins that follow from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.comparison import Comparison
from schedlab.analyse.intervals import compare_blocked
from schedlab.analyse.matrix import Floats
from schedlab.analyse.unblocked import compare_unblocked

TWIN_ARMS = ("A/A", "baseline")


@dataclass(frozen=True)
class Margins:
    """Shares that do not matter: a difference is claimed only beyond `difference`, and candidates
    are equivalent only inside `equivalence`. `floor` is the noise floor, `None` without an A/A arm.

    Differences must exceed the noise floor as well as what was asked. Equivalence is not made
    easier by noise: its margin is raised only by what the A/A arm demonstrably differs from the
    baseline (the near end of its own 95 % interval), since smaller differences cannot be told from
    what the method itself adds. `raised` says that it was.
    """

    difference: float
    equivalence: float
    floor: float | None = None
    raised: bool = False


def blocked_margins(asked: float, difference: Floats, seed: int) -> Margins:
    """From log(A/A arm) − log(baseline) of every block; NaN where the arm is missing."""
    known = difference[np.isfinite(difference)]
    if not len(known):
        return Margins(asked, asked)
    y = np.column_stack([known, np.zeros_like(known)])
    return _margins(asked, compare_blocked(y, TWIN_ARMS, seed=seed))


def unblocked_margins(
    asked: float, workloads: Sequence[Sequence[Floats]], weights: Sequence[float], seed: int
) -> Margins:
    """From the runs (logs) of both, `workloads[w]` = (A/A arm, baseline)."""
    if not workloads or any(len(runs) == 0 for arms in workloads for runs in arms):
        return Margins(asked, asked)
    comparison = compare_unblocked(workloads, TWIN_ARMS, weights=weights, seed=seed)
    return _margins(asked, comparison)


def _margins(asked: float, comparison: Comparison) -> Margins:
    """The floor is the Hodges–Lehmann estimate, so that one outlier does not raise it."""
    estimate = float(comparison.hodges_lehmann[0])
    mean = float(comparison.mean[0])
    floor = math.expm1(abs(estimate if math.isfinite(estimate) else mean))
    demonstrated = math.expm1(max(0.0, abs(mean) - float(comparison.half_width[0])))
    return Margins(
        difference=max(asked, floor),
        equivalence=max(asked, min(demonstrated, floor)),
        floor=floor,
        raised=demonstrated > asked,
    )
