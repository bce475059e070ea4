"""`schedlab import fio`: JSON and json+ output."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.import_.common import common_options, finish, labelled, options_from


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@common_options
def fio(
    files: tuple[str, ...],
    out: Path,
    as_json: bool,
    title: str,
    baseline: str,
    controls: tuple[str, ...],
    blocked: bool,
) -> None:
    """Import JSON output of fio, a workload per job; files of one candidate are its repetitions.

    \b
    schedlab import fio none=1.json none=2.json bfq=3.json bfq=4.json --out DIR
    """
    from schedlab.store.importers import fio as importer

    options = options_from(title, baseline, controls, blocked)
    finish(importer.read(labelled(files), options), out, as_json)
