"""`schedlab io timings`: cached and buffered device reads, in hdparm's layout."""

from __future__ import annotations

import json
from pathlib import Path

import click

MIB = 1 << 20


@click.command()
@click.argument("devices", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--direct", is_flag=True, help="Read with O_DIRECT (hdparm --direct).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def timings(devices: tuple[Path, ...], direct: bool, as_json: bool) -> None:
    """Time cached reads (2 s) and buffered reads (3 s) of DEVICES, as hdparm -tT does.

    MB are 2^20 bytes, as there. Only reads; a file can be named as well.
    """
    from schedlab.app.single_load import device_timings

    found = {}
    for device in devices:
        found[str(device)] = done = device_timings(device, direct)
        if not as_json:
            click.echo(f"\n{device}:")
            kind = "O_DIRECT " if direct else ""
            show(f"{kind}cached reads", done["cached"], direct)
            show(f"{kind or 'buffered '}disk reads", done["device"], direct)
    if as_json:
        click.echo(json.dumps({"schema": 1, "timings": found}, indent=1))


def show(title: str, timing: dict[str, int], direct: bool) -> None:
    """One line of hdparm's form."""
    seconds, megabytes = timing["elapsed_ns"] / 1e9, timing["bytes"] / MIB
    rate, unit = megabytes / seconds, "MB/sec"
    if rate < 1:
        rate, unit = rate * 1024, "kB/sec"
    label = f" Timing {title}:"
    click.echo(f"{label:<31s}{megabytes:.0f} MB in {seconds:5.2f} seconds = {rate:6.2f} {unit}")
