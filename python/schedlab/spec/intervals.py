"""The 95 % interval of a mean, wherever it is not that of an answer (`analyse`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of their mean by Student's t; infinite for fewer than two."""
    from scipy.special import stdtrit

    n = len(values)
    return float(stdtrit(n - 1, 0.975)) * stdev(values) / math.sqrt(n) if n > 1 else math.inf
