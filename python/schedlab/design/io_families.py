"""Families of block-I/O workloads, as typed after --workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.errors import SpecError, nearest
from schedlab.kinds import KINDS, WorkloadKind, typed
from schedlab.kinds.base import Offer
from schedlab.kinds.processes import RATE, Processes
from schedlab.nouns import Objective, Workload
from schedlab.nouns.quantities import size_text
from schedlab.store.process_files import presets, tables_of

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

    def window(self) -> dict[str, object]:
        """The parameter `seconds`, where it was requested."""
        return {"seconds": self.seconds} if self.seconds else {}

    def span(self) -> dict[str, object]:
        """The parameter `span_bytes`, where it was requested."""
        return {"span_bytes": self.span_bytes} if self.span_bytes else {}


Family = Callable[[Load, Objective], list[Workload]]


def workloads(families: Sequence[str], load: Load, objective: Objective) -> tuple[Workload, ...]:
    """The workloads of the named families, in the order named."""
    return tuple(work for name in families for work in family_named(name)(load, objective))


def family_named(name: str) -> Family:
    """One of `FAMILIES`, or that of a file of processes; SpecError for a word that is neither."""
    if name in FAMILIES:
        return FAMILIES[name]
    shipped = presets()
    if name not in shipped and not name.endswith(".toml"):
        raise SpecError(f"workloads {name!r} are not known", nearest(name, (*FAMILIES, *shipped)))

    def family(load: Load, objective: Objective) -> list[Workload]:
        tables = tables_of(name)
        first = str(tables[0].get("name", "process-1"))
        deciding = RATE if objective == "throughput" else f"{first}.latency_ns_mean"
        parameters = {"processes": list(tables), **load.window()}
        work = Workload(Path(name).stem, Processes.kind, deciding, parameters)
        return [
            replace(work, secondary=tuple(m for m in typed(work).own_metrics() if m != deciding))
        ]

    return family


def offered(kind: type[WorkloadKind], offer: Offer) -> Family:
    """The family of a kind that offers itself."""

    def family(load: Load, objective: Objective) -> list[Workload]:
        metric = offer.deciding.get(objective, offer.metrics[0])
        wanted = {**load.window(), **load.span()}.items()
        parameters = {key: value for key, value in wanted if key in kind.__struct_fields__}
        work = _work(offer.label, kind.kind, metric, parameters, offer.metrics)
        return [replace(work, negative_control=offer.is_control)]

    return family


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


# family, as typed after --workloads -> its workloads; most are kinds that offer themselves.
FAMILIES: Mapping[str, Family] = {
    **{kind.offer.word: offered(kind, kind.offer)
       for kind in KINDS.values() if kind.offer and kind.family == "io"},
    "one-process": one_process,
    "weights": weights,
    "file-tests": file_tests,
    "timings": timings,
    "extraction": extraction,
    "startup": startup,
}  # fmt: skip
# Those in which a scheduler has something to decide, the most telling first: a short budget keeps
# the first ones. The last is close to a control: one process leaves nothing to order.
USUAL_FAMILIES = (
    "newcomer", "steady-reader", "readers", "random-reads", "database", "one-process",
)  # fmt: skip


def _work(
    label: str, kind: str, metric: str, parameters: dict[str, object], metrics: Sequence[str]
) -> Workload:
    """A workload with one of `metrics` as the primary one and the others as secondary ones."""
    others = tuple(name for name in metrics if name != metric)
    return Workload(label, kind, metric, parameters, others)
