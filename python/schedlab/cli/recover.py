"""`schedlab recover`: put back by hand what a killed session left changed."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be put back.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--state-directory",
    type=click.Path(file_okay=False),
    envvar="SCHEDLAB_STATE_DIR",
    help="Where the journal is.  [default: /run/schedlab]",
)
def recover(dry_run: bool, as_json: bool, state_directory: str | None) -> int:
    """Put back every setting and remove everything that a session which died left behind.

    Any schedlab command that changes this host does the same before it starts. A value that
    somebody else set since is left alone and shown. Exit code 3: something could not be put back.
    """
    import dataclasses

    from schedlab.app.recovering import recover_all

    done = recover_all(state_directory, dry_run)
    if as_json:
        click.echo(json.dumps({"schema": 1, **dataclasses.asdict(done)}, indent=2))
    else:
        for line in done.lines() or ["nothing to put back"]:
            click.echo(line)
    if not dry_run:
        done.raise_if_failed()
    return 0
