"""`schedlab sim disk`: simulate a disk with heads under the policies of its command queue."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.errors import SpecError
from schedlab.spec import SCHEMA_VERSION, Candidate, Experiment, Stopping, Target, Workload

if TYPE_CHECKING:
    from schedlab.sim.disk import DiskSimulation

COLUMNS: dict[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
    "IOPS": (".1f", lambda run: run["iops"]),
    "mean ms": (".2f", lambda run: run["latency_ns_mean"] / 1e6),
    "p99 ms": (".1f", lambda run: run["latency_ns_p99"] and run["latency_ns_p99"] / 1e6),
    "max ms": (".1f", lambda run: run["latency_ns_max"] / 1e6),
    "seek ms": (".2f", lambda run: run["seek_ns_mean"] / 1e6),
    "rotation ms": (".2f", lambda run: run["rotation_ns_mean"] / 1e6),
    "busy": (".1%", lambda run: run["utilisation"]),
    "hits": (".1%", lambda run: run["hit_ratio"]),
}
# Of a verdict: what arrives whatever is served is judged by its latency, else by the rate.
METRICS = ("iops", "latency_ns_mean", "latency_ns_p99", "latency_ns_max")


@click.command()
@click.option("--device", default="disk7200", show_default=True, help="Shipped, or a TOML file.")
@click.option("--policy", default="fcfs", show_default=True, help="One or several, with commas.")
@click.option("--workload", default="random4k", show_default=True, help="random4k, seqread, ….")
@click.option("--trace", metavar="FILE[:FORMAT]", help="Replay a trace instead of a workload.")
@click.option("--record", help="Size of the requests instead of the workload's own.")
@click.option("--span", default="0", help="Bytes used from the start of the disk; 0: all.")
@click.option("--depth", type=int, help="Closed loop: so many always outstanding.  [default: 1]")
@click.option("--rate", type=float, help="Instead: Poisson arrivals per second.")
@click.option("--requests", type=int, help="Default 10000; a trace: all.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder with verdict, report.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def disk(
    policy: str,
    workload: str,
    trace: str | None,
    seeds: int,
    out: Path | None,
    as_json: bool,
    **typed: Any,
) -> None:
    """Simulate a disk with heads, one run per policy and seed.

    With --out, the policies are candidates and the seeds blocks of an experiment: its result
    folder holds every run, the verdict on the policies and the report.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    from schedlab.cli.sim.run import trace_source
    from schedlab.sim.disk import DiskSimulation

    policies = [name.strip() for name in policy.split(",")]
    source: str | Path = workload
    if trace:
        source, form = trace_source(trace)
        typed["format"] = form.get("format")
    simulation = DiskSimulation(workload=source, **typed)
    if out is not None:
        judge(simulation, policies, seeds, out, as_json)
    else:
        # A trace is the same whatever the seed.
        simulate(simulation, policies, 1 if trace else seeds, as_json)


def simulate(first: DiskSimulation, policies: Sequence[str], seeds: int, as_json: bool) -> None:
    """All runs in threads, and their figures."""
    from schedlab.sim.pool import run_threads

    runs: Any = [
        dataclasses.replace(first, policy=name, seed=number)
        for name in policies
        for number in range(first.seed, first.seed + seeds)
    ]
    done: Any = run_threads(runs)
    if as_json:
        head = {"schema": SCHEMA_VERSION, "device": first.device, "workload": str(first.workload)}
        if isinstance(first.workload, str):
            head["arrivals"] = first.arrivals()
        click.echo(json.dumps({**head, "runs": done}))
    else:
        _show(done, seeds)


def judge(
    simulation: DiskSimulation, policies: Sequence[str], seeds: int, out: Path, as_json: bool
) -> None:
    """The same as an experiment with its result folder and a verdict."""
    from schedlab.cli.show import run_and_present
    from schedlab.run.admitted import Permission

    how: Any = {"out": out, "name": "sim-disk", "dry_run": False, "as_json": as_json}
    run_and_present(experiment_of(simulation, policies, seeds), Permission(), **how)


def experiment_of(simulation: DiskSimulation, policies: Sequence[str], seeds: int) -> Experiment:
    """Policies as candidates, the first is the baseline; seeds as blocks."""
    if isinstance(simulation.workload, Path):
        hint = "leave --out away, or use --workload"
        raise SpecError("a trace has no seeds, and a verdict needs blocks", hint)
    if seeds < 2 or len(set(policies)) < 2 or len(set(policies)) < len(policies):
        hint = "for example --policy fcfs,sptf --seeds 8"
        raise SpecError("a verdict needs at least two different policies and two seeds", hint)
    given = dataclasses.asdict(simulation)
    parameters = {
        name: value
        for name, value in given.items()
        if name not in {"policy", "seed"} and value is not None
    }
    metric = METRICS[0] if simulation.rate is None else METRICS[1]
    return Experiment(
        title=f"Command-queue policies on the simulated {simulation.device}",
        kind="sim",
        target=Target("none"),
        candidates=tuple(Candidate(name, {"policy": name}) for name in policies),
        workloads=(
            Workload(
                label=simulation.workload,
                kind="disk",
                metric=metric,
                parameters=parameters,
                secondary=tuple(name for name in METRICS if name != metric),
            ),
        ),
        baseline=policies[0],
        seed=simulation.seed,
        stopping=Stopping("fixed", seeds),
        aa_arm=False,
        objective="throughput" if metric == "iops" else "latency",
    )


def _show(done: Sequence[Mapping[str, Any]], seeds: int) -> None:
    """A table: the mean over the seeds of each policy, and IOPS as a ratio to the first."""
    rows = [["policy", *COLUMNS, "ratio"]]
    first = 0.0
    for start in range(0, len(done), seeds):
        runs = done[start : start + seeds]
        iops = math.fsum(run["iops"] for run in runs) / seeds
        first = first or iops
        cells = [_mean(runs, form, value) for form, value in COLUMNS.values()]
        rows.append([runs[0]["policy"], *cells, f"{iops / first:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        click.echo("  ".join([row[0].ljust(widths[0]), *cells]))
    click.echo(f"mean over {seeds} seed(s); ratio: IOPS to the first policy's", err=True)


def _mean(
    runs: Sequence[Mapping[str, Any]], form: str, value: Callable[[Mapping[str, Any]], float | None]
) -> str:
    """The mean of a figure; `-` where a run has too few requests for it."""
    values = [value(run) for run in runs]
    known = [number for number in values if number is not None]
    return format(math.fsum(known) / len(known), form) if len(known) == len(values) else "-"
