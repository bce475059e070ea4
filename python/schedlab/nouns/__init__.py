"""The nouns of schedlab: the question, the plan, the measurements and the conclusion.

Frozen, plain data; imports nothing of ours but the errors. Everything here survives a round trip
through JSON by `to_json` and `from_json`, which the files of a result folder are made of.
"""

from __future__ import annotations

from schedlab.nouns.convert import from_json as from_json, to_json as to_json
from schedlab.nouns.experiment import (
    AA_SUFFIX as AA_SUFFIX,
    ATTEMPTS_MAX as ATTEMPTS_MAX,
    SCHEMA_VERSION as SCHEMA_VERSION,
    Candidate as Candidate,
    Cell as Cell,
    Experiment as Experiment,
    Kind as Kind,
    Objective as Objective,
    Plan as Plan,
    Planning as Planning,
    PublishedMean as PublishedMean,
    Require as Require,
    Statement as Statement,
    Stopping as Stopping,
    Target as Target,
    Workload as Workload,
)
from schedlab.nouns.findings import (
    ComparedStatement as ComparedStatement,
    Flag as Flag,
    KneeFigure as KneeFigure,
    ParetoPoint as ParetoPoint,
    Population as Population,
)
from schedlab.nouns.metrics import (
    METRICS as METRICS,
    Metric as Metric,
    metric_named as metric_named,
)
from schedlab.nouns.results import (
    Bound as Bound,
    Explanation as Explanation,
    GateFinding as GateFinding,
    RateSeries as RateSeries,
    Record as Record,
    Run as Run,
    RunStatus as RunStatus,
    Samples as Samples,
    StoredSession as StoredSession,
    boot_of as boot_of,
)
