"""Data that was not measured in blocks (imports): Games and Howell, or Welch with Bonferroni.

Differences of means over workloads with Welch's standard errors. Where there are enough runs of
few candidates the studentised range is used (Games and Howell 1976), else Student's t with
Bonferroni's correction, which stays below its level with few runs, too (Welch 1947).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.analyse.quantiles import Floats, range_quantile, range_tail, t_quantile, t_tail
from schedlab.analyse.rule import pair_index

RUNS_FOR_RANGE = 10
CANDIDATES_FOR_RANGE = 6


@dataclass(frozen=True)
class Unpaired:
    """Differences of logs (P), their standard errors and Welch–Satterthwaite freedom.

    `runs` is the least number of runs of a candidate over all workloads, `spread` the pooled
    standard deviation of one run.
    """

    candidates: int
    mean: Floats
    error: Floats
    freedom: Floats
    runs: int
    spread: float

    @property
    def by_range(self) -> bool:
        """Whether the studentised range may be used."""
        return self.runs >= RUNS_FOR_RANGE and self.candidates <= CANDIDATES_FOR_RANGE

    def half_width(self, alpha: float) -> Floats:
        """Half-widths of the simultaneous intervals; infinite with single runs."""
        pairs = max(len(self.mean), 1)
        result = np.full_like(self.mean, np.inf)
        for p, (error, freedom) in enumerate(zip(self.error, self.freedom, strict=True)):
            if not freedom > 0:
                continue
            if self.by_range:
                factor = range_quantile(alpha, self.candidates, freedom) / np.sqrt(2)
            else:
                factor = t_quantile(alpha / pairs, freedom)
            result[p] = float(factor) * error
        return result

    def p_value(self, margin: float) -> Floats:
        """Family-wise p-values against "within ± margin"."""
        result = np.ones_like(self.mean)
        for p, (error, freedom) in enumerate(zip(self.error, self.freedom, strict=True)):
            beyond = abs(self.mean[p]) - margin
            if not freedom > 0 or beyond <= 0:
                continue
            t = beyond / max(error, 1e-300)
            if self.by_range:
                result[p] = float(range_tail(np.sqrt(2) * t, self.candidates, freedom))
            else:
                result[p] = min(1.0, len(self.mean) * float(t_tail(t, freedom)))
        return result


def compare_unpaired(
    workloads: Sequence[Sequence[Floats]], weights: Sequence[float], floor: Floats | float = 0.0
) -> Unpaired:
    """All pairs from `workloads[w][i]`, the logs of candidate i; `weights[w]` as in the mean."""
    k = len(workloads[0])
    first, second = pair_index(k)
    mean, variance, fourth = np.zeros(k), np.zeros(k), np.zeros(k)
    squares, freedom = 0.0, 0
    single = any(len(runs) < 2 for groups in workloads for runs in groups)
    for groups, weight in zip(workloads, weights, strict=True):
        for i, runs in enumerate(groups):
            n = len(runs)
            mean[i] += weight * runs.mean()
            if n > 1:
                part = weight**2 * runs.var(ddof=1) / n
                variance[i] += part
                fourth[i] += part**2 / (n - 1)
                squares += float(((runs - runs.mean()) ** 2).sum())
                freedom += n - 1
    error = np.sqrt(variance[first] + variance[second])
    with np.errstate(invalid="ignore", divide="ignore"):
        satterthwaite = error**4 / (fourth[first] + fourth[second])
    degrees = np.where(error > 0, satterthwaite, float(max(freedom, 1)))
    counts = [sum(len(groups[i]) for groups in workloads) for i in range(k)]
    return Unpaired(
        candidates=k,
        mean=mean[first] - mean[second],
        error=np.maximum(error, floor),
        freedom=np.zeros(len(first)) if single else degrees,
        runs=min(counts),
        spread=float(np.sqrt(squares / freedom)) if freedom else float("nan"),
    )
