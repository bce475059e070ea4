"""`schedlab trace cpu -- COMMAND`: the CPU bursts of a command and of all that it forks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--method", type=click.Choice(["bpf", "perf", "schedstat"]), help="Only this source.")
@click.option("--out", type=click.Path(path_type=Path), help="Write every burst to this CSV file.")
@click.option("--ring-bytes", type=int, default=8 << 20, show_default=True, help="Kernel's ring.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def cpu(
    ctx: click.Context,
    command: tuple[str, ...],
    method: str | None,
    out: Path | None,
    ring_bytes: int,
    as_json: bool,
) -> None:
    """Run COMMAND and print how long it and what it forks stayed on a CPU each time.

    Write `--` before the command. Exits with the command's own status.
    """
    from schedlab.app.trace_command import as_json as to_json
    from schedlab.app.trace_command import lines, trace_command, write_bursts
    from schedlab.cli.show import say

    sys.stdout.flush()
    traced = trace_command(command, method, ring_bytes)
    if out:
        write_bursts(out, traced.bursts)
    if as_json:
        click.echo(json.dumps(to_json(traced)))
    else:
        for line in lines(traced):
            (say if line.startswith("note: ") else click.echo)(line)
    ctx.exit(traced.account["exit_status"])
