"""How a trace is replayed on a simulated device: its volumes, addresses and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from schedlab.nouns.reading import split_format
from schedlab.store.compiled import clock_warnings

# Skipped lines, as a share of all, from which a result needs a warning.
BAD_SHARE_MAX = 0.01


@dataclass(frozen=True)
class Replay:
    """A trace file with what is done to its requests; the keys of `ReplayOptions` in
    crates/sim/src/workload/replay.rs.

    `volumes`: `refuse` several (the default without a scheduler), `region` (a region of its own
    for each) or `select=ID,…`. `fit` of addresses beyond the device: `refuse`, `wrap`, `compact` or
    `scale`. Times are divided by
    `time_scale`, or stretched to `rate` requests per second, or replaced by a closed loop with
    `closed` requests outstanding; `think` keeps the measured think times instead.
    """

    path: Path
    format: str | None = None
    volumes: str | None = None
    fit: str = "refuse"
    time_scale: float | None = None
    rate: float | None = None
    closed: int | None = None
    think: bool = False
    skip_bad_lines: bool = False
    reorder: int | None = None
    event: str = "queue"

    def options(self) -> dict[str, object]:
        """The keys that differ from their defaults, without path and format."""
        values = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        defaults = {field.name: field.default for field in fields(self)[2:]}
        return {key: value for key, value in values.items() if value != defaults[key]}

    def fields(self) -> dict[str, Any]:
        """The fields of a simulation of the trace."""
        return {"trace": self.path, "format": self.format, "trace_set": self.options()}


def replay_of(text: str, **options: Any) -> Replay:
    """The trace at `FILE` or `FILE:FORMAT`; SpecError where there is no such file."""
    return Replay(*split_format(text, "write FILE or FILE:FORMAT"), **options)


def replay_warnings(trace: Mapping[str, Any] | None) -> list[str]:
    """Warnings about the trace: skipped lines, changed requests."""
    if not trace:
        return []
    warnings = clock_warnings(trace["skipped"])
    bad, lines = trace["skipped"]["bad"], trace["lines"]
    if bad:
        share = bad / max(lines, 1)
        weight = ", more than 1 %: is this the right format?" if share > BAD_SHARE_MAX else ""
        warnings.append(f"{bad:,} of {lines:,} lines were malformed and skipped{weight}")
    if trace["changed_share"]:
        split = f", {trace['split']:,} of them were split" if trace["split"] else ""
        warnings.append(f"{trace['changed_share']:.1%} of the requests were moved to fit{split}")
    return warnings
