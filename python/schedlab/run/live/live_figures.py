"""Requests of a device between two snapshots of a block capture, by process group and operation.

A snapshot counts from the start of its capture (crates/trace/src/blocks.rs); two of them, one
subtracted from the other, are an interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from schedlab.kinds.live_load import OPERATIONS, STATISTICS, group_metric
from schedlab.nouns import durability
from schedlab.nouns.capture import BlockSeen, Place
from schedlab.nouns.latency import QUANTILES, REQUESTS_BEYOND_MIN, bin_of, is_supported
from schedlab.run.io.durability import Durable

Bin = tuple[int, int]
Key = tuple[str, str]
#: A quantile of one interval needs so many requests beyond it.
BEYOND_LEAST = 1
#: A larger share of the device's sectors that a capture missed makes its figures useless.
GAP_SHARE_MAX = 0.001
SECTOR_BYTES = 512


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

    @property
    def slowest_ns(self) -> float | None:
        """The upper end of the slowest request's bin; None without a request."""
        return float(max(high for _, high in self.bins) + 1) if self.bins else None

    def statistic_ns(self, name: str, beyond: int = REQUESTS_BEYOND_MIN) -> float | None:
        """`mean`, `p50`, … `p99_99`; None where too few requests support it."""
        return self.mean_ns if name == "mean" else self.quantile_ns(QUANTILES[name], beyond)


@dataclass(frozen=True)
class Look:
    """The counters of one or several devices at a moment, since their captures began.

    `ages_ns` are those of the oldest request of a group and operation that has not completed;
    `held` requests wait for a limit (io.max), where their ages are unknown. `gap_sectors` of the
    `sectors` that the devices moved are in no capture.
    """

    at_s: float = 0.0
    flows: Mapping[Key, Flow] = field(default_factory=dict)
    in_flight: int = 0
    lost: int = 0
    errors: int = 0
    ages_ns: Mapping[Key, int] = field(default_factory=dict)
    held: int = 0
    gap_sectors: int = 0
    sectors: int = 0

    def __sub__(self, earlier: Look) -> Look:
        """The interval since an earlier look; what waits is that of its end, `at_s` its length."""
        flows = {key: flow - earlier.flows.get(key, Flow()) for key, flow in self.flows.items()}
        return replace(
            self,
            at_s=self.at_s - earlier.at_s,
            flows={key: flow for key, flow in flows.items() if flow.requests},
            lost=self.lost - earlier.lost,
            errors=self.errors - earlier.errors,
        )

    def flow(self, operation: str, group: str = "") -> Flow:
        """All requests of an operation, or those of one group."""
        mine = (f for (g, o), f in self.flows.items() if o == operation and group in ("", g))
        return sum(mine, Flow())

    def age_ns(self, operation: str, group: str = "") -> int:
        """The age of the oldest request that has not completed; 0: none waits."""
        mine = (ns for (g, o), ns in self.ages_ns.items() if o == operation and group in ("", g))
        return max(mine, default=0)

    def latency_ns(self, statistic: str, operation: str, group: str = "") -> float | None:
        """The one definition for screen and guards: the statistic of the requests or, with fewer
        than it needs, the slowest of them and the age of what waits; None where nothing did.
        """
        flow = self.flow(operation, group)
        value = flow.statistic_ns(statistic, BEYOND_LEAST)
        if value is None:
            value = max(flow.slowest_ns or 0.0, float(self.age_ns(operation, group))) or None
        return value

    @property
    def closes(self) -> bool:
        """Whether the captures have what the devices moved."""
        return abs(self.gap_sectors) <= GAP_SHARE_MAX * max(self.sectors, 1)

    def gap_sentence(self) -> str:
        """By how much the captures miss what the devices moved; empty where they close."""
        return gap_sentence(self.gap_sectors, self.sectors)

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
            for statistic in STATISTICS:
                values[f"{operation}_latency_ns_{statistic}"] = flow.statistic_ns(statistic)
            for group in groups:
                values[group_metric(group, operation)] = self.flow(operation, group).mean_ns
        for operation in durability.OPERATIONS:
            flow = self.flow(operation)
            for statistic in STATISTICS:
                values[durability.metric(operation, statistic)] = flow.statistic_ns(statistic)
        return {name: value for name, value in values.items() if value}


def gap_sentence(gap: int, sectors: int) -> str:
    """By how many sectors a capture misses what the devices counted; empty where it closes."""
    if not gap:
        return ""
    what = "more than it has" if gap > 0 else "less than it has"
    return (
        f"the capture does not add up: the device counted {abs(gap) * SECTOR_BYTES / 1e6:,.2f} MB "
        f"({abs(gap) / max(sectors, 1):.2%}) {what}"
    )


def look(at_s: float, snapshots: Iterable[BlockSeen], durable: Durable | None = None) -> Look:
    """The snapshots of the captured devices as one; processes of one name are one group. The calls
    of `durable` are operations as reads and writes are.
    """
    flows: dict[Key, Flow] = {}
    ages_ns: dict[Key, int] = {}
    in_flight = lost = errors = held = gap = sectors = 0
    for snapshot in snapshots:
        names = [each["name"] for each in snapshot["classes"]]
        for group in snapshot["groups"]:
            total = group["total"]
            bins = Counter({(low, high): count for low, high, count in total["bins"]})
            flow = Flow(group["requests"], group["bytes"], total["sum_ns"], bins)
            key = (names[group["class"]], group["operation"])
            flows[key] = flows.get(key, Flow()) + flow
        for number, operation, age_ns in snapshot["waiting"]:
            key = (names[number], operation)
            ages_ns[key] = max(ages_ns.get(key, 0), age_ns)
        limited = round(last_of(snapshot, "limits"))
        queued = round(last_of(snapshot, "scheduler"))
        in_flight += snapshot["totals"]["in_flight"] + queued + limited
        held += limited
        gap += snapshot["accounting"]["gap_sectors"]
        sectors += (snapshot["accounting"]["device_sectors"] or (0, 0))[1]
        # Requests beyond the series of a capture are in its counters.
        lost += sum(n for name, n in snapshot["lost"].items() if name != "intervals")
        errors += snapshot["totals"]["errors"]
    if durable:
        for (process, _device, operation), calls in durable.calls.items():
            flow = Flow(calls.returned, 0, calls.sum_ns, calls.bins)
            key = (process, operation)
            flows[key] = flows.get(key, Flow()) + flow
        ages_ns |= durable.ages_ns
        lost += durable.lost
    return Look(at_s, flows, in_flight, lost, errors, ages_ns, held, gap, sectors)


def last_of(snapshot: BlockSeen, where: Place) -> float:
    """Requests at a place in the newest bin of time."""
    series = snapshot["depth"][where]["series"]
    return series[-1][1] if series else 0.0
