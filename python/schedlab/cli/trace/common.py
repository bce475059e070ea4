"""How trace files and the options of reading them are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from schedlab.errors import SchedlabError, SpecError

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--skip-bad-lines", is_flag=True, help="Count lines that are none; go on."),
    click.option(
        "--reorder",
        type=click.IntRange(0, 1 << 24),
        help="Requests held back to put them in order (default: by the format).",
    ),
    click.option(
        "--event",
        type=click.Choice(["queue", "dispatch", "complete"]),
        default="queue",
        show_default=True,
        help="blkparse, blktrace: the event that is the arrival.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Tell the outcome as JSON."),
)


def reading_options(command: F) -> F:
    """Add the options of reading a trace to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_json(skip_bad_lines: bool, reorder: int | None, event: str) -> str:
    """The options as the compiled part takes them."""
    options = {"skip_bad_lines": skip_bad_lines, "reorder": reorder, "event": event}
    return json.dumps(options)


def split_format(text: str) -> tuple[str, str | None]:
    """(file, format) of `FILE[:FORMAT]`; a file of that whole name wins."""
    from schedlab import _core

    file, colon, name = text.rpartition(":")
    if not colon or Path(text).exists():
        return text, None
    known = [known for known, _, _ in _core.trace_formats()]
    if name not in known:
        raise SpecError(f"trace format {name!r} is not known", f"one of {', '.join(known)}")
    return file, name


def as_spec_error(error: ValueError) -> SchedlabError:
    """An error of the compiled part with a hint that fits it."""
    text = str(error)
    if "cannot be told" in text or "is not known" in text:
        return SpecError(text, "write FILE:FORMAT")
    if "reorder with" in text:
        return SpecError(text, "add --reorder N with a larger N")
    if ": expected " in text:
        return SpecError(text, "name the format as FILE:FORMAT, or add --skip-bad-lines")
    return SpecError(text, "check the file with `file` and `head`")
