"""Families of block-I/O workloads, as typed after --workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlab.spec import Objective, Workload
from schedlab.spec.quantities import size_text

NEWCOMER_METRICS = (
    "newcomer_latency_ns_mean", "newcomer_latency_ns_p50", "newcomer_latency_ns_p90",
    "write_bytes_per_s",
)  # fmt: skip
READER_METRICS = (
    "reader_latency_ns_mean", "reader_latency_ns_p50", "reader_latency_ns_p90",
    "reader_latency_ns_p99", "read_bytes_per_s", "write_bytes_per_s",
)  # fmt: skip
EQUALS_METRICS = (
    "throughput_bytes_per_s", "fairness_jain", "latency_ns_p99", "cpu_per_request_ns",
)  # fmt: skip
FILE_TEST_METRICS = ("throughput_bytes_per_s", "latency_ns_p50", "latency_ns_p99", "cpu_s")


@dataclass(frozen=True)
class Load:
    """The parameters of the workloads.

    `seconds` is the measured window of one run; 0: what each workload usually has.
    """

    tests: Sequence[str] | None = None
    record_bytes: Sequence[int] = (65536,)
    span_bytes: int = 0
    seconds: float = 0.0
    depth: int = 1
    workers: int = 1
    buffered: bool = False
    archive: str = ""
    archive_bytes: int = 64 << 20
    decompressor: str = "none"
    program: str = ""  # whose start-up is timed; empty: a built-in one

    def window(self) -> dict[str, Any]:
        """The parameter `seconds`, where it was requested."""
        return {"seconds": self.seconds} if self.seconds else {}

    def span(self) -> dict[str, Any]:
        """The parameter `span_bytes`, where it was requested."""
        return {"span_bytes": self.span_bytes} if self.span_bytes else {}


def workloads(families: Sequence[str], load: Load, objective: Objective) -> tuple[Workload, ...]:
    """The workloads of the named families, in the order named."""
    return tuple(work for family in families for work in FAMILIES[family](load, objective))


def newcomer(load: Load, objective: Objective) -> list[Workload]:
    """A new process beside two writers that fill the driver's queue twice."""
    metric = "newcomer_latency_ns_p90" if objective == "latency" else NEWCOMER_METRICS[0]
    return [_work("newcomer beside writers", "newcomer", metric, load.span(), NEWCOMER_METRICS)]


def steady_reader(load: Load, objective: Objective) -> list[Workload]:
    """A reader that has long been running, beside the same writers."""
    metric = {"latency": "reader_latency_ns_p90", "fairness": "read_bytes_per_s"}.get(
        objective, READER_METRICS[0]
    )
    return [
        _work(
            "reader beside writers", "reader-beside-writers", metric,
            {**load.window(), **load.span()}, READER_METRICS,
        )
    ]  # fmt: skip


def readers_together(load: Load, objective: Objective) -> list[Workload]:
    """Four processes read their regions in order."""
    metric = {"latency": "latency_ns_p99", "fairness": "fairness_jain"}.get(
        objective, "throughput_bytes_per_s"
    )
    parameters = {**load.window(), **load.span()}
    return [
        _work("sequential readers together", "readers-together", metric, parameters, EQUALS_METRICS)
    ]


def random_reads(load: Load, objective: Objective) -> list[Workload]:
    """Eight processes read 4 KiB at random, each with 32 requests in flight."""
    metric = {"latency": "latency_ns_p99", "fairness": "fairness_jain"}.get(
        objective, "throughput_bytes_per_s"
    )
    parameters = {**load.window(), **load.span()}
    return [_work("random reads at depth 32", "random-reads", metric, parameters, EQUALS_METRICS)]


def database(load: Load, objective: Objective) -> list[Workload]:
    """Four clients that read pages and commit to a shared log."""
    metrics = (
        "transactions_per_s", "commit_latency_ns_mean", "commit_latency_ns_p99", "latency_ns_mean",
    )  # fmt: skip
    slow = objective in ("latency", "responsiveness")
    metric = "commit_latency_ns_mean" if slow else metrics[0]
    return [_work("database", "database", metric, {**load.window(), **load.span()}, metrics)]


def one_process(load: Load, objective: Objective) -> list[Workload]:
    """One process with one request in flight: no scheduler has anything to order."""
    parameters = {"test": "random-read", "record_bytes": 4096, **load.window(), **load.span()}
    metric = "latency_ns_p99" if objective == "latency" else FILE_TEST_METRICS[0]
    return [_work("one process alone", "file-test", metric, parameters, FILE_TEST_METRICS)]


def weights(load: Load, objective: Objective) -> list[Workload]:
    """Two readers of which one has eight times the weight; two of which one is idle class."""
    metrics = (
        "share_fulfilment", "favoured_latency_ns_p99", "favoured_latency_ns_mean",
        "throughput_bytes_per_s",
    )  # fmt: skip
    shared = {**load.window(), **load.span()}
    return [
        _work("weights 8 : 1", "weights", metrics[0], shared, metrics),
        _work(
            "priorities best-effort : idle", "weights", metrics[0],
            {**shared, "priority": "be-idle"}, metrics,
        ),
    ]  # fmt: skip


def copy(load: Load, objective: Objective) -> list[Workload]:
    """A new process beside a big copy through the page cache."""
    metrics = (*NEWCOMER_METRICS[:3], "copy_bytes_per_s")
    metric = metrics[2] if objective == "latency" else metrics[0]
    return [_work("newcomer beside a copy", "copy-beside-desktop", metric, load.span(), metrics)]


def cached_reads(load: Load, objective: Objective) -> list[Workload]:
    """A negative control: no scheduler takes part in reads from memory."""
    metrics = ("throughput_bytes_per_s", "cpu_per_request_ns")
    work = _work("reads from the page cache", "cached-reads", metrics[0], load.window(), metrics)
    return [replace(work, negative_control=True)]


def file_tests(load: Load, objective: Objective) -> list[Workload]:
    """Every test at every record size."""
    slow = objective in ("latency", "responsiveness")
    metric = "latency_ns_p99" if slow else FILE_TEST_METRICS[0]
    return [
        _work(
            f"{test} {size_text(record)}",
            "file-test",
            metric,
            {
                "test": test,
                "record_bytes": record,
                **load.span(),
                **load.window(),
                "engine": "psync" if load.depth == 1 else "io_uring",
                "depth": load.depth,
                "workers": load.workers,
                "direct": not load.buffered,
            },
            FILE_TEST_METRICS,
        )
        for record in load.record_bytes
        for test in load.tests or ()
    ]


def timings(load: Load, objective: Objective) -> list[Workload]:
    """hdparm's cached (a negative control) and buffered reads."""
    return [
        Workload(
            label=f"{timing} reads",
            kind="device-timings",
            metric="throughput_bytes_per_s",
            parameters={"timing": timing, **load.window()},
            secondary=("cpu_s",),
            negative_control=timing == "cached",
        )
        for timing in ("cached", "buffered")
    ]


def extraction(load: Load, objective: Objective) -> list[Workload]:
    """Unpacking a source tree from a cold cache."""
    parameters = {"decompressor": load.decompressor, "size_bytes": load.archive_bytes}
    source = {"archive": load.archive} if load.archive else {}
    return [
        Workload(
            label="archive extraction",
            kind="archive-extraction",
            metric="elapsed_s",
            parameters={**parameters, **source},
            secondary=("user_s", "system_s", "cpu_s"),
        )
    ]


def startup(load: Load, objective: Objective) -> list[Workload]:
    """A program's start from a cold cache: alone, and beside two readers and two writers."""
    program = {"program": load.program} if load.program else {}
    shared = {**program, **load.span()}
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
    "newcomer": newcomer,
    "steady-reader": steady_reader,
    "readers": readers_together,
    "random-reads": random_reads,
    "database": database,
    "one-process": one_process,
    "weights": weights,
    "copy": copy,
    "cached-reads": cached_reads,
    "file-tests": file_tests,
    "timings": timings,
    "extraction": extraction,
    "startup": startup,
}
# Those in which a scheduler has something to decide, the most telling first: a short budget keeps
# the first ones. The last is a control: one process leaves nothing to order.
USUAL_FAMILIES = (
    "newcomer", "steady-reader", "readers", "random-reads", "database", "one-process",
)  # fmt: skip


def _work(
    label: str, kind: str, metric: str, parameters: dict[str, Any], metrics: Sequence[str]
) -> Workload:
    """A workload with one of `metrics` as the primary one and the others as secondary ones."""
    others = tuple(name for name in metrics if name != metric)
    return Workload(label, kind, metric, parameters, others)
