"""`schedlab import iozone`: text (throughput mode, table, `-R`) and BIFF2 (`-b`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schedlab.cli.import_.common import imports, labelled

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@imports
def iozone(files: tuple[str, ...], options: Options) -> Imported:
    """Import outputs of IOzone; several files of one candidate are its repetitions.

    \b
    schedlab import iozone none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import iozone as importer

    return importer.read(labelled(files), options)
