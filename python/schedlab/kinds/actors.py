"""Actors of one run: processes, each with its own region, and the work of each.

bfq, I/O priorities and cgroups distinguish processes, and bfq merges the queues of processes that
work on the same region. So every actor is a process, and two share a region only where a workload
asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlab.errors import SpecError
from schedlab.kinds.engine import claimed_bytes, group, run_groups
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import latency
from schedlab.nouns.load_result import GroupResult, JobResult, SideResult

# Regions begin at whole MiB, so that they are aligned for every record size in use.
ALIGNMENT_BYTES = 1 << 20
# The load that lets a scheduler order something: a multiple of the driver's tags.
LOAD_PER_TAG = 2
TAGS_USUAL = 128
# A load of more requests than this shows nothing more, and its end must be awaited.
LOAD_MAX = 2048
RANDOM_ENDLESS: dict[str, object] = {"kind": "random", "replacement": True}

Region = tuple[int, int]


def regions(span_bytes: int, parts: Sequence[int], shared: bool = False) -> list[Region]:
    """(offset, bytes) of adjacent regions, in proportion to `parts`; the whole span if `shared`.

    SpecError when the span is too small for that.
    """
    if shared:
        return [(0, span_bytes)] * len(parts)
    unit = span_bytes // sum(parts) & -ALIGNMENT_BYTES
    if unit < ALIGNMENT_BYTES:
        raise SpecError(
            f"{span_bytes} bytes are too few for {sum(parts)} processes, each with its own region",
            f"use a target of at least {sum(parts)} MiB",
        )
    return [(unit * sum(parts[:n]), unit * part) for n, part in enumerate(parts)]


def load_depth(requested: int, tags: int, workers: int) -> int:
    """Requests in flight of each worker of a load: as requested, else (0) twice the tags."""
    if requested or not workers:
        return requested or 1
    total = min(LOAD_PER_TAG * (tags or TAGS_USUAL), LOAD_MAX)
    return -(-total // workers)


def actor(
    name: str, target: ResolvedTarget, region: Region, work: Mapping[str, object], **options: Any
) -> dict[str, object]:
    """A group of processes that do `work` by direct I/O; several divide their region."""
    offset, span = region
    usual = {"engine": "io_uring", "direct": True, "layout": "divided", "offset": offset}
    return group(name, target, {**work, "span": span}, **{**usual, **options})


@dataclass(frozen=True)
class Actors:
    """The engine's result of a job of several processes."""

    result: JobResult
    depth: int = 0
    tags: int = 0
    seconds: float = 0.0  # the requested window

    @cached_property
    def groups(self) -> dict[str, GroupResult]:
        """The groups of the engine's result by name."""
        return {each.name: each for each in self.result.groups}

    @property
    def measured_from_s(self) -> float:
        """Where the measured window begins, since all groups were let go."""
        return min(g.series.window_ms[0] for g in self.groups.values() if g.series.window_ms) / 1e3

    def window_s(self, name: str) -> float:
        """How long a group was measured; the whole window where nothing was completed in it."""
        return self.groups[name].elapsed_ns / 1e9 or self.seconds

    def side(self, name: str, direction: str) -> SideResult:
        """`reads` or `writes` of a group."""
        return self.groups[name].reads if direction == "reads" else self.groups[name].writes

    def rate(self, names: Sequence[str], direction: str, operations: bool = False) -> float:
        """Bytes (or operations) per second of several groups in their windows."""
        rate = 0.0
        for name in names:
            side = self.side(name, direction)
            rate += (side.operations if operations else side.bytes) / self.window_s(name)
        return rate

    def waiting_ns(self, name: str) -> float:
        """How long the oldest request had waited in vain at the end: at least the true latency."""
        return float(self.groups[name].oldest_pending_ns) or self.window_s(name) * 1e9

    def claimed(self) -> tuple[int, int]:
        """(read, written) bytes that the device must have counted, priming included."""
        read, written = claimed_bytes(self.groups)
        return read + sum(g.prepared.primed_bytes for g in self.groups.values()), written

    def properties(self) -> dict[str, object]:
        """Stated facts of the run: errors, the load in tags, and the depth that was reached."""
        sides = [side for g in self.groups.values() for side in g.sides]
        facts: dict[str, object] = {
            "engine": next(iter(self.groups.values())).engine,
            "errors": sum(side.errors for side in sides),
            "short": sum(side.short for side in sides),
            "claimed_bytes": list(self.claimed()),
        }
        seen = self.result.inflight
        if seen and not seen.error:
            facts["in_driver_mean"], facts["in_driver_max"] = seen.mean, seen.max
        if self.depth:
            facts["load_depth"], facts["driver_tags"] = self.depth, self.tags
        if any(g.load_generator_bottleneck for g in self.groups.values()):
            facts["load_generator_bottleneck"] = True
        waiting = {n: self.waiting_ns(n) for n, g in self.groups.items() if g.unanswered}
        if waiting:
            facts["oldest_pending_ns"] = waiting
        return facts

    def series(self) -> dict[str, list[list[int]]]:
        """Rows (t_ms, completions, bytes, latency sum in ns) of each group, in bins of 100 ms."""
        rows = {name: added(g.series.reads, g.series.writes) for name, g in self.groups.items()}
        return {name: own for name, own in rows.items() if own}

    def latencies(self) -> dict[str, list[list[int]]]:
        """Rows (t_ms, low_ns, high_ns, count) of what completed in each 100 ms, of each group."""
        return {n: g.series.latencies for n, g in self.groups.items() if g.series.latencies}


def added(reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Both directions of a series added up, bin by bin."""
    if not reads or not writes:
        return [list(row) for row in reads or writes]
    return [
        [one[0], *(a + b for a, b in zip(one[1:], other[1:], strict=True))]
        for one, other in zip(reads, writes, strict=False)
    ]


def run_actors(
    target: ResolvedTarget,
    groups: Sequence[Mapping[str, object]],
    seconds: float,
    ramp_seconds: float = 0.0,
    depth: int = 0,
) -> Actors:
    """Run the groups at once as processes, and sample the requests in flight of the device below.

    `depth` is that of the load, for the record. Errors as of `run_groups`.
    """
    result = run_groups(groups, seconds, ramp_seconds, process=True, device=target.device or None)
    return Actors(result, depth, target.tags, seconds)


def served(
    actors: Actors, name: str, direction: str, prefix: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Latency metrics of one group, and which are bounds.

    A group of which nothing was served has the window, or the age of its oldest request, as the
    lower bound of its mean and of every quantile.
    """
    stats = actors.side(name, direction).latency
    if stats.count:
        metrics = latency.metrics(stats.bins, prefix)
        return {f"{prefix}latency_ns_mean": stats.mean, **metrics}, {}
    names = [f"{prefix}latency_ns_{q}" for q in ("mean", *latency.QUANTILES)]
    waited = max(actors.waiting_ns(name), actors.window_s(name) * 1e9)
    return dict.fromkeys(names, waited), dict.fromkeys(names, "at-least")


def rate_bound(
    name: str, operations: int, rate: float, unit: float, seconds: float
) -> tuple[dict[str, float], dict[str, str]]:
    """A rate metric; of a group that got nothing done: less than one `unit` in the window."""
    if operations:
        return {name: rate}, {}
    return {name: unit / seconds}, {name: "at-most"}


def outcome(
    actors: Actors,
    metrics: Mapping[str, float],
    bounds: Mapping[str, str],
    rows: latency.Rows,
    **facts: Any,
) -> Outcome:
    """The outcome of a run of several processes, with its series and stated facts."""
    return Outcome(
        metrics=metrics,
        properties={**actors.properties(), "measured_from_s": actors.measured_from_s, **facts},
        histograms={"latency_ns": rows},
        bounds=bounds,
        series=actors.series(),
        latencies=actors.latencies(),
    )
