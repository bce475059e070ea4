"""Our I/O engine beside the installed fio: same file, alternated, written to RESULTS.md.

Run from the repository as root, with fio installed:

    PYTHONPATH=python python benches/io/side_by_side.py [--rounds 5] [--seconds 1] [--only loop]

With `--samples FILE` what was measured before is kept there and written with the rest, so that the
whole can be measured in parts, each on a quiet machine.

Backings: `tmpfs` (a file in /dev/shm, buffered: the CPU is the limit), `loop` (a loop device on
such a file, O_DIRECT), `one-cpu` (the same, both tools kept on one CPU), `limited` (the loop device
under a cgroup limit of 1,000 reads/s: the device is the limit). Every round runs both tools one
after the other and the first one changes; the table holds medians of the rounds' ratios (ours /
fio) with their range, and CPU time of all rounds per I/O.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from schedlab import _core

SPAN = 256 << 20
LIMIT_PER_S = 1000
RAMP_S = 0.5  # a new process is placed on the CPUs otherwise than one that runs
RESULTS = Path(__file__).with_name("RESULTS.md")
LOADS = [("psync", 1), ("io_uring", 1), ("io_uring", 32), ("io_uring", 128)]
RECORDS = [4096, 131072]


@dataclass
class Sample:
    """One run: I/O per second, CPU time per I/O and the 99th percentile of latency."""

    iops: float
    operations: int
    user_ns: float
    system_ns: float
    p99_ns: float


@dataclass
class Cell:
    """One row of the table."""

    backing: str
    engine: str
    depth: int
    record: int
    ours: list[Sample] = field(default_factory=list)
    fio: list[Sample] = field(default_factory=list)


def quantile(bins: list[list[int]], q: float) -> float:
    total, seen = sum(count for _, _, count in bins), 0
    for low, high, count in bins:
        seen += count
        if seen >= q * total:
            return (low + high) / 2
    return float("nan")


def run_ours(path: str, cell: Cell, seconds: float, seed: int) -> Sample:
    workload = {
        "pattern": {"kind": "random", "replacement": True},
        "direction": {"kind": "read"},
        "record": cell.record,
        "span": SPAN,
        "arrivals": {"kind": "closed", "depth": cell.depth},
        "seed": seed,
    }
    group = {"name": "bench", "path": path, "engine": cell.engine, "workload": workload}
    group["direct"] = cell.backing != "tmpfs"
    result = json.loads(
        _core.run_io_job(
            json.dumps({"seconds": seconds, "ramp_seconds": RAMP_S, "groups": [group]})
        )
    )
    outcome = result["groups"][0]
    reads = outcome["reads"]
    return Sample(
        iops=reads["operations"] / outcome["elapsed_ns"] * 1e9,
        operations=reads["operations"],
        user_ns=outcome["cpu_user_ns"],
        system_ns=outcome["cpu_system_ns"],
        p99_ns=quantile(reads["latency"]["bins"], 0.99),
    )


def run_fio(path: str, cell: Cell, seconds: float, seed: int) -> Sample:
    command = [
        "fio",
        "--name=bench",
        "--thread",  # a fio process would leave our scheduling group (setsid)
        f"--filename={path}",
        "--rw=randread",
        "--norandommap",
        f"--bs={cell.record}",
        f"--size={SPAN}",
        f"--ioengine={cell.engine}",
        f"--iodepth={cell.depth}",
        f"--direct={int(cell.backing != 'tmpfs')}",
        f"--randseed={seed}",
        "--time_based",
        f"--runtime={int(seconds * 1000)}ms",
        f"--ramp_time={int(RAMP_S * 1000)}ms",
        "--lat_percentiles=1",
        "--clat_percentiles=0",
        "--invalidate=0",
        "--output-format=json",
    ]
    if cell.engine == "io_uring":
        command += ["--fixedbufs", "--registerfiles"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(result.stdout[result.stdout.index("{") :])["jobs"][0]
    reads = job["read"]
    elapsed_ns = reads["runtime"] * 1e6
    return Sample(
        iops=reads["iops"],
        operations=reads["total_ios"],
        user_ns=job["usr_cpu"] / 100 * elapsed_ns,
        system_ns=job["sys_cpu"] / 100 * elapsed_ns,
        p99_ns=reads["lat_ns"]["percentile"]["99.000000"],
    )


@contextlib.contextmanager
def tmpfs_file(size_bytes: int = SPAN) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="schedlab-bench-") as file:
        for _ in range(size_bytes >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        yield file.name


@contextlib.contextmanager
def loop_device(backing: str) -> Iterator[str]:
    attach = ["losetup", "--find", "--show", "--direct-io=on", backing]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def limited(device: str, **limits: int) -> Iterator[None]:
    """A cgroup that this process (and so fio) is in, with limits such as `riops` on the device."""
    version_1 = Path("/sys/fs/cgroup/blkio")
    root = version_1 if version_1.exists() else Path("/sys/fs/cgroup")
    group = root / f"schedlab-bench-{os.getpid()}"
    number = Path(f"/sys/block/{Path(device).name}/dev").read_text().strip()
    group.mkdir()
    try:
        if root != version_1:
            (root / "cgroup.subtree_control").write_text("+io")
        for key, limit in limits.items():
            if root == version_1:
                name = {"r": "read_", "w": "write_"}[key[0]] + key[1:]
                (group / f"blkio.throttle.{name}_device").write_text(f"{number} {limit}")
            else:
                (group / "io.max").write_text(f"{number} {key}={limit}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """This process, and so fio, on the first CPU that it may use."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure(path: str, cells: list[Cell], rounds: int, seconds: float) -> None:
    for number in range(rounds):
        for cell in cells:
            if number % 2:
                cell.fio.append(run_fio(path, cell, seconds, number + 1))
                cell.ours.append(run_ours(path, cell, seconds, number + 1))
            else:
                cell.ours.append(run_ours(path, cell, seconds, number + 1))
                cell.fio.append(run_fio(path, cell, seconds, number + 1))
            note(f"{cell.backing} {cell.engine} {cell.depth} {cell.record} round {number + 1}")


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ratios(cell: Cell, of: str) -> str:
    pairs = zip(cell.ours, cell.fio, strict=True)
    values = [getattr(a, of) / getattr(b, of) for a, b in pairs]
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def per_io(samples: list[Sample], of: str) -> float:
    return sum(getattr(s, of) for s in samples) / sum(s.operations for s in samples)


def row(cell: Cell) -> str:
    def cpu(of: str) -> str:
        ours, fio = per_io(cell.ours, of), per_io(cell.fio, of)
        return f"{ours:.0f} / {fio:.0f} | {ours / fio:.2f}" if fio else f"{ours:.0f} / 0 | –"

    ours, fio = (statistics.median(s.iops for s in side) for side in (cell.ours, cell.fio))
    return (
        f"| {cell.backing} | {cell.engine} | {cell.depth} | {cell.record >> 10} KiB "
        f"| {ours:,.0f} / {fio:,.0f} | {ratios(cell, 'iops')} | {cpu('user_ns')} "
        f"| {cpu('system_ns')} | {ratios(cell, 'p99_ns')} |"
    )


def nop_lines() -> list[str]:
    rows = [
        "| depth | batch | wall ns per I/O, best round | of a bare loop | ratio "
        "| CPU ns per I/O: user | system |",
        "|---|---|---|---|---|---|---|",
    ]
    for depth, batch in ((32, 32), (128, 32), (128, 128), (32, 1)):
        costs = [json.loads(_core.io_nop_calibration(depth, batch)) for _ in range(5)]
        wall = min(cost["ns_per_io_min"] for cost in costs)
        user = statistics.median(cost["user_ns_per_io"] for cost in costs)
        system = statistics.median(cost["system_ns_per_io"] for cost in costs)
        bare = min(cost["bare_ns_per_io_min"] for cost in costs)
        rows.append(
            f"| {depth} | {batch} | {wall:.0f} | {bare:.0f} | {wall / bare:.2f} "
            f"| {user:.0f} | {system:.0f} |"
        )
    return rows


def environment(options: argparse.Namespace) -> str:
    fio = subprocess.run(["fio", "--version"], check=True, capture_output=True, text=True)
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
    return (
        f"{fio.stdout.strip()}, Linux {os.uname().release}, {os.cpu_count()} × {model}; "
        f"{options.rounds} rounds of {options.seconds:g} s after {RAMP_S:g} s per cell; "
        f"random reads, {SPAN >> 20} MiB, registered files and buffers on both sides; both tools "
        "run at nice -20 in an own scheduling group "
        f"(load of the machine meanwhile: {os.getloadavg()[0]:.0f})"
    )


def write_results(cells: list[Cell], options: argparse.Namespace, kept: dict[str, Any]) -> None:
    lines = [
        "# The I/O engine beside fio",
        "",
        "Written by `side_by_side.py`; pairs are ours / fio, ratios above 1 mean more on our side.",
        "",
        environment(options),
        "",
        "| backing | engine | depth | record | IOPS | ratio (range) | user ns per I/O | ratio "
        "| system ns per I/O | ratio | p99 ratio (range) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *map(row, cells),
        "",
        "CPU time is the workers' own (`getrusage`), split into user and system by the kernel's "
        "tick sampling; work that a loop device does in kernel threads is in neither. At depth 1 "
        "three threads take turns on a loop device: the one that submits, the worker and the soft "
        "interrupts. Which CPU the kernel puts them on changes the rate by half from one minute to "
        "the next, for either tool; the rows `one-cpu` leave it no choice for the first.",
        "",
        "## The engine's own cost (io_uring NOPs)",
        "",
        "The bare loop submits NOPs through the same kind of ring and forgets them: no order, no "
        "clock, no histogram. What it costs is the kernel's; the difference is the engine's.",
        "",
        *kept["nop"],
        "",
    ]
    RESULTS.write_text("\n".join(lines))
    print("\n".join(lines))


def take_precedence() -> None:
    """Puts this process (and so fio) before the machine's other work: an own scheduling group."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    os.nice(-20)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", choices=["tmpfs", "loop", "one-cpu", "limited"])
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args()
    take_precedence()
    table = {
        backing: [Cell(backing, e, d, r) for r in RECORDS for e, d in LOADS]
        for backing in ("tmpfs", "loop")
    }
    table["one-cpu"] = [Cell("one-cpu", e, d, r) for r in RECORDS for e, d in LOADS if d == 1]
    table["limited"] = [Cell("limited", "psync", 1, 4096), Cell("limited", "io_uring", 32, 4096)]
    kept = recall(options.samples)
    parts = [options.only] if options.only else [*table]
    with tmpfs_file() as file, loop_device(file) as device:
        for part in parts:
            if part == "limited":
                with limited(device, riops=LIMIT_PER_S):
                    measure(device, table[part], min(options.rounds, 3), max(options.seconds, 5.0))
            elif part == "one-cpu":
                with on_one_cpu():
                    measure(device, table[part], options.rounds, options.seconds)
            else:
                path = file if part == "tmpfs" else device
                measure(path, table[part], options.rounds, options.seconds)
            kept[part] = [asdict(cell) for cell in table[part]]
    kept["nop"] = nop_lines()
    if options.samples:
        options.samples.write_text(json.dumps(kept))
    cells = [restored(cell) for part in table for cell in kept.get(part, [])]
    write_results(cells, options, kept)


def recall(path: Path | None) -> dict[str, Any]:
    """What was measured before, by part."""
    if path is None or not path.exists():
        return {}
    parts: dict[str, Any] = json.loads(path.read_text())
    return parts


def restored(cell: dict[str, Any]) -> Cell:
    """A cell as it was before it was stored."""
    sides = {side: [Sample(**sample) for sample in cell[side]] for side in ("ours", "fio")}
    return Cell(**{**cell, **sides})


if __name__ == "__main__":
    main()
