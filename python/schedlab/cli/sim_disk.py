"""`schedlab sim disk`: simulate a disk with heads under the policies of its command queue."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.errors import Interrupted, SpecError
from schedlab.spec import SCHEMA_VERSION

if TYPE_CHECKING:
    from schedlab._core import SimStop

HINT = "see `schedlab sim disk --help` and docs/concepts/disk-model.md"
READ, WRITE = {"kind": "read"}, {"kind": "write"}
RANDOM = {"kind": "random", "replacement": True}
# name: (pattern, direction, record), as schedlab_model::Workload has them
WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "random4k": (RANDOM, READ, "4k"),
    "random64k": (RANDOM, READ, "64k"),
    "randwrite4k": (RANDOM, WRITE, "4k"),
    "mixed4k": (RANDOM, {"kind": "mixed", "read_percent": 70}, "4k"),
    "seqread": ({"kind": "sequential"}, READ, "128k"),
    "seqwrite": ({"kind": "sequential"}, WRITE, "128k"),
}
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


@dataclass(frozen=True)
class DiskRun:
    """One run, as crates/py/src/disk_sim.rs takes it."""

    job: Mapping[str, Any]

    def run(self, stop: SimStop | None = None) -> dict[str, Any]:
        """Its figures; SpecError names a wrong key and the range allowed."""
        from schedlab._core import run_disk_simulation

        try:
            result: dict[str, Any] = json.loads(run_disk_simulation(json.dumps(self.job), stop))
        except ValueError as error:
            raise SpecError(str(error), HINT) from None
        except RuntimeError as error:
            raise Interrupted(str(error)) from None
        return result


@click.command()
@click.option("--device", default="disk7200", show_default=True, help="Shipped, or a TOML file.")
@click.option("--policy", default="fcfs", show_default=True, help="One or several, with commas.")
@click.option(
    "--workload", type=click.Choice(list(WORKLOADS)), default="random4k", show_default=True
)
@click.option("--record", help="Size of the requests instead of the workload's own.")
@click.option("--span", default="0", help="Bytes used from the start of the disk; 0: all.")
@click.option("--depth", type=int, help="Closed loop: so many always outstanding.  [default: 1]")
@click.option("--rate", type=float, help="Instead: Poisson arrivals per second.")
@click.option("--requests", default=10_000, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The first seed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def disk(
    device: str,
    policy: str,
    workload: str,
    record: str | None,
    span: str,
    depth: int | None,
    rate: float | None,
    requests: int,
    seeds: int,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate a disk with heads, one run per policy and seed.

    \b
    schedlab sim disk --policy fcfs,sstf,scan,clook,sptf --workload random4k --depth 32
    """
    from schedlab.sim.pool import run_threads

    if depth is not None and rate is not None:
        raise SpecError("--depth and --rate exclude each other", "leave one away")
    if requests < 0:
        raise SpecError(f"requests = {requests}: expected at least 1", HINT)
    if depth is not None and depth < 1:
        raise SpecError(f"depth = {depth}: expected at least 1", HINT)
    if rate is not None and not math.isfinite(rate):
        raise SpecError(f"rate = {rate}: expected a positive number", HINT)
    pattern, direction, own_record = WORKLOADS[workload]
    described = {
        "pattern": pattern,
        "direction": direction,
        "record": _size(record or own_record),
        "span": _size(span),
        "arrivals": {"kind": "closed", "depth": depth or 1}
        if rate is None
        else {"kind": "poisson", "rate_per_s": rate},
    }
    base = {**_device(device), "requests": requests}
    runs: Any = [
        DiskRun({**base, "policy": name.strip(), "workload": {**described, "seed": number}})
        for name in policy.split(",")
        for number in range(seed, seed + seeds)
    ]
    done: Any = run_threads(runs)
    if as_json:
        head = {"schema": SCHEMA_VERSION, "device": device, "workload": workload}
        click.echo(json.dumps({**head, "arrivals": described["arrivals"], "runs": done}))
    else:
        _show(done, seeds)


def _size(text: str) -> int | str:
    """Digits as a number: the simulator reads `4k` as text and `4096` as a number."""
    return int(text) if text.isdigit() else text


def _device(name_or_path: str) -> dict[str, str]:
    """A shipped name, or the content of a device file with its path."""
    from schedlab._core import disk_devices

    path = Path(name_or_path)
    if name_or_path in disk_devices() or path.suffix != ".toml":
        return {"device": name_or_path}
    try:
        return {"device": path.read_text(encoding="utf-8"), "path": str(path)}
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {error}", "give the path of a device file") from error


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
