"""`schedlab trace io DEVICE`: the block layer of a device, live, without writing to it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.options import PATH, command, command_argument, json_option
from schedlab.cli.types import Duration
from schedlab.errors import SpecError


@command(context_settings={"ignore_unknown_options": True})
@click.argument("device")
@command_argument
@click.option("--seconds", type=Duration(), help="How long (default: until Ctrl-C).")
@click.option("--out", type=PATH, help="Record every request into this file.")
@click.option("--anonymise", is_flag=True, help="Numbers for the names of processes in --out.")
@json_option
def io(
    device: str,
    command: tuple[str, ...],
    seconds: float | None,
    out: Path | None,
    anonymise: bool,
    as_json: bool,
) -> None:
    """Show where the requests of DEVICE wait: for a tag, in the scheduler, in the device.

    With COMMAND (write `--` before it) schedlab runs the command and watches until it ends. With
    --out every request is recorded: `schedlab trace stats` and `sim run --trace` read the file.
    """
    from schedlab.app.trace import block_io
    from schedlab.cli.show import print_lines, print_message

    if out is not None:
        recorded = block_io.record_device(device, seconds, command, out, anonymise)
        print_lines([json.dumps(recorded) if as_json else block_io.recorded_line(recorded, out)])
        lost = recorded["lost_share"] > block_io.LOST_SHARE_MAX
        click.get_current_context().exit(recorded["exit_status"] or int(lost))
    if anonymise:
        raise SpecError("--anonymise: nothing is recorded", "name a file: --out FILE")
    result = block_io.watch_device(device, seconds, command, print_message)
    print_lines([json.dumps(result)] if as_json else block_io.lines(result))
    click.get_current_context().exit(result["exit_status"] or 0)
