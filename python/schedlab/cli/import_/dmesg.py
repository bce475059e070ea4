"""`schedlab import dmesg`: CPU bursts from the log of a patched kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schedlab.cli.import_.common import imports, labelled

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE...")
@imports
def dmesg(files: tuple[str, ...], options: Options) -> Imported:
    """Import kernel logs with a line per CPU burst, one run per FILE.

    \b
    schedlab import dmesg '1 ms=rr-1.log' '10 ms=rr-10.log' --out DIR
    """
    from schedlab.store.importers import dmesg as importer

    return importer.read(labelled(files), options)
