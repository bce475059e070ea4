"""`schedlab` alone in a terminal: three questions, and the one command that does it."""

from __future__ import annotations

import os

import click

from schedlab.cli.types import Duration


def ask() -> None:
    """Ask what somebody wants to know, about what, and how long it may take; print the command."""
    from schedlab.app.first import QUESTIONS, command_of
    from schedlab.host.devices import with_queues

    click.echo("What do you want to know?\n")
    for number, question in enumerate(QUESTIONS, 1):
        click.echo(f"  {number}  {question.text}")
    click.echo("\nAll commands: schedlab --help\n")
    number = click.prompt("Number", type=click.IntRange(1, len(QUESTIONS)), default=1)
    question = QUESTIONS[number - 1]
    named = ", ".join(name for name in with_queues() if not name.startswith("loop"))
    disks = f" ({named})" if named and "disk?" in question.subject else ""
    usual = None if question.unnamed is None else ""
    subject = click.prompt(f"{question.subject}{disks}", default=usual, show_default=False)
    time = ""
    if question.time:
        time = click.prompt(
            "How long may it take?", default=question.usual, value_proc=_checked_time
        )
    line, *without = command_of(question, subject.strip(), time, is_root=os.geteuid() == 0)
    click.echo(f"\n{line}")
    for text in without:
        click.echo(text, err=True)


def _checked_time(text: str) -> str:
    """The text, if it is a time; otherwise the question is asked again."""
    Duration().convert(text, None, None)
    return text
