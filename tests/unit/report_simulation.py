"""A simulated experiment for the tests of the report: a Record as a result folder would give it.

The truth is known: `bfq` is 8 % slower, the others are equal; the machine drifts slowly.
"""

import math
import random
from datetime import UTC, datetime, timedelta

from schedlab.nouns import (
    AA_SUFFIX,
    Candidate,
    Cell,
    Experiment,
    GateFinding,
    Plan,
    Record,
    Run,
    Stopping,
    Target,
    Workload,
)
from schedlab.result import answer_of as answered

TESTS = {
    "write": 0.8, "rewrite": 1.0, "read": 1.4, "re-read": 1.45, "reverse-read": 1.1,
    "random-read": 0.9, "random-write": 0.7,
}  # fmt: skip
FACTORS = {"none": 1.0, "mq-deadline": 1.002, "kyber": 1.001, "bfq": 0.92}

START = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
__all__ = ["answered", "cpu_record", "io_record", "sim_record"]
Histogram = tuple[tuple[int, int, int], ...]


def size_label(size_bytes):
    if size_bytes >= 1 << 20:
        return f"{size_bytes >> 20} MiB"
    return f"{size_bytes >> 10} KiB"


def io_workloads(sizes, interference):
    workloads = [
        Workload(
            f"{test} {size_label(4096 << i)}",
            "file-test",
            "throughput_bytes_per_s",
            {"test": test, "record_bytes": 4096 << i, "seconds": 1.0, "direct": True},
            ("latency_ns_p99",),
        )
        for i in range(sizes)
        for test in TESTS
    ]
    if interference:
        workloads.append(
            Workload(
                "reader beside writers",
                "interference",
                "reader_latency_ns_mean",
                {"seconds": 1.0, "writers": 2},
                ("write_bytes_per_s",),
            )
        )
    return tuple(workloads)


def histogram(rng, mean_ns, count=20000):
    """Log-normal latencies in bins of 3 %, as the engine's histograms are."""
    bins = {}
    for _ in range(400):
        bin_ = int(math.log(rng.lognormvariate(math.log(mean_ns), 0.6)) / math.log(1.03))
        bins[bin_] = bins.get(bin_, 0) + count // 400
    return tuple((int(1.03**b), int(1.03 ** (b + 1)), n) for b, n in sorted(bins.items()))


def io_record(sizes=3, blocks=8, *, interference=True, seed=1, spread=0.015):
    rng = random.Random(seed)
    workloads = io_workloads(sizes, interference)
    candidates = tuple(Candidate(name, {"scheduler": name}) for name in FACTORS)
    arms = (*candidates, Candidate("none" + AA_SUFFIX, {"scheduler": "none"}, aa_of="none"))
    cells = []
    for block in range(blocks):
        for workload in rng.sample(workloads, len(workloads)):
            for candidate in rng.sample(arms, len(arms)):
                cells.append(Cell(block, len(cells), workload.label, candidate.label, len(cells)))
    by_label = {workload.label: workload for workload in workloads}
    runs = []
    for cell in cells:
        runs.extend(_attempts(cell, by_label[cell.workload], len(cells), rng, spread))
    experiment = Experiment(
        title="Schedulers of loop7",
        kind="io",
        target=Target("scratch", "/var/tmp", 1 << 30),
        candidates=candidates,
        workloads=workloads,
        baseline="none",
        seed=seed,
        stopping=Stopping(blocks=blocks),
        notes=("the guest has no CPU frequency control",),
    )
    histograms = {
        (w.label, c.label): histogram(rng, 9e4 / FACTORS[c.label])
        for w in workloads
        for c in candidates
    }
    return Record(experiment, Plan(tuple(cells)), tuple(runs), HOST, histograms)


def _attempts(cell, workload, total, rng, spread):
    """The run of a cell, sometimes after one that was discarded."""
    name = cell.candidate.removesuffix(AA_SUFFIX)
    drift = 1 - 0.04 * cell.position / total
    noise = math.exp(rng.gauss(0, spread))
    if workload.kind == "interference":
        penalty = 0.2 if name == "bfq" else 1.0
        metrics = {
            "reader_latency_ns_mean": 2.1e6 * penalty * noise / drift,
            "write_bytes_per_s": 9e8 * FACTORS[name] * drift,
        }
    else:
        size = float(workload.parameters["record_bytes"])
        base = 6e7 * TESTS[str(workload.parameters["test"])] * (size / 4096) ** 0.55
        metrics = {
            "throughput_bytes_per_s": base * FACTORS[name] * drift * noise,
            "latency_ns_p99": 2.4e5 / FACTORS[name] * math.exp(rng.gauss(0, 0.05)),
        }
    at = START + timedelta(seconds=1.3 * cell.position)
    last = {"properties": {"engine": "psync", "cpu_share": 0.2}}
    attempts = [_run(cell, 1, "ok", at, metrics, (), last)]
    if rng.random() < 0.01:
        gate = GateFinding("knob-changed", "queue/scheduler was changed under us: none -> bfq")
        attempts.insert(0, _run(cell, 0, "discarded", at, metrics, (gate,), last))
    return attempts


def _run(cell, attempt, status, at, metrics, gates, extra):
    return Run(
        cell.block, cell.position, cell.workload, cell.candidate, cell.seed, attempt, status,
        at.isoformat(), 1.0, metrics, gates, **extra,
    )  # fmt: skip


HOST = {
    "kernel": {"release": "6.18.0", "version": "#1 SMP", "command_line": "console=ttyS0 quiet"},
    "cpu": {"model": "Example CPU 3000", "online": 2, "governor": "performance"},
    "memory": {"total_bytes": 25_000_000_000},
    "device": {"name": "loop7", "queue": {"nr_requests": "128", "scheduler": "[none] bfq"}},
}


def cpu_record(blocks=6, seed=2):
    """Round-robin quanta on the CPU, with burst tables in the runs' properties."""
    rng = random.Random(seed)
    candidates = tuple(
        Candidate(f"rr {ms} ms", {"policy": "rr", "slice_ms": ms}) for ms in (1, 10, 100)
    )
    workload = Workload("2 workers", "cpu-bound", "calculations_per_cpu_s", {"workers": 2})
    cells, runs = [], []
    for block in range(blocks):
        for candidate in rng.sample(candidates, 3):
            cell = Cell(block, len(cells), workload.label, candidate.label, len(cells))
            cells.append(cell)
            slice_ms = int(candidate.settings["slice_ms"])
            rate = 225 * (1 - 0.03 / slice_ms) * math.exp(rng.gauss(0, 0.01))
            bursts = [
                {"worker": i, "calculations": 3300 + i, "cpu_burst_s": 15.0 - i / 100, "bursts": 9}
                for i in range(2)
            ]
            extra = {"properties": {"effective_slice_ms": max(4, slice_ms), "workers": bursts}}
            metrics = {"calculations_per_cpu_s": rate, "calculations": 6600.0}
            runs.append(_run(cell, 0, "ok", START, metrics, (), extra))
    experiment = Experiment(
        "What a quantum costs", "cpu", Target("none"), candidates, (workload,),
        candidates[0].label, seed, Stopping(blocks=blocks), aa_arm=False,
    )  # fmt: skip
    return Record(experiment, Plan(tuple(cells)), tuple(runs), HOST)


def sim_record(blocks=12, seed=3):
    """Simulated disk policies; a lower mean response time is better."""
    rng = random.Random(seed)
    means = {"fcfs": 21.0, "sstf": 9.1, "scan": 9.9, "look": 9.8}
    candidates = tuple(Candidate(name, {"policy": name}) for name in means)
    workloads = tuple(
        Workload(f"{rate}/s", "poisson", "mean_read_ms", {"arrivals_per_s": rate})
        for rate in (50, 80)
    )
    cells, runs = [], []
    for block in range(blocks):
        for workload in workloads:
            for candidate in candidates:
                cell = Cell(block, len(cells), workload.label, candidate.label, len(cells))
                cells.append(cell)
                value = means[candidate.label] * math.exp(rng.gauss(0, 0.02))
                runs.append(_run(cell, 0, "ok", START, {workload.metric: value}, (), {}))
    experiment = Experiment(
        "Disk policies", "sim", Target("none"), candidates, workloads, "fcfs", seed,
        Stopping(blocks=blocks), aa_arm=False,
    )  # fmt: skip
    return Record(experiment, Plan(tuple(cells)), tuple(runs))
