"""`schedlab import hdparm`: text of `hdparm -tT`."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.import_.common import common_options, finish, labelled, options_from


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@common_options
def hdparm(
    files: tuple[str, ...],
    out: Path,
    as_json: bool,
    title: str,
    baseline: str,
    controls: tuple[str, ...],
    blocked: bool,
) -> None:
    """Import text of `hdparm -tT`; several files of one candidate are its repetitions.

    \b
    schedlab import hdparm none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import hdparm as importer

    options = options_from(title, baseline, controls, blocked)
    finish(importer.read(labelled(files), options), out, as_json)
