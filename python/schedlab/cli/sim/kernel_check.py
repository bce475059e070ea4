"""`schedlab sim kernel-check`: simulated schedulers beside the kernel's on an emulated device."""

import click

from schedlab.cli.options import json_option


@click.command("kernel-check")
@click.option("--cells", default="1-8", show_default=True, help="Which of the 12 cells: 1-4,7.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each run.")
@click.option("--blocks", type=click.IntRange(1, 20), default=2, show_default=True)
@json_option
def kernel_check(cells: str, seconds: float, blocks: int, as_json: bool) -> None:
    """Run the same processes simulated and on an emulated device; needs root and FUSE."""
    from schedlab.app.kernel_check import run_cells

    for text in run_cells(cells, seconds, blocks, as_json, lambda line: click.echo(line, err=True)):
        click.echo(text)
