"""The simulated schedulers against the kernel's own, on the same modelled device:
`python tools/kernel_check.py --help`.

The same processes run in the simulator and, as real load, on an emulated device under the kernel's
scheduler. Both use one device model, so what differs is the model of the host's queue. noop,
deadline and cfq are in no current kernel: they have no such check.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.analyse.quantiles import half_width
from schedlab.app.predict.real_load import buffered_of, is_buffered, run_processes, specs_of
from schedlab.cli import main
from schedlab.cli.options import COUNT, json_option
from schedlab.errors import SpecError
from schedlab.sim.simulation import Simulation, split_schedulers
from schedlab.sim.validated import kind_of

if TYPE_CHECKING:
    from schedlab.host.control import Control

RATE, LATENCY = "throughput_bytes_per_s", "latency_ns_mean"
TOLERANCES = {RATE: 0.10, LATENCY: 0.15}
# Schedulers that differ by more in the kernel, and by more than chance, must be in that order.
DECIDED = 0.10
ALL = "all processes"
USUAL = ("none", "mq-deadline", "kyber", "bfq")
SIZE_BYTES = 8 << 30
# Requests that a scheduler may hold above a loop device, independent of the tags.
NR_REQUESTS = 256
# Within which the processes of the real load begin.
START_SPREAD_NS = 200_000
LIMITS = ("max_sectors_kb", "read_ahead_kb")


@dataclass(frozen=True)
class CheckedCell:
    """One cell: processes (a preset or a file) on a device, and what it is about.

    `depth` is the number of commands that the driver lets into the device; `policy` the order in
    which the device serves them. The device is `dilate` times slower, in the kernel and in the
    model: the scheduler has one clock in both, and times are compared as it sees them. The first
    `warm_up_s` are not measured.
    """

    number: int
    about: str
    processes: str
    policy: str = "fcfs"
    depth: int = 4
    schedulers: tuple[str, ...] = USUAL
    device: str = "disk7200"
    dilate: int = 1
    warm_up_s: float = 0.0


# Of each measure: what kernel and model gave, a pair for each block.
Row = dict[str, list[tuple[float, float]]]

RAISED = ("none", "bfq", "bfq:low_latency=0")
CHECKS = (
    CheckedCell(1, "random reads, all in the device, in order", "random32", depth=128),
    CheckedCell(2, "random reads, four tags, in order", "random32"),
    CheckedCell(3, "random reads, all in a device that sorts", "random32", "sptf", 32),
    CheckedCell(4, "random reads, four tags, sorted twice", "random32", "sptf"),
    CheckedCell(5, "three sequential readers", "readers3", schedulers=RAISED),
    CheckedCell(6, "sequential and random reader together", "sequential-random", schedulers=RAISED),
    CheckedCell(7, "three sequential readers, four at a time", "readers3-deep"),
    CheckedCell(8, "random reader beside two writers", "reader-writers"),
    CheckedCell(9, "buffered copy with fsync", "copy-buffered"),
    CheckedCell(10, "I/O priorities of three readers", "levels", schedulers=("none", "bfq")),
    CheckedCell(11, "two processes write small records", "small-writes"),
    CheckedCell(12, "reader beside writers on flash", "reader-writers-deep", "fcfs", 32, USUAL,
          "sata-ssd", 20, 5.0),
)  # fmt: skip


def checks_of(text: str) -> list[CheckedCell]:
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


def own_checks(
    processes: str, device: str, tags: int, policy: str, schedulers: str | None
) -> list[CheckedCell]:
    """A cell for each of the comma-separated files of processes; SpecError for a scheduler or a
    file that is none.
    """
    names = tuple(split_schedulers(schedulers)) if schedulers else USUAL
    files = [name.strip() for name in processes.split(",")]
    for file in files:
        if is_buffered(file):
            buffered_of(file, SIZE_BYTES)
    return [
        CheckedCell(number, "processes of your own", file, policy, tags, names, device)
        for number, file in enumerate(files, 1)
    ]


def simulation_of(
    check: CheckedCell, scheduler: str, seconds: float, seed: int, settings: Mapping[str, float]
) -> Simulation:
    """A cell in the simulator, with `settings` of crates/sim/src/host/settings.rs."""
    return Simulation(
        device=check.device,
        scheduler=scheduler,
        processes=check.processes,
        tags=check.depth,
        nr_requests=None if scheduler == "none" else NR_REQUESTS,
        window=check.depth,
        policy=check.policy,
        size=str(SIZE_BYTES),
        dilate=check.dilate,
        seconds=seconds + check.warm_up_s,
        seed=seed,
        settings={"warm_up_seconds": check.warm_up_s, **settings},
    )


def model_run(
    check: CheckedCell, scheduler: str, seconds: float, seed: int, settings: Mapping[str, float]
) -> list[dict[str, float]]:
    """Its figures by process."""
    run = simulation_of(check, scheduler, seconds, seed, settings).run()
    return [{name: process[name] for name in TOLERANCES} for process in run["processes"]]


def measure(
    control: Control, check: CheckedCell, seconds: float, blocks: int, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Rows of a cell: scheduler, process, and what kernel and model gave in each block.

    Processes that are alike are one row with their mean: which of them is ahead is chance.
    """
    from schedlab.host.emulated import Emulation

    emulation = Emulation(
        check.device,
        size_bytes=SIZE_BYTES,
        queue_depth=check.depth,
        policy=check.policy,
        dilate=float(check.dilate),
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
            times_s = (seconds, check.warm_up_s)
            kernel = run_processes(check.processes, path, SIZE_BYTES, times_s, seed)
            copy_ns = max(row.get("page_copy_ns", 0.0) for row in kernel)
            host = {"page_copy_ns": round(copy_ns), "start_spread_ns": START_SPREAD_NS, **limits}
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
            "kind": asdict(kind_of(simulation_of(check, scheduler, seconds, 1, {}))),
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
    checks: Sequence[CheckedCell],
    seconds: float,
    blocks: int,
    as_json: bool,
    report: Callable[[str], None],
) -> Iterator[str]:
    """The text of each cell when it is measured, or one JSON document of all."""
    from schedlab.host.control import Control

    results: list[dict[str, Any]] = []
    ranks: list[Rank] = []
    with Control() as control:
        for check in checks:
            rows = measure(control, check, seconds, blocks, report)
            results += rows
            ranks += ranked(rows)
            if not as_json:
                yield "\n".join(table(check, rows))
    right = sum(rank.agrees for rank in ranks)
    if as_json:
        order = {"decided": len(ranks), "agree": right}
        measured = {
            "kernel": os.uname().release,
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": seconds,
            "blocks": blocks,
        }
        yield json.dumps({"schema": 2, "measured": measured, "rows": results, "order": order})
    else:
        counts = {word: sum(row["verdict"] == word for row in results) for word in VERDICTS}
        verdicts = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield f"rows: {verdicts}; order: {right} of {len(ranks)} decided pairs as in the kernel"


VERDICTS = ("pass", "fails", "undecided")


def judged(row: Row) -> dict[str, Any]:
    """Means of kernel and model, deviation of the model, its 95 % interval over the blocks, and
    the verdict: it `pass`es where the whole interval is within the tolerances, it `fails` where the
    whole interval of one figure is outside, else it is `undecided`.
    """
    judged_row: dict[str, Any] = {}
    verdicts = []
    for key, tolerance in TOLERANCES.items():
        pairs = row[key]
        kernel = sum(real for real, _ in pairs) / len(pairs)
        model = sum(simulated for _, simulated in pairs) / len(pairs)
        deviation = (model - kernel) / kernel if kernel else math.inf
        half = half_width([simulated - real for real, simulated in pairs])
        half = half / kernel if kernel else 0.0
        judged_row[f"kernel_{key}"] = [real for real, _ in pairs]
        judged_row[f"model_{key}"] = [simulated for _, simulated in pairs]
        judged_row[f"deviation_{key}"] = deviation
        judged_row[f"deviation_half_width_{key}"] = half
        if abs(deviation) + half <= tolerance:
            verdicts.append("pass")
        else:
            verdicts.append("fails" if abs(deviation) - half > tolerance else "undecided")
    is_pass = verdicts.count("pass") == len(verdicts)
    judged_row["verdict"] = "pass" if is_pass else "undecided"
    if "fails" in verdicts:
        judged_row["verdict"] = "fails"
    return judged_row


@dataclass(frozen=True)
class Rank:
    """Two schedulers that the kernel puts in an order, for a process or for all; whether the model
    has the same.
    """

    process: str
    better: str
    worse: str
    agrees: bool


def ranked(rows: Sequence[Mapping[str, Any]]) -> list[Rank]:
    """The pairs that the kernel decides by throughput: they differ by more than `DECIDED`, and by
    more than the interval of their difference over the blocks.
    """
    rates: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for row in rows:
        for process, count in ((row["process"], 1), (ALL, row["count"])):
            of_process = rates.setdefault(process, {})
            for place, source in enumerate(("kernel", "model")):
                values = [count * value for value in row[f"{source}_{RATE}"]]
                both = of_process.setdefault(row["scheduler"], ([], []))
                both[place][:] = map(
                    sum, zip(both[place] or [0.0] * len(values), values, strict=True)
                )
    if len(rates) == 2:  # one process and all: the same
        del rates[ALL]
    ranks = []
    for process, of_scheduler in rates.items():
        for one, other in itertools.combinations(of_scheduler, 2):
            (kernel, model), (kernel_2, model_2) = of_scheduler[one], of_scheduler[other]
            differences = [a - b for a, b in zip(kernel, kernel_2, strict=True)]
            low, high = sorted((sum(kernel), sum(kernel_2)))
            far = high > (1 + DECIDED) * low
            mean = sum(differences) / len(differences)
            if not far or abs(mean) <= half_width(differences):
                continue
            better, worse = (one, other) if mean > 0 else (other, one)
            agrees = (sum(model) > sum(model_2)) == (mean > 0) and sum(model) != sum(model_2)
            ranks.append(Rank(process, better, worse, agrees))
    return ranks


def table(check: CheckedCell, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of a cell: kernel, model, deviation, and the order of the schedulers."""
    slower = f", device {check.dilate}× slower" if check.dilate != 1 else ""
    lines = [
        f"cell {check.number}: {check.about} ({check.processes}, {check.depth} tags{slower})",
        f"  {'':<38}{'kernel':>9}{'model':>9}  deviation",
    ]
    for row in rows:
        who = row["process"] + (f" ×{row['count']}" if row["count"] > 1 else "")
        lines.append(
            f"  {row['scheduler']:<18}{who:<15}MB/s {_compared(row, RATE):<31}{row['verdict']}"
        )
        lines.append(f"  {'':<33}ms   {_compared(row, LATENCY)}")
    ranks = ranked(rows)
    wrong = [
        f"{rank.process}: {rank.better} before {rank.worse}" for rank in ranks if not rank.agrees
    ]
    order = "; ".join(wrong) or "as in the kernel"
    lines.append(f"  order, {len(ranks)} pairs decided in the kernel: {order}")
    return lines


def _compared(row: Mapping[str, Any], key: str) -> str:
    half = row[f"deviation_half_width_{key}"]
    interval = f" ±{half:.0%}" if math.isfinite(half) else ""
    kernel, model = (statistics.fmean(row[f"{who}_{key}"]) / 1e6 for who in ("kernel", "model"))
    return f"{kernel:>9.2f}{model:>9.2f}  {row[f'deviation_{key}']:+.0%}{interval}"


@click.command("kernel-check")
@click.option("--cells", help="Which of the 12 cells: 1-4,7.  [all]")
@click.option("--processes", metavar="FILE,…", help="Instead of the cells: files or presets.")
@click.option("--device", help="With --processes: model of the device.  [disk7200]")
@click.option("--tags", type=COUNT, help="With --processes: commands that it holds.  [4]")
@click.option("--policy", help="With --processes: its order.  [fcfs]")
@click.option("--schedulers", metavar="NAME[:KEY=VALUE];…",
              help="With --processes.  [none,mq-deadline,kyber,bfq]")  # fmt: skip
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of each run.")
@click.option("--blocks", type=click.IntRange(1, 20), default=4, show_default=True,
              help="Runs of each; one decides nothing.")  # fmt: skip
@json_option
def kernel_check(
    cells: str | None,
    processes: str | None,
    device: str | None,
    tags: int | None,
    policy: str | None,
    schedulers: str | None,
    seconds: float,
    blocks: int,
    as_json: bool,
) -> None:
    """Run the same processes simulated and on an emulated device; needs root and FUSE.

    \b
    pass       the deviation and all of its interval are within 10 % (rates), 15 % (latencies)
    fails      all of its interval is outside
    undecided  the interval is too wide: more --blocks, more --seconds
    """
    own = {"--device": device, "--tags": tags, "--policy": policy, "--schedulers": schedulers}
    if processes is not None:
        if cells is not None:
            raise SpecError("--cells and --processes exclude each other", "omit one of them")
        checks = own_checks(
            processes, device or "disk7200", tags or 4, policy or "fcfs", schedulers
        )
    elif idle := [name for name, value in own.items() if value is not None]:
        raise SpecError(f"{idle[0]} is for processes of your own", "add --processes FILE")
    else:
        checks = checks_of(cells or "1-12")
    for text in run_cells(checks, seconds, blocks, as_json, partial(click.echo, err=True)):
        click.echo(text)


if __name__ == "__main__":
    main(kernel_check)
