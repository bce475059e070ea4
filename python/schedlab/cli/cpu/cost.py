"""`schedlab cpu cost`: what a context switch costs, and what that predicts for a quantum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from schedlab.cpu.settings import parse_cpus, parse_slices


@click.command()
@click.argument("result", required=False, type=click.Path(path_type=Path, exists=True))
@click.option("--cpu", "cpus", help="CPU to measure on (default: the last one).")
@click.option("--slices", default="1,4,10,12,100", show_default=True, help="Quanta to predict, ms.")
@click.option("--batches", type=click.IntRange(3, 1000), default=15, show_default=True)
@click.option("--switches", type=click.IntRange(10, 10**7), default=4000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def cost(
    result: Path | None,
    cpus: str | None,
    slices: str,
    batches: int,
    switches: int,
    as_json: bool,
) -> None:
    """Measure the cost of a context switch: directly, and by the caches it leaves cold.

    Predicts the loss per quantum. With RESULT, a folder of `schedlab cpu sweep`, the measured
    differences of its quanta are printed beside the predicted ones.
    """
    from schedlab.app.switch_cost import KERNEL_BYTES, beside_measured, interval, loss, measure
    from schedlab.cpu.crew import last_cpu

    cpu = parse_cpus(cpus)[0] if cpus else last_cpu()
    costs, real_time = measure(cpu, batches, switches)
    direct = {name: interval(costs[f"{name}_ns"]) for name in ("pipe", "futex")}
    ladder = [(size, interval(values)) for size, values in costs["ladder"]]
    switch_ns, half_ns = next(found for size, found in ladder if size == KERNEL_BYTES)
    losses = {ms: loss(switch_ns, ms) for ms in parse_slices(slices)}
    beside = beside_measured(result, switch_ns, half_ns) if result else []
    if as_json:
        data = {
            "schema": 1,
            "cpu": cpu,
            "real_time": real_time,
            "direct_ns": {name: {"mean": m, "half_width": h} for name, (m, h) in direct.items()},
            "ladder": [{"bytes": s, "mean_ns": m, "half_width_ns": h} for s, (m, h) in ladder],
            "switch_ns": switch_ns,
            "switch_half_width_ns": half_ns,
            "predicted_loss": losses,
            "beside_measured": beside,
        }
        click.echo(json.dumps(data))
        return
    click.echo(f"context switches on CPU {cpu}, mean of {batches} batches and 95 % interval")
    for name, (mean, half) in direct.items():
        click.echo(f"  {name + ' ping-pong':<28} {mean / 1e3:7.3f} ± {half / 1e3:.3f} µs")
    for size, (mean, half) in ladder:
        click.echo(
            f"  {'yield, ' + _bytes(size) + ' touched':<28} {mean / 1e3:7.3f} ± {half / 1e3:.3f} µs"
        )
    if not real_time:
        click.echo("  without real-time priority a yield need not switch: too low; run as root")
    click.echo(f"predicted loss by switches of {switch_ns / 1e3:.3f} µs ({_bytes(KERNEL_BYTES)}):")
    for ms, share in losses.items():
        half = loss(switch_ns + half_ns, ms) - share
        click.echo(f"  quantum {ms:>6g} ms: {share * 100:.4f} ± {half * 100:.4f} %")
    for row in beside:
        click.echo(_beside_line(row))


def _beside_line(row: Mapping[str, Any]) -> str:
    text = (
        f"{row['candidate']} beside {row['baseline']}: predicted {row['predicted'] * 100:+.4f} % "
        f"({row['predicted_low'] * 100:+.4f} to {row['predicted_high'] * 100:+.4f} %), "
        f"measured {row['measured'] * 100:+.4f} %"
    )
    if row["low"] is not None and row["high"] is not None:
        text += f" (95 % interval {row['low'] * 100:+.4f} to {row['high'] * 100:+.4f} %)"
    return text


def _bytes(size: int) -> str:
    return f"{size / 1024:.0f} KiB"
