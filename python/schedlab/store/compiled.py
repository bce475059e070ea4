"""The errors and warnings of the compiled readers of traces, in the words of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from schedlab.errors import Interrupted, SchedlabError, SpecError
from schedlab.nouns.foreign import explained

VOLUMES_HINT = "--volumes region, or --volumes select=ID,…"
FIT_HINT = "--fit wrap, compact or scale"


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
