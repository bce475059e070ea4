"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""

from schedlab.analyse.decide import Decision, next_decision
from schedlab.analyse.flags import check_means
from schedlab.analyse.knee import Knee, find_knee
from schedlab.analyse.scaling import call_costs, knees
from schedlab.analyse.verdict import analyse

__all__ = [
    "Decision",
    "Knee",
    "analyse",
    "call_costs",
    "check_means",
    "find_knee",
    "knees",
    "next_decision",
]
