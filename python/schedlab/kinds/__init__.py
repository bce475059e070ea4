"""Workload kinds: one file each. A new kind is one file and one line in `KINDS`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

import msgspec

from schedlab.errors import SpecError, nearest, no_simulators
from schedlab.kinds.archive_extraction import ArchiveExtraction
from schedlab.kinds.base import WorkloadKind as WorkloadKind
from schedlab.kinds.cached_reads import CachedReads
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.calls import Calls
from schedlab.kinds.command import Command
from schedlab.kinds.copy_beside_desktop import CopyBesideDesktop
from schedlab.kinds.cpu_command import CpuCommand
from schedlab.kinds.cpu_fork_storm import ForkStorm
from schedlab.kinds.cpu_groups import Groups
from schedlab.kinds.cpu_messaging import Messaging, Pipe
from schedlab.kinds.cpu_mixed import MixedWork
from schedlab.kinds.cpu_wakeup import Wakeup
from schedlab.kinds.database import Database
from schedlab.kinds.device_queue import DeviceQueue
from schedlab.kinds.device_timings import DeviceTimings
from schedlab.kinds.file_test import FileTest
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.live_load import LiveLoad
from schedlab.kinds.newcomer import Newcomer
from schedlab.kinds.processes import Processes
from schedlab.kinds.random_reads import RandomReads
from schedlab.kinds.reader_beside_writers import ReaderBesideWriters
from schedlab.kinds.readers_together import ReadersTogether
from schedlab.kinds.resolved import Outcome as Outcome, ResolvedTarget as ResolvedTarget
from schedlab.kinds.startup import Startup
from schedlab.kinds.throttled_reads import ThrottledReads
from schedlab.kinds.trace_replay import TraceReplay
from schedlab.kinds.weights import Weights
from schedlab.spec import Candidate, Metric, Workload
from schedlab.spec.quantities import parse_quantity

_OWN: dict[str, type[WorkloadKind]] = {
    each.kind: each
    for each in (
        ArchiveExtraction,
        CachedReads,
        Calculation,
        Calls,
        Command,
        CopyBesideDesktop,
        CpuCommand,
        Database,
        DeviceQueue,
        DeviceTimings,
        FileTest,
        FioJob,
        ForkStorm,
        Groups,
        LiveLoad,
        Messaging,
        MixedWork,
        Newcomer,
        Pipe,
        Processes,
        RandomReads,
        ReaderBesideWriters,
        ReadersTogether,
        Startup,
        ThrottledReads,
        TraceReplay,
        Wakeup,
        Weights,
    )
}
#: Those of the simulators, a package of its own.
SIMULATED = ("disk", "host-queue", "ssd")


class _Kinds(Mapping[str, type[WorkloadKind]]):
    """Our kinds, and those that other packages offer, which are loaded when they are asked for."""

    def __getitem__(self, kind: str) -> type[WorkloadKind]:
        return _OWN[kind] if kind in _OWN else _others()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter({**_OWN, **_others()})

    def __len__(self) -> int:
        return len({**_OWN, **_others()})


@functools.cache
def _others() -> dict[str, type[WorkloadKind]]:
    return {entry.name: entry.load() for entry in entry_points(group="schedlab.kinds")}


KINDS = _Kinds()
# A candidate's setting of this form takes the place of a workload's parameter.
OVERRIDE = "workload."


def kind_named(kind: str, where: str) -> type[WorkloadKind] | None:
    """The kind of that name, if any; SpecError for one of the simulators that are not installed."""
    if (found := KINDS.get(kind)) is None and kind in SIMULATED:
        raise no_simulators(f"{where}: kind {kind!r}")
    return found


def declared(workloads: Iterable[Workload]) -> dict[str, Metric]:
    """The metrics that workloads define by their parameters; SpecError where two disagree."""
    metrics: dict[str, Metric] = {}
    for workload in workloads:
        for name, metric in typed(workload).own_metrics().items():
            if metrics.setdefault(name, metric) != metric:
                raise SpecError(
                    f"workload {workload.label!r}: metric {name!r} has another unit or direction "
                    "in another workload",
                    "rename one of them",
                )
    return metrics


def typed(workload: Workload, candidate: Candidate | None = None, where: str = "") -> WorkloadKind:
    """The workload with typed parameters, changed by the candidate's `workload.*` settings; a dot
    goes into a table (`device_set.buffer.size`: its key `buffer.size`).

    SpecError naming the place (`where`, the workload's label), the key and the nearest known one.
    """
    where = where or f"workload {workload.label!r}"
    cls = kind_named(workload.kind, where)
    if cls is None:
        raise SpecError(
            f"{where}: kind {workload.kind!r} is not known", nearest(workload.kind, KINDS)
        )
    parameters: dict[str, object] = {**workload.parameters, **overrides(candidate)}
    known = cls.__struct_fields__
    if unknown := [key for key in parameters if key.partition(".")[0] not in known]:
        raise SpecError(
            f"{where}: {workload.kind} has no parameter {unknown[0]!r}", nearest(unknown[0], known)
        )
    data: dict[str, object] = {}
    for key, value in parameters.items():
        name, is_inside, inner = key.partition(".")
        try:
            one = parse_quantity(key, value)
            old = data.get(name, {})
            table = old if isinstance(old, dict) else {}
            data[name] = {**table, inner: one} if is_inside else one
        except SpecError as error:
            raise SpecError(f"{where}: {key}: {error}", error.hint) from error
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        key = path.rstrip("`")
        raise SpecError(
            f"{where}: {key or workload.kind}: {text[:1].lower()}{text[1:]}",
            _choices(cls, key, data.get(key)) or f"docs/reference/workloads.md#{workload.kind}",
        ) from error


def _choices(cls: type[WorkloadKind], key: str, value: Any) -> str:
    """A hint for a parameter that takes one of a few words; empty for every other."""
    fields = {f.name: f.type for f in msgspec.inspect.type_info(cls).fields}  # type: ignore[attr-defined]
    kind = fields.get(key)
    if not isinstance(kind, msgspec.inspect.LiteralType):
        return ""
    return nearest(str(value), [str(word) for word in kind.values])


def overrides(candidate: Candidate | None) -> dict[str, object]:
    """The parameters of workloads that a candidate changes."""
    settings = candidate.settings if candidate else {}
    return {k.removeprefix(OVERRIDE): v for k, v in settings.items() if k.startswith(OVERRIDE)}
