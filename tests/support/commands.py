"""The commands of schedlab, from its own declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from schedlab.cli import cli

PARENT = click.Context(cli, **cli.context_settings)


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """The words and the command of every command that is no group."""
    for word in group.list_commands(PARENT):
        command, name = group.get_command(PARENT, word), f"{path} {word}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, name)
        else:
            yield name, command


COMMANDS = dict(commands())


def typed(name: str, *words: str) -> dict[str, Any]:
    """What a command is called with when these words are typed."""
    return COMMANDS[name].make_context(name, list(words), parent=PARENT).params
