"""Requests of a device between two snapshots of a block capture, by process group and operation.

A snapshot counts from the start of its capture (crates/trace/src/blocks.rs); two of them, one
subtracted from the other, are an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlab.kinds.live_load import OPERATIONS, group_metric
from schedlab.spec.latency import QUANTILES, REQUESTS_BEYOND_MIN, bin_of, is_supported

Bin = tuple[int, int]


@dataclass(frozen=True)
class Flow:
    """Requests that completed: their number, bytes, summed latency, and (low, high) ns -> count."""

    requests: int = 0
    size_bytes: int = 0
    sum_ns: int = 0
    bins: Counter[Bin] = field(default_factory=Counter)

    def __add__(self, other: Flow) -> Flow:
        return Flow(
            self.requests + other.requests,
            self.size_bytes + other.size_bytes,
            self.sum_ns + other.sum_ns,
            self.bins + other.bins,
        )

    def __sub__(self, earlier: Flow) -> Flow:
        return Flow(
            self.requests - earlier.requests,
            self.size_bytes - earlier.size_bytes,
            self.sum_ns - earlier.sum_ns,
            self.bins - earlier.bins,
        )

    @property
    def mean_ns(self) -> float | None:
        """Mean latency; None without a request."""
        return self.sum_ns / self.requests if self.requests else None

    def quantile_ns(self, share: float, beyond: int = REQUESTS_BEYOND_MIN) -> float | None:
        """The quantile, on a straight line through its bin; None unless `beyond` requests are
        above it. Bins are a quarter of an octave wide.
        """
        total = sum(self.bins.values())
        if not total or not is_supported(total, share, beyond):
            return None
        rows = ((*ends, count) for ends, count in sorted(self.bins.items()))
        low, high, part = bin_of(rows, share * total)
        return low + (high + 1 - low) * part

    def statistic_ns(self, name: str, beyond: int = REQUESTS_BEYOND_MIN) -> float | None:
        """`mean`, `p50`, … `p99_99`; None where too few requests support it."""
        return self.mean_ns if name == "mean" else self.quantile_ns(QUANTILES[name], beyond)


@dataclass(frozen=True)
class Look:
    """The counters of one or several devices at a moment, since their captures began."""

    at_s: float = 0.0
    flows: Mapping[tuple[str, str], Flow] = field(default_factory=dict)
    in_flight: int = 0
    lost: int = 0
    errors: int = 0

    def __sub__(self, earlier: Look) -> Look:
        """The interval since an earlier look; `in_flight` is that of its end, `at_s` its length."""
        flows = {key: flow - earlier.flows.get(key, Flow()) for key, flow in self.flows.items()}
        return Look(
            self.at_s - earlier.at_s,
            {key: flow for key, flow in flows.items() if flow.requests},
            self.in_flight,
            self.lost - earlier.lost,
            self.errors - earlier.errors,
        )

    def flow(self, operation: str, group: str = "") -> Flow:
        """All requests of an operation, or those of one group."""
        mine = (f for (g, o), f in self.flows.items() if o == operation and group in ("", g))
        return sum(mine, Flow())

    @property
    def requests(self) -> int:
        """Completed reads and writes."""
        return sum(self.flow(operation).requests for operation in OPERATIONS)

    def metrics(self, groups: Iterable[str]) -> dict[str, float]:
        """The metrics of a period, as `kinds.live_load` names them."""
        values: dict[str, float | None] = {"requests_per_s": self.requests / self.at_s}
        for operation in OPERATIONS:
            flow = self.flow(operation)
            values[f"{operation}_bytes_per_s"] = flow.size_bytes / self.at_s
            for statistic in ("mean", *QUANTILES):
                values[f"{operation}_latency_ns_{statistic}"] = flow.statistic_ns(statistic)
            for group in groups:
                values[group_metric(group, operation)] = self.flow(operation, group).mean_ns
        return {name: value for name, value in values.items() if value}


def look(at_s: float, snapshots: Iterable[Mapping[str, Any]]) -> Look:
    """The snapshots of the captured devices as one; processes of one name are one group."""
    flows: dict[tuple[str, str], Flow] = {}
    in_flight = lost = errors = 0
    for snapshot in snapshots:
        names = [str(each["name"]) for each in snapshot["classes"]]
        for group in snapshot["groups"]:
            total = group["total"]
            flow = Flow(
                int(group["requests"]),
                int(group["bytes"]),
                int(total["sum_ns"]),
                Counter({(low, high): count for low, high, count in total["bins"]}),
            )
            key = (names[group["class"]], str(group["operation"]))
            flows[key] = flows.get(key, Flow()) + flow
        in_flight += snapshot["totals"]["in_flight"] + round(_last(snapshot, "scheduler"))
        # Requests beyond the series of a capture are in its counters.
        lost += sum(n for name, n in snapshot["lost"].items() if name != "intervals")
        errors += snapshot["totals"]["errors"]
    return Look(at_s, flows, in_flight, lost, errors)


def _last(snapshot: Mapping[str, Any], where: str) -> float:
    series = snapshot["depth"][where]["series"]
    return float(series[-1][1]) if series else 0.0
