"""The simulated schedulers against the kernel's own, on the same modelled device.

The same processes run in the simulator and, as real load, on an emulated device under the kernel's
scheduler. Both use one device model, so what differs is the model of the host's queue. noop,
deadline and cfq are in no current kernel: they have no such check.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.analyse.quantiles import t_quantile
from schedlab.app.kernel_load import run_processes, specs_of
from schedlab.errors import SpecError
from schedlab.sim.host import HostSimulation

if TYPE_CHECKING:
    from schedlab.host.control import Control

TOLERANCES = {"throughput_bytes_per_s": 0.10, "latency_ns_mean": 0.15}
# Of fewer blocks the deviation has no interval.
BLOCKS_FOR_INTERVAL = 4
# Schedulers whose totals differ by more in the kernel must be in that order in the model.
DECIDED = 0.10
USUAL = ("none", "mq-deadline", "kyber", "bfq")
SIZE_BYTES = 8 << 30
# Requests that a scheduler may hold above a loop device, independent of the tags.
NR_REQUESTS = 256
# Within which the processes of the real load begin.
START_SPREAD_NS = 200_000
LIMITS = ("max_sectors_kb", "read_ahead_kb")


@dataclass(frozen=True)
class Check:
    """One cell: processes on a device, and what it is about.

    `depth` is the number of commands that the driver lets into the device; `policy` the order in
    which the device serves them. The first `warm_up_s` of modelled time are not measured.
    """

    number: int
    about: str
    processes: str
    policy: str = "fcfs"
    depth: int = 4
    schedulers: tuple[str, ...] = USUAL
    device: str = "disk7200"
    dilate: float = 1.0
    warm_up_s: float = 0.0


# Of each measure: what kernel and model gave, a pair for each block.
Row = dict[str, list[tuple[float, float]]]

RAISED = ("none", "bfq", "bfq:low_latency=0")
CHECKS = (
    Check(1, "random reads, all in the device, in order", "random32", depth=128),
    Check(2, "random reads, four tags, in order", "random32"),
    Check(3, "random reads, all in a device that sorts", "random32", "sptf", 32),
    Check(4, "random reads, four tags, sorted twice", "random32", "sptf"),
    Check(5, "three sequential readers", "readers3", schedulers=RAISED),
    Check(6, "sequential and random reader together", "sequential-random", schedulers=RAISED),
    Check(7, "three sequential readers, four at a time", "readers3-deep"),
    Check(8, "random reader beside two writers", "reader-writers"),
    Check(9, "buffered copy with fsync", "copy-buffered"),
    Check(10, "I/O priorities of three readers", "levels", schedulers=("none", "bfq")),
    Check(11, "two processes write small records", "small-writes"),
    Check(12, "reader beside writers on flash", "reader-writers-deep", "fcfs", 32, USUAL,
          "sata-ssd", 10.0, 0.5),
)  # fmt: skip


def checks_of(text: str) -> list[Check]:
    """`1-4,7` as cells; SpecError for a number that there is not."""
    wanted: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            wanted |= set(range(int(first), int(last or first) + 1))
        except ValueError:
            raise SpecError(f"--cells {text}: {part!r} is not a number", "--cells 1-4,7") from None
    known = {check.number for check in CHECKS}
    if unknown := sorted(wanted - known):
        raise SpecError(f"--cells {text}: there is no cell {unknown[0]}", "1 to 12")
    return [check for check in CHECKS if check.number in wanted]


def model_run(
    check: Check, scheduler: str, seconds: float, seed: int, settings: Mapping[str, float]
) -> list[dict[str, float]]:
    """The same in the simulator, with `settings` of crates/sim/src/host/settings.rs."""
    run = HostSimulation(
        device=check.device,
        scheduler=scheduler,
        processes=check.processes,
        tags=check.depth,
        nr_requests=None if scheduler == "none" else NR_REQUESTS,
        window=check.depth,
        policy=check.policy,
        size=str(SIZE_BYTES),
        seconds=seconds + check.warm_up_s,
        seed=seed,
        settings={"warm_up_seconds": check.warm_up_s, **settings},
    ).run()
    names = ("throughput_bytes_per_s", "latency_ns_mean")
    return [{name: process[name] for name in names} for process in run["processes"]]


def measure(
    control: Control,
    check: Check,
    seconds: float,
    blocks: int,
    tag_retaken: float,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Rows of a cell: scheduler, process, and what kernel and model gave, means over the blocks.

    Processes that are alike are one row with their mean: which of them is ahead is chance.
    """
    from schedlab.host.emulated import Emulation

    emulation = Emulation(
        check.device,
        size_bytes=SIZE_BYTES,
        queue_depth=check.depth,
        policy=check.policy,
        dilate=check.dilate,
        data="none",
    )
    device = control.emulated(emulation)
    path = control.hold(device.path)
    queue = Path("/sys/block") / Path(device.path).name / "queue"
    limits = {name: int((queue / name).read_text()) for name in LIMITS}
    names = [spec["name"] for spec in specs_of(check.processes)]
    rows: dict[tuple[str, str], Row] = {}
    for block in range(blocks):
        order = check.schedulers if block % 2 == 0 else check.schedulers[::-1]
        for scheduler in order:
            name, _, tunables = scheduler.partition(":")
            settings = dict(part.split("=") for part in tunables.split(",") if part)
            control.set_scheduler(device.path, name, settings)
            device.reset()
            seed = 1 + block
            report(f"cell {check.number}, block {block + 1}: {scheduler}")
            times_s = (seconds * check.dilate, check.warm_up_s * check.dilate)
            measured = run_processes(check.processes, path, SIZE_BYTES, times_s, seed)
            kernel = [
                {
                    "throughput_bytes_per_s": row["throughput_bytes_per_s"] * check.dilate,
                    "latency_ns_mean": row["latency_ns_mean"] / check.dilate,
                }
                for row in measured
            ]
            copy_ns = max(row.get("page_copy_ns", 0.0) for row in measured) / check.dilate
            host = {
                "tag_retaken": tag_retaken,
                "page_copy_ns": round(copy_ns),
                "start_spread_ns": round(START_SPREAD_NS / check.dilate),
                **limits,
            }
            model = model_run(check, scheduler, seconds, seed, host)
            for process in dict.fromkeys(names):
                row = rows.setdefault((scheduler, process), {})
                for key in TOLERANCES:
                    pair = (_of(kernel, names, process, key), _of(model, names, process, key))
                    row.setdefault(key, []).append(pair)
    return [
        {
            "cell": check.number,
            "scheduler": scheduler,
            "process": process,
            "count": names.count(process),
            **judged(row),
        }
        for (scheduler, process), row in rows.items()
    ]


def _of(
    figures: Sequence[Mapping[str, float]], names: Sequence[str], process: str, key: str
) -> float:
    """The mean of the processes of one name."""
    values = [row[key] for row, name in zip(figures, names, strict=True) if name == process]
    return sum(values) / len(values)


def run_cells(
    cells: str,
    seconds: float,
    blocks: int,
    tag_retaken: float,
    as_json: bool,
    report: Callable[[str], None],
) -> Iterator[str]:
    """The text of each cell when it is measured, or one JSON document of all."""
    from schedlab.host.control import Control

    checks, results = checks_of(cells), []
    with Control() as control:
        for check in checks:
            rows = measure(control, check, seconds, blocks, tag_retaken, report)
            results += rows
            if not as_json:
                yield "\n".join(table(check, rows))
    if as_json:
        yield json.dumps({"schema": 1, "rows": results})


def judged(row: Row) -> dict[str, Any]:
    """Means of kernel and model, deviation of the model, its 95 % interval, and whether it passes.

    The deviation may be as large as the tolerance, or as the half of its own interval over the
    blocks where that is wider. Fewer than `BLOCKS_FOR_INTERVAL` blocks give no interval.
    """
    judged_row: dict[str, Any] = {"passes": True}
    for key, tolerance in TOLERANCES.items():
        pairs = row[key]
        kernel = sum(real for real, _ in pairs) / len(pairs)
        model = sum(simulated for _, simulated in pairs) / len(pairs)
        deviation = (model - kernel) / kernel if kernel else math.inf
        half = _half_width(pairs) / kernel if kernel else 0.0
        judged_row[f"kernel_{key}"] = kernel
        judged_row[f"model_{key}"] = model
        judged_row[f"deviation_{key}"] = deviation
        judged_row[f"deviation_half_width_{key}"] = half
        judged_row["passes"] &= abs(deviation) <= max(tolerance, half)
    return judged_row


def _half_width(pairs: Sequence[tuple[float, float]]) -> float:
    """Of the 95 % interval of the mean difference between model and kernel; 0 of few pairs."""
    blocks = len(pairs)
    if blocks < BLOCKS_FOR_INTERVAL:
        return 0.0
    spread = statistics.stdev(simulated - real for real, simulated in pairs)
    return float(t_quantile(0.05, blocks - 1)) * spread / math.sqrt(blocks)


def misordered(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of schedulers whose totals the kernel decides and the model orders otherwise."""
    key = "throughput_bytes_per_s"
    totals: dict[str, list[float]] = {}
    for row in rows:
        both = totals.setdefault(row["scheduler"], [0.0, 0.0])
        both[0] += row["count"] * row[f"kernel_{key}"]
        both[1] += row["count"] * row[f"model_{key}"]
    names = list(totals)
    wrong = []
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            (kernel, model), (kernel_2, model_2) = totals[one], totals[other]
            decided = max(kernel, kernel_2) > (1 + DECIDED) * min(kernel, kernel_2)
            if decided and (kernel > kernel_2) != (model > model_2):
                wrong.append((one, other))
    return wrong


def table(check: Check, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a cell: kernel, model, deviation, and the order of the schedulers."""
    lines = [
        f"cell {check.number}: {check.about} ({check.processes}, {check.depth} tags)",
        f"  {'':<38}{'kernel':>9}{'model':>9}  deviation",
    ]
    for row in rows:
        who = row["process"] + (f" ×{row['count']}" if row["count"] > 1 else "")
        verdict = "pass" if row["passes"] else "MISS"
        rate = _compared(row, "throughput_bytes_per_s")
        latency = _compared(row, "latency_ns_mean")
        lines.append(f"  {row['scheduler']:<18}{who:<15}MB/s {rate:<31}{verdict}")
        lines.append(f"  {'':<33}ms   {latency}")
    wrong = ", ".join(f"{one} and {other}" for one, other in misordered(rows))
    lines.append(f"  order of the schedulers: {wrong or 'as in the kernel'}")
    return lines


def _compared(row: Mapping[str, Any], key: str) -> str:
    half = row[f"deviation_half_width_{key}"]
    interval = f" ±{half:.0%}" if half else ""
    kernel, model = row[f"kernel_{key}"] / 1e6, row[f"model_{key}"] / 1e6
    return f"{kernel:>9.2f}{model:>9.2f}  {row[f'deviation_{key}']:+.0%}{interval}"
