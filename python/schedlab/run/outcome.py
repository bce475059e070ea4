"""What one measured cell gives back, and what a backend must offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schedlab.spec import Candidate, Cell, GateFinding, Workload


@dataclass(frozen=True)
class Outcome:
    """Numbers, stated facts, gates that did not hold, and histograms (rows low, high, count)."""

    metrics: Mapping[str, float]
    properties: Mapping[str, Any] = field(default_factory=dict)
    gates: tuple[GateFinding, ...] = ()
    histograms: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)


class Session(Protocol):
    """A target made ready; the backend's context manager leaves the host as it was."""

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """Set the candidate, carry out the workload once, and read back."""
        ...
