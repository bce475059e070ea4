"""Guard rails of a live experiment: when a load suffers so much that its own setting comes back.

    rail = parse_guard("read p99 > 50ms for 5s")
    rails = Rails([rail], stuck_s=10)
    rails.see(second, "bfq")              # once a second; "" or the sentence of what was tripped

The grammar: [GROUP.]read|write|fsync mean|p50|p90|p99|p99_9|p99_99 > TIME [for TIME]

The latency of a second is that of `Look.latency_ns`: with few requests the slowest of them and the
age of those that wait. TIME is that of seconds in a row, or of those of one candidate (the A/A arm
is the baseline) in all of its periods; a second in which nothing was asked for is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from schedlab.errors import SpecError
from schedlab.kinds.live_load import OPERATIONS, STATISTICS
from schedlab.nouns import AA_SUFFIX
from schedlab.nouns.durability import FSYNC
from schedlab.nouns.quantities import duration_text, parse_duration
from schedlab.run.live.live_figures import Look

STUCK_S = 10.0
_GUARDED = "|".join((*OPERATIONS, FSYNC))
_GUARD = re.compile(
    rf"(?:(?P<group>\S+)\.)?(?P<operation>{_GUARDED})[ .](?:lat(?:ency)?_ns_)?"
    rf"(?P<statistic>{'|'.join(STATISTICS)})\s*>\s*(?P<limit>\S+)(?:\s+for\s+(?P<time>\S+))?"
)
_HINT = "write for example: --guard 'read p99 > 50ms for 5s'"


@dataclass(frozen=True)
class Guard:
    """A latency that must not be above `limit_ns` for `for_s` seconds in a row."""

    text: str
    operation: str
    statistic: str
    limit_ns: float
    for_s: float
    group: str = ""

    def value_ns(self, second: Look) -> float | None:
        """The guarded latency in an interval; None where nothing completed and nothing waits."""
        return second.latency_ns(self.statistic, self.operation, self.group)


def parse_guard(text: str) -> Guard:
    """The guard of a text; SpecError that names it."""
    match = _GUARD.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"guard {text!r} is not understood", _HINT)
    try:
        limit_s = parse_duration(match["limit"])
        for_s = parse_duration(match["time"]) if match["time"] else 1.0
    except SpecError as error:
        raise SpecError(f"guard {text!r}: {error}", _HINT) from error
    return Guard(
        text.strip(), match["operation"], match["statistic"], limit_s * 1e9, for_s,
        match["group"] or "",
    )  # fmt: skip


@dataclass
class Rails:
    """All guards of an experiment; fed with one interval after another."""

    guards: Sequence[Guard]
    stuck_s: float = STUCK_S
    _beyond_s: dict[tuple[Guard, str], float] = field(default_factory=dict)
    _stuck_for_s: float = 0.0

    def see(self, second: Look, candidate: str = "") -> str:
        """The guard that this interval under a candidate tripped, in words; empty for none."""
        if second.errors:
            return f"I/O errors: {second.errors} in {duration_text(second.at_s)}"
        waits = second.in_flight > 0 and not second.requests
        self._stuck_for_s = self._stuck_for_s + second.at_s if waits else 0.0
        if self._stuck_for_s >= self.stuck_s:
            return (
                f"no request completed for {duration_text(self._stuck_for_s)}, with "
                f"{second.in_flight} in flight"
            )
        for guard in self.guards:
            value = guard.value_ns(second)
            if value is None and second.held and not guard.group:
                value = self._stuck_for_s * 1e9  # the ages of what limits hold are unknown
            if value is None:
                continue
            for key in {(guard, ""), (guard, candidate.removesuffix(AA_SUFFIX))}:
                before_s = self._beyond_s.get(key, 0.0)
                self._beyond_s[key] = before_s + second.at_s if value > guard.limit_ns else 0.0
                # Intervals are a little longer or shorter than a second.
                if self._beyond_s[key] > 0.95 * guard.for_s:
                    return f"{guard.text}: it is {value / 1e6:.3g} ms"
        return ""

    def distance(self, second: Look) -> float | None:
        """The guarded latency nearest to its limit, as a share of it; None without one."""
        shares = [
            value / guard.limit_ns
            for guard in self.guards
            if (value := guard.value_ns(second)) is not None
        ]
        return max(shares, default=None)
