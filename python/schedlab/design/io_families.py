"""Families of block-I/O workloads, as typed after --workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedlab.spec import Objective, Workload
from schedlab.spec.quantities import size_text

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
    """What the workloads are made of; `seconds` is the length of one run."""

    tests: Sequence[str] | None = None
    record_bytes: Sequence[int] = (65536,)
    span_bytes: int = 0
    seconds: float = 1.0
    depth: int = 1
    workers: int = 1
    direct: bool = True
    archive: str = ""
    archive_bytes: int = 64 << 20
    decompressor: str = "none"
    timing_seconds: float | None = None  # None: hdparm's own 2 and 3 s
    program: str = ""  # whose start-up is timed; empty: an own one
    by_fio: bool = False  # the file tests, by an installed fio instead of our engine


def workloads(families: Sequence[str], load: Load, objective: Objective) -> tuple[Workload, ...]:
    """The workloads of the named families, in the order named."""
    return tuple(work for family in families for work in FAMILIES[family](load, objective))


def file_tests(load: Load, objective: Objective) -> list[Workload]:
    """Every test at every record size."""
    metric = GOALS[objective][0]
    return [
        Workload(
            label=f"{test} {size_text(record)}",
            kind="fio-file-test" if load.by_fio else "file-test",
            metric=metric,
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
            secondary=_others(FILE_TEST_METRICS, metric),
        )
        for record in load.record_bytes
        for test in load.tests or ()
    ]


def interference(load: Load, objective: Objective) -> list[Workload]:
    """A depth-1 reader beside two writers: together they exceed the device's own queue."""
    metric = GOALS[objective][1]
    return [
        Workload(
            label="reader beside writers",
            kind="interference",
            metric=metric,
            parameters={
                "seconds": max(load.seconds, 0.5),
                "ramp_seconds": 0.2,
                "reader_record_bytes": 4096,
                "writers": 2,
                "writer_record_bytes": 65536,
                "writer_depth": 64,
                "span_bytes": load.span_bytes,
            },
            secondary=_others(INTERFERENCE_METRICS, metric),
        )
    ]


def timings(load: Load, objective: Objective) -> list[Workload]:
    """hdparm's cached (a negative control) and buffered reads."""
    return [
        Workload(
            label=f"{timing} reads",
            kind="device-timings",
            metric="throughput_bytes_per_s",
            parameters={
                "timing": timing,
                **({"seconds": load.timing_seconds} if load.timing_seconds else {}),
            },
            secondary=("cpu_s",),
            negative_control=timing == "cached",
        )
        for timing in ("cached", "buffered")
    ]


def extraction(load: Load, objective: Objective) -> list[Workload]:
    """Unpacking a source tree from a cold cache."""
    parameters = {"decompressor": load.decompressor, "size_bytes": load.archive_bytes}
    given = {"archive": load.archive} if load.archive else {}
    return [
        Workload(
            label="archive extraction",
            kind="archive-extraction",
            metric="elapsed_s",
            parameters={**parameters, **given},
            secondary=("user_s", "system_s", "cpu_s"),
        )
    ]


def startup(load: Load, objective: Objective) -> list[Workload]:
    """A program's start from a cold cache: alone, and beside two readers and two writers."""
    given = {"program": load.program} if load.program else {}
    shared = {**given, "span_bytes": load.span_bytes}
    beside = {"readers": 2, "writers": 2, "ramp_seconds": 0.5}
    return [
        Workload("start-up alone", "startup", "startup_s", shared, ("cpu_s",)),
        Workload(
            label="start-up beside readers and writers",
            kind="startup",
            metric="startup_s",
            parameters={**shared, **beside},
            secondary=("read_bytes_per_s", "write_bytes_per_s", "cpu_s"),
        ),
    ]


# family, as typed after --workloads -> its workloads
FAMILIES: Mapping[str, Callable[[Load, Objective], list[Workload]]] = {
    "file-tests": file_tests,
    "interference": interference,
    "timings": timings,
    "extraction": extraction,
    "startup": startup,
}
USUAL_FAMILIES = ("interference", "file-tests")


def _others(names: Sequence[str], primary: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != primary)
