"""`schedlab io list`: the schedulers that each device offers, as `sda:<TAB>none bfq`."""

from __future__ import annotations

import click


@click.command("list")
@click.argument("devices", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(devices: tuple[str, ...], as_json: bool) -> None:
    """Show the schedulers that DEVICES offer, or all block devices that have one.

    Schedulers that are modules appear once they are loaded, for example by `modprobe bfq`.
    """
    from schedlab.cli.show import print_json
    from schedlab.host import knobs
    from schedlab.host.devices import each_with_queue

    offered = each_with_queue(knobs.offered, devices)
    if as_json:
        print_json({"devices": offered})
        return
    for name, schedulers in offered.items():
        click.echo(f"{name}:\t{' '.join(schedulers)}")
