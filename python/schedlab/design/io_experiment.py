"""The main experiment: schedulers × file tests × record sizes, and a reader beside writers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlab.spec import Candidate, Experiment, Objective, Stopping, Target, Workload

# The primary metric by objective: (file tests, interference).
GOALS: dict[Objective, tuple[str, str]] = {
    "throughput": ("throughput_bytes_per_s", "reader_latency_ns_mean"),
    "latency": ("latency_ns_p99", "reader_latency_ns_p99"),
    "responsiveness": ("latency_ns_p99", "reader_latency_ns_mean"),
    "fairness": ("throughput_bytes_per_s", "read_bytes_per_s"),
}
FILE_TEST_METRICS = ("throughput_bytes_per_s", "latency_ns_p50", "latency_ns_p99", "cpu_s")
INTERFERENCE_METRICS = (
    "reader_latency_ns_mean", "reader_latency_ns_p99", "read_bytes_per_s", "write_bytes_per_s",
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """What the file tests and the interference workload are made of."""

    tests: Sequence[str]
    record_bytes: Sequence[int]
    span_bytes: int
    seconds: float
    depth: int = 1
    workers: int = 1
    direct: bool = True
    interference: bool = True


def size_text(size_bytes: int) -> str:
    """4096 as `4 KiB`; the largest unit that divides it."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >> shift and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift} {unit}"
    return f"{size_bytes} B"


def workloads(load: Load, objective: Objective) -> tuple[Workload, ...]:
    """Every test at every record size that fits, then the interference workload."""
    test_metric, interference_metric = GOALS[objective]
    made = [
        Workload(
            label=f"{test} {size_text(record)}",
            kind="file-test",
            metric=test_metric,
            parameters={
                "test": test,
                "record_bytes": record,
                "span_bytes": load.span_bytes,
                "seconds": load.seconds,
                "engine": "psync" if load.depth == 1 else "io_uring",
                "depth": load.depth,
                "workers": load.workers,
                "direct": load.direct,
            },
            secondary=tuple(m for m in FILE_TEST_METRICS if m != test_metric),
        )
        for record in load.record_bytes
        for test in load.tests
    ]
    if load.interference:
        made.append(
            Workload(
                label="reader beside writers",
                kind="interference",
                metric=interference_metric,
                parameters={
                    "seconds": max(load.seconds, 0.5),
                    "ramp_seconds": 0.2,
                    "reader_record_bytes": 4096,
                    "writers": 2,
                    "writer_record_bytes": 65536,
                    "writer_depth": 64,
                    "span_bytes": load.span_bytes,
                },
                secondary=tuple(m for m in INTERFERENCE_METRICS if m != interference_metric),
            )
        )
    return tuple(made)


def io_experiment(
    title: str,
    target: Target,
    candidates: tuple[Candidate, ...],
    works: tuple[Workload, ...],
    *,
    seed: int,
    stopping: Stopping,
    margin: float,
    aa_arm: bool,
    objective: Objective,
    notes: tuple[str, ...],
) -> Experiment:
    """The experiment; the baseline is the first candidate."""
    return Experiment(
        title=title,
        kind="io",
        target=target,
        candidates=candidates,
        workloads=works,
        baseline=candidates[0].label,
        seed=seed,
        stopping=stopping,
        margin=margin,
        aa_arm=aa_arm,
        objective=objective,
        notes=notes,
    )
