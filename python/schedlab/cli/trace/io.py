"""`schedlab trace io DEVICE`: the block layer of a device, live, without writing to it."""

from __future__ import annotations

import json

import click

from schedlab.cli.options import command_argument, json_option
from schedlab.cli.types import Duration


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("device")
@command_argument
@click.option("--seconds", type=Duration(), help="How long (default: until Ctrl-C).")
@json_option
def io(device: str, command: tuple[str, ...], seconds: float | None, as_json: bool) -> None:
    """Show where the requests of DEVICE wait: for a tag, in the scheduler, in the device.

    With COMMAND (write `--` before it) schedlab runs the command and watches until it ends.
    """
    from schedlab.app.trace_io import lines, watch_device
    from schedlab.cli.show import print_lines, print_message

    result = watch_device(device, seconds, command, print_message)
    print_lines([json.dumps(result)] if as_json else lines(result))
    click.get_current_context().exit(result["exit_status"] or 0)
