"""`schedlab cpu cost`: what a context switch costs, and what that predicts for a quantum."""

from __future__ import annotations

import json
from pathlib import Path

import click

from schedlab.cli.options import command, json_option
from schedlab.cli.types import SliceList


@command()
@click.argument("result", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--cpu", type=click.IntRange(0), metavar="CPU",
              help="CPU to measure on (default: the last one).")  # fmt: skip
@click.option("--slices", type=SliceList(), default="1,4,10,12,100", show_default=True,
              help="Quanta to predict, ms.")  # fmt: skip
@click.option("--batches", type=click.IntRange(3, 1000), default=15, show_default=True)
@click.option("--switches", type=click.IntRange(10, 10**7), default=4000, show_default=True)
@json_option
def cost(
    result: Path | None,
    cpu: int | None,
    slices: tuple[float, ...],
    batches: int,
    switches: int,
    as_json: bool,
) -> None:
    """Measure the cost of a context switch: the switch itself, and refilling the caches.

    Predicts the loss per quantum. With RESULT, a folder of `schedlab cpu sweep`, it also prints
    the measured differences of its quanta.
    """  # fmt: skip
    from schedlab.app.measure.switch_cost import costs_of
    from schedlab.cpu.crew import last_cpu

    costs = costs_of(last_cpu() if cpu is None else cpu, batches, switches, slices, result)
    click.echo(json.dumps(costs.as_json()) if as_json else "\n".join(costs.lines()))
