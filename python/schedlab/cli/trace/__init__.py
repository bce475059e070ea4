"""`schedlab trace`: recorded requests and kernel events, one file per command."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "cpu": ("schedlab.cli.trace.cpu:cpu", "CPU bursts of a command and of all it forks."),
    "io": ("schedlab.cli.trace.io:io", "Where the requests of a device wait, live."),
    "convert": ("schedlab.cli.trace.files:convert", "Write a block trace in another format."),
    "stats": ("schedlab.cli.trace.files:stats", "Describe a block trace."),
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def trace() -> None:
    """Read block I/O traces and record kernel events."""
