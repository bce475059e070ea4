"""`schedlab import time`: time(1) and the `time` of shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schedlab.cli.import_.common import imports, labelled

if TYPE_CHECKING:
    from schedlab.store.importers.imported import Imported, Options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@click.option("--workload", default="command", show_default=True, help="What was timed.")
@imports
def time(
    files: tuple[str, ...],
    workload: str,
    options: Options,
) -> Imported:
    """Import what time(1) or a shell's `time` said; files of one candidate are its repetitions.

    \b
    schedlab import time none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import time as importer

    return importer.read(labelled(files), workload, options)
