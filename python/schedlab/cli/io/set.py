"""`schedlab io set`: set a scheduler on the named devices only, and verify it."""

from __future__ import annotations

import click

from schedlab.cli.options import command, json_option


@command("set")
@click.argument("scheduler")
@click.argument("devices", nargs=-1, required=True)
@json_option
def set_(scheduler: str, devices: tuple[str, ...], as_json: bool) -> None:
    """Set SCHEDULER, or SCHEDULER:TUNABLE=VALUE,…, on DEVICES, and read it back.

    It stays until the next boot. The old value and the command that undoes the change are printed.
    If one device refuses, or the command is killed half-way, all are restored.
    """
    from schedlab.app.apply.set_scheduler import set_scheduler
    from schedlab.cli.show import print_json, print_message

    changes = set_scheduler(scheduler, devices, print_message)
    if as_json:
        print_json({"devices": changes})
        return
    for name, facts in changes.items():
        click.echo(f"{name}:\t{facts['before']} -> {facts['after']}")
        for note in facts["notes"]:
            click.echo(f"note: {name}: {note}", err=True)
        click.echo(f"undo: {facts['undo']}", err=True)
