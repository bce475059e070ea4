"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""

from schedlab.analyse.answer import answer
from schedlab.analyse.answer_check import check
from schedlab.analyse.decide import Decision, next_decision
from schedlab.analyse.detectable import detectable
from schedlab.analyse.flags import check_means
from schedlab.analyse.knee import Knee, find_knee
from schedlab.analyse.looks import Extension, extension
from schedlab.analyse.scaling import call_costs, knees
from schedlab.analyse.sessions import diff_sessions, session_means
from schedlab.analyse.steady import common_ramp, steadiness
from schedlab.analyse.verdict import analyse

__all__ = [
    "Decision",
    "Extension",
    "Knee",
    "analyse",
    "answer",
    "call_costs",
    "check",
    "check_means",
    "common_ramp",
    "detectable",
    "diff_sessions",
    "extension",
    "find_knee",
    "knees",
    "next_decision",
    "session_means",
    "steadiness",
]
