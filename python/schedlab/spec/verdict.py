"""What is concluded: pairs, workloads, the whole; codes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schedlab.spec.experiment import SCHEMA_VERSION, Objective
from schedlab.spec.metrics import Metric

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True)
class Flag:
    """Something that a careful reader must know before believing a figure.

    `text` is the English sentence; `kind` and `values` are what a translation is made of.
    """

    kind: str
    text: str
    workload: str = ""
    candidates: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """a compared with b: "a is `verdict` than b".

    `ratio` is the metric of a over that of b (geometric mean of the blocks), [`low`, `high`] its
    simultaneous 95 % interval; `None` where no interval can be given (single runs).
    `hodges_lehmann` is the robust estimate of the same ratio, `standard_error` that of
    log(ratio). `blocks_needed` is the range of further blocks that would separate an undecided
    pair.
    """

    a: str
    b: str
    ratio: float
    low: float | None
    high: float | None
    verdict: PairVerdict
    hodges_lehmann: float | None = None
    fragile: bool = False
    blocks_needed: tuple[int, int] | None = None
    standard_error: float | None = None


@dataclass(frozen=True)
class CandidateSummary:
    """A candidate on one workload, beside the baseline (`ratio` etc. are `None` for itself)."""

    candidate: str
    runs: int
    mean: float
    geometric_mean: float
    low: float | None
    high: float | None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: PairVerdict | None = None


Reason = Literal["winner", "tied", "not-separated", "cannot-separate", "no-interval", ""]


@dataclass(frozen=True)
class Segment:
    """The blocks between two change points, analysed by themselves."""

    first_block: int
    last_block: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class WorkloadVerdict:
    """What one workload says: every pair, the best set, and a sentence.

    `reason` is the code behind the sentence. `change_points` are the first blocks of a new level;
    `segments` the parts between them.
    """

    workload: str
    metric: Metric
    blocks: int
    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    statement: str
    noise_floor: float | None = None
    margin: float = 0.02
    flags: tuple[Flag, ...] = ()
    change_points: tuple[int, ...] = ()
    reason: Reason = ""
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Overall:
    """What all workloads say together (weighted mean of log ratios inside each block).

    With metrics of both directions a ratio is one of performance (above 1 is better, and
    `higher_is_better` holds); else it is one of the metrics themselves.
    """

    candidates: tuple[CandidateSummary, ...]
    pairs: tuple[Pair, ...]
    best_set: tuple[str, ...]
    statement: str
    best_everywhere: tuple[str, ...] = ()
    reason: Reason = ""
    higher_is_better: bool = True
    margin: float = 0.02
    noise_floor: float | None = None


@dataclass(frozen=True)
class ParetoPoint:
    """Throughput and p99 latency of a candidate on one workload, in the units of the metrics.

    Geometric means of the runs' figures (of each run's own p99, which the verdicts compare) with
    their 95 % intervals. `dominated_by`: better on one of the two, and not worse on the other.
    """

    candidate: str
    throughput: float
    throughput_low: float | None
    throughput_high: float | None
    latency: float
    latency_low: float | None
    latency_high: float | None
    throughput_metric: str
    latency_metric: str
    dominated_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class KneeFigure:
    """Where the metric of a candidate bends over an ordered size of its workloads.

    `size` is the parameter that is ordered, its unit in its name. `reason` says why there is no
    knee (see `analyse.knee.Knee`); the knee lies inside [`low`, `high`] with 95 % confidence, and
    the metric grows as the size to the power of the slopes before and after it.
    """

    family: str
    size: str
    candidate: str
    metric: Metric
    reason: Literal["knee", "too few values", "straight", "edge"]
    statement: str
    knee: float | None = None
    low: float | None = None
    high: float | None = None
    slope_before: float | None = None
    slope_after: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer of an experiment: `verdict.json`, and what `schedlab analyse --json` prints."""

    statement: str
    baseline: str
    design: Literal["blocked", "unblocked"]
    stopping: str
    confidence: float
    workloads: Mapping[str, WorkloadVerdict]
    overall: Overall
    secondary: Mapping[str, tuple[WorkloadVerdict, ...]] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    decided: bool = False
    pareto: Mapping[str, tuple[ParetoPoint, ...]] = field(default_factory=dict)
    goal: Objective | None = None
    knees: tuple[KneeFigure, ...] = ()
    schema: int = SCHEMA_VERSION
