"""`schedlab cpu N TIME`: worker processes that count calculations, printed epoch by epoch."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.options import command
from schedlab.cli.types import Cpus
from schedlab.cpu.policy import KERNELS, POLICIES, PRIORITY_DEFAULT


@command()
@click.argument("processes", type=int, metavar="N")
@click.argument("time", metavar="TIME")
@click.option("--policy", type=click.Choice(POLICIES), default="other", show_default=True)
@click.option("--priority", type=int, default=PRIORITY_DEFAULT, show_default=True,
              help="Static priority for fifo and rr, 1-99.")  # fmt: skip
@click.option("--slice", "slice_ms", type=float, help="Quantum in ms (rr: for the whole host).")
@click.option("--cpu", "cpus", type=Cpus(), help="Pin the workers to these CPUs: 0, 0,2 or 0-3.")
@click.option(
    "--cpuset", is_flag=True, help="Pin by a cpuset cgroup instead of by affinity (last CPU)."
)
@click.option("--compat", type=click.Choice(["spec", "sample"]), default="spec", show_default=True,
              help="Format of the lines; a bare TIME is ms under spec, seconds under sample.",
)  # fmt: skip
@click.option("--calculation", type=click.Choice(KERNELS), default="elementwise",
              show_default=True)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_context
def run(ctx: click.Context, /, as_json: bool, **typed: Any) -> None:
    """Run N worker processes for TIME (30s, 3000ms); each repeats one fixed calculation.

    The kernel's own account of CPU time and switches follows on stderr.
    """
    from schedlab.app.measure.count import count_typed
    from schedlab.cli.show import print_message

    if count_typed(typed, as_json, click.echo, print_message):
        ctx.exit(130)
