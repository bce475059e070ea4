"""A recorded load again: one process for each task that sent requests, in a loop.

The file is one of `schedlab trace io --out`, or any other that `schedlab trace stats` reads. What
each request waited for is inferred from its times (crates/model/src/script.rs).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypedDict

import msgspec
from msgspec import Meta

from schedlab.errors import SpecError
from schedlab.kinds.actors import Actors, actor, added, rate_bound
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.engine import run_groups
from schedlab.kinds.file_access import READ, WRITE, Seconds
from schedlab.kinds.live_load import OPERATIONS, LiveLoad, group_metric
from schedlab.kinds.resolved import IoGroup, Outcome, ResolvedTarget
from schedlab.nouns import GateFinding, Metric, latency
from schedlab.nouns.foreign import unread
from schedlab.nouns.reading import split_format
from schedlab.nouns.results import FidelityRow

if TYPE_CHECKING:
    from schedlab._core import ReplayPlan

RECORD_IT = "schedlab trace io DEVICE --out FILE records one"
SIDES = {"read": "reads", "write": "writes"}
MIXED: dict[str, object] = {"kind": "mixed", "read_percent": 50}
#: A command has metrics of its own from this share of the requests on, and at most so many have.
SHARE_LEAST, COMMANDS_MOST = 0.02, 4
#: Room for requests in flight: a slower device has more of them than were recorded.
SLOTS_PER_DEPTH = {"dependent": 2, "open": 4, "closed": 1}
SLOTS_LEAST, SLOTS_MOST = 32, 4096
#: In an open replay requests may be late by this much, or this share of their mean distance.
LATE_NS, LATE_SHARE = 1e6, 0.1
#: A replay is like the capture when its figures differ from it by no more than this.
LIKE = {"bytes_per_s": 0.10, "mean": 0.10, "p99": 0.25}
CLASSES = {1: "rt", 2: "be", 3: "idle"}
CLASS_SHIFT = 13

# The streams of a trace, the figures of its programs by direction (all: an empty name), and both
# (crates/formats/src/script.rs).
StreamSeen = TypedDict(
    "StreamSeen",
    {
        "name": str, "command": str, "ioprio": int, "cgroup": int, "requests": int, "depth": int,
        "record": int | None, "reads": bool, "writes": bool, "first_read_ns": int | None,
        "first_write_ns": int | None,
    },
)  # fmt: skip
ProgramSeen = TypedDict(
    "ProgramSeen",
    {
        "name": str, "direction": Literal["reads", "writes"], "requests": int, "bytes": int,
        "mean_ns": float | None, "bins": list[list[int]],
    },
)  # fmt: skip
Summary = TypedDict(
    "Summary",
    {
        "requests": int, "period_ns": int, "figures_ns": int, "scheduler": str | None,
        "device": str | None, "touched_bytes": int, "discards": int, "moved": int,
        "widened": int, "ambiguous_share": float, "groups": list[ProgramSeen],
        "streams": list[StreamSeen],
    },
)  # fmt: skip


class TraceReplay(WorkloadKind, frozen=True):
    """The requests of `trace` again, `timing` after what they waited for, in a loop.

    `fit` is what becomes of addresses beyond the target: `compact` closes the gaps between the MiB
    that were touched, `wrap` takes them modulo its size. With `cgroups` each recorded control group
    is one again. `trace_sha256` refuses another file. A pause longer than `think_limit_ms` is a
    timer, not the time that a program needed after a completion.
    """

    kind: ClassVar[str] = "trace-replay"
    bypasses_cache: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = LiveLoad.metrics

    trace: str = ""
    trace_sha256: str = ""
    timing: Literal["dependent", "open", "closed"] = "dependent"
    fit: Literal["compact", "wrap", "refuse"] = "compact"
    reads_only: bool = False
    cgroups: bool = False
    think_limit_ms: Annotated[float, Meta(gt=0, le=3.6e6)] = 100.0
    seconds: Seconds = 5.0
    # bfq raises the weight of what starts for some seconds, and kyber learns.
    ramp_seconds: Seconds = 2.0

    def summary(self) -> Summary:
        """The recording as `Scripts` of crates/formats; SpecError where it is no load."""
        return _read(self)[1]

    def writes(self) -> bool:
        """Whether the recording has writes that are replayed."""
        return not self.trace or any(stream["writes"] for stream in self.summary()["streams"])

    def groups(self) -> tuple[IoGroup, ...]:
        """A control group for each recorded one."""
        found = {stream["cgroup"] for stream in self.summary()["streams"]} if self.cgroups else ()
        return tuple(IoGroup(f"replay-{number}") for number in sorted(found))

    def commands(self) -> tuple[str, ...]:
        """The programs that have metrics of their own; none if there is only one."""
        counts = Counter[str]()
        for stream in self.summary()["streams"]:
            counts[stream["command"]] += stream["requests"]
        least = SHARE_LEAST * counts.total()
        names = [name for name, count in counts.most_common(COMMANDS_MOST) if count >= least]
        return tuple(names) if len(counts) > 1 else ()

    def own_metrics(self) -> Mapping[str, Metric]:
        """The mean latencies of the programs, named as those of a live load."""
        if not self.trace:
            return {}
        there = {(one["name"], one["direction"]) for one in self.summary()["groups"]}
        return {
            name: Metric(name, "ns", False, f"{operation} latency mean of {command}")
            for command in self.commands()
            for operation in OPERATIONS
            if (command, SIDES[operation]) in there and (name := group_metric(command, operation))
        }

    def brought(self) -> tuple[str, ...]:
        """The file of the trace."""
        return (str(file_of(self.trace)),) if self.trace else ()

    def check(self, label: str) -> None:
        """Check that the file is the recorded one, and can be replayed."""
        if not self.trace:
            raise SpecError(f"{label}: names no trace", 'trace = "load.trace"')
        digest = sha256_of(file_of(self.trace))
        if self.trace_sha256 and digest != self.trace_sha256:
            raise SpecError(
                f"{label}: {self.trace} is not the measured file",
                "restore it, or remove trace_sha256 from the experiment",
            )
        self.summary()

    def notes(self, label: str) -> tuple[str, ...]:
        """Sentences on the parts of the recording that are replayed, and those that are not."""
        return tuple(f"{label}: {line}" for line in self._notes())

    def _notes(self) -> Iterator[str]:
        seen = self.summary()
        scheduler = f" under {seen['scheduler']}" if seen["scheduler"] else ""
        yield (
            f"{seen['requests']:,} requests of {len(seen['streams'])} tasks in "
            f"{seen['period_ns'] / 1e9:.1f} s, recorded{scheduler}; {self.timing}"
        )
        if self.reads_only:
            yield "only the reads are replayed: this is not the recorded load"
        if seen["discards"]:
            yield f"{seen['discards']:,} discards are omitted"
        if seen["ambiguous_share"] >= SHARE_LEAST and self.timing == "dependent":
            share = seen["ambiguous_share"]
            yield f"{share:.0%} of the requests may have waited for another completion than assumed"

    def estimate_s(self) -> float:
        """Ramp and window, and starting the processes."""
        return self.seconds + self.ramp_seconds + 0.1

    def prepare(self, target: ResolvedTarget, label: str) -> None:
        """Check that the addresses fit; SpecError with what helps."""
        _read(self, target.size_bytes, target.logical_block_bytes)

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Latencies and rates of all streams together, and of the main programs."""
        actors, seen = self.replayed(target, seed)
        streams = seen["streams"]
        names: dict[str, list[str]] = {"": [stream["name"] for stream in streams]}
        for stream in streams:
            names.setdefault(stream["command"], []).append(stream["name"])
        metrics: dict[str, float] = {"requests_per_s": 0.0}
        bounds: dict[str, str] = {}
        shown = ("", *self.commands())
        for one in seen["groups"]:
            if one["name"] in shown:
                mine = names[one["name"]]
                figures, known = self._figures(actors, mine, one["name"], one["direction"])
                metrics["requests_per_s"] += figures.pop("requests_per_s", 0.0)
                metrics |= figures
                bounds |= known
        lags = latency.merge(g.start_lag.bins for g in actors.groups.values() if g.start_lag)
        rows = latency.merge(side.latency.bins for g in actors.groups.values() for side in g.sides)
        series = {
            name: reduce(added, [own for each in mine if (own := actors.series().get(each))])
            for name, mine in names.items()
            if name and any(each in actors.series() for each in mine)
        }
        latencies = {
            name: sorted(row for each in mine for row in actors.latencies().get(each, ()))
            for name, mine in names.items()
            if name
        }
        late_ns = latency.quantile(lags, 0.99)
        facts = {"arrivals": f"recorded, {self.timing}", "streams": len(streams),
                 "moved_requests": seen["moved"], "widened_requests": seen["widened"],
                 "late_ns_p99": late_ns}  # fmt: skip
        properties = {
            **actors.properties(), "measured_from_s": actors.measured_from_s, **facts,
            "unissued": sum(g.unissued for g in actors.groups.values()),
        }  # fmt: skip
        properties.pop("oldest_pending_ns", None)
        return Outcome(
            metrics, properties, tuple(self._late(seen, late_ns)),
            {"latency_ns": rows}, bounds, series,
            {name: rows for name, rows in latencies.items() if rows},
        )  # fmt: skip

    def replayed(self, target: ResolvedTarget, seed: int) -> tuple[Actors, Summary]:
        """The engine's result, and the description of the streams that it replayed."""
        plan, seen = _read(self, target.size_bytes, target.logical_block_bytes)
        groups = [self._group(target, seed, *each) for each in enumerate(seen["streams"])]
        result = run_groups(
            groups, self.seconds, self.ramp_seconds, process=True, device=target.device or None,
            replay=plan,
        )  # fmt: skip
        return Actors(result, 0, target.tags, self.seconds), seen

    def _group(
        self, target: ResolvedTarget, seed: int, number: int, seen: StreamSeen
    ) -> dict[str, object]:
        """The engine's group that replays a stream."""
        depth = min(max(SLOTS_PER_DEPTH[self.timing] * seen["depth"], SLOTS_LEAST), SLOTS_MOST)
        record = seen["record"] or target.logical_block_bytes
        work = {
            "pattern": {"kind": "same"}, "record": record, "seed": seed + number,
            "direction": MIXED if seen["reads"] and seen["writes"] else
            WRITE if seen["writes"] else READ,
            "arrivals": {"kind": "closed", "depth": max(depth, seen["depth"])},
        }  # fmt: skip
        options: dict[str, object] = {
            "registered": False,
            "replay": {"stream": number, "timing": self.timing},
        }
        if name := CLASSES.get(seen["ioprio"] >> CLASS_SHIFT):
            options["ioprio"] = {"class": name, "level": seen["ioprio"] & 7}
        if self.cgroups:
            options["cgroup"] = target.groups[f"replay-{seen['cgroup']}"]
        return actor(seen["name"], target, (0, record), work, **options)

    def _figures(
        self, actors: Actors, names: Sequence[str], command: str, side: str
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Metrics of a direction of several streams, and which of them are bounds."""
        operation = "read" if side == "reads" else "write"
        stats = [actors.side(name, side) for name in names]
        counts = [one.latency.count for one in stats]
        if not sum(counts) and not self._waits(actors, names, side):
            return {}, {}  # nothing of it was due
        waited = max(max(actors.waiting_ns(n), actors.window_s(n) * 1e9) for n in names)
        if sum(counts):
            mean = sum(n * one.latency.mean for n, one in zip(counts, stats, strict=True))
            mean /= sum(counts)
        else:
            mean = waited
        if command:
            name = group_metric(command, operation)
            return {name: mean}, {} if sum(counts) else {name: "at-least"}
        prefix = f"{operation}_"
        rows = latency.merge(one.latency.bins for one in stats)
        metrics = {f"{prefix}latency_ns_mean": mean, **latency.metrics(rows, prefix)}
        bounds = {} if sum(counts) else dict.fromkeys(metrics, "at-least")
        done = sum(one.operations for one in stats)
        rate, limits = rate_bound(
            f"{prefix}bytes_per_s", done, actors.rate(names, side), 512, self.seconds
        )
        requests = actors.rate(names, side, operations=True)
        return {**metrics, **rate, "requests_per_s": requests}, {**bounds, **limits}

    def _waits(self, actors: Actors, names: Sequence[str], side: str) -> bool:
        """Whether requests of a direction were due in the run, and had not completed at its end."""
        run_ns = (self.ramp_seconds + self.seconds) * 1e9
        first_ns = {
            one["name"]: one["first_read_ns"] if side == "reads" else one["first_write_ns"]
            for one in self.summary()["streams"]
        }
        due = [
            name for name in names
            if (at_ns := first_ns[name]) is not None and (self.timing == "closed" or at_ns < run_ns)
        ]  # fmt: skip
        return any(actors.groups[name].unanswered for name in due)

    def _late(self, seen: Summary, late_ns: float | None) -> Iterator[GateFinding]:
        """A program that starts its requests late is not the recorded one."""
        limit_ns = max(LATE_NS, LATE_SHARE * seen["period_ns"] / seen["requests"])
        if self.timing == "open" and late_ns and late_ns > limit_ns:
            text = f"1 % of the requests started {late_ns / 1e6:.3g} ms late or later"
            yield GateFinding("late-requests", text)

    def rehearsal_s(self) -> float:
        """How long a rehearsal is: as a run, but whole laps of a shorter recording, of which the
        beginning would count more than the rest.
        """
        period_s, run_s = self.summary()["period_ns"] / 1e9, self.ramp_seconds + self.seconds
        return run_s if run_s < period_s else period_s * math.ceil(run_s / period_s)

    def figures(self, first_s: float = 0.0) -> dict[str, float]:
        """The recorded rates, means and p99, as metrics; of the first seconds only, if given."""
        seen = _read(self, figures_ns=round(first_s * 1e9))[1]
        found: dict[str, float | None] = {}
        for one in seen["groups"]:
            if not one["name"]:
                prefix = "read_" if one["direction"] == "reads" else "write_"
                found[f"{prefix}bytes_per_s"] = one["bytes"] / seen["figures_ns"] * 1e9
                found[f"{prefix}latency_ns_mean"] = one["mean_ns"]
                found[f"{prefix}latency_ns_p99"] = latency.quantile(one["bins"], 0.99)
        return {name: value for name, value in found.items() if value}

    def fidelity(self, replayed: Mapping[str, float]) -> list[FidelityRow]:
        """The figures of a rehearsal beside those of the part that it replayed, in the unit of the
        metric.
        """
        return [
            {"metric": name, "recorded": value, "replayed": replayed[name],
             "is_like": abs(replayed[name] / value - 1) <= _tolerance(name)}
            for name, value in self.figures(self.rehearsal_s()).items()
            if replayed.get(name)
        ]  # fmt: skip


def _tolerance(metric: str) -> float:
    return next(most for what, most in LIKE.items() if metric.endswith(what))


def file_of(text: str) -> Path:
    """The file of `FILE[:FORMAT]`; SpecError where there is none."""
    return split_format(text, RECORD_IT)[0]


def sha256_of(path: Path) -> str:
    """The checksum of a trace."""
    return _digest(path, _version(path))


@lru_cache(maxsize=4)
def _digest(path: Path, version: tuple[int, int]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(path: Path) -> tuple[int, int]:
    """A key for caches: it changes when the file does."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _read(
    kind: TraceReplay, size: int = 0, block: int = 0, figures_ns: int = 0
) -> tuple[ReplayPlan, Summary]:
    """The streams, and their description, for a target of that size and unit of addresses."""
    file, name = split_format(kind.trace, RECORD_IT)
    options = {
        "timing": kind.timing, "fit": kind.fit, "reads_only": kind.reads_only,
        "think_limit_ns": round(kind.think_limit_ms * 1e6), "size_bytes": size,
        "block_bytes": block, "figures_ns": figures_ns,
    }  # fmt: skip
    return _plan(str(file), name, json.dumps(options), _version(file))


@lru_cache(maxsize=4)
def _plan(
    file: str, name: str | None, options: str, version: tuple[int, int]
) -> tuple[ReplayPlan, Summary]:
    from schedlab import _core

    try:
        plan = _core.ReplayPlan(file, name, options)
    except ValueError as error:
        message, _, hint = str(error).partition("\nhint: ")
        raise SpecError(message, hint or unread(file, message)) from error
    return plan, msgspec.json.decode(plan.summary(), type=Summary)
