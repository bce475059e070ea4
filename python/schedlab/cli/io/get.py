"""`schedlab io get`: the scheduler of each device, as `sda:<TAB>bfq`."""

from __future__ import annotations

import click

from schedlab.cli.options import command


@command()
@click.argument("devices", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the tunables.")
def get(devices: tuple[str, ...], as_json: bool) -> None:
    """Show the scheduler of each of DEVICES, or of all block devices that have one."""
    from schedlab.cli.show import print_result
    from schedlab.host.devices import each_with_queue
    from schedlab.host.safety import journal
    from schedlab.host.safety.recover import restore_if_stale
    from schedlab.host.settings import knobs

    for line in restore_if_stale(journal.state_directory()).lines():
        click.echo(f"left changed by a session that died: {line}", err=True)

    def look(device: str) -> dict[str, object]:
        scheduler = knobs.read_value(knobs.scheduler_file(device))
        return {"scheduler": scheduler, "tunables": knobs.tunables(knobs.queue_of(device))}

    settings = each_with_queue(look, devices)
    lines = [f"{name}:\t{facts['scheduler']}" for name, facts in settings.items()]
    print_result(as_json, {"devices": settings}, lines)
