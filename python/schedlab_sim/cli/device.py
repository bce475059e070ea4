"""`schedlab device up|list|down|models|fit`: emulated devices, and models of devices."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from schedlab.cli.options import PATH, json_option
from schedlab.cli.sections import Group, together
from schedlab.cli.types import Size

_model_options = together(
    click.option("--size", type=Size(),
                 help="Size of the device.  [default: that of the device file, else 8G]"),
    click.option("--queue-depth", type=click.IntRange(1, 128),
                 help="Commands in the device (NCQ: 32)."),
    click.option("--policy", help="Order in which the device serves its queue (sptf, fcfs, …)."),
    click.option("--service", type=click.Choice(["serial", "parallel"]), help="How an SSD works."),
    click.option("--dilate", type=click.FloatRange(min=1), default=1.0, show_default=True,
                 help="Slow modelled time down by this factor."),
    click.option("--data", default="memory", show_default=True,
                 help="Where to keep data: memory, none (reads give zeros), or a file."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                 help="Change a model key."),
)  # fmt: skip


@click.group(cls=Group)
def device() -> None:
    """Emulate disks and SSDs: a model behind a real block device.

    The kernel's own schedulers, file systems and programs run on /dev/loopN. A model of a disk or
    SSD decides when each request completes. Figures from it are marked emulated: they show what
    the kernel does on such a device, not how fast a real one is.
    """


@device.command()
@click.argument("model")
@_model_options
@click.option("--name", default="", help="Name for `device down`.  [default: the model's]")
@json_option
def up(name: str, as_json: bool, **options: Any) -> None:
    """Make a block device from MODEL, a shipped model or a device file.

    `schedlab device models` lists the shipped ones.
    """
    from schedlab.cli.show import print_result
    from schedlab.host.emulated import keeper
    from schedlab_sim.emulated_devices import emulation_of

    kept = keeper.up(emulation_of(options), name)
    print_result(as_json, asdict(kept), [kept.line()])


@device.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """Show the emulated devices that are up, and how many requests they served."""
    from schedlab.cli.show import print_result
    from schedlab.host.emulated import keeper
    from schedlab_sim.emulated_devices import kept_lines

    devices = keeper.kept()
    print_result(as_json, {"devices": list(map(asdict, devices))}, kept_lines(devices))


@device.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Remove every emulated device.")
def down(name: str | None, everything: bool) -> None:
    """Remove a device. File systems on it are unmounted first; data in memory are lost."""
    from schedlab.host.emulated import keeper

    if bool(name) == everything:
        raise click.UsageError("name one device, or use --all")
    names = [each.name for each in keeper.kept()] if everything else [str(name)]
    keeper.down_all(names, None, lambda each: click.echo(f"{each} is down"))


@device.command()
@click.argument("path", type=PATH, required=False, metavar="DEVICE")
@click.option(
    "--datasheet",
    metavar="KEY=VALUE,…",
    help="Instead: interface=disk|sata|nvme|card,iops-1=N,iops-32=N,read=SIZE,write=SIZE.",
)
@click.option("--out", type=PATH, help="The device file.  [default: NAME.toml]")
@json_option
def fit(path: Path | None, datasheet: str | None, out: Path | None, as_json: bool) -> None:
    """Make a device file of DEVICE, with reads only, in about two minutes.

    Each key has its error, or is unknown where reads do not show it. A self-test on reads that
    the model has not seen is in the file. Use it as any device file.
    """
    from schedlab.cli.show import live_line, print_result
    from schedlab_sim.fit.fitted import lines
    from schedlab_sim.predict import fit as app

    if (path is None) == (datasheet is None):
        raise click.UsageError("name a device, or use --datasheet")
    with live_line() as line:
        made = (
            app.fit_datasheet(str(datasheet), out)
            if path is None
            else app.fit_device(path, out, lambda text: line.show(text, True))
        )
    print_result(as_json, asdict(made.fitted), [*lines(made.fitted), "", *app.closing(made)])


@device.command()
def models() -> None:
    """List the shipped models."""
    from schedlab_sim.emulated_devices import model_lines

    click.echo("\n".join(model_lines()))
