"""`schedlab io run`: one load, once, with every figure that the engine has."""

from __future__ import annotations

import json
from typing import Any

import click

from schedlab.cli.options import PATH, command, destroy_option, json_option, typed_options
from schedlab.cli.sections import heeded
from schedlab.cli.types import Duration, Size


@command()
@click.option("--test", "test_name", required=True, help="read, random-read, stride-read, …")
@click.option("--file", "path", type=PATH, required=True, help="File or device.")
@click.option("--size", type=Size(), help="Bytes used from its start; a new file gets this size.")
@click.option("--record", type=Size(), default="4k", show_default=True, help="Bytes per request.")
@click.option("--depth", type=click.IntRange(1, 32767), default=1, show_default=True)
@click.option("--workers", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option(
    "--engine", type=click.Choice(["psync", "io_uring", "mmap"]), help="Default: by depth."
)
@click.option("--batch", type=click.IntRange(1, 32767), default=1, help="Requests per submission.")
@click.option("--direct/--buffered", default=False, help="O_DIRECT, or the page cache.")
@click.option(
    "--sync", type=click.Choice(["none", "dsync", "sync"]), default="none", help="O_DSYNC, O_SYNC."
)
@click.option("--fsync", "fsync_at_end", is_flag=True, help="Count a final fsync.")
@click.option("--seconds", type=Duration(), help="Measured window (default: one pass).")
@click.option("--ramp", type=Duration(), default=None, help="Load before the window.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Open loop: requests/s per worker."
)
@heeded("--rate", "--arrivals", type=click.Choice(["poisson", "constant"]), default="poisson",
        show_default=True)  # fmt: skip
@click.option("--read-percent", type=click.IntRange(0, 100), default=50, help="Of a mixed load.")
@click.option("--with-replacement", is_flag=True, help="Random records may repeat in a pass.")
@click.option("--verify", is_flag=True, help="Mark every written record, check every one read.")
@click.option("--iopoll", is_flag=True, help="io_uring: poll for completions (needs --direct).")
@click.option("--sqpoll", is_flag=True, help="io_uring: a kernel thread submits.")
@click.option("--allow-fallback", is_flag=True, help="psync where the kernel refuses io_uring.")
@click.option("--overwrite", is_flag=True, help="Write to a file that exists.")
@destroy_option
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True)
@json_option
def run(as_json: bool, **typed: Any) -> None:
    """Put one load on a file or device; print throughput, latency and CPU time.

    For example: schedlab io run --test random-read --record 4k --depth 32 --direct --file F
    --size 1g --seconds 5
    """
    from schedlab.app.measure.load_lines import load_lines
    from schedlab.app.measure.single_load import run_load
    from schedlab.app.measure.worker_lines import as_iozone, worker_lines
    from schedlab.app.options import check_heeded, permission
    from schedlab.cli.show import print_lines

    options = typed_options(click.get_current_context())
    check_heeded(options, options.keys())
    result = run_load(typed, permission(typed["destroy_data"], trust=True).consents)
    group = result["groups"][0]
    lines = worker_lines(group)
    if as_json:
        click.echo(json.dumps({"schema": 1, **result, "iozone": lines}))
    else:
        print_lines(load_lines(group))
        if typed["workers"] > 1:
            click.echo(as_iozone(lines, group["name"], typed["workers"]))
    failed = any((group["reads"]["errors"], group["writes"]["errors"], group["mismatches"]))
    click.get_current_context().exit(int(failed))
