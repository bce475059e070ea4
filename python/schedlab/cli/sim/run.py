"""`schedlab sim run`: policies × seeds on one simulated device and workload."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.errors import SpecError
from schedlab.spec import SCHEMA_VERSION, to_json

if TYPE_CHECKING:
    from schedlab.sim import SimResult, Simulation

COLUMNS = (
    "mean_read_ms",
    "mean_write_ms",
    "p99_read_ms",
    "max_read_ms",
    "max_write_ms",
    "iops",
    "utilisation",
)


@click.command()
@click.option("--device", default="ncq2014", help="A shipped device or the path of a device file.")
@click.option("--workload", default="A", help="A, B, C, D, random4k, ….")
@click.option("--trace", metavar="FILE[:FORMAT]", help="Replay a trace instead of a workload.")
@click.option("--policy", "policies", default="fcfs", help="One or more, comma-separated.")
@click.option("--buffer", help="Size of the page buffer, such as 64MiB.")
@click.option("--alpha", type=float, default=0.9, show_default=True, help="Aging weight; 1: none.")
@click.option(
    "--aging",
    type=click.Choice(["dispatch-overtake", "shorter-arrival", "every-arrival"]),
    default="dispatch-overtake",
    show_default=True,
    help="What ages a waiting command.",
)
@click.option("--service", type=click.Choice(["serial", "parallel"]), default="serial")
@click.option("--requests", type=click.IntRange(min=1), help="Default 20000; a trace: all.")
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a device key.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="Every request to FILE.csv or FILE.arrow."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def run(
    device: str,
    workload: str,
    trace: str | None,
    policies: str,
    buffer: str | None,
    alpha: float,
    aging: str,
    service: str,
    requests: int | None,
    seeds: int,
    seed: int,
    changes: tuple[str, ...],
    log: Path | None,
    as_json: bool,
) -> None:
    """Simulate an SSD and its command queue, one run per policy and seed."""
    from schedlab.sim import Simulation
    from schedlab.sim.request_log import check_log_name, write_log

    if log is not None:
        check_log_name(log)
    device_set = dict(changed(text) for text in changes)
    if buffer is not None:
        device_set["buffer.size"] = buffer
    source, workload_set = trace_source(trace) if trace else (workload, {})
    first = Simulation(
        device=device,
        workload=source,
        service=service,
        requests=requests,
        log=log is not None,
        device_set=device_set,
        policy_set={"alpha": alpha, "aging": aging},
        workload_set=workload_set,
    )
    # A trace is the same whatever the seed.
    range_of_seeds = range(seed, seed + (1 if trace else seeds))
    simulations = [
        dataclasses.replace(first, policy=policy.strip(), seed=number)
        for policy in policies.split(",")
        for number in range_of_seeds
    ]
    done = run_all(simulations)
    if log is not None:
        runs = zip(simulations, done, strict=True)
        write_log(log, ((run.policy, run.seed, result.log) for run, result in runs))
    if as_json:
        click.echo(json.dumps(document(simulations, done, trace or workload)))
    else:
        show(simulations, done)


def run_all(simulations: list[Simulation]) -> list[SimResult]:
    """All of them in threads, in their order; Ctrl-C stops every one."""
    from schedlab.sim.pool import run_threads

    return run_threads(simulations)


def changed(text: str) -> tuple[str, Any]:
    """`key=value` of a device file; the value as TOML where it reads as such, else as text."""
    import tomllib

    key, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"--set {text}: expected KEY=VALUE", "for example --set ftl.collect=fifo")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def trace_source(text: str) -> tuple[Path, dict[str, str]]:
    """`FILE` or `FILE:FORMAT`."""
    if Path(text).exists():
        return Path(text), {}
    path, _, form = text.rpartition(":")
    if not path or not Path(path).exists():
        raise SpecError(f"--trace {text}: no such file", "give FILE or FILE:FORMAT")
    return Path(path), {"format": form}


def document(simulations: list[Simulation], done: list[SimResult], name: str) -> dict[str, Any]:
    """What `--json` prints."""
    first = simulations[0]
    runs = [
        {"policy": s.policy, "seed": s.seed, **s.policy_set, **to_json(result.metrics)}
        for s, result in zip(simulations, done, strict=True)
    ]
    return {
        "schema": SCHEMA_VERSION,
        "device": first.device,
        "set": dict(first.device_set),
        "workload": name,
        "service": first.service,
        "runs": runs,
    }


def show(simulations: list[Simulation], done: list[SimResult]) -> None:
    """A table: the mean over the seeds of each policy, and its ratio to the first policy."""
    from rich.console import Console
    from rich.table import Table

    by_policy: dict[str, list[Mapping[str, float]]] = {}
    for simulation, result in zip(simulations, done, strict=True):
        by_policy.setdefault(simulation.policy, []).append(result.metrics)
    table = Table("policy", *(name.replace("_", " ") for name in COLUMNS))
    baseline: list[float] = []
    for policy, metrics in by_policy.items():
        means = [math.fsum(m[name] for m in metrics) / len(metrics) for name in COLUMNS]
        baseline = baseline or means
        cells = [
            f"{mean:.3f}" + (f" ({mean / base:.2f})" if base and means is not baseline else "")
            for mean, base in zip(means, baseline, strict=True)
        ]
        table.add_row(policy, *cells)
    Console().print(table)
    seeds = len(next(iter(by_policy.values())))
    click.echo(f"mean over {seeds} seed(s); in brackets: ratio to the first policy", err=True)
