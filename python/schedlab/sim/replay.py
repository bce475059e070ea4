"""How a trace is replayed on a simulated device: its volumes, addresses and times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from schedlab.errors import Interrupted, SchedlabError, SpecError
from schedlab.spec.foreign import explained
from schedlab.spec.reading import split_format

VOLUMES_HINT = "--volumes region, or --volumes select=ID,…"
FIT_HINT = "--fit wrap, compact or scale"
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


@contextmanager
def compiled(hint: str) -> Iterator[None]:
    """Errors of the compiled part as ours, with the hint that fits, else `hint`."""
    try:
        yield
    except ValueError as error:
        raise _spec_error(error, hint) from None
    except RuntimeError as error:
        raise Interrupted(str(error)) from None


def _spec_error(error: ValueError, hint: str) -> SchedlabError:
    text = re.sub(r" at line \d+ column \d+$", "", str(error))  # of JSON that no user wrote
    for part, better in (
        ("policy ", "see docs/guides/policy-in-python.md") if ".py:" in text else ("\0", hint),
        ("volumes, ", VOLUMES_HINT),
        ("volumes = ", VOLUMES_HINT),
        ("the device's end", FIT_HINT),
        ("ending within the disk", FIT_HINT),
        ("reorder with", "add --reorder N with a larger N"),
        ("trace format ", "write FILE:FORMAT"),
        ("has no request", "name the file with the requests themselves"),
        ("a second one begins", "split the file at that line, or sort it by time"),
        ("the clock starts again", "split the file at that line, or sort it by time"),
    ):
        if part in text:
            return SpecError(text, better)
    if found := re.match(r"(.+): cannot recognise the format \(it is (\S+) up to line", text):
        hint = f"name the format, to see what is wrong there: {found[1]}:{found[2]}"
        return explained(SpecError(text, hint), [Path(found[1])], found[2])
    if found := re.match(r"(.+): cannot recognise the format \((?:no|it is)", text):
        return explained(SpecError(text, "write FILE:FORMAT"), [Path(found[1])])
    if "cannot recognise" in text:
        return SpecError(text, "write FILE:FORMAT")
    if found := re.search(r"use (--event \w+)$", text):
        hint = f"add {found[1]}"
    elif re.search(r", (line|record) \d+: ", text):
        hint = "name the format as FILE:FORMAT, or add --skip-bad-lines"
    return SpecError(text, hint)


def clock_warnings(skipped: Mapping[str, int]) -> list[str]:
    """Warnings where the clock of a trace falls back far, and of events that were lost."""
    fall_s, lost = skipped.get("fell_back_ns", 0) / 1e9, skipped.get("lost", 0)
    words = f"the clock falls back by {fall_s:,.3f} s: if the file holds several captures, split it"
    warnings = [f"{words} (they were merged by time)"] if fall_s else []
    return [*warnings, f"the kernel lost {lost:,} events of it"] if lost else warnings


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
