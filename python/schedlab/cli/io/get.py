"""`schedlab io get`: the scheduler of each device, as `sda:<TAB>bfq`."""

from __future__ import annotations

import click


@click.command()
@click.argument("devices", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the tunables.")
def get(devices: tuple[str, ...], as_json: bool) -> None:
    """Show the scheduler of each of DEVICES, or of all block devices that have one."""
    from schedlab.cli.show import print_json
    from schedlab.host import journal, knobs
    from schedlab.host.devices import with_queues
    from schedlab.host.recover import restore_if_stale

    for line in restore_if_stale(journal.state_directory()).lines():
        click.echo(f"left changed by a session that died: {line}", err=True)
    settings = {}
    for device in devices or with_queues():
        scheduler = knobs.read_value(knobs.scheduler_file(device))
        tunables = knobs.tunables(knobs.queue_of(device))
        settings[knobs.device_name(device)] = {"scheduler": scheduler, "tunables": tunables}
    if as_json:
        print_json({"devices": settings})
        return
    for name, facts in settings.items():
        click.echo(f"{name}:\t{facts['scheduler']}")
