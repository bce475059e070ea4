"""`schedlab device up|list|down`: emulated devices that stay until they are taken down."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from schedlab.cli.types import Size

_state = click.option(
    "--state-directory",
    type=click.Path(file_okay=False),
    envvar="SCHEDLAB_STATE_DIR",
    help="Where the journals are.  [default: /run/schedlab]",
)


@click.group()
def device() -> None:
    """Emulate disks and SSDs: a model behind a real block device.

    The kernel's own schedulers, file systems and programs run on /dev/loopN, whose requests are
    answered when the model of a disk or SSD says so. Figures from it are marked emulated: they
    show what the kernel does on such a device, not how fast a real one is.
    """


@device.command()
@click.argument("model")
@click.option("--size", type=Size(), help="Size of the device.  [default: 8G]")
@click.option(
    "--queue-depth", type=click.IntRange(1, 128), help="Commands in the device (NCQ: 32)."
)
@click.option("--policy", help="Order in which the device serves its queue (sptf, fcfs, …).")
@click.option("--service", type=click.Choice(["serial", "parallel"]), help="How an SSD works.")
@click.option(
    "--dilate", type=click.FloatRange(min=1), default=1.0, show_default=True,
    help="Let modelled time pass so many times slower.",
)  # fmt: skip
@click.option(
    "--data", default="memory", show_default=True,
    help="Where data are kept: memory, none (reads give zeros), or a file.",
)  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a model key.")
@click.option("--name", default="", help="Name for `device down`.  [default: the model's]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_state
def up(
    model: str,
    size: int | None,
    settings: tuple[str, ...],
    name: str,
    as_json: bool,
    state_directory: str | None,
    **options: Any,
) -> None:
    """Make a block device on MODEL, a shipped model or a device file.

    `schedlab device models` lists the shipped ones.
    """
    from schedlab.host import keeper
    from schedlab.host.emulated import DEFAULT_SIZE_BYTES, Emulation

    emulation = Emulation(
        model=_absolute(model),
        size_bytes=size or DEFAULT_SIZE_BYTES,
        settings=dict(map(parse_setting, settings)),
        **options,
    )
    kept = keeper.up(emulation, name, state_directory)
    if as_json:
        click.echo(json.dumps({"schema": 1, **_content(kept)}, indent=2))
    else:
        click.echo(kept.line())


@device.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_state
def list_(as_json: bool, state_directory: str | None) -> None:
    """Show the emulated devices that are up, and what they have served."""
    from schedlab.host import keeper

    devices = keeper.kept(state_directory)
    if as_json:
        click.echo(json.dumps({"schema": 1, "devices": [_content(d) for d in devices]}, indent=2))
        return
    if not devices:
        click.echo("no emulated device is up")
    for each in devices:
        click.echo(f"{each.name}: {each.line()}")
        if account := each.account:
            minutes = (time.time() - each.since_s) / 60
            click.echo(
                f"  up for {minutes:.0f} min: {account['reads']} reads, {account['writes']} writes,"
                f" {account['late_share']:.1%} late, depth up to {account['depth_max']}"
            )
        else:
            click.echo("  its server has died: take it down")


@device.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Take down every emulated device.")
@_state
def down(name: str | None, everything: bool, state_directory: str | None) -> None:
    """Remove a device. File systems on it are unmounted first; data in memory are lost."""
    from schedlab.host import keeper

    if bool(name) == everything:
        raise click.UsageError("name one device, or use --all")
    names = [each.name for each in keeper.kept(state_directory)] if everything else [str(name)]
    for each in names:
        keeper.down(each, state_directory)
        click.echo(f"{each} is down")


@device.command()
def models() -> None:
    """List the shipped models."""
    from schedlab.host.emulated import Emulation, shipped_models

    for name in sorted(shipped_models()):
        facts = Emulation(name, size_bytes=None).describe()
        size = f"{facts['size_bytes'] / (1 << 30):.0f} GiB"
        click.echo(f"{name:12} {facts['kind']:5} {size:>8}  queue depth {facts['queue_depth']}")


def parse_setting(text: str) -> tuple[str, object]:
    """`buffer.size=1M` or `rpm=5400`: the key, and its value as number or text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _absolute(model: str) -> str:
    """The keeper has another working directory."""
    from pathlib import Path

    return str(Path(model).resolve()) if Path(model).is_file() else model


def _content(kept: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(kept)
