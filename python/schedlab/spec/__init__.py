"""The nouns of schedlab: what is asked, planned, measured and concluded.

Frozen, plain data; imports nothing of ours but the errors. Everything here survives a round trip
through JSON by `to_json` and `from_json`, which the files of a result folder are made of.
"""

from __future__ import annotations

from schedlab.spec.convert import from_json, to_json
from schedlab.spec.experiment import (
    AA_SUFFIX,
    ATTEMPTS_MAX,
    SCHEMA_VERSION,
    Candidate,
    Cell,
    Experiment,
    Kind,
    Objective,
    Plan,
    PublishedMean,
    Stopping,
    Target,
    Workload,
)
from schedlab.spec.metrics import METRICS, Metric, metric_named
from schedlab.spec.results import GateFinding, Record, Run, RunStatus, Samples
from schedlab.spec.verdict import (
    CandidateSummary,
    Flag,
    KneeFigure,
    Overall,
    Pair,
    PairVerdict,
    ParetoPoint,
    Reason,
    Segment,
    Verdict,
    WorkloadVerdict,
)

__all__ = [
    "AA_SUFFIX",
    "ATTEMPTS_MAX",
    "METRICS",
    "SCHEMA_VERSION",
    "Candidate",
    "CandidateSummary",
    "Cell",
    "Experiment",
    "Flag",
    "GateFinding",
    "Kind",
    "KneeFigure",
    "Metric",
    "Objective",
    "Overall",
    "Pair",
    "PairVerdict",
    "ParetoPoint",
    "Plan",
    "PublishedMean",
    "Reason",
    "Record",
    "Run",
    "RunStatus",
    "Samples",
    "Segment",
    "Stopping",
    "Target",
    "Verdict",
    "Workload",
    "WorkloadVerdict",
    "from_json",
    "metric_named",
    "to_json",
]
