"""The load that a device has anyway: nothing is started, its requests are only counted.

Run by `run/live/live.py`, which switches the device's settings under the load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.brought import programs_of
from schedlab.kinds.file_access import Seconds
from schedlab.nouns import Metric, durability, latency
from schedlab.nouns.output_metrics import parse_output_metric

OPERATIONS = ("read", "write")
STATISTICS = ("mean", *latency.QUANTILES)


def _metrics() -> Iterator[str]:
    for operation in OPERATIONS:
        yield from (f"{operation}_latency_ns_{statistic}" for statistic in STATISTICS)
    yield from ("requests_per_s", "read_bytes_per_s", "write_bytes_per_s")
    for operation in durability.OPERATIONS:
        yield from (durability.metric(operation, statistic) for statistic in STATISTICS)


class LiveLoad(WorkloadKind, frozen=True):
    """One period of a live load: after a switch `wash_out_s` pass, then `seconds` are measured.

    `processes` are names of processes whose latencies are metrics of their own
    (`NAME_read_latency_ns_mean`); so are `control_groups`, each under the last part of its
    name. `metric` is a figure of the user's, read after the period: in what `command` prints, in a
    file, or on a page of this machine; `confine` holds the command (run/command/confinement.py).
    `guards` end the experiment. The load needed `settled_s` to settle after the slowest switch of
    the pilot; a shorter wash-out is told.
    """

    kind: ClassVar[str] = "live-load"
    metrics: ClassVar[tuple[str, ...]] = tuple(_metrics())
    brings_files: ClassVar[bool] = True

    seconds: Seconds = 55.0
    wash_out_s: Annotated[float, Meta(ge=0)] = 5.0
    settled_s: Annotated[float, Meta(ge=0)] = 0.0
    processes: tuple[str, ...] = ()
    control_groups: tuple[str, ...] = ()
    metric: str = ""
    command: tuple[str, ...] = ()
    confine: Literal["devices", "nothing"] = "devices"
    guards: tuple[str, ...] = ()

    def writes(self) -> bool:
        """Nothing: the load is not ours."""
        return False

    def programs(self) -> tuple[str, ...]:
        """The command that prints the user's figure."""
        return (" ".join(self.command),) if self.command else ()

    def brought(self) -> tuple[str, ...]:
        """The programs of that command."""
        return tuple(programs_of(self.command))

    @property
    def counted_apart(self) -> tuple[str, ...]:
        """The names of processes and control groups with metrics of their own."""
        return (*self.processes, *map(group_name, self.control_groups))

    def own_metrics(self) -> Mapping[str, Metric]:
        """The mean latencies of groups, and the user's figure."""
        own = {
            name: Metric(name, "ns", False, f"{operation} latency mean of {group}")
            for group in self.counted_apart
            for operation in OPERATIONS
            if (name := group_metric(group, operation))
        }
        if self.metric:
            metric = parse_output_metric(self.metric, of_live_load=True).metric()
            own[metric.name] = metric
        return own

    def estimate_s(self) -> float:
        """The whole period."""
        return self.seconds + self.wash_out_s


def group_name(group: str) -> str:
    """The name of a control group: the last part of its path."""
    return group.rstrip("/").rpartition("/")[2]


def group_metric(group: str, operation: str) -> str:
    """The name of the mean latency of a group of processes."""
    return f"{group}_{operation}_latency_ns_mean"
