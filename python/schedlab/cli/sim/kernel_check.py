"""`schedlab sim kernel-check`: simulated schedulers beside the kernel's on an emulated device."""

from functools import partial

import click

from schedlab.cli.options import json_option


@click.command("kernel-check")
@click.option("--cells", default="1-11", show_default=True, help="Which of the 12 cells: 1-4,7.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each run.")
@click.option("--blocks", type=click.IntRange(1, 20), default=2, show_default=True)
@click.option("--tag-retaken", type=click.FloatRange(0, 1), default=0.9, show_default=True,
              help="Model of none: share of freed tags that their process retakes.")  # fmt: skip
@json_option
def kernel_check(
    cells: str, seconds: float, blocks: int, tag_retaken: float, as_json: bool
) -> None:
    """Run the same processes simulated and on an emulated device; needs root and FUSE."""
    from schedlab.app.kernel_check import run_cells

    say = partial(click.echo, err=True)
    for text in run_cells(cells, seconds, blocks, tag_retaken, as_json, say):
        click.echo(text)
