"""`schedlab.compare(…)`: the command as a call, with the grammar of the command line."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.errors import SpecError

if TYPE_CHECKING:
    from schedlab.result import Result

# Options about what a terminal shows; a call returns the result instead.
_FOR_TERMINALS = {"json", "dry-run", "rehearse", "resume", "out", "help-all"}


def compare_as_typed(
    command: tuple[str, ...], options: Mapping[str, object], out: Path | None
) -> Result:
    """Measure what `schedlab compare` would measure with these options; SpecError as there."""
    from schedlab.app import options as read
    from schedlab.app.admit import admit
    from schedlab.app.measure import measure, virtual
    from schedlab.cli import cli
    from schedlab.cli.compare import compare
    from schedlab.cli.options import typed_options

    words = _words(compare, options)
    try:
        # A command of click keeps the help option of the first context that it was used in.
        parent = click.Context(cli, **cli.context_settings)
        words += ["--", *command] if command else []
        context = compare.make_context("compare", words, parent=parent)
    except click.UsageError as error:
        raise SpecError(error.format_message(), "schedlab compare --help-all") from error
    with context:
        typed = virtual.with_usual(context.params)
        place = read.place_of(typed)
        read.check_work(typed_options(context), command, typed)
        experiment = read.comparison(place, command, typed, warnings.warn)
        if typed["kernel"]:
            to = out or measure.default_folder("compare")
            return virtual.measure(experiment, typed["kernel"], to)
        admitted = admit(experiment, read.permission_of(place))
        folder = measure.create(admitted, out or measure.default_folder("compare"))
        return measure.measure(admitted, folder)


def _words(command: click.Command, options: Mapping[str, object]) -> list[str]:
    """The options as words: `True` sets a flag, a list repeats an option or is joined by commas."""
    known = {
        word.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for word in (*parameter.opts, *parameter.secondary_opts)
    }
    words = []
    for typed, value in options.items():
        name = typed.replace("_", "-")
        if name not in known or name in _FOR_TERMINALS:
            usable = sorted(set(known) - _FOR_TERMINALS)
            near = [each.replace("-", "_") for each in get_close_matches(name, usable, 1)]
            raise SpecError(
                f"{typed}: is no option of a comparison",
                f"did you mean {near[0]}?" if near else "schedlab compare --help-all",
            )
        parameter = known[name]
        if parameter.is_flag:
            off = [word for word in parameter.secondary_opts if not value]
            words += [f"--{name}"] if value else off
        elif isinstance(value, (list, tuple)) and not parameter.multiple:
            words += [f"--{name}", ",".join(map(str, value))]
        else:
            several = value if isinstance(value, (list, tuple)) else [value]
            words += [word for each in several for word in (f"--{name}", str(each))]
    return words
