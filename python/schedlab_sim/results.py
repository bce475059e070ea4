"""The result of one simulation: metrics by name, distributions, and the log of requests."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from schedlab.errors import SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Rows of the log, packed, in the order of completion. Times in ns; `operation`: 0 read, 1 write,
# 2 trim.
LOG_DTYPE = [
    ("index", "<u8"),
    ("arrival_ns", "<u8"),
    ("admitted_ns", "<u8"),
    ("dispatched_ns", "<u8"),
    ("completed_ns", "<u8"),
    ("first_page", "<u4"),
    ("pages", "<u4"),
    ("operation", "u1"),
]
# Of a disk: `kind` is a place in `KINDS`, `measured_ns` the response time that a trace states.
DISK_LOG_DTYPE = [
    ("index", "<u8"),
    ("arrival_ns", "<u8"),
    ("dispatched_ns", "<u8"),
    ("completed_ns", "<u8"),
    ("offset_bytes", "<u8"),
    ("length_bytes", "<u8"),
    ("measured_ns", "<u8"),
    ("operation", "u1"),
    ("kind", "u1"),
]
KINDS = ("read-hit", "read-miss", "write-cached", "write-waited", "write-through")
NOT_MEASURED = 2**64 - 1
# Under a scheduler: `process` is a place in the report's `processes`, sectors are of 512 bytes.
HOST_LOG_DTYPE = [
    ("sector", "<u8"),
    ("arrival_ns", "<u8"),
    ("inserted_ns", "<u8"),
    ("dispatched_ns", "<u8"),
    ("completed_ns", "<u8"),
    ("process", "<u4"),
    ("sectors", "<u4"),
    ("bios", "<u4"),
    ("operation", "u1"),
]
DIRECTIONS = ("read", "write")
TOTALS = (
    "requests",
    "iops",
    "throughput_bytes_per_s",
    "utilisation",
    "read_hit_ratio",
    "write_hit_ratio",
)

# What is used of the figures of a process (of one in the kernel the first two are known), of a run
# under a scheduler, and of a run of a disk.
ProcessFigures = TypedDict(
    "ProcessFigures",
    {
        "iops": float, "latency_ns_mean": float, "name": NotRequired[str],
        "throughput_bytes_per_s": NotRequired[float], "latency_ns_p99": NotRequired[int | None],
        "latency_bins": NotRequired[list[dict[str, int]]],
    },
)  # fmt: skip
HostReport = TypedDict(
    "HostReport", {"scheduler": str, "processes": list[ProcessFigures], "total": ProcessFigures}
)
DiskReport = TypedDict(
    "DiskReport",
    {
        "policy": str, "iops": float, "latency_ns_mean": float, "latency_ns_p99": int | None,
        "latency_ns_max": int, "seek_ns_mean": float, "rotation_ns_mean": float,
        "utilisation": float, "hit_ratio": float,
    },
)  # fmt: skip


@dataclass(frozen=True)
class SimResult(Mapping[str, Any]):
    """The report of a simulation as the simulator wrote it, whose keys are those of the result, and
    the log if requested. Times in ns; see `Report`, `DiskResult` and `HostResult` in `crates/sim`.

    Equal settings and seeds give equal `report_json` byte for byte, on every machine.
    """

    report_json: str
    log_bytes: bytes = b""

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """The whole report."""
        report: dict[str, Any] = json.loads(self.report_json)
        return report

    def __getitem__(self, key: str) -> Any:
        """An entry of the report."""
        return self.report[key]

    def __iter__(self) -> Iterator[str]:
        """The keys of the report."""
        return iter(self.report)

    def __len__(self) -> int:
        """How many entries the report has."""
        return len(self.report)

    @functools.cached_property
    def metrics(self) -> Mapping[str, float]:
        """Numbers by name; those of processes are of all together."""
        return self.metrics_of("total")

    @property
    def host(self) -> HostReport:
        """The report of a run under a scheduler."""
        return cast("HostReport", self.report)

    def process(self, name: str) -> ProcessFigures:
        """The figures of a process above a device, or `total`; SpecError for one that is none."""
        known = {each["name"]: each for each in (*self.host["processes"], self.host["total"])}
        if name not in known:
            raise SpecError(f"process {name!r} is not simulated", f"one of: {', '.join(known)}")
        return known[name]

    def metrics_of(self, process: str) -> Mapping[str, float]:
        """Numbers by name, of one process where there are some. Of an SSD times are in ms from host
        arrival, with `_ncq` from entry into the command queue; NaN where nothing was counted (or
        too little for the quantile).
        """
        if "processes" in self:
            return _numbers({**self.process(process), **self["order"]})
        if "read" not in self:
            return _numbers({k: v for k, v in self.items() if k != "seed"})
        numbers = {name: float(self.report[name]) for name in TOTALS}
        for direction in DIRECTIONS:
            times = self.report[direction]
            for at, part in (("", "response"), ("_ncq", "response_ncq"), ("_queueing", "queueing")):
                numbers[f"mean_{direction}{at}_ms"] = _ms(times[part]["mean"])
                numbers[f"max_{direction}{at}_ms"] = _ms(times[part]["max"])
                for quantile, value in times[part]["quantiles"]:
                    numbers[f"{quantile}_{direction}{at}_ms"] = _ms(value)
        numbers |= self.report["device"].get("ftl") or {}
        numbers["overloaded"] = float(self.report["steady"]["is_overloaded"])
        return numbers

    @functools.cached_property
    def log(self) -> NDArray[Any]:
        """Completed requests as a structured array of `LOG_DTYPE`, of a disk `DISK_LOG_DTYPE`,
        under a scheduler `HOST_LOG_DTYPE`; empty without `log=True`.
        """
        import numpy as np

        dtype = LOG_DTYPE if "read" in self.report else DISK_LOG_DTYPE
        dtype = HOST_LOG_DTYPE if "processes" in self.report else dtype
        return np.frombuffer(self.log_bytes, dtype=np.dtype(dtype))

    def histograms(self, process: str) -> list[list[list[int]]]:
        """Occupied bins of response times as rows (low_ns, high_ns, count): of a process where
        there are some, of an SSD those of reads and of writes.
        """
        if "read" in self:
            return [self[direction]["response"]["bins"] for direction in DIRECTIONS]
        mine = self.process(process) if "processes" in self else cast("ProcessFigures", self.report)
        return [[list(each.values()) for each in mine["latency_bins"]]]

    def histogram(self, direction: str, part: str = "response") -> NDArray[np.uint64]:
        """Occupied bins of an SSD's `read` or `write` times as rows (low_ns, high_ns, count)."""
        import numpy as np

        bins = self.report[direction][part]["bins"]
        return np.array(bins, dtype=np.uint64).reshape(-1, 3)

    @property
    def queue_depth(self) -> tuple[NDArray[np.float64], float]:
        """Of an SSD: mean number of requests in each bucket of time, and its width in ms."""
        import numpy as np

        width_ms = self.report["queue_depth_bucket_ns"] / 1e6
        return np.array(self.report["queue_depth"], dtype=np.float64), width_ms


def _numbers(figures: Mapping[str, object]) -> dict[str, float]:
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}


def _ms(value_ns: float | None) -> float:
    return float("nan") if value_ns is None else value_ns / 1e6
