"""`schedlab import iozone`: text (throughput mode, table, `-R`) and BIFF2 (`-b`)."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.import_.common import common_options, finish, labelled, options_from


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@common_options
def iozone(
    files: tuple[str, ...],
    out: Path,
    as_json: bool,
    title: str,
    baseline: str,
    controls: tuple[str, ...],
    blocked: bool,
) -> None:
    """Import outputs of IOzone; several files of one candidate are its repetitions.

    \b
    schedlab import iozone none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import iozone as importer

    options = options_from(title, baseline, controls, blocked)
    finish(importer.read(labelled(files), options), out, as_json)
