"""Commands that fail again and again under one candidate: that is the answer, not an accident."""

from __future__ import annotations

from collections import defaultdict

from schedlab.errors import SchedlabError
from schedlab.kinds.launching import Launching
from schedlab.nouns import ATTEMPTS_MAX
from schedlab.run.command.launch import Ended


class CommandFailed(SchedlabError):
    """A command does not do its work under one candidate; the experiment's answer is no."""

    exit_code = 1


class Failures:
    """Counts the failures in a row, by workload and candidate."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = defaultdict(int)

    def note(self, label: str, candidate: str, kind: Launching, ended: Ended) -> None:
        """Note how a run ended; CommandFailed when too many failed."""
        key = (label, candidate)
        failure = "" if kind.ignore_exit else ended.failure(kind.ok_exit)
        self._counts[key] = self._counts[key] + 1 if failure else 0
        if self._counts[key] >= ATTEMPTS_MAX:
            raise CommandFailed(
                f"{label} {failure} {ATTEMPTS_MAX} times in a row under {candidate}:\n"
                f"{ended.last_lines(20)}",
                "run it by hand under that candidate, or allow it: --ok-exit STATUS",
            )
