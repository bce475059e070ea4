"""Step 4: from arrays of measurements to an answer. Knows no host and no files."""

from schedlab.analyse.answer import answer
from schedlab.analyse.answer_check import check
from schedlab.analyse.flags import check_means
from schedlab.analyse.guarantees import by_guarantee
from schedlab.analyse.knee import Knee, find_knee
from schedlab.analyse.scaling import call_costs, knees
from schedlab.analyse.sessions import session_means
from schedlab.analyse.statements import compared
from schedlab.analyse.steady import common_ramp, steadiness

__all__ = [
    "Knee",
    "answer",
    "by_guarantee",
    "call_costs",
    "check",
    "check_means",
    "common_ramp",
    "compared",
    "find_knee",
    "knees",
    "session_means",
    "steadiness",
]
