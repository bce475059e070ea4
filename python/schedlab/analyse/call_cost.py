"""Does the time go with the calls? Seconds as a constant plus a cost per call, least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CallCost:
    """seconds = `constant_s` + `seconds_per_call` × calls; `explained` is R², the share of the
    variance that the number of calls explains.
    """

    constant_s: float
    seconds_per_call: float
    explained: float


def fit_call_cost(calls: Sequence[int], seconds: Sequence[float]) -> CallCost | None:
    """Ordinary least squares of seconds over calls; None for fewer than two numbers of calls."""
    x, y = np.asarray(calls, dtype=float), np.asarray(seconds, dtype=float)
    if len(np.unique(x)) < 2:
        return None
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    constant = float(y.mean() - slope * x.mean())
    residual = float(np.sum((y - constant - slope * x) ** 2))
    spread = float(np.sum((y - y.mean()) ** 2))
    explained = 1 - residual / spread if spread else 1.0
    return CallCost(constant, slope, explained)
