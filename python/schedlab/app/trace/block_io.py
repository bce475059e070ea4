"""Where the requests of a block device wait, while it is used: nothing is written to it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

import msgspec

from schedlab.errors import SIMULATED_QUEUE, HostError, SpecError, as_root
from schedlab.host.devices import disks_below
from schedlab.host.settings import knobs
from schedlab.nouns.capture import Accounting, BlockSeen, ClassSeen, Part
from schedlab.nouns.durability import OPERATIONS, Chain, metric, reason
from schedlab.run.io import durability
from schedlab.run.io.durability import Durable
from schedlab.run.live.live_figures import gap_sentence, last_of

STEP_S = 1.0
POLL_S = 0.05
BTF_HINT = as_root(SIMULATED_QUEUE, "run it as root on a kernel with BTF")
#: A larger share of lost requests ends a recording with exit code 1.
LOST_SHARE_MAX = 0.001
# What is shown of each kind of request, with the factor from nanoseconds.
PARTS: tuple[Part, ...] = ("tag", "plug", "scheduler", "device")
#: Bios that a limit holds back for each call that waits, from which it counts as the reason.
LIMITED_LEAST = 0.25
REASONS = {
    "limit": "a limit (io.max, blkio.throttle), which held requests back",
    "queue": "a free tag: the queue was full",
    "writer": "the writes of {who}: {share:.0%} of all bytes meanwhile",
    "flush": "the device's flush of its cache",
    "journal": "the commit of the journal",
    "data": "the write of their own data",
}
#: Requests that a recording lacks, in words.
Lack = Literal["lost", "missed", "unfinished", "untraced"]
LACKS: Mapping[Lack, str] = {
    "lost": "lost", "missed": "begun before it", "unfinished": "not completed at its end",
    "untraced": "of them with a completion that the kernel did not trace (its time is marked)",
}  # fmt: skip
T = TypeVar("T")


CallsOf = TypedDict(
    "CallsOf",
    {"process": str, "device": list[int], "operation": str, "calls": int, "latency_ns_mean": float},
)


# Why they waited is known where somebody did.
DurableFacts = TypedDict(
    "DurableFacts",
    {
        "metrics": Mapping[str, float], "at_least": list[str], "identity": Mapping[str, int],
        "by_process": list[CallsOf], "chain": NotRequired[dict[str, Any]],
        "reason": NotRequired[str],
    },
)  # fmt: skip


class WatchedDevice(BlockSeen):
    """A capture, with the status of its command and the waits for durable data, or why none."""

    exit_status: int | None
    durability: DurableFacts | str


# The counts of crates/trace/src/records.rs; the share is of requests or of what the device counted,
# whichever is more.
Recorded = TypedDict(
    "Recorded",
    {
        "records": int, "arrived": int, "lost": int, "missed": int, "unfinished": int,
        "untraced": int, "accounting": Accounting, "exit_status": NotRequired[int | None],
        "lost_share": NotRequired[float],
    },
)  # fmt: skip


def watch_device(
    device: str,
    seconds: float | None,
    command: Sequence[str],
    show: Callable[[str], None] = lambda line: None,
) -> WatchedDevice:
    """Capture a device for `seconds`, or until `command` ends, or Ctrl-C; the result.

    `show` gets a line each second. The result is as in crates/trace/src/blocks.rs, with
    `exit_status` of the command. HostError where the kernel does not allow it.
    """
    from schedlab import _core

    name = knobs.device_name(device)
    options = {"device": str(knobs.device_file(name)), "find_classes": True}
    try:
        capture = _core.BlockCapture(json.dumps(options))
    except (OSError, RuntimeError) as error:
        raise HostError(str(error), BTF_HINT) from error
    syncs, no_syncs = durability.watch(durability.places_of([name]))
    before: BlockSeen | None = None

    def each_second() -> None:
        nonlocal before
        now = msgspec.json.decode(capture.snapshot(), type=BlockSeen)
        show(second_line(now, before))
        before = now

    result, status = _while(command, seconds, capture.finish, BlockSeen, each_second)
    waits = durable_facts(syncs.finish(), result) if syncs else no_syncs
    return {**result, "exit_status": status, "durability": waits}


def durable_facts(durable: Durable, blocks: BlockSeen) -> DurableFacts:
    """Those of a capture; `blocks` is one of the same time."""
    chain = durable.chain()
    values, bounds = durable.metrics()
    facts: DurableFacts = {"metrics": values, "at_least": sorted(bounds),
                           "identity": dict(durable.identity), "by_process": []}  # fmt: skip
    for (process, device, operation), calls in sorted(durable.calls.items()):
        mean_ns = calls.sum_ns / max(calls.returned, 1)
        facts["by_process"].append(
            {"process": process, "device": list(device), "operation": operation,
             "calls": calls.returned, "latency_ns_mean": mean_ns}
        )  # fmt: skip
    if chain:
        writes = [g for g in blocks["groups"] if g["operation"] == "write"]
        tag, total = (sum(g["tag"]["sum_ns"] for g in writes),
                      sum(g["total"]["sum_ns"] for g in writes))  # fmt: skip
        waiting = chain.total_s / max(blocks["elapsed_ns"] / 1e9, 1e-9)  # calls, on average
        is_limited = blocks["depth"]["limits"]["mean"] > LIMITED_LEAST * waiting
        facts["chain"] = vars(chain)
        facts["reason"] = reason(chain, tag_share=tag / max(total, 1), is_limited=is_limited)
    return facts


def record_device(
    device: str, seconds: float | None, command: Sequence[str], out: Path, anonymise: bool
) -> Recorded:
    """Write every request of a device into `out`, as long as `watch_device` would watch.

    SpecError where `out` is there, or on the device itself: its writes would be in the recording.
    """
    from schedlab import _core
    from schedlab.host.facts import collect

    name = knobs.device_name(device)
    if out.exists():
        raise SpecError(f"{out} is there already", "name a new file")
    if name in disks_below(out.absolute().parent):
        raise SpecError(f"{out} is on {name}, whose requests are recorded", "write it elsewhere")
    facts = {"device": name, "queue": knobs.snapshot(knobs.queue_of(name)), "host": collect()}
    options = {
        "device": str(knobs.device_file(name)), "path": str(out), "facts": facts,
        "anonymise": anonymise,
    }  # fmt: skip
    try:
        recording = _core.RecordCapture(json.dumps(options))
    except OSError as error:
        raise HostError(str(error), BTF_HINT) from error
    try:
        result, status = _while(command, seconds, recording.finish, Recorded)
    except SpecError:
        out.unlink()  # the command never began
        raise
    seen = result["records"] + result["lost"]
    missing = max(result["accounting"]["gap_sectors"], 0)
    sectors = (result["accounting"]["device_sectors"] or (0, 0))[1]
    share = max(result["lost"] / max(seen, 1), missing / max(sectors, 1))
    return {**result, "exit_status": status, "lost_share": share}


def recorded_line(result: Recorded, out: Path) -> str:
    """The contents of a recording and its gaps, in words."""
    text = f"{out}: {result['records']:,} requests"
    parts = [f"{result[key]:,} {words}" for key, words in LACKS.items() if result[key]]
    if gap := _gap_of(result["accounting"]):
        parts.append(gap)
    return f"{text}; {', '.join(parts)}" if parts else text


def _gap_of(accounting: Accounting) -> str:
    return gap_sentence(accounting["gap_sectors"], (accounting["device_sectors"] or (0, 0))[1])


def _while(
    command: Sequence[str],
    seconds: float | None,
    finish: Callable[[], str],
    kind: type[T],
    each_second: Callable[[], None] = lambda: None,
) -> tuple[T, int | None]:
    """The result of a capture beside the command, and its exit status; it ends in any case."""
    child = None
    try:
        child = _started(command)
        _wait(child, seconds, each_second)
    finally:
        result = msgspec.json.decode(finish(), type=kind)
        _end(child)
    return result, child.returncode if child else None


def _wait(
    child: subprocess.Popen[bytes] | None,
    seconds: float | None,
    each_second: Callable[[], None],
) -> None:
    """Until the command ends, the time is over, or Ctrl-C."""
    began = time.monotonic()
    next_s = STEP_S
    try:
        while not _is_over(child, began, seconds):
            time.sleep(POLL_S)
            if time.monotonic() - began >= next_s:
                each_second()
                next_s += STEP_S
    except KeyboardInterrupt:
        pass  # Ctrl-C ends the watching, and the terminal interrupts the command as well


def _end(child: subprocess.Popen[bytes] | None) -> None:
    if child is not None and child.poll() is None:
        child.terminate()
        child.wait()


def _started(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    if not command:
        return None
    try:
        return subprocess.Popen(list(command))
    except OSError as error:
        raise SpecError(
            f"{command[0]}: {error.strerror}", "name a program in PATH, or its path"
        ) from error


def _is_over(child: subprocess.Popen[bytes] | None, began_s: float, seconds: float | None) -> bool:
    if child is not None and child.poll() is not None:
        return True
    return seconds is not None and time.monotonic() - began_s >= seconds


def second_line(now: BlockSeen, before: BlockSeen | None) -> str:
    """Requests per second since the last line, and what is in flight."""
    passed_s = (now["elapsed_ns"] - (before["elapsed_ns"] if before else 0)) / 1e9
    counts = {}
    for operation in ("read", "write"):
        completed = _requests(now, operation) - (_requests(before, operation) if before else 0)
        counts[operation] = completed / max(passed_s, 1e-3)
    driver, queued = (last_of(now, place) for place in ("driver", "scheduler"))
    return (
        f"{now['elapsed_ns'] / 1e9:5.1f} s  {counts['read']:9,.0f} reads/s "
        f"{counts['write']:9,.0f} writes/s  in the driver {driver:5.1f}  "
        f"in the scheduler {queued:5.1f}"
    )


def _requests(result: BlockSeen, operation: str) -> int:
    return sum(g["requests"] for g in result["groups"] if g["operation"] == operation)


def lines(result: WatchedDevice) -> Iterator[str]:
    """The result as text: who waited where, mean microseconds per request."""
    driver, queued = result["depth"]["driver"], result["depth"]["scheduler"]
    yield (
        f"{result['device']} ({result['scheduler']}), {result['elapsed_ns'] / 1e9:.1f} s: "
        f"{driver['mean']:.1f} requests in the driver on average, {queued['mean']:.1f} in the "
        "scheduler"
    )
    yield f"{'process':24s}{'':7s}{'requests':>10s}{'MB':>9s}  mean wait in µs: " + "".join(
        f"{part:>11s}" for part in PARTS
    )
    for number, of in enumerate(result["classes"]):
        for operation in ("read", "write", "other"):
            mine = [
                g for g in result["groups"] if (g["class"], g["operation"]) == (number, operation)
            ]
            if count := sum(g["requests"] for g in mine):
                waits = [sum(g[part]["sum_ns"] for g in mine) / count / 1e3 for part in PARTS]
                size = sum(g["bytes"] for g in mine) / 1e6
                who = f"{of['name']} {_which(of)}".strip()[:23]
                yield (
                    f"{who:24s}{operation:7s}{count:10,d}{size:9,.1f}{'':19s}"
                    + "".join(f"{wait:11,.1f}" for wait in waits)
                )
    yield from _durable_lines(result.get("durability"))
    losses = dict(result["lost"])
    if untraced := losses.pop("untraced"):
        yield (
            f"note: the kernel did not trace the completion of {untraced:,} requests, which are "
            "missing from the times"
        )
    if lost := sum(losses.values()):
        yield f"note: {lost:,} events were lost and are missing from the figures"
    if gap := _gap_of(result["accounting"]):
        yield f"note: {gap}"


def _which(of: ClassSeen) -> str:
    """The process of a class, or how many it has; empty for none."""
    return f"× {of['processes']}" if of["processes"] > 1 else str(of["process"] or "")


def _durable_lines(facts: DurableFacts | str | None) -> Iterator[str]:
    """The waits for durable data in words; nothing where nobody waited."""
    if not facts or isinstance(facts, str) or "chain" not in facts:
        return
    for row in facts["by_process"]:
        operation = row["operation"].replace("_", " ")
        mean_ms = row["latency_ns_mean"] / 1e6
        who = f"{row['process'][:17]:18s}{operation:15s}"
        yield f"{who}{row['calls']:8,d} calls, mean {mean_ms:.3g} ms"
    for operation in OPERATIONS:
        words = [
            f"{word} {'at least ' if name in facts['at_least'] else ''}"
            f"{facts['metrics'][name] / 1e6:.3g} ms"
            for word in ("p50", "p99")
            if (name := metric(operation, word)) in facts["metrics"]
        ]
        if words:
            yield f"{operation.replace('_', ' ')}: {', '.join(words)}"
    chain = Chain(**facts["chain"])
    who, share = chain.front
    yield (
        f"calls waited {chain.share('data'):.0%} for data, {chain.share('journal'):.0%} for the "
        f"journal, {chain.share('flush'):.0%} for the flush; most for "
        + REASONS[facts["reason"]].format(who=who, share=share)
    )
    if lost := facts["identity"].get("lost"):
        yield f"note: the end of {lost:,} calls was not seen"
