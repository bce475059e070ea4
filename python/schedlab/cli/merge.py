"""`schedlab merge`: repetitions of one experiment become the sessions of one result."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import PATH, json_option, out_option


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--hosts", is_flag=True, help="Each folder is a machine, by the folder's name.")
@click.option(
    "--of",
    type=click.IntRange(min=2),
    metavar="N",
    help="N folders were planned: all of them are the planned end.",
)
@out_option
@json_option
def merge(
    folders: tuple[Path, ...], hosts: bool, of: int | None, out: Path | None, as_json: bool
) -> None:
    """Join result FOLDERS that differ only in the seed; each becomes a session of one result."""
    from schedlab.app.fleet.merge import merge as join
    from schedlab.app.measure.measure import default_folder
    from schedlab.cli.show import present
    from schedlab.result import Result

    present(Result(join(folders, out or default_folder("merge"), hosts=hosts, of=of or 0)), as_json)
