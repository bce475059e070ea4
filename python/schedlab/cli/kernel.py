"""`schedlab kernel`: the kernels that `--kernel` runs under in virtual time."""

from __future__ import annotations

import click

from schedlab.cli.options import json_option
from schedlab.cli.sections import Group


@click.group(cls=Group)
def kernel() -> None:
    """Find, download and try kernels that `--kernel` runs under in virtual time."""


@kernel.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the kernels that are here, and what each offers."""
    from schedlab.app.measure.kernels import known, rows
    from schedlab.cli.show import print_result

    found = known()
    print_result(as_json, {"kernels": [each.as_json() for each in found]}, rows(found))


@kernel.command()
@click.argument("version")
def get(version: str) -> None:
    """Download Debian's newest kernel of VERSION (6.1, 6.12, …) into your cache; no root."""
    from schedlab.app.measure.kernels import downloaded, rows

    click.echo("\n".join(rows([downloaded(version)])))


@kernel.command()
@click.argument("version")
@click.option("--all", "everything", is_flag=True, help="Print every fact, too.")
def check(version: str, everything: bool) -> None:
    """Boot VERSION (or the bzImage FILE) in virtual time, and show what can be measured there."""
    from schedlab.app.measure.kernels import check as boot
    from schedlab.cli.show import measuring

    with measuring() as observer:
        boot(version, everything, observer)


@kernel.command()
@click.argument("version")
def shell(version: str) -> None:
    """Boot VERSION (or the bzImage FILE) in virtual time, with a shell; its end is the end."""
    from schedlab.app.measure.kernels import shell as boot
    from schedlab.cli.show import print_message, signals_interrupt

    with signals_interrupt():
        boot(version, print_message)
