"""`schedlab import`: somebody's existing measurements become a result folder, one file a format."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "csv": ("schedlab.cli.import_.csv:csv", "A long-format CSV, by a mapping of its columns."),
}


@click.group(name="import", cls=LazyGroup, commands_by_name=COMMANDS)
def import_() -> None:
    """Import existing measurements, so that `schedlab analyse` can judge them."""
