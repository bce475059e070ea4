"""Processes as data: what a simulation describes (store/process_files.py), measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from schedlab.errors import SpecError
from schedlab.kinds.actors import outcome, rate_bound, run_actors
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import group
from schedlab.kinds.file_access import Seconds
from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget
from schedlab.nouns import Metric, latency
from schedlab.nouns.load_result import SideResult
from schedlab.store.process_files import ProcessRow, only_simulated, processes_of, unique_names

QUANTILES = ("p50", "p90", "p99")
LATENCIES = ("latency_ns_mean", *(f"latency_ns_{q}" for q in QUANTILES))
RATE = "throughput_bytes_per_s"


def engine_groups(rows: Sequence[ProcessRow], target: ResolvedTarget) -> list[dict[str, object]]:
    """Processes in their regions as groups of an engine job, in their order."""
    groups = []
    for row, name in zip(rows, unique_names(rows), strict=True):
        options: dict[str, object] = {"engine": "io_uring", "direct": True, "clock": "completion"}
        which, _, level = row["ioprio"].partition(":")
        if row["ioprio"] != "be:4":
            options["ioprio"] = {"class": which, "level": int(level or 0)}
        if row["weight"]:
            options["cgroup"] = target.groups.get(name)
        if row["start"]:
            options["start_after_ms"] = round(row["start"] / 1e6)
        groups.append(group(name, target, row["workload"], offset=row["offset"], **options))
    return groups


def mean_ns(sides: Sequence[SideResult]) -> float | None:
    """The mean latency of all requests of several sides; None where none was served."""
    count = sum(side.latency.count for side in sides)
    total_ns = sum(side.latency.count * side.latency.mean for side in sides)
    return total_ns / count if count else None


class Processes(WorkloadKind, frozen=True):
    """Processes of your own: each table of `processes` has the keys of a file of processes
    (docs/guides/kernel-schedulers.md), and figures of its own name. A process that begins later
    (`start`) has no ramp.
    """

    kind: ClassVar[str] = "processes"
    metrics: ClassVar[tuple[str, ...]] = (RATE,)

    processes: tuple[dict[str, Any], ...] = ()
    seconds: Seconds = 2.0
    ramp_seconds: Seconds = 0.5

    def rows(self) -> list[ProcessRow]:
        """All keys of each process."""
        return processes_of({"process": self.processes})

    def tables(self) -> list[str]:
        """The name of each table, once."""
        return list(dict.fromkeys(row["table"] for row in self.rows()))

    def check(self, label: str) -> None:
        """SpecError for what only a simulation has."""
        if not self.processes:
            raise SpecError(f"{label}: there are no processes", "[[workloads.processes]]")
        for row in self.rows():
            if key := only_simulated(row):
                raise SpecError(
                    f"{label}: {key} of {row['name']} is only simulated",
                    "omit it, or simulate it: schedlab sim run --processes",
                )

    def writes(self) -> bool:
        """Whether one of them writes."""
        return any(row["read_share"] < 1 for row in self.rows())

    def groups(self) -> tuple[IoGroup, ...]:
        """A control group for each process with a weight."""
        rows = self.rows()
        named = zip(unique_names(rows), rows, strict=True)
        return tuple(IoGroup(name, weight=row["weight"]) for name, row in named if row["weight"])

    def own_metrics(self) -> Mapping[str, Metric]:
        """`NAME.throughput_bytes_per_s`, `NAME.latency_ns_p99` and so on of each table."""
        metrics = {}
        for name in self.tables():
            for word in (RATE, *LATENCIES):
                unit = "B/s" if word == RATE else "ns"
                metrics[f"{name}.{word}"] = Metric(
                    f"{name}.{word}", unit, word == RATE, f"{name}.{word}"
                )
        return metrics

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Rate and latency of each table of processes; of several that are alike their sum, and the
        latency of all their requests.
        """
        rows = processes_of({"process": self.processes}, target.size_bytes, seed)
        depth = sum(row["depth"] for row in rows)
        jobs, names = engine_groups(rows, target), unique_names(rows)
        actors = run_actors(target, jobs, self.seconds, self.ramp_seconds, depth)
        metrics: dict[str, float] = {}
        bounds: dict[str, str] = {}
        everything = []
        for name in dict.fromkeys(row["table"] for row in rows):
            members = [each for row, each in zip(rows, names, strict=True)
                       if row["table"] == name]  # fmt: skip
            record = next(row["record"] for row in rows if row["table"] == name)
            sides = [actors.side(each, way) for each in members for way in ("reads", "writes")]
            bins = latency.merge([side.latency.bins for side in sides])
            everything.append(bins)
            rate = sum(actors.rate(members, way) for way in ("reads", "writes"))
            operations = sum(side.operations for side in sides)
            of_rate, is_bound = rate_bound(
                f"{name}.{RATE}", operations, rate, record, actors.window_s(members[0])
            )
            metrics |= of_rate
            bounds |= is_bound
            latencies, least = _latencies(name, sides, bins, max(map(actors.waiting_ns, members)))
            metrics |= latencies
            bounds |= least
        if moved := sum(actors.rate(list(actors.groups), way) for way in ("reads", "writes")):
            metrics[RATE] = moved
        return outcome(actors, metrics, bounds, latency.merge(everything))


def _latencies(
    name: str, sides: Sequence[SideResult], bins: latency.Rows, waited_ns: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Mean and quantiles of a table; of one that got nothing done the age of what waits."""
    mean = mean_ns(sides)
    if mean is None:
        names = [f"{name}.{word}" for word in LATENCIES]
        return dict.fromkeys(names, waited_ns), dict.fromkeys(names, "at-least")
    known = latency.metrics(bins, f"{name}.")
    wanted = {f"{name}.{word}" for word in LATENCIES}
    return {
        f"{name}.latency_ns_mean": mean,
        **{key: value for key, value in known.items() if key in wanted},
    }, {}
