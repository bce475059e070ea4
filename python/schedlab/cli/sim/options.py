"""Options that several `schedlab sim` commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_TRACE = (
    click.option("--trace", metavar="FILE[:FORMAT]", help="Replay a trace instead of a workload."),
    click.option(
        "--volumes", default="refuse", help="Of a trace: refuse (several), region, select=ID,…."
    ),
    click.option(
        "--fit",
        type=click.Choice(["refuse", "wrap", "compact", "scale"]),
        default="refuse",
        help="Of a trace: what becomes of addresses beyond the device.",
    ),
    click.option("--time-scale", type=float, help="Of a trace: divide its times by this."),
    click.option(
        "--closed",
        type=click.IntRange(min=1),
        is_flag=False,
        flag_value=1,
        metavar="[DEPTH]",
        help="Of a trace: so many requests are always outstanding.",
    ),
    click.option("--skip-bad-lines", is_flag=True, help="Skip malformed lines and count them."),
)


def trace_options(command: F) -> F:
    """Add the options of replaying a trace to a command."""
    for option in reversed(_TRACE):
        command = option(command)
    return command


def device_options(default: str) -> Callable[[F], F]:
    """Add `--device` and `--set`."""

    def add(command: F) -> F:
        changes = click.option(
            "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key."
        )
        which = "A shipped device or the path of a device file."
        device = click.option("--device", default=default, show_default=True, help=which)
        return device(changes(command))

    return add


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(
        command
    )


def warn(warnings: list[str]) -> None:
    """Print warnings on stderr."""
    for text in warnings:
        click.echo(f"warning: {text}", err=True)
