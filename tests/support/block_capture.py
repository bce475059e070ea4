"""The BPF capture of block requests with types, for tests.

    with BlockCapture("/dev/loop0", [BlockClass("reader"), BlockClass("writers")]) as capture:
        capture.add("reader", pid)
        ...
        capture.snapshot()
    capture.result.groups[0].device.mean_ns

Times are in nanoseconds, of a request from the arrival of its first bio: `tag` until it has a
request, `plug` until it leaves the submitter's plug, `scheduler` until it is issued, `device` until
it completes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from schedlab import _core
from schedlab.errors import HostError

PARTS = ("tag", "plug", "scheduler", "device")


@dataclass(frozen=True)
class BlockClass:
    """A class of requests: of processes (or threads) that are added, or of a cgroup's members."""

    name: str
    cgroup: Path | None = None


@dataclass(frozen=True)
class Times:
    """A histogram of times; `bins` are rows (low_ns, high_ns, count)."""

    count: int
    sum_ns: int
    max_ns: int
    bins: list[tuple[int, int, int]]

    @property
    def mean_ns(self) -> float:
        """Mean; 0 without requests."""
        return self.sum_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class RequestGroup:
    """Requests of one class, operation and size."""

    name: str  # of the class
    process: int | None  # of a class that was found by itself
    operation: str  # "read", "write", "other" (discard, flush)
    size_max_bytes: int | None  # None: above 1 MiB
    requests: int
    bytes: int
    tag: Times
    plug: Times
    scheduler: Times
    device: Times
    total: Times


@dataclass(frozen=True)
class Interval:
    """The requests of a class in 100 ms, and their total waiting time."""

    t_ms: int
    reads: int
    writes: int
    other: int
    bytes: int
    tag_ns: int
    plug_ns: int
    scheduler_ns: int
    device_ns: int
    total_ns: int


@dataclass(frozen=True)
class Depth:
    """Requests in one place, sampled every 10 ms; `series` are rows (t_ms, mean)."""

    mean: float
    max: int
    series: list[tuple[int, float]]


@dataclass(frozen=True)
class BfqInterval:
    """What bfq thought of a class in 100 ms: 1 is a weight that is not raised."""

    t_ms: int
    requests: int
    weight_raising: float
    queue: str
    weight: int


@dataclass(frozen=True)
class Capture:
    """What was captured so far.

    `limits` is how many bios io.max or blkio.throttle held back. Where the kernel traces functions
    (`sees_limits`) that time is in `tag`, otherwise it comes before all parts. `lost` counts what
    was not followed. Every issued request is in a group (`completed`), in flight, or `untraced`:
    some kernels trace no event in some contexts, such as the idle task.
    """

    device: str
    scheduler: str
    elapsed_ns: int
    sees_limits: bool
    groups: list[RequestGroup]
    series: dict[str, list[Interval]]
    scheduler_depth: Depth
    driver_depth: Depth
    limits_depth: Depth
    totals: dict[str, int]
    bfq: dict[str, list[BfqInterval]] | None
    lost: dict[str, int]

    @property
    def without_completion(self) -> int:
        """Issued requests that are in no group."""
        return self.totals["issued"] - self.totals["completed"]

    @property
    def held_ns_per_request(self) -> float:
        """Mean time that limits held a request back, by Little's law from the sampled depth."""
        issued = self.totals["issued"]
        return self.limits_depth.mean * self.elapsed_ns / issued if issued else 0.0

    def of(self, name: str, operation: str | None = None) -> list[RequestGroup]:
        """The groups of a class, of all sizes."""
        mine = [group for group in self.groups if group.name == name]
        return [group for group in mine if operation in (None, group.operation)]


def mean_ns(groups: Iterable[RequestGroup], part: str) -> float:
    """Mean time of all requests of some groups in a part (or "total"); 0 without requests."""
    times: list[Times] = [getattr(group, part) for group in groups]
    count = sum(time.count for time in times)
    return sum(time.sum_ns for time in times) / count if count else 0.0


class BlockCapture:
    """A capture in progress; as a context manager it ends, and has its `result`, at the exit."""

    def __init__(
        self,
        device: str | Path,
        classes: Sequence[BlockClass] = (),
        *,
        find_classes: bool = False,
        seconds_max: float = 120.0,
    ) -> None:
        """Start at once. `find_classes`: every other process gets a separate class.

        Raises HostError where the kernel or the user allows no capture, with the reason.
        """
        self._classes = [item.name for item in classes]
        self.result: Capture | None = None
        options = {
            "device": str(device),
            "classes": [
                {
                    "name": item.name,
                    "cgroup": str(item.cgroup) if item.cgroup else None,
                }
                for item in classes
            ],
            "find_classes": find_classes,
            "seconds_max": seconds_max,
        }
        try:
            self._core = _core.BlockCapture(json.dumps(options))
        except OSError as error:
            hint = "run as root on a kernel with BTF (/sys/kernel/btf/vmlinux)"
            raise HostError(str(error), hint) from error

    def add(self, name: str, *pids: int) -> None:
        """Put processes or threads into a class from now on."""
        number = self._classes.index(name) + 1
        for pid in pids:
            self._core.add(number, pid)

    def add_ready(self, text: str) -> None:
        """Take workers into the classes of their groups' names: the `on_ready` of `run_io_job`."""
        for crew in json.loads(text):
            if crew["name"] in self._classes:
                self.add(crew["name"], *crew["ids"])

    def snapshot(self) -> Capture:
        """What was captured so far; takes about a millisecond."""
        return _typed(json.loads(self._core.snapshot()))

    def finish(self) -> Capture:
        """End the capture."""
        if self.result is None:
            self.result = _typed(json.loads(self._core.finish()))
        return self.result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()


def unavailable(device: str | Path) -> str | None:
    """Why this device cannot be captured here; None when it can."""
    try:
        BlockCapture(device, seconds_max=0.1).finish()
    except HostError as error:
        return str(error)
    return None


def _typed(data: dict[str, Any]) -> Capture:
    classes, totals = data["classes"], data["totals"]
    names = [
        f"{item['name']}-{item['process']}" if item["process"] else item["name"] for item in classes
    ]
    return Capture(
        device=data["device"],
        scheduler=data["scheduler"],
        elapsed_ns=data["elapsed_ns"],
        sees_limits=data["sees_limits"],
        groups=[_group(names, classes, item) for item in data["groups"]],
        series={names[s["class"]]: [Interval(*row) for row in s["rows"]] for s in data["series"]},
        scheduler_depth=_depth(data["depth"]["scheduler"]),
        driver_depth=_depth(data["depth"]["driver"]),
        limits_depth=_depth(data["depth"]["limits"]),
        totals=totals,
        bfq=None
        if data["bfq"] is None
        else {names[s["class"]]: [BfqInterval(*row) for row in s["rows"]] for s in data["bfq"]},
        lost=data["lost"],
    )


def _group(names: list[str], classes: list[dict[str, Any]], item: dict[str, Any]) -> RequestGroup:
    times = {part: _times(item[part]) for part in (*PARTS, "total")}
    return RequestGroup(
        name=names[item["class"]],
        process=classes[item["class"]]["process"],
        operation=item["operation"],
        size_max_bytes=item["size_max"],
        requests=item["requests"],
        bytes=item["bytes"],
        **times,
    )


def _times(item: dict[str, Any]) -> Times:
    bins = [(low, high, count) for low, high, count in item["bins"]]
    return Times(item["count"], item["sum_ns"], item["max_ns"], bins)


def _depth(item: dict[str, Any]) -> Depth:
    return Depth(item["mean"], item["max"], [(t_ms, mean) for t_ms, mean in item["series"]])
