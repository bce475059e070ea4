"""`schedlab recover`: restore on request what a killed session left changed."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be restored.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--state-directory",
    type=click.Path(file_okay=False),
    envvar="SCHEDLAB_STATE_DIR",
    help="Where the journal is.  [default: /run/schedlab]",
)
def recover(dry_run: bool, as_json: bool, state_directory: str | None) -> int:
    """Restore every setting, and remove everything, that a dead session left behind.

    Any schedlab command that changes this host does the same before it starts. A value that
    another program set since is kept and shown. Exit code 3: something could not be restored.
    """
    import dataclasses

    from schedlab.app.recovering import recover_all

    recovery = recover_all(state_directory, dry_run)
    if as_json:
        click.echo(json.dumps({"schema": 1, **dataclasses.asdict(recovery)}, indent=2))
    else:
        for line in recovery.lines() or ["nothing to restore"]:
            click.echo(line)
    if not dry_run:
        recovery.raise_if_failed()
    return 0
