"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""

from schedlab.analyse.decide import Decision, next_decision
from schedlab.analyse.flags import check_means
from schedlab.analyse.verdict import analyse

__all__ = ["Decision", "analyse", "check_means", "next_decision"]
