"""`schedlab trace cpu -- COMMAND`: the CPU bursts of a command and of all that it forks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from schedlab.cli.options import PATH, command, json_option


@command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--method", type=click.Choice(["bpf", "perf", "schedstat"]), help="Only this source.")
@click.option("--out", type=PATH, help="Write every burst to this CSV file.")
@json_option
@click.pass_context
def cpu(
    ctx: click.Context,
    command: tuple[str, ...],
    method: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run COMMAND and print how long it and its children stayed on a CPU each time.

    Write `--` before the command. Exits with the command's own status.
    """  # fmt: skip
    from schedlab.app.trace import command as trace_command
    from schedlab.cli.show import print_lines

    sys.stdout.flush()
    traced = trace_command.trace_command(command, method)
    if out:
        trace_command.write_bursts(out, traced.bursts)
    document = trace_command.as_json(traced)
    print_lines([json.dumps(document)] if as_json else trace_command.lines(traced))
    ctx.exit(traced.account.exit_status)
