"""Jobs of the load engine (crates/load): groups as dictionaries in, `JobResult` out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import msgspec

from schedlab.errors import HostError, Interrupted, SchedlabError, SpecError
from schedlab.kinds.resolved import ResolvedTarget
from schedlab.nouns.load_result import GroupResult, JobResult

if TYPE_CHECKING:
    from schedlab._core import ReplayPlan

DOCTOR = "see `schedlab doctor` for what this machine allows"


# The processes or threads of a group.
GroupIds = TypedDict("GroupIds", {"name": str, "ids": list[int]})


class JobWatcher(Protocol):
    """The callback for every job of the engine."""

    def prepare(self, names: Sequence[str]) -> None:
        """A job with these groups is about to start."""

    def begin(self, workers: Sequence[GroupIds]) -> None:
        """Its processes are ready; their load starts now."""

    def see(self, groups: Sequence[GroupResult]) -> None:
        """It has ended."""


_watcher: ContextVar[JobWatcher | None] = ContextVar("job_watcher", default=None)


@contextmanager
def watching_jobs(watcher: JobWatcher) -> Iterator[None]:
    """Show the processes and the results of the jobs that this thread runs meanwhile."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def group(
    name: str, target: ResolvedTarget, workload: Mapping[str, object], **options: Any
) -> dict[str, object]:
    """One group of workers of an engine job; `options` as in crates/load/src/io/job.rs."""
    return {"name": name, "path": str(target.path), "workload": dict(workload), **options}


def work(
    pattern: Mapping[str, object], direction: Mapping[str, object], record_bytes: int, seed: int,
    depth: int = 1, **more: Any,
) -> dict[str, object]:  # fmt: skip
    """The requests of a group: a closed loop of `depth`, unless `more` has other `arrivals`."""
    arrivals = {"kind": "closed", "depth": depth}
    about = {"pattern": pattern, "direction": direction, "record": record_bytes, "seed": seed}
    return {**about, "arrivals": arrivals, **more}


def run_job(
    groups: Sequence[Mapping[str, object]],
    seconds: float | None,
    ramp_seconds: float = 0.0,
    should_end: Callable[[], bool] | None = None,
) -> dict[str, GroupResult]:
    """Run one job of the load engine; its groups by name. Arguments and errors of `run_groups`."""
    result = run_groups(groups, seconds, ramp_seconds, should_end)
    return {group.name: group for group in result.groups}


def run_groups(
    groups: Sequence[Mapping[str, object]],
    seconds: float | None,
    ramp_seconds: float = 0.0,
    should_end: Callable[[], bool] | None = None,
    *,
    process: bool = False,
    device: str | None = None,
    replay: ReplayPlan | None = None,
) -> JobResult:
    """Run one job of the load engine; its whole result.

    `should_end` is asked every 20 ms and ends the measured window by giving True. With `process`
    every worker is a process; of `device` the requests in flight are sampled; `replay` has the
    streams that groups replay.
    HostError when the engine cannot do it here; Interrupted when the user stopped it.
    """
    from schedlab import _core

    job = {
        "seconds": seconds,
        "ramp_seconds": ramp_seconds,
        "process": process,
        "device": device,
        "groups": list(groups),
    }
    watcher = _watcher.get()
    if watcher is not None:
        watcher.prepare([str(group["name"]) for group in groups])
    ready = None if watcher is None else partial(_begin, watcher)
    result = _answer(lambda: _core.run_io_job(json.dumps(job), should_end, ready, replay))
    if watcher is not None:
        watcher.see(result.groups)
    return result


def _begin(watcher: JobWatcher, text: str) -> None:
    watcher.begin(msgspec.json.decode(text, type=list[GroupIds]))


def _answer(call: Callable[[], str]) -> JobResult:
    """The engine's answer, or HostError with its reason."""
    try:
        result = msgspec.json.decode(call(), type=JobResult)
    except (SchedlabError, OSError, RuntimeError, ValueError) as error:
        message, _, hint = str(error).partition("\nhint: ")
        hint = hint or getattr(error, "hint", "") or DOCTOR
        raise (SpecError if isinstance(error, SpecError) else HostError)(message, hint) from error
    if result.interrupted:
        raise Interrupted("interrupted")
    return result


def claimed_bytes(groups: Mapping[str, GroupResult]) -> tuple[int, int]:
    """(read, written) bytes that all groups moved, by their own count."""
    return (
        sum(group.device_bytes_read for group in groups.values()),
        sum(group.device_bytes_written for group in groups.values()),
    )
