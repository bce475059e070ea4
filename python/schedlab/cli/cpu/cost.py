"""`schedlab cpu cost`: what a context switch costs, and what that predicts for a quantum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import click

from schedlab.cpu.settings import PRIORITY_DEFAULT, parse_cpus, parse_slices

if TYPE_CHECKING:
    from schedlab.spec import Candidate

# Matrices of the calculation: 3 of 100 x 100 integers of 4 bytes.
KERNEL_BYTES = 120_000
WORKING_SETS = (0, 4096, 16384, 32768, 65536, KERNEL_BYTES, 262_144, 524_288, 1_048_576)


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


def measure(cpu: int, batches: int, switches: int) -> tuple[Mapping[str, Any], bool]:
    """The costs as `schedlab_load::cpu::Costs`, and whether yields had real-time priority."""
    from schedlab._core import measure_cpu_costs
    from schedlab.cpu.refusals import explain
    from schedlab.cpu.settings import Settings

    job = {
        "cpu": cpu,
        "priority": PRIORITY_DEFAULT,
        "batches": batches,
        "switches": switches,
        "working_sets": WORKING_SETS,
    }
    try:
        return json.loads(measure_cpu_costs(json.dumps(job))), True
    except OSError as error:
        if error.filename != "policy":
            raise explain(error, Settings(2, None, cpus=(cpu,))) from error
    return json.loads(measure_cpu_costs(json.dumps(job | {"priority": 0}))), False


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval (Student's t over the batches)."""
    from scipy.stats import t

    n = len(values)
    return fmean(values), float(t.ppf(0.975, n - 1)) * stdev(values) / math.sqrt(n)


def loss(switch_ns: float, slice_ms: float) -> float:
    """Share of the CPU that switches take when every quantum is used up."""
    return switch_ns / (slice_ms * 1e6 + switch_ns)


def beside_measured(folder: Path, switch_ns: float, half_ns: float) -> list[dict[str, Any]]:
    """Per quantum of a sweep: calculations per CPU second beside the baseline's, minus one;
    predicted from the cost of a switch (± half_ns), and measured, each with its interval.
    """
    from schedlab.result import Result

    result = Result.load(folder)
    candidates = {c.label: c for c in result.record.experiment.candidates}
    baseline = candidates[result.record.experiment.baseline]
    rows = []
    for workload in result.verdict.workloads.values():
        for summary in workload.candidates:
            candidate = candidates.get(summary.candidate)
            if candidate is None or summary.ratio is None:
                continue
            predicted, *ends = (
                _kept(ns, candidate) / _kept(ns, baseline) - 1
                for ns in (switch_ns, switch_ns - half_ns, switch_ns + half_ns)
            )
            low, high = summary.ratio_low, summary.ratio_high
            rows.append(
                {
                    "candidate": summary.candidate,
                    "baseline": baseline.label,
                    "predicted": predicted,
                    "predicted_low": min(ends),
                    "predicted_high": max(ends),
                    "measured": summary.ratio - 1,
                    "low": None if low is None else low - 1,
                    "high": None if high is None else high - 1,
                }
            )
    return rows


def _kept(switch_ns: float, candidate: Candidate) -> float:
    return 1 - loss(switch_ns, float(candidate.settings["effective_ms"]))


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
