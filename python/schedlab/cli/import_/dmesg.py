"""`schedlab import dmesg`: CPU bursts from the log of a patched kernel."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.import_.common import common_options, finish, labelled, options_from


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[CANDIDATE=]FILE...")
@common_options
def dmesg(
    files: tuple[str, ...],
    out: Path,
    as_json: bool,
    title: str,
    baseline: str,
    controls: tuple[str, ...],
    blocked: bool,
) -> None:
    """Import kernel logs with a line per CPU burst, one run per FILE.

    \b
    schedlab import dmesg '1 ms=rr-1.log' '10 ms=rr-10.log' --out DIR
    """
    from schedlab.store.importers import dmesg as importer

    options = options_from(title, baseline, controls, blocked)
    finish(importer.read(labelled(files), options), out, as_json)
