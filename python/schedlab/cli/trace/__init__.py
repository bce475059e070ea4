"""`schedlab trace`: recorded requests and kernel events, one file per command."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS = {
    "cpu": "schedlab.cli.trace.cpu:cpu",
    "io": "schedlab.cli.trace.io:io",
    "convert": "schedlab.cli.trace.files:convert",
    "stats": "schedlab.cli.trace.files:stats",
    "timeline": "schedlab.cli.trace.files:timeline",
}


@click.group(cls=LazyGroup, commands_by_name=COMMANDS)
def trace() -> None:
    """Read block I/O traces and record kernel events."""
