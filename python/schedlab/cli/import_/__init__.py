"""`schedlab import`: existing measurements become a result folder; a command per importer."""

from __future__ import annotations

import click

from schedlab.cli import LazyGroup
from schedlab.store.importers import IMPORTERS

# Those that are given more than files; all others are made from the table.
_OWN = {
    "csv": "schedlab.cli.import_.commands:csv",
    "time": "schedlab.cli.import_.commands:time",
}
COMMANDS = {name: _OWN.get(name, "") for name in IMPORTERS}


class _Importers(LazyGroup):
    """A command for each importer of the table."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported or made now."""
        if cmd_name in _OWN or cmd_name not in IMPORTERS:
            return super().get_command(ctx, cmd_name)
        from schedlab.cli.import_.commands import of_files

        return of_files(cmd_name)

    def line_of(self, name: str) -> str:
        """The line of the table of importers about it."""
        return IMPORTERS[name].line


@click.group(name="import", cls=_Importers, commands_by_name=COMMANDS)
def import_() -> None:
    """Import existing measurements, for `schedlab analyse`."""
