"""Processes of a simulation as real load, on a device that is held."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.sim.validated import bytes_of, only_simulated, processes_of


def run_processes(
    processes: str, path: Path, size_bytes: int, times_s: tuple[float, float], seed: int
) -> list[dict[str, float]]:
    """The processes of a preset, all at once, on a device that this session holds.

    `times_s` is how long they are measured and, for direct I/O, how long they run before that.
    `throughput_bytes_per_s` and `latency_ns_mean` of each process, in the preset's order. SpecError
    for processes that only the simulator has.
    """
    if is_buffered(processes):
        return run_buffered(path, buffered_of(processes, size_bytes), times_s[0])
    return run_direct(groups_of(placed(processes, size_bytes), str(path), seed), times_s)


def run_direct(
    groups: Sequence[Mapping[str, Any]], times_s: tuple[float, float]
) -> list[dict[str, float]]:
    """The groups of an I/O job, all at once; figures of each."""
    from schedlab import _core

    job = {"seconds": times_s[0], "ramp_seconds": times_s[1], "groups": groups}
    answer = json.loads(_core.run_io_job(json.dumps(job)))
    rows = []
    for group, sent in zip(answer["groups"], groups, strict=True):
        latencies = [group[kind]["latency"] for kind in ("reads", "writes") if group.get(kind)]
        answered = count = sum(each["count"] for each in latencies)
        total_ns = sum(each["count"] * each["mean"] for each in latencies if each["count"])
        # Those in flight at the end are answered and counted, but after the time.
        count = max(count - sent["workload"]["arrivals"]["depth"], 0)
        moved_bytes = count * sent["workload"]["record"]
        rows.append(
            {
                "throughput_bytes_per_s": moved_bytes / (group["elapsed_ns"] / 1e9),
                "latency_ns_mean": total_ns / max(answered, 1),
            }
        )
    return rows


@dataclass(frozen=True)
class Placed:
    """A process of a preset with its own region; sizes and places in bytes."""

    spec: Mapping[str, Any]
    record: int
    offset: int
    span: int


def placed(processes: str, size_bytes: int) -> list[Placed]:
    """The processes of a preset on a device of so many bytes."""
    return placed_on(specs_of(processes), size_bytes)


def placed_on(specs: Sequence[Mapping[str, Any]], size_bytes: int) -> list[Placed]:
    """Processes, each in its region or an equal share of the device."""
    rows = []
    for number, spec in enumerate(specs):
        record = bytes_of(spec.get("record", "4KiB"))
        share = size_bytes // len(specs) // record * record
        offset = bytes_of(spec.get("offset", share * number))
        span = (bytes_of(spec.get("span", 0)) or share) // record * record
        rows.append(Placed(spec, record, offset, span))
    return rows


def specs_of(processes: str) -> list[dict[str, Any]]:
    """The processes of a preset or a file, one for each of `count`; SpecError for those that only
    the simulator has.
    """
    specs = [{"name": f"process-{n}", **each} for n, each in enumerate(processes_of(processes), 1)]
    for spec in specs:
        if key := only_simulated(spec):
            hint = f"omit {key}, or simulate it: schedlab sim run --processes"
            raise SpecError(f"{processes}: {key} of {spec['name']} is only simulated", hint)
    return specs


def is_buffered(processes: str) -> bool:
    """Whether the processes of a preset go through the page cache; all do, or none."""
    return any(spec.get("direct") is False for spec in specs_of(processes))


def buffered_of(processes: str, size_bytes: int) -> list[BufferedProcess]:
    """The processes of a preset as real load through the page cache."""
    rows = []
    for process in placed(processes, size_bytes):
        spec = process.spec
        if spec.get("direct", True) or spec.get("pattern") != "sequential":
            raise SpecError(f"{processes}: buffered processes are sequential", "or direct = true")
        writes = not spec.get("read_share", 1)
        rows.append(
            BufferedProcess(
                process.record, process.offset, process.span, writes, spec.get("fsync_every", 0)
            )
        )
    return rows


def groups_of(placed: Sequence[Placed], path: str, seed: int) -> list[dict[str, Any]]:
    """Processes as groups of an I/O job. Those of one region go their own ways through it."""
    groups = []
    for number, place in enumerate(placed):
        process = place.spec
        random, share = process.get("pattern", "random") == "random", process.get("read_share", 1)
        pattern = {"kind": "random", "replacement": True} if random else {"kind": "sequential"}
        group: dict[str, Any] = {
            "name": f"{process.get('name', 'process')}-{number}",
            "path": path,
            "workers": 1,
            "engine": "io_uring",
            "direct": True,
            "clock": "completion",
            "offset": place.offset,
            "workload": {
                "pattern": pattern,
                "direction": {"kind": "read" if share else "write"},
                "record": place.record,
                "span": place.span,
                "arrivals": {"kind": "closed", "depth": process.get("depth", 1)},
                "seed": seed + number,
            },
        }
        if "ioprio" in process:
            name, _, level = process["ioprio"].partition(":")
            group["ioprio"] = {"class": name, "level": int(level or 0)}
        groups.append(group)
    return groups


@dataclass(frozen=True)
class BufferedProcess:
    """Sequential records of a region, read or written, one at a time; sizes and places in bytes."""

    record: int
    offset: int
    span: int
    writes: bool
    fsync_every: int

    def run(self, path: Path, seconds: float) -> dict[str, float]:
        """Go through the region, again from its start, for so long; its rate and latency.

        The last write or fsync may end after the time. Its bytes do not count. `page_copy_ns` is
        what a write to the page cache took for each 4 KiB, on average; 0 for a reader.
        """
        answered, busy_s, in_time = 0, 0.0, 0
        cached_s = []
        data = bytearray(os.urandom(self.record))
        file = os.open(path, os.O_RDWR)
        try:
            os.posix_fadvise(file, self.offset, self.span, os.POSIX_FADV_DONTNEED)
            begin = now = time.monotonic()
            while now < begin + seconds:
                place = self.offset + answered * self.record % self.span
                if self.writes:
                    os.pwrite(file, data, place)
                    cached_s.append(time.monotonic() - now)
                    if self.fsync_every and (answered + 1) % self.fsync_every == 0:
                        os.fsync(file)
                else:
                    os.preadv(file, [data], place)
                start, now = now, time.monotonic()
                answered += 1
                busy_s += now - start
                in_time += now < begin + seconds
            os.fsync(file)
            os.posix_fadvise(file, self.offset, self.span, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        return {
            "throughput_bytes_per_s": in_time * self.record / seconds,
            "latency_ns_mean": busy_s * 1e9 / max(answered, 1),
            "page_copy_ns": sum(cached_s) * 1e9 / max(len(cached_s), 1) / (self.record / 4096),
        }


def run_buffered(
    path: Path, processes: Sequence[BufferedProcess], seconds: float
) -> list[dict[str, float]]:
    """All at once on a device that this session holds; figures of each, in their order.

    Each is a thread: without CLONE_IO it has an I/O context of its own, as a process has.
    OSError of the device.
    """
    with ThreadPoolExecutor(len(processes)) as threads:
        return list(threads.map(lambda process: process.run(path, seconds), processes))
