"""A load engine for tests of what is asked of it: it keeps the jobs and answers as it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from schedlab.kinds.resolved import ResolvedTarget
from schedlab.nouns.load_result import JobResult

MIB = 1 << 20
# Twenty tags: a load of 40 requests.
TARGET = ResolvedTarget(
    Path("/t"), 80 * MIB, "sdx", 512, True, Path("/raw"), 96 * MIB, tags=20,
    groups={"limited": "/g/limited", "favoured": "/g/favoured", "other": "/g/other"},
)  # fmt: skip
READ, WRITE = {"kind": "read"}, {"kind": "write"}
IN_ORDER = {"kind": "sequential"}
ENDLESS = {"kind": "random", "replacement": True}
# 30 requests of 1 to 1.2 µs, 10 of 3 to 3.4 µs.
BINS = [[1000, 1200, 30], [3000, 3400, 10]]


def side(operations: int = 0, size: int = 0, *, bins: Any = (), **fields: Any) -> dict[str, Any]:
    """The reads or the writes of a group of the engine's result."""
    stats = {"count": sum(row[2] for row in bins), "mean": 1.625e3, "bins": list(bins)}
    return {"operations": operations, "bytes": size, "errors": 0, "short": 0, "latency": stats,
            **fields}  # fmt: skip


def group(name: str, **fields: Any) -> dict[str, Any]:
    """A group of the engine's result that was measured for 2 s."""
    series = {"bin_ms": 100, "window_ms": [500.0, 2500.0], "reads": [], "writes": []}
    return {
        "name": name, "engine": "io_uring", "elapsed_ns": 2_000_000_000, "reads": side(),
        "writes": side(), "cpu_user_ns": 0, "cpu_system_ns": 0, "unissued": 0, "unanswered": 0,
        "oldest_pending_ns": 0, "series": series, "responses": [], "transactions": None,
        "prepared": {"discarded": None, "refused": None, "primed_bytes": 0},
        "device_bytes_read": 0, "device_bytes_written": 0, "load_generator_bottleneck": False,
        "workers": [], **fields,
    }  # fmt: skip


def result(*groups: dict[str, Any], **fields: Any) -> JobResult:
    """The engine's result of a job with these groups."""
    return msgspec.convert({"groups": groups, **fields}, JobResult)


class Engine:
    """Takes the place of the load engine: keeps the jobs, answers with the results in turn."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []

    def answers(self, *groups: dict[str, Any], **fields: Any) -> None:
        """One more result."""
        self.results.append({"interrupted": False, "groups": list(groups), **fields})

    def __call__(
        self, text: str, should_end: Callable[[], bool] | None, ready: Any, replay: Any = None
    ) -> str:
        self.jobs.append(json.loads(text))
        deadline = time.monotonic() + 20
        while should_end and not should_end() and time.monotonic() < deadline:
            time.sleep(0.002)
        return json.dumps(self.results.pop(0))

    @property
    def window(self) -> tuple[Any, ...]:
        """Of the last job: window, ramp, whether of processes, and the device that is watched."""
        job = self.jobs[-1]
        return job["seconds"], job["ramp_seconds"], job["process"], job["device"]


def work(order: Any, direction: Any, record: int, span: int, depth: int, seed: int) -> Any:
    """A closed loop, as the engine is told."""
    return {"pattern": order, "direction": direction, "record": record, "span": span,
            "arrivals": {"kind": "closed", "depth": depth}, "seed": seed}  # fmt: skip
