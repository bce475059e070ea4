"""`schedlab io sweep`: block size × open mode; same bytes or same calls; where the knee is."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli.options import (
    command,
    kernel_option,
    measured_options,
    target_options,
    typed_options,
)
from schedlab.cli.types import Size, Sizes, Words

SIZES = "512,1k,2k,4k,8k,16k,32k,64k,128k,256k,512k,1M"


@command()
@kernel_option
@target_options
@click.option("--block-sizes", type=Sizes(), default=SIZES, show_default=True)
@click.option("--modes", type=Words(), default="sync,direct,mmap", show_default=True)
@click.option("--bytes", "same_bytes", type=Size(), help="The same bytes at every size: 5M.")
@click.option("--calls", type=click.IntRange(min=1), help="The same number of calls.")
@click.option("--direction", type=click.Choice(["read", "write"]), default="write")
@click.option("--blocks", type=click.IntRange(1, 1000), default=6, show_default=True)
@measured_options
def sweep(**typed: Any) -> None:
    """Measure what one call costs by block size and open mode, and find the knee.

    With --bytes small blocks mean many calls; with --calls large blocks mean many bytes. Use both
    to see whether the time grows with the calls or with the bytes.
    """
    from schedlab.app import options
    from schedlab.app.compare.calls import sweep_experiment
    from schedlab.app.measure.virtual import with_usual
    from schedlab.cli.show import run_and_present

    options.check_target(typed_options(click.get_current_context()))
    place = options.place_of(with_usual(typed))
    permission = options.permission_of(place)
    names = ("block_sizes", "modes", "same_bytes", "calls", "direction", "blocks", "seed")
    experiment = sweep_experiment(place, **{name: typed[name] for name in names})
    run_and_present(experiment, permission, "sweep", typed)
