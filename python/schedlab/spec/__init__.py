"""The nouns of schedlab: the question, the plan, the measurements and the conclusion.

Frozen, plain data; imports nothing of ours but the errors. Everything here survives a round trip
through JSON by `to_json` and `from_json`, which the files of a result folder are made of.
"""

from __future__ import annotations

from schedlab.spec.capture import explanations, is_alike
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
    Planning,
    PublishedMean,
    Require,
    Statement,
    Stopping,
    Target,
    Workload,
)
from schedlab.spec.findings import ComparedStatement, Flag, KneeFigure, ParetoPoint, Population
from schedlab.spec.metrics import METRICS, Metric, metric_named
from schedlab.spec.results import (
    Bound,
    Explanation,
    GateFinding,
    RateSeries,
    Record,
    Run,
    RunStatus,
    Samples,
    StoredSession,
    boot_of,
)

__all__ = [
    "AA_SUFFIX",
    "ATTEMPTS_MAX",
    "METRICS",
    "SCHEMA_VERSION",
    "Bound",
    "Candidate",
    "Cell",
    "ComparedStatement",
    "Experiment",
    "Explanation",
    "Flag",
    "GateFinding",
    "Kind",
    "KneeFigure",
    "Metric",
    "Objective",
    "ParetoPoint",
    "Plan",
    "Planning",
    "Population",
    "PublishedMean",
    "RateSeries",
    "Record",
    "Require",
    "Run",
    "RunStatus",
    "Samples",
    "Statement",
    "Stopping",
    "StoredSession",
    "Target",
    "Workload",
    "boot_of",
    "explanations",
    "from_json",
    "is_alike",
    "metric_named",
    "to_json",
]
