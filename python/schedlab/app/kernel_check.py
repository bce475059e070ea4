"""The simulated schedulers against the kernel's own, on the same modelled device.

The same processes run in the simulator and, as real load, on an emulated device under the kernel's
scheduler. Both use one device model, so what differs is the model of the host's queue. noop,
deadline and cfq are in no current kernel: they have no such check.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import SpecError
from schedlab.sim.host import HostSimulation, presets
from schedlab.spec.quantities import parse_quantity

if TYPE_CHECKING:
    from schedlab.host.control import Control

THROUGHPUT_TOLERANCE = 0.10
LATENCY_TOLERANCE = 0.15
# Schedulers whose totals differ by more in the kernel must be in that order in the model.
DECIDED = 0.10
USUAL = ("none", "mq-deadline", "kyber", "bfq")
SIZE_BYTES = 8 << 30
# Requests that a scheduler may hold above a loop device, independent of the tags.
NR_REQUESTS = 256


@dataclass(frozen=True)
class Check:
    """One cell: processes on a device, and what it is about.

    `depth` is the number of commands that the driver lets into the device; `policy` the order in
    which the device serves them.
    """

    number: int
    about: str
    processes: str
    policy: str = "fcfs"
    depth: int = 4
    schedulers: tuple[str, ...] = USUAL
    device: str = "disk7200"
    dilate: float = 1.0


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
          "sata-ssd", 100.0),
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


def real_run(path: Path, check: Check, seconds: float, seed: int) -> list[dict[str, float]]:
    """Real load of the cell's processes on a device that is held; figures of each process."""
    from schedlab import _core

    groups = groups_of(check.processes, str(path), SIZE_BYTES, seed)
    job = {"seconds": seconds * check.dilate, "ramp_seconds": 0.0, "groups": groups}
    answer = json.loads(_core.run_io_job(json.dumps(job)))
    rows = []
    for group, sent in zip(answer["groups"], groups, strict=True):
        latencies = [group[kind]["latency"] for kind in ("reads", "writes") if group.get(kind)]
        answered = count = sum(each["count"] for each in latencies)
        total_ns = sum(each["count"] * each["mean"] for each in latencies if each["count"])
        # Those in flight at the end are answered and counted, but after the time.
        count = max(count - sent["workload"]["arrivals"]["depth"], 0)
        elapsed_s = group["elapsed_ns"] / 1e9 / check.dilate
        rows.append(
            {
                "throughput_bytes_per_s": count * sent["workload"]["record"] / elapsed_s,
                "latency_ns_mean": total_ns / max(answered, 1) / check.dilate,
            }
        )
    return rows


def groups_of(processes: str, path: str, size_bytes: int, seed: int) -> list[dict[str, Any]]:
    """The processes of a preset as groups of an I/O job, each in its own region."""
    specs = [
        process
        for process in tomllib.loads(presets()[processes])["process"]
        for _ in range(process.get("count", 1))
    ]
    groups = []
    for number, process in enumerate(specs):
        if process.get("background") or process.get("direct") is False or "weight" in process:
            raise SpecError(f"{processes} has a process only for the simulator", "--cells 1-8")
        record = int(str(parse_quantity("record_bytes", process.get("record", "4KiB"))))
        span = size_bytes // len(specs) // record * record
        random = process.get("pattern", "random") == "random"
        share = process.get("read_share", 1)
        pattern = {"kind": "random", "replacement": True} if random else {"kind": "sequential"}
        group: dict[str, Any] = {
            "name": f"{process['name']}-{number}",
            "path": path,
            "workers": 1,
            "engine": "io_uring",
            "direct": True,
            "clock": "completion",
            "offset": span * number,
            "workload": {
                "pattern": pattern,
                "direction": {"kind": "read" if share else "write"},
                "record": record,
                "span": span,
                "arrivals": {"kind": "closed", "depth": process.get("depth", 1)},
                "seed": seed,
            },
        }
        if "ioprio" in process:
            level = int(process["ioprio"].partition(":")[2])
            group["ioprio"] = {"class": "be", "level": level}
        groups.append(group)
    return groups


def model_run(check: Check, scheduler: str, seconds: float, seed: int) -> list[dict[str, float]]:
    """The same in the simulator."""
    run = HostSimulation(
        device=check.device,
        scheduler=scheduler,
        processes=check.processes,
        tags=check.depth,
        nr_requests=None if scheduler == "none" else NR_REQUESTS,
        window=check.depth,
        policy=check.policy,
        size=str(SIZE_BYTES),
        seconds=seconds,
        seed=seed,
    ).run()
    names = ("throughput_bytes_per_s", "latency_ns_mean")
    return [{name: process[name] for name in names} for process in run["processes"]]


def measure(
    control: Control,
    check: Check,
    seconds: float,
    blocks: int,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Rows of a cell: scheduler, process, and what kernel and model gave, means over the blocks."""
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
    rows: dict[tuple[str, int], dict[str, list[float]]] = {}
    for block in range(blocks):
        order = check.schedulers if block % 2 == 0 else check.schedulers[::-1]
        for scheduler in order:
            name, _, tunables = scheduler.partition(":")
            settings = dict(part.split("=") for part in tunables.split(",") if part)
            control.set_scheduler(device.path, name, settings)
            device.reset()
            seed = 1 + block
            report(f"cell {check.number}, block {block + 1}: {scheduler}")
            kernel = real_run(path, check, seconds, seed)
            model = model_run(check, scheduler, seconds, seed)
            for number, (real, simulated) in enumerate(zip(kernel, model, strict=True)):
                row = rows.setdefault((scheduler, number), {})
                for key, value in real.items():
                    row.setdefault(f"kernel_{key}", []).append(value)
                for key, value in simulated.items():
                    row.setdefault(f"model_{key}", []).append(value)
    return [
        {
            "cell": check.number,
            "scheduler": scheduler,
            "process": number,
            **{key: sum(values) / len(values) for key, values in row.items()},
        }
        for (scheduler, number), row in rows.items()
    ]


def run_cells(
    cells: str, seconds: float, blocks: int, as_json: bool, report: Callable[[str], None]
) -> Iterator[str]:
    """The text of each cell when it is measured, or one JSON document of all."""
    from schedlab.host.control import Control

    checks, results = checks_of(cells), []
    with Control() as control:
        for check in checks:
            rows = measure(control, check, seconds, blocks, report)
            results += [judged(row) for row in rows]
            if not as_json:
                yield "\n".join(table(check, rows))
    if as_json:
        yield json.dumps({"schema": 1, "rows": results})


def judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its deviations, and whether both are within the tolerance."""
    judged_row = dict(row)
    judged_row["passes"] = True
    for key, tolerance in (
        ("throughput_bytes_per_s", THROUGHPUT_TOLERANCE),
        ("latency_ns_mean", LATENCY_TOLERANCE),
    ):
        kernel, model = row[f"kernel_{key}"], row[f"model_{key}"]
        deviation = (model - kernel) / kernel if kernel else math.inf
        judged_row[f"deviation_{key}"] = deviation
        judged_row["passes"] &= abs(deviation) <= tolerance
    return judged_row


def misordered(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of schedulers whose totals the kernel decides and the model orders otherwise."""
    key = "throughput_bytes_per_s"
    totals: dict[str, list[float]] = {}
    for row in rows:
        both = totals.setdefault(row["scheduler"], [0.0, 0.0])
        both[0] += row[f"kernel_{key}"]
        both[1] += row[f"model_{key}"]
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
    lines = [f"cell {check.number}: {check.about} ({check.processes}, {check.depth} tags)"]
    for row in map(judged, rows):
        key, other = "throughput_bytes_per_s", "latency_ns_mean"
        lines.append(
            f"  {row['scheduler']:<20}{row['process']:>2}"
            f"{row[f'kernel_{key}'] / 1e6:>9.2f} {row[f'model_{key}'] / 1e6:>8.2f} MB/s "
            f"{row[f'deviation_{key}']:>+6.0%}  "
            f"{row[f'kernel_{other}'] / 1e6:>9.2f} {row[f'model_{other}'] / 1e6:>8.2f} ms "
            f"{row[f'deviation_{other}']:>+6.0%}  {'pass' if row['passes'] else 'MISS'}"
        )
    wrong = ", ".join(f"{one} and {other}" for one, other in misordered(rows))
    lines.append(f"  order of the schedulers: {wrong or 'as in the kernel'}")
    return lines
