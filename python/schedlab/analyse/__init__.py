"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""

from schedlab.analyse.decide import Decision, next_decision
from schedlab.analyse.flags import check_means
from schedlab.analyse.knee import Knee, OperationCost, cost_per_operation, find_knee
from schedlab.analyse.verdict import analyse

__all__ = [
    "Decision",
    "Knee",
    "OperationCost",
    "analyse",
    "check_means",
    "cost_per_operation",
    "find_knee",
    "next_decision",
]
