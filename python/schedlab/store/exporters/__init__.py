"""Result folders in the formats of other tools: one file per format."""

from collections.abc import Mapping
from typing import Any

# (workload, candidate) -> parameters
Parameters = Mapping[tuple[str, str], Mapping[str, Any]]
