"""Step 4: from arrays of measurements to a verdict. Knows no host and no files."""

from schedlab.analyse.flags import check_means
from schedlab.analyse.verdict import analyse

__all__ = ["analyse", "check_means"]
