"""`--play`: a queue step by step in the terminal, each pick predicted if you like, or as a page."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cli.options import language_option
from schedlab.cli.sections import section
from schedlab.errors import SpecError

if TYPE_CHECKING:
    from schedlab.report.play import Play

# What the option holds where no file is named.
TERMINAL = "-"

play_options = section(
    "Step by step",
    click.option("--play", is_flag=False, flag_value=TERMINAL, metavar="[FILE.html]",
                 help="What the queue holds at each choice, which is picked, and why."),
    language_option,
    usual="--play",
)  # fmt: skip


def refuse_idle_language(typed: Mapping[str, object], *, is_page: bool) -> None:
    """SpecError for a language where no page is written."""
    is_page = is_page or str(typed.get("gantt")).endswith(".html")
    if typed.get("lang") and not is_page and typed.get("play") in (None, TERMINAL):
        raise SpecError("--lang would change nothing here: it is that of a page", "omit --lang")


def show_plays(plays: Sequence[Play], file: str, lang: str | None = None) -> None:
    """The plays: a page, questions in a terminal, or all choices as lines."""
    from schedlab.report.play import page
    from schedlab.report.texts import Texts
    from schedlab.store.files import write_atomic

    if file != TERMINAL:
        write_atomic(Path(file), page(plays, Texts(lang)))
        click.echo(f"page: {file}")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _ask(plays)
    else:
        for number in range(max(len(play.choices()) for play in plays)):
            _print(plays, number)


def _print(plays: Sequence[Play], number: int, *, hidden: bool = False) -> None:
    from schedlab.report.play import beside, block

    width = shutil.get_terminal_size((80, 24)).columns
    for line in beside([block(play, number, hidden=hidden) for play in plays], width):
        click.echo(line)


def _ask(plays: Sequence[Play]) -> None:
    """Step by step; a prediction is checked before the pick is shown."""
    asked = right = 0
    for number in range(max(len(play.choices()) for play in plays)):
        _print(plays, number, hidden=True)
        for play in plays:
            if number >= len(play.choices()):
                continue
            text = f"{play.policy} picks (a name, Enter to see it, q to stop)"
            answer = click.prompt(text, default="", show_default=False).strip()
            if answer == "q":
                return
            if answer:
                asked += 1
                right += answer == play.choices()[number].picked.name
        _print(plays, number)
        if asked:
            click.echo(f"{right} of {asked} predictions right\n")
