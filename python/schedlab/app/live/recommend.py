"""The load of a device, whether a scheduler can matter to it, and how to find out.

Nothing is changed: the requests are counted for a while. `Next` is the command that would prove
which scheduler is better, `Replay` those that replay the load elsewhere.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from schedlab.app.trace.block_io import BTF_HINT
from schedlab.errors import HostError, SpecError
from schedlab.host import processes
from schedlab.host.queues import queues_below
from schedlab.host.settings import knobs
from schedlab.kinds.live_load import OPERATIONS
from schedlab.nouns.capture import BlockSeen
from schedlab.nouns.quantities import size_text
from schedlab.nouns.reading import read_text
from schedlab.run.io.io import driver_tags
from schedlab.run.live.live_figures import Look, look

SHOWN = 8
COLUMNS = (("requests/s", 12), ("mean size", 12), ("mean", 11), ("p99", 11))
RECORDING = "load.trace"
#: A process counts as somebody to be fair to from this share of the requests on.
SOMEBODY = 0.02
#: A device with fewer requests, and less of the time in use, is idle.
IDLE_REQUESTS_PER_S, IDLE_DEPTH = 1.0, 0.05


@dataclass(frozen=True)
class Queue:
    """One queue during the observation: requests in flight (mean, most; most in the driver), tags,
    choice.
    """

    name: str
    scheduler: str
    offered: tuple[str, ...]
    tags: int
    depth_mean: float
    depth_max: int
    driver_max: int


@dataclass(frozen=True)
class Sender:
    """A process that sent requests; `process` 0 are the kernel's threads and all without a name of
    their own. `control_group` is empty where the process is gone. Of very many `processes` of one
    name the last are counted together.
    """

    name: str
    process: int
    control_group: str
    requests: int
    processes: int = 1


@dataclass(frozen=True)
class Observed:
    """The load of all queues below a path; `figures` are those of `figures.at_s` seconds."""

    path: str
    queues: tuple[Queue, ...]
    figures: Look
    senders: tuple[Sender, ...] = ()

    @property
    def code(self) -> str:
        """`idle`, `one-at-a-time`, `alone` (one process), `waits` (for tags), or `shared`;
        `unknown` where the capture misses requests.
        """
        depth = sum(queue.depth_mean for queue in self.queues)
        if not self.figures.closes:
            return "unknown"
        if self.figures.requests < IDLE_REQUESTS_PER_S * self.figures.at_s and depth < IDLE_DEPTH:
            return "idle"
        if max(queue.depth_max for queue in self.queues) <= 1:
            return "one-at-a-time"
        if any(queue.tags and queue.driver_max >= queue.tags for queue in self.queues):
            return "waits"
        return "shared" if len(self.somebody) > 1 else "alone"

    @property
    def somebody(self) -> list[Sender]:
        """The processes that sent a real share of the requests, the busiest first."""
        total = sum(sender.requests for sender in self.senders)
        ordered = sorted(self.senders, key=lambda sender: -sender.requests)
        return [sender for sender in ordered if sender.requests >= SOMEBODY * total > 0]

    @property
    def programs(self) -> list[str]:
        """The programs that sent a real share of the requests, the busiest first."""
        counts: dict[str, int] = {}
        for (group, operation), flow in self.figures.flows.items():
            if operation in OPERATIONS:
                counts[group] = counts.get(group, 0) + flow.requests
        total = sum(counts.values())
        ordered = sorted(counts, key=lambda group: -counts[group])
        return [group for group in ordered if counts[group] >= SOMEBODY * total]

    def next_command(self) -> list[str]:
        """The experiment that would decide; the scheduler in force is the baseline."""
        first = self.queues[0]
        common = [s for s in first.offered if all(s in q.offered for q in self.queues)]
        names = dict.fromkeys((first.scheduler, *common))
        return ["schedlab", "live", self.path, "--schedulers", ",".join(names)]

    def replay_commands(self) -> list[list[str]]:
        """Commands that record the load and replay it elsewhere, without switching; none for
        a file system on several devices, whose recordings would not be together.
        """
        if len(self.queues) > 1:
            return []
        device, names = f"/dev/{self.queues[0].name}", self.next_command()[-1]
        return [
            ["schedlab", "trace", "io", device, "--seconds", "60", "--out", RECORDING],
            ["schedlab", "compare", "--trace", RECORDING, "--schedulers", names],
        ]

    def predict_command(self) -> list[str]:
        """The command that predicts the recorded load on the model of the device; empty where
        `schedlab device fit` has not left a file of it here.
        """
        file, text = Path(f"{self.queues[0].name}.toml"), ""
        with suppress(SpecError):  # a file of that name may be anything
            text = read_text(file, "")
        if len(self.queues) > 1 or "\n[fit]" not in text:
            return []
        names = self.next_command()[-1]
        command = ["schedlab", "predict", "--device", str(file), "--trace", RECORDING]
        return [*command, "--schedulers", names]


def observe(path: Path, seconds: float, wait: Callable[[float], None] = time.sleep) -> Observed:
    """Count the requests of all queues below a device or directory; Ctrl-C ends it early."""
    from schedlab import _core

    names = queues_below(path).queues
    try:
        captures = [
            _core.BlockCapture(
                json.dumps({"device": str(knobs.device_file(name)), "find_classes": True})
            )
            for name in names
        ]
    except OSError as error:
        raise HostError(str(error), BTF_HINT) from error
    began = time.monotonic()
    try:
        wait(seconds)
    except KeyboardInterrupt:
        pass  # what was seen until now is shown
    finally:
        passed_s = time.monotonic() - began
        documents = [msgspec.json.decode(one.finish(), type=BlockSeen) for one in captures]
    queues = tuple(_queue(name, one) for name, one in zip(names, documents, strict=True))
    return Observed(str(path), queues, look(passed_s, documents), tuple(_senders(documents)))


def _queue(name: str, document: BlockSeen) -> Queue:
    depth, reported = document["depth"], driver_tags(name)
    return Queue(
        name,
        document["scheduler"],
        knobs.offered(name),
        min(document["tags"] or reported, reported),
        depth["both"]["mean"],
        depth["both"]["max"],
        depth["driver"]["max"],
    )


def _senders(documents: Iterable[BlockSeen]) -> Iterator[Sender]:
    """Each process once, also where it used several queues."""
    counts: dict[tuple[str, int], int] = {}
    most: dict[tuple[str, int], int] = {}
    for document in documents:
        for seen in document["groups"]:
            of = document["classes"][seen["class"]]
            if seen["operation"] in OPERATIONS:
                key = (of["name"], of["process"] or 0)
                counts[key] = counts.get(key, 0) + seen["requests"]
                most[key] = max(most.get(key, 1), of["processes"])
    for (name, process), requests in counts.items():
        group = processes.control_group_of(process) if process else ""
        yield Sender(name, process, group, requests, most[name, process])


_SENTENCES = {
    "unknown": "So it cannot be told what a scheduler could do here. Observe it again.",
    "idle": "It is idle: no scheduler matters to so few requests. Observe it again while its load "
    "runs.",
    "one-at-a-time": "Never more than one request in flight: a scheduler has nothing to order. "
    "Only its own cost per request can differ.",
    "alone": "One process sends the requests: nobody must be protected from another. A scheduler "
    "can still change the order, and its own cost counts.",
    "waits": "At times the device has all the requests that it takes: others wait, and a scheduler "
    "decides which. This is where schedulers differ most.",
    "shared": "Several processes share the device, and it takes their requests as they come. A "
    "scheduler matters as far as it holds some of them back.",
}


def lines(observed: Observed) -> Iterator[str]:
    """The observation as text."""
    figures = observed.figures
    yield f"{observed.path}: {figures.requests:,} requests in {figures.at_s:.0f} s"
    for queue in observed.queues:
        tags = f" of {queue.tags} that the device takes" if queue.tags else ""
        yield (
            f"{queue.name} ({queue.scheduler}): {queue.depth_mean:.1f} in flight on average, "
            f"{queue.depth_max} at most{tags}"
        )
    yield from _table(observed)
    yield ""
    if gap := figures.gap_sentence():
        yield f"{gap[0].upper()}{gap[1:]}."
    if observed.code == "shared":
        yield _who(observed.somebody)
    yield _SENTENCES[observed.code]
    if observed.code not in ("unknown", "idle", "one-at-a-time"):
        yield f"Next   {shlex.join(observed.next_command())}"
        for first, command in zip(("Replay", ""), observed.replay_commands(), strict=False):
            yield f"{first:7s}{shlex.join(command)}"
        if command := observed.predict_command():
            yield f"{'':7s}{shlex.join(command)}"


def _who(senders: Sequence[Sender]) -> str:
    names: dict[str, int] = {}
    for sender in senders:
        names[sender.name] = names.get(sender.name, 0) + sender.processes
    text = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    groups = len({sender.control_group for sender in senders if sender.control_group})
    where = f", in {groups} control group{'s' if groups > 1 else ''}" if groups else ""
    return f"{sum(names.values())} processes send requests{where}: {text}."


def _table(observed: Observed) -> Iterator[str]:
    rows: Sequence[tuple[str, str]] = [
        (group, operation)
        for group in observed.programs
        for operation in OPERATIONS
        if (group, operation) in observed.figures.flows
    ]
    if rows:
        titles = "".join(f"{title:>{width}s}" for title, width in COLUMNS)
        yield f"{'program':24s}{titles}"
    for group, operation in rows[:SHOWN]:
        flow = observed.figures.flows[group, operation]
        p99 = flow.quantile_ns(0.99)
        yield (
            f"{group[:17]:18s}{operation:6s}{flow.requests / observed.figures.at_s:12,.0f}"
            f"{size_text(round(flow.size_bytes / flow.requests)):>12s}"
            f"{(flow.mean_ns or 0) / 1e6:8.3g} ms"
            + (f"{p99 / 1e6:8.3g} ms" if p99 else f"{'too few':>11s}")
        )


def as_json(observed: Observed) -> dict[str, object]:
    """The observation as plain JSON types."""
    return {
        "path": observed.path,
        "seconds": observed.figures.at_s,
        "code": observed.code,
        "queues": [queue.__dict__ for queue in observed.queues],
        "processes": [sender.__dict__ for sender in observed.somebody],
        "gap_sectors": observed.figures.gap_sectors,
        "programs": [
            {
                "name": group, "operation": operation, "requests": flow.requests,
                "bytes": flow.size_bytes, "latency_ns_mean": flow.mean_ns,
                "latency_ns_p99": flow.quantile_ns(0.99),
            }
            for (group, operation), flow in observed.figures.flows.items()
        ],
        "next": observed.next_command(),
        "replay": observed.replay_commands(),
        "predict": observed.predict_command(),
    }  # fmt: skip
