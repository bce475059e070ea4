"""`schedlab io timings`: cached and buffered device reads, in hdparm's layout."""

from __future__ import annotations

from pathlib import Path

import click

from schedlab.cli.options import command, json_option


@command()
@click.argument("devices", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--direct", is_flag=True, help="Read with O_DIRECT (hdparm --direct).")
@json_option
def timings(devices: tuple[Path, ...], direct: bool, as_json: bool) -> None:
    """Time cached reads (2 s) and buffered reads (3 s) of DEVICES, as hdparm -tT does.

    MB are 2^20 bytes, as in hdparm. It only reads; you can name a file as well.
    """
    from schedlab.app.measure.single_load import device_timings, timing_lines
    from schedlab.cli.show import print_json

    results = {}
    for device in devices:
        results[str(device)] = device_timings(device, direct)
        if not as_json:
            click.echo("\n".join(timing_lines(device, results[str(device)], direct)))
    if as_json:
        print_json({"timings": results})
