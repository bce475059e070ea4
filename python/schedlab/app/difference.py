"""What changed between two results: their machines, their work, their candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlab.errors import SpecError
from schedlab.spec import Record, Samples, Verdict

# What may differ and is only reported; what must not, unless it is allowed.
REPORTED = ("kernel.release", "versions.schedlab")
MUST_AGREE = ("cpu.model", "cpu.usable", "virtualisation.virtual_machine", "clock.source")


def environment_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """What differs between two host.json, of all that can change a result."""
    return {
        name: (_at(first, name), _at(second, name))
        for name in (*REPORTED, *MUST_AGREE)
        if _at(first, name) != _at(second, name)
    }


def _at(host: Mapping[str, Any], name: str) -> Any:
    value: Any = host
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def require_same_work(first: Record, second: Record) -> None:
    """SpecError naming the first workload or target that is not the same in both."""
    a, b = first.experiment, second.experiment
    for key in ("kind", "size_bytes"):
        was, now = getattr(a.target, key), getattr(b.target, key)
        if was != now:
            raise SpecError(f"the targets differ: {key} {was} and {now}", "measure the same target")
    theirs = {work.label: work for work in b.workloads}
    for work in a.workloads:
        other = theirs.get(work.label)
        if other and (other.parameters, other.metric) != (work.parameters, work.metric):
            raise SpecError(
                f"workload {work.label!r} is not the same in both", "repeat it: schedlab reproduce"
            )
    if not {work.label for work in a.workloads} & set(theirs):
        raise SpecError("the two have no workload in common", "name results of the same work")


def changes(first: Record, second: Record) -> dict[str, Verdict]:
    """For each candidate of both: the verdict on "first" against "second", unpaired."""
    from schedlab.analyse import analyse
    from schedlab.store.table import samples

    sides = {"first": samples(first)[0], "second": samples(second)[0]}
    common = [
        c.label
        for c in first.experiment.candidates
        if c.label in {other.label for other in second.experiment.candidates}
    ]
    if not common:
        raise SpecError("the two have no candidate in common", "name results that share one")
    verdicts = {}
    for name in common:
        merged = [
            _merged(name, one, other)
            for one in sides["first"]
            for other in sides["second"]
            if one.workload == other.workload
        ]
        verdicts[name] = analyse(
            [each for each in merged if len(set(each.candidates)) == 2],
            baseline="first",
            blocked=False,
            margin=first.experiment.margin,
            candidates=["first", "second"],
        )
    return verdicts


def _merged(name: str, first: Samples, second: Samples) -> Samples:
    """The runs of one candidate on both sides, as if the sides were the candidates."""
    rows = [
        (side, block, value)
        for side, each in (("first", first), ("second", second))
        for candidate, block, value in zip(each.candidates, each.blocks, each.values, strict=True)
        if candidate == name
    ]
    return Samples(
        workload=first.workload,
        metric=first.metric,
        candidates=tuple(side for side, _, _ in rows),
        blocks=tuple(block for _, block, _ in rows),
        values=tuple(value for _, _, value in rows),
        weight=first.weight,
    )
