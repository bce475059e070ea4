"""`schedlab import fio`: JSON and json+ output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schedlab.cli.import_.common import imports, labelled

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@imports
def fio(files: tuple[str, ...], options: Options) -> Imported:
    """Import JSON output of fio, a workload per job; files of one candidate are its repetitions.

    \b
    schedlab import fio none=1.json none=2.json bfq=3.json bfq=4.json --out DIR
    """
    from schedlab.store.importers import fio as importer

    return importer.read(labelled(files), options)
