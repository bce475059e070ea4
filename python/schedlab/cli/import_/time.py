"""`schedlab import time`: time(1) and the `time` of shells."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.import_.common import common_options, finish, labelled, options_from


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE…")
@click.option("--workload", default="command", show_default=True, help="What was timed.")
@common_options
def time(
    files: tuple[str, ...],
    workload: str,
    out: Path,
    as_json: bool,
    title: str,
    baseline: str,
    controls: tuple[str, ...],
    blocked: bool,
) -> None:
    """Import what time(1) or a shell's `time` said; files of one candidate are its repetitions.

    \b
    schedlab import time none=1.txt none=2.txt bfq=3.txt bfq=4.txt --out DIR
    """
    from schedlab.store.importers import time as importer

    options = options_from(title, baseline, controls, blocked)
    finish(importer.read(labelled(files), workload, options), out, as_json)
