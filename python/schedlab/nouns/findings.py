"""Findings beside an answer: flags, its population, and figures for the pages.

Flag kinds and their values (beside `workload` and `candidates`):

`unblocked`          the runs were not made in blocks; {} | `single-run` {runs: {candidate: n}}
`unbalanced`         {runs: {candidate: n}, most}       | `cold-first-run` {difference, unit}
`insensitive`        {cpu_share}                        | `identical` {}
`non-positive`       {metric}: values that are 0 or negative and are no bounds
`missing-cells`      {cells, filled: {candidate: n}}: filled by least squares
`left-out`           more than half of its cells are missing {cells, of}
`no-baseline`        no run of the baseline counts {used (in its place), reason (in English)}
`lacks-workload`     a candidate compared over fewer workloads {workloads}
`lacks-runs`         a further metric that only some runs gave: it is no row {metric, runs, of}
`only-one`           one candidate has runs on the workload {}
`starved`            {counts: {candidate: n}, runs}: runs that give bounds
`aa-differs`         {ratio, low, high, far}: A/A excludes the margin; far is its far end, a share
`control-failed`, `control-passed` {}; `control-open` {reach, margin, unbounded}
`drift` {change, p}; `change-point` {block (number from 1), change}
`outlier`            {block (number from 1), factor, run, session}
`rare-stalls`        {runs, of, factor}
`two-modes`          {low, high (levels), share_low, share_high}
`uneven-noise`       {ratio, noisiest, quietest, p}
`unsteady`           {autocorrelation, phi, widening}: `widening` is the factor of the half-width
`candidate-time`     {slopes: {candidate: total change}, p, early, late (facts of the pair that
                     changes most), changes_sign}
`carry-over`         {effects: {candidate: log change of its follower}, p, adjusted: [[a, b, log
                     ratio, standard error]]}
`changes-inside`     {early, late (facts of the pair in the halves of its periods)}
`steady-assumed`     below 8 blocks wandering cannot be estimated {blocks}
`gates-unbalanced`   {counts: {candidate: repeated runs}, runs: {candidate: n}, p}
`not-steady`, `unsettled` {runs: n}; `two-levels` {low, high}: rates inside its runs, 1/s
`call-cost` {seconds_per_call, constant_s, explained}
`wrong-mean` {published, unit, mean, rows, difference} or {published, unit, rowless}
`few-requests` {metric, frozen_metric}: the mean decides, requests were too few for the quantile
`goal` {goal, metric, frozen_metric}; `goal-not-measured` {goal, metric, apart}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schedlab.nouns.metrics import Metric


@dataclass(frozen=True)
class Flag:
    """Something that a careful reader must know before believing a figure.

    `kind` and `values` are what its sentence is made of (module docstring).
    """

    kind: str
    workload: str = ""
    candidates: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Population:
    """The population of an answer: one line below every headline.

    `device` describes it in a few words ("" where it is not known).
    """

    workloads: int
    blocks: int
    sessions: int = 1
    device: str = ""
    seconds: float = 0.0
    boots: int = 1


@dataclass(frozen=True)
class ParetoPoint:
    """Throughput and p99 latency of a candidate on one workload, the values of the answer.

    `dominated_by` are those at least as good on both, where this one is proven behind on one.
    """

    candidate: str
    throughput: float
    latency: float
    throughput_metric: str
    latency_metric: str
    dominated_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparedStatement:
    """A statement of a study (`published`), and the `figure` of these runs: that of `candidate` on
    `workload`. `comes_out` is `None` where there is nothing to compare with, or where another
    workload may have the figure.
    """

    says: str
    published: str
    figure: float | None
    comes_out: bool | None
    workload: str = ""
    candidate: str = ""


@dataclass(frozen=True)
class Knee:
    """The bend of y over x: `knee` in the unit of x, inside [`low`, `high`] with 95 % confidence.

    `reason` is why there is none: "too few values", "straight" (one line fits as well) or
    "edge" (the interval reaches the smallest or largest value: test further ones). Slopes are
    exponents: y grows as x to that power before and after the knee.
    """

    reason: Literal["knee", "too few values", "straight", "edge"]
    knee: float | None = None
    low: float | None = None
    high: float | None = None
    slope_before: float | None = None
    slope_after: float | None = None


@dataclass(frozen=True, kw_only=True)
class KneeFigure(Knee):
    """Where the metric of a candidate bends over an ordered size of its workloads, a parameter with
    its unit in its name.
    """

    family: str
    size: str
    candidate: str
    metric: Metric
