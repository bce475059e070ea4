"""The interface of a backend: a prepared target on which cells are measured one by one."""

from __future__ import annotations

from typing import Protocol

from schedlab.kinds import Outcome
from schedlab.nouns import Candidate, Cell, Workload


class Session(Protocol):
    """A prepared target; the backend's context manager restores the host."""

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """Set the candidate, run the workload once, and read back."""
        ...
