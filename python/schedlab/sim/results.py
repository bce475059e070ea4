"""What one simulation gave: metrics by name, distributions, and the log of requests."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# One row of the log, packed, in the order of completion. `operation`: 0 read, 1 write, 2 trim.
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
DIRECTIONS = ("read", "write")
TOTALS = (
    "requests",
    "iops",
    "throughput_bytes_per_s",
    "utilisation",
    "read_hit_ratio",
    "write_hit_ratio",
)


@dataclass(frozen=True)
class SimResult:
    """The report of a simulation as the simulator wrote it, and the log if requested.

    Equal settings and seeds give equal `report_json` byte for byte, on every machine. `service` is
    the service model that was in force.
    """

    report_json: str
    log_bytes: bytes = b""
    service: str = ""

    @functools.cached_property
    def report(self) -> Mapping[str, Any]:
        """The whole report; times in ns, see `Report` in `crates/sim/src/engine/measure.rs`."""
        report: Mapping[str, Any] = json.loads(self.report_json)
        return report

    @functools.cached_property
    def metrics(self) -> Mapping[str, float]:
        """Numbers by name: times in ms from host arrival, with `_ncq` from entry into the command
        queue; NaN where nothing was counted (or too little for the quantile).
        """
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
        """Completed requests as a structured array of `LOG_DTYPE`; empty without `log=True`."""
        import numpy as np

        return np.frombuffer(self.log_bytes, dtype=np.dtype(LOG_DTYPE))

    def histogram(self, direction: str, part: str = "response") -> NDArray[np.uint64]:
        """Occupied bins of `read` or `write` times as rows (low_ns, high_ns, count)."""
        import numpy as np

        bins = self.report[direction][part]["bins"]
        return np.array(bins, dtype=np.uint64).reshape(-1, 3)

    @property
    def queue_depth(self) -> tuple[NDArray[np.float64], float]:
        """Mean number of requests in each bucket of time, and the bucket's width in ms."""
        import numpy as np

        width_ms = self.report["queue_depth_bucket_ns"] / 1e6
        return np.array(self.report["queue_depth"], dtype=np.float64), width_ms


def _ms(value_ns: float | None) -> float:
    return float("nan") if value_ns is None else value_ns / 1e6
