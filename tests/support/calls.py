"""Calls that end within a time: commands, and functions that refuse."""

from __future__ import annotations

import dataclasses
import gc
import json
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from schedlab.cli import cli
from schedlab.errors import HostError, SchedlabError, SpecError

CPU_SECONDS_MAX, SECONDS_MAX = 10, 120


def call(*words: object) -> tuple[int, str]:
    """A command's exit code and all that it prints, with message and hint of an error of ours; any
    other error is raised as it is.
    """
    try:
        return _called(*words)
    finally:
        gc.collect()  # a consent in the frames of an error would hold its device until then


def _called(*words: object) -> tuple[int, str]:
    def late(number: int, frame: object) -> None:
        raise AssertionError(f"hangs: {words}")

    before = [signal.signal(number, late) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
    signal.alarm(SECONDS_MAX)
    try:
        result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
    error = result.exception
    if error is None:
        return result.return_value or 0, result.output
    if isinstance(error, SystemExit):
        return int(error.code or 0), result.output
    if isinstance(error, click.ClickException) and not isinstance(error, SchedlabError):
        return error.exit_code, f"{result.output}{error.format_message()}"
    if not isinstance(error, SchedlabError):
        raise error
    assert error.hint, error
    assert "Traceback" not in result.output
    return error.exit_code, f"{result.output}{error}\nhint: {error.hint}"


def run(*words: object, code: int = 0) -> Result:
    """The outcome of a command that exits with `code`."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def document(*words: object, code: int = 0) -> Any:
    """What it prints as JSON, of the schema that the reference describes."""
    found = json.loads(run(*words, "--json", code=code).stdout)
    assert found.pop("schema") == 1
    return found


def refused(function: Callable[..., Any], *values: Any, **named: Any) -> tuple[str, str]:
    """The message and the hint of the error that a call ends with."""
    with pytest.raises((SpecError, HostError)) as raised:
        function(*values, **named)
    return str(raised.value), raised.value.hint


def refusals(
    function: Callable[..., Any], cases: Iterable[tuple[Any, ...]], place: str = ""
) -> str:
    """What a call says of each of these arguments, with its hint: the text of a golden file. The
    directory `place` of a test is left out.
    """
    parts = []
    for case in cases:
        message, hint = refused(function, *case)
        assert hint, message
        lines = [", ".join(map(brief, case)), f"  {message}", f"  hint: {hint}", ""]
        lines = [line.replace(place, "") for line in lines] if place else lines
        # A list of all that is known is not frozen here.
        parts += [line if len(line) <= 100 else f"{line[:100]}…" for line in lines]
    return "\n".join(parts)


def brief(value: Any) -> str:
    """A value as source text; of a noun only what is not usual."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {brief(each)}' for key, each in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(brief, value))})"
    if not dataclasses.is_dataclass(value):
        return repr(value)
    said = [f"{name}={brief(held)}" for name, held in _unusual(value).items()]
    return f"{type(value).__name__}({', '.join(said)})"


def _unusual(value: Any) -> dict[str, Any]:
    """The fields of a noun that are not as usual."""
    own = ((each, getattr(value, each.name)) for each in dataclasses.fields(value))
    return {each.name: held for each, held in own if held not in (each.default, {})}


def shown(made: Mapping[str, Any]) -> str:
    """Each of these below its name, a field a line: the text of a golden file."""
    parts = []
    for name, value in made.items():
        fields = value if isinstance(value, dict) else _unusual(value)
        parts += ["", f"# {name}"]
        for key, held in fields.items():
            is_list = isinstance(held, tuple) and any(map(dataclasses.is_dataclass, held))
            parts += [f"{key}: {brief(each)}" for each in (held if is_list else [held])]
    return "\n".join(parts[1:])
