"""`schedlab sim kernel-check`: simulated schedulers beside the kernel's on an emulated device."""

from __future__ import annotations

import json

import click

from schedlab.cli.options import json_option


@click.command("kernel-check")
@click.option("--cells", default="1-8", show_default=True, help="Which of the 12, such as 1-4,7.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each run.")
@click.option("--blocks", type=click.IntRange(1, 20), default=2, show_default=True)
@json_option
def kernel_check(cells: str, seconds: float, blocks: int, as_json: bool) -> None:
    """Run the same processes simulated and on an emulated device; needs root and FUSE."""
    from schedlab.app import kernel_check as checking
    from schedlab.host.control import Control

    found = []
    with Control() as control:
        for check in checking.checks_of(cells):
            rows = checking.measure(
                control, check, seconds, blocks, lambda text: click.echo(text, err=True)
            )
            found += [checking.judged(row) for row in rows]
            if not as_json:
                click.echo("\n".join(checking.table(check, rows)))
    if as_json:
        click.echo(json.dumps({"schema": 1, "rows": found}))
