"""Workload kinds: one file each, which is all that a new kind is."""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

import msgspec

from schedlab.errors import SpecError, nearest
from schedlab.kinds.base import WorkloadKind as WorkloadKind
from schedlab.kinds.resolved import Outcome as Outcome, ResolvedTarget as ResolvedTarget
from schedlab.nouns import Candidate, Metric, Workload
from schedlab.nouns.quantities import parse_quantity
from schedlab.package import offered

#: Those of the simulators, a package of its own.
SIMULATED = ("disk", "host-queue", "ssd")


class _Kinds(Mapping[str, type[WorkloadKind]]):
    """The kinds of this room, and those that other packages offer, loaded when asked for."""

    def __getitem__(self, kind: str) -> type[WorkloadKind]:
        return own[kind] if kind in (own := _own()) else _others()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter({**_own(), **_others()})

    def __len__(self) -> int:
        return len({**_own(), **_others()})


@functools.cache
def _own() -> dict[str, type[WorkloadKind]]:
    """The kinds that the files of this room define."""
    found: dict[str, type[WorkloadKind]] = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, WorkloadKind) and hasattr(each, "kind"):
                found[each.kind] = each
    return dict(sorted(found.items()))


@functools.cache
def _others() -> dict[str, type[WorkloadKind]]:
    """Those that load; one that does not is an error where it is asked for (`kind_named`)."""
    found: dict[str, type[WorkloadKind]] = {}
    for entry in entry_points(group="schedlab.kinds"):
        with contextlib.suppress(ImportError, AttributeError):
            found[entry.name] = entry.load()
    return found


KINDS = _Kinds()
# A candidate's setting of this form takes the place of a workload's parameter.
OVERRIDE = "workload."


def kind_named(kind: str, where: str) -> type[WorkloadKind] | None:
    """The kind of that name, if any; SpecError for one of the simulators that are not installed."""
    if (found := KINDS.get(kind)) is None and kind in SIMULATED:
        offered("kinds", kind, f"{where}: kind {kind!r}")
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
