"""`schedlab recover`: restore on request what a killed session left changed."""

from __future__ import annotations

import click

from schedlab.cli.options import command, json_option


@command()
@click.option("--dry-run", is_flag=True, help="Only show what would be restored.")
@click.option("--forget-undo", is_flag=True, help="Run no `undo=` of a candidate: it is done.")
@json_option
def recover(dry_run: bool, forget_undo: bool, as_json: bool) -> None:
    """Restore every setting, and remove everything, that a dead session left behind.

    Any schedlab command that changes this host does the same before it starts. A value that
    another program set since is kept and shown. Exit code 3: something could not be restored.
    """
    import dataclasses

    from schedlab.app.apply.recovering import recover_all
    from schedlab.cli.show import print_result

    recovery = recover_all(None, dry_run, forget_undo)
    lines = recovery.lines() or ["nothing to restore"]
    print_result(as_json, dataclasses.asdict(recovery), lines)
    if not dry_run:
        recovery.raise_if_failed()
