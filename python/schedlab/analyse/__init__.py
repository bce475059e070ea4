"""Step 4: from arrays of measurements to an answer. Knows no host and no files."""

from schedlab.analyse.answer import answer as answer
from schedlab.analyse.answer_check import check as check
from schedlab.analyse.flags import check_means as check_means
from schedlab.analyse.guarantees import by_guarantee as by_guarantee
from schedlab.analyse.knee import find_knee as find_knee
from schedlab.analyse.scaling import call_costs as call_costs, knees as knees
from schedlab.analyse.sessions import session_means as session_means
from schedlab.analyse.statements import compared as compared
from schedlab.analyse.steady import common_ramp as common_ramp, steadiness as steadiness
