"""`schedlab sim kernel-check`: simulated schedulers beside the kernel's on an emulated device."""

from __future__ import annotations

from functools import partial

import click

from schedlab.cli.options import COUNT, json_option
from schedlab.errors import SpecError


@click.command("kernel-check")
@click.option("--cells", help="Which of the 12 cells: 1-4,7.  [all]")
@click.option("--processes", metavar="FILE,…", help="Instead of the cells: files or presets.")
@click.option("--device", help="With --processes: model of the device.  [disk7200]")
@click.option("--tags", type=COUNT, help="With --processes: commands that it holds.  [4]")
@click.option("--policy", help="With --processes: its order.  [fcfs]")
@click.option("--schedulers", metavar="NAME[:KEY=VALUE];…",
              help="With --processes.  [none,mq-deadline,kyber,bfq]")  # fmt: skip
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each run.")
@click.option("--blocks", type=click.IntRange(1, 20), default=4, show_default=True,
              help="Runs of each; one decides nothing.")  # fmt: skip
@json_option
def kernel_check(
    cells: str | None,
    processes: str | None,
    device: str | None,
    tags: int | None,
    policy: str | None,
    schedulers: str | None,
    seconds: float,
    blocks: int,
    as_json: bool,
) -> None:
    """Run the same processes simulated and on an emulated device; needs root and FUSE.

    \b
    pass       the deviation and all of its interval are within 10 % (rates), 15 % (latencies)
    fails      all of its interval is outside
    undecided  the interval is too wide: more --blocks, more --seconds
    """
    from schedlab.app.kernel_check import checks_of, own_checks, run_cells

    own = {"--device": device, "--tags": tags, "--policy": policy, "--schedulers": schedulers}
    if processes is not None:
        if cells is not None:
            raise SpecError("--cells and --processes exclude each other", "omit one of them")
        checks = own_checks(
            processes, device or "disk7200", tags or 4, policy or "fcfs", schedulers
        )
    elif idle := [name for name, value in own.items() if value is not None]:
        raise SpecError(f"{idle[0]} is for processes of your own", "add --processes FILE")
    else:
        checks = checks_of(cells or "1-12")
    for text in run_cells(checks, seconds, blocks, as_json, partial(click.echo, err=True)):
        click.echo(text)
