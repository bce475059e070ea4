"""Options that several `schedlab sim` commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedlab.cli.options import PATH
from schedlab.cli.sections import together

if TYPE_CHECKING:
    from schedlab.sim.typed import Shown

F = TypeVar("F", bound=Callable[..., Any])

trace_options = together(
    click.option("--trace", metavar="FILE[:FORMAT]", help="Replay a trace instead of a workload."),
    click.option("--volumes", default="refuse",
                 help="Of a trace: refuse (several), region, select=ID,…."),
    click.option("--fit", type=click.Choice(["refuse", "wrap", "compact", "scale"]),
                 default="refuse",
                 help="Of a trace: what to do with addresses beyond the device."),
    click.option("--time-scale", type=float, help="Of a trace: divide its times by this."),
    click.option("--closed", type=click.IntRange(min=1), is_flag=False, flag_value=1,
                 metavar="[DEPTH]",
                 help="Of a trace: requests always outstanding."),
    click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them."),
)  # fmt: skip
log_option = click.option("--log", type=PATH, help="Every request to FILE.csv or FILE.arrow.")
service_option = click.option(
    "--service", type=click.Choice(["serial", "parallel"]), default="serial"
)
buffer_option = click.option("--buffer", help="Size of the page buffer, such as 64MiB.")
set_option = click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key."
)


def device_options(default: str) -> Callable[[F], F]:
    """Add `--device` and `--set`."""
    which = "A shipped device or the path of a device file."
    device = click.option("--device", default=default, show_default=True, help=which)
    return together(device, set_option)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for text in warnings:
        click.echo(f"warning: {text}", err=True)


def show(shown: Shown, as_json: bool) -> None:
    """The table or the document on stdout, warnings on stderr."""
    from schedlab.cli.show import print_lines

    print_lines([json.dumps(shown.document)] if as_json else shown.lines)
    warn(shown.warnings)
