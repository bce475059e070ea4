"""`schedlab io list`: the schedulers that each device offers, as `sda:<TAB>none bfq`."""

from __future__ import annotations

import click

from schedlab.cli.options import command, json_option


@command("list")
@click.argument("devices", nargs=-1)
@json_option
def list_(devices: tuple[str, ...], as_json: bool) -> None:
    """Show the schedulers that DEVICES offer, or all block devices that have one.

    Schedulers that are modules appear once they are loaded, for example by `modprobe bfq`.
    """
    from schedlab.cli.show import print_result
    from schedlab.host.devices import each_with_queue
    from schedlab.host.settings import knobs

    offered = each_with_queue(knobs.offered, devices)
    lines = [f"{name}:\t{' '.join(schedulers)}" for name, schedulers in offered.items()]
    print_result(as_json, {"devices": offered}, lines)
