"""What a backend offers: a target made ready, on which cells are measured one after the other."""

from __future__ import annotations

from typing import Protocol

from schedlab.kinds import Outcome
from schedlab.spec import Candidate, Cell, Workload


class Session(Protocol):
    """A target made ready; the backend's context manager leaves the host as it was."""

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """Set the candidate, run the workload once, and read back."""
        ...
