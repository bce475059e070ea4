"""`schedlab sim disk`: `schedlab sim run` of a disk with heads."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.sim.options import simulate, simulation_options


@click.command()
@simulation_options("disk7200")
@click.option("--import", "imported", metavar="FILE[:NAME]",
              help="Print a DiskSim parameter file as TOML.")  # fmt: skip
def disk(imported: str | None, **typed: Any) -> None:
    """Simulate a disk with heads: `schedlab sim run` with another default device.

    DEVICE may be a DiskSim parameter file (.parv, .diskspecs, .model), as FILE or FILE:NAME.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    from schedlab.sim.disk import disk_device

    if imported is not None:
        click.echo(disk_device(imported)["device"], nl=False)
        return
    simulate(typed)
