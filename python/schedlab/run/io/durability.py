"""How long programs wait until their data is durable, beside a run or a live load.

    watched, problem = watch(places_of(directory), follow=True)
    before = watched.seen()
    ...
    during = watched.seen() - before
    values, bounds = during.metrics()     # fsync_latency_ns_p99 and so on

A snapshot counts from the start of its capture (crates/trace/src/syncs.rs); two of them, one
subtracted from the other, are an interval.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import msgspec

from schedlab.host import devices
from schedlab.host.kernel_paths import mounts
from schedlab.host.settings import knobs
from schedlab.nouns import durability, latency
from schedlab.nouns.durability import JOURNAL, OWN, Chain

if TYPE_CHECKING:
    from schedlab._core import SyncCapture

Number = tuple[int, int]
#: What the kernel calls the threads that write for others, and how we call those.
_KERNEL = (("kworker", "write-back"), ("jbd2", "journal"), ("xfsaild", "journal"))


@dataclass(frozen=True)
class Places:
    """Where calls count: numbers of file systems (`devices`), and of the `disks` below."""

    devices: tuple[Number, ...] = ()
    disks: tuple[Number, ...] = ()

    def has(self, device: Number) -> bool:
        """Whether a call on this device counts; of (0, 0) it is not known where it was."""
        return device in (*self.devices, (0, 0))


def places_of(queues: Sequence[str], directory: Path | None = None) -> Places:
    """The file systems on these queues, or that of a directory, and the devices themselves."""
    from schedlab.host.queues import queues_of

    disks = tuple(number for queue in queues if (number := _number_of(queue)))
    found = {devices.mount_of(directory).number} if directory else {
        mount.number for mount in mounts() if queues_of(mount) & set(queues)
    }  # fmt: skip
    numbers = [_parsed(number) for number in found if number]
    return Places(tuple(dict.fromkeys((*numbers, *disks))), disks)


def _number_of(device: str) -> Number | None:
    """Major and minor number of a device, by its kernel name; a path below an NVMe multipath head
    has none, and one may go meanwhile.
    """
    number = knobs.text(knobs.CLASS_BLOCK / device / "dev")
    return _parsed(number) if number else None


def _parsed(number: str) -> Number:
    major, _, minor = number.partition(":")
    return int(major), int(minor)


# What is used of a snapshot: calls of one process, device and kind, or commits of a journal; who
# wrote while a call waited, and whether it calls; calls that wait, with their age in ns.
Calls = TypedDict(
    "Calls",
    {
        "process": str, "device": Number, "call": str, "returned": int, "sum_ns": int,
        "parts_ns": tuple[int, int, int], "bins": list[tuple[int, int, int]],
    },
)  # fmt: skip
Writer = TypedDict("Writer", {"process": str, "calls": bool, "bytes": int})
Syncs = TypedDict(
    "Syncs",
    {
        "calls": list[Calls], "commits": list[Calls], "writers": list[Writer],
        "waiting": list[tuple[str, Number, str, int]], "accounting": dict[str, int],
    },
)  # fmt: skip


@dataclass(frozen=True)
class Waits:
    """Calls that returned: their number, summed time, its parts, and (low, high) ns -> count."""

    returned: int = 0
    sum_ns: int = 0
    parts_ns: tuple[int, int, int] = (0, 0, 0)
    bins: Counter[tuple[int, int]] = field(default_factory=Counter)

    @classmethod
    def of(cls, row: Calls) -> Waits:
        """A row of a snapshot."""
        bins = Counter({(low, high): count for low, high, count in row["bins"]})
        return cls(row["returned"], row["sum_ns"], row["parts_ns"], bins)

    def __add__(self, other: Waits) -> Waits:
        parts = tuple(a + b for a, b in zip(self.parts_ns, other.parts_ns, strict=True))
        return Waits(self.returned + other.returned, self.sum_ns + other.sum_ns,
                     parts, self.bins + other.bins)  # type: ignore[arg-type]  # fmt: skip

    def __sub__(self, earlier: Waits) -> Waits:
        parts = tuple(a - b for a, b in zip(self.parts_ns, earlier.parts_ns, strict=True))
        return Waits(self.returned - earlier.returned, self.sum_ns - earlier.sum_ns,
                     parts, self.bins - earlier.bins)  # type: ignore[arg-type]  # fmt: skip


@dataclass(frozen=True)
class Durable:
    """Waits by (process, device, operation); bytes written by other processes, and by those that
    call (`OWN`), while any call waited; the identity of the capture: entered, returned, in flight,
    lost.
    """

    places: Places
    calls: Mapping[tuple[str, Number, str], Waits]
    written: Counter[str]
    identity: Counter[str]
    ages_ns: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __sub__(self, earlier: Durable) -> Durable:
        calls = {key: of - earlier.calls.get(key, Waits()) for key, of in self.calls.items()}
        identity = Counter(self.identity)
        identity.subtract(earlier.identity)
        identity["in_flight"] = self.identity["in_flight"]
        return Durable(
            self.places,
            {key: of for key, of in calls.items() if of.returned},
            self.written - earlier.written,
            identity,
            self.ages_ns,
        )

    def of(self, operation: str, *, elsewhere: bool = False) -> Waits:
        """All calls of an operation on the places, or on other devices."""
        mine = (calls for (_, device, each), calls in self.calls.items()
                if each == operation and self.places.has(device) != elsewhere)  # fmt: skip
        return sum(mine, Waits())

    def metrics(self) -> tuple[dict[str, float], dict[str, str]]:
        """(mean, maximum and quantiles of each operation, in ns; those that are lower bounds)."""
        values: dict[str, float] = {}
        bounds: dict[str, str] = {}
        for operation in durability.OPERATIONS:
            calls = self.of(operation)
            if not calls.returned:
                continue
            rows = sorted([*ends, count] for ends, count in calls.bins.items())
            name = durability.metric(operation, "mean")
            values[name] = calls.sum_ns / calls.returned
            values[durability.metric(operation, "max")] = float(rows[-1][1])
            for word, share in latency.QUANTILES.items():
                name, exact = durability.metric(operation, word), latency.quantile(rows, share)
                if exact is None:
                    bounds[name] = "at-least"
                values[name] = exact or latency.bound(rows, share) or 0.0
        return {name: value for name, value in values.items() if value > 0}, bounds

    def chain(self) -> Chain | None:
        """Where the calls spent their time, and who wrote meanwhile; None without a call."""
        waits = [self.of(each) for each in durability.OPERATIONS if each != JOURNAL]
        all_calls = sum(waits, Waits())
        if not all_calls.returned:
            return None
        data_s, journal_s, flush_s = (ns / 1e9 for ns in all_calls.parts_ns)
        return Chain(all_calls.returned, data_s, journal_s, flush_s, dict(self.written))

    @property
    def lost(self) -> int:
        """Calls whose end, or whose row, is missing."""
        return self.identity["lost"]


class Watched:
    """A capture in progress."""

    def __init__(self, capture: SyncCapture, places: Places) -> None:
        self._capture, self.places = capture, places

    def follow(self, processes: Iterable[int]) -> None:
        """Count these processes, too, and what they start."""
        for process in processes:
            self._capture.follow(process)

    def seen(self) -> Durable:
        """All that was counted until now."""
        return _read(self._capture.snapshot(), self.places)

    def finish(self) -> Durable:
        """End it; what was counted in all."""
        return _read(self._capture.finish(), self.places)


def watch(places: Places, *, follow: bool = False) -> tuple[Watched | None, str]:
    """A capture from now on, or the reason why there is none; with `follow` of what this program
    starts, and of no other, wherever its files are.
    """
    from schedlab import _core

    options: dict[str, object] = {"disks": places.disks}
    if follow:
        options["follows"] = [(os.getpid(), "children")]
    else:
        options["devices"] = places.devices
    try:
        return Watched(_core.SyncCapture(json.dumps(options)), places), ""
    except OSError as error:
        return None, str(error)


def _read(text: str, places: Places) -> Durable:
    document = msgspec.json.decode(text, type=Syncs)
    calls: dict[tuple[str, Number, str], Waits] = {}
    for row in (*document["calls"], *document["commits"]):
        if operation := durability.OPERATION_OF.get(row["call"]):
            key = (row["process"] or "journal", row["device"], operation)
            calls[key] = calls.get(key, Waits()) + Waits.of(row)
    written = Counter[str]()
    for writer in document["writers"]:
        written[OWN if writer["calls"] else _writer(writer["process"])] += writer["bytes"]
    ages_ns: dict[tuple[str, str], int] = {}
    for process, _device, call, age_ns in document["waiting"]:
        if operation := durability.OPERATION_OF.get(call):
            ages_ns[process, operation] = max(age_ns, ages_ns.get((process, operation), 0))
    return Durable(places, calls, written, Counter(document["accounting"]), ages_ns)


def _writer(process: str) -> str:
    return next((ours for start, ours in _KERNEL if process.startswith(start)), process)
