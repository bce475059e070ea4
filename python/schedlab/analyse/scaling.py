"""Figures over an ordered size (of a record, block, buffer or queue): knees, cost per call.

A family is a set of workloads, or of candidates, that differ in nothing but one size.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from schedlab.analyse.call_cost import fit_call_cost
from schedlab.analyse.knee import find_knee
from schedlab.nouns import Candidate, Flag, KneeFigure, Metric, Samples, Workload

#: Parameters and settings that are an ordered size, and their names in a sentence.
SIZES: Mapping[str, str] = {
    "record_bytes": "record size",
    "block_bytes": "block size",
    "buffer_bytes": "buffer size",
    "depth": "queue depth",
    "queue_depth": "queue depth",
    "iodepth": "queue depth",
}
#: Below this share of the variance the calls alone do not explain the time.
EXPLAINED = 0.95


@dataclass(frozen=True)
class Curve:
    """The runs of one candidate over a size: `values[i]` at `sizes[i]`.

    `candidate` is empty where the candidates themselves are the sizes; `total_bytes` is what
    every run moves, where it is known.
    """

    family: str
    size: str
    candidate: str
    metric: Metric
    sizes: tuple[float, ...]
    values: tuple[float, ...]
    total_bytes: float | None = None


def knees(
    workloads: Sequence[Workload], candidates: Sequence[Candidate], samples: Sequence[Samples]
) -> tuple[KneeFigure, ...]:
    """The knee of every curve over at least two sizes, or why there is none."""
    return tuple(
        KneeFigure(
            family=c.family, size=c.size, candidate=c.candidate, metric=c.metric,
            **vars(find_knee(c.sizes, c.values)),
        )
        for c in curves(workloads, candidates, samples)
    )  # fmt: skip


def call_costs(
    workloads: Sequence[Workload], candidates: Sequence[Candidate], samples: Sequence[Samples]
) -> tuple[Flag, ...]:
    """Curves of elapsed time whose time goes with the number of calls, not with the bytes."""
    flags = []
    for curve in curves(workloads, candidates, samples):
        if curve.metric.name != "elapsed_s" or not curve.total_bytes or "bytes" not in curve.size:
            continue
        calls = [round(curve.total_bytes / size) for size in curve.sizes]
        cost = fit_call_cost(calls, curve.values)
        if cost is None or cost.explained < EXPLAINED:
            continue
        names = (curve.candidate,) if curve.candidate else ()
        values = {
            "seconds_per_call": cost.seconds_per_call,
            "constant_s": cost.constant_s,
            "explained": cost.explained,
        }
        flags.append(Flag("call-cost", curve.family, names, values))
    return tuple(flags)


def curves(
    workloads: Sequence[Workload], candidates: Sequence[Candidate], samples: Sequence[Samples]
) -> Iterator[Curve]:
    """Every family of workloads for every candidate, then families of candidates."""
    by_label = {sample.workload: sample for sample in samples}
    measured = [work for work in workloads if work.label in by_label]
    for size in SIZES:
        for members in _families(
            [(w, w.parameters, (w.kind, by_label[w.label].metric.name)) for w in measured], size
        ):
            yield from _over_workloads(members, candidates, by_label, size)
        for members in _families([(c, c.settings, ()) for c in candidates if not c.aa_of], size):
            for work in measured:
                yield _over_candidates(members, work, by_label[work.label], size)


def _families(
    things: Sequence[tuple[Any, Mapping[str, Any], Hashable]], size: str
) -> list[list[Any]]:
    """Things by what they share but for `size`; those with a single size are no family."""
    grouped: dict[Hashable, dict[float, Any]] = {}
    for thing, parameters, more in things:
        value = parameters.get(size)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            continue
        rest = tuple(sorted((k, repr(v)) for k, v in parameters.items() if k != size))
        grouped.setdefault((rest, more), {}).setdefault(float(value), thing)
    return [list(members.values()) for members in grouped.values() if len(members) > 1]


def _over_workloads(
    members: Sequence[Workload],
    candidates: Sequence[Candidate],
    by_label: Mapping[str, Samples],
    size: str,
) -> Iterator[Curve]:
    first = members[0]
    words = zip(*(work.label.split() for work in members), strict=False)
    shared = " ".join(each[0] for each in takewhile(lambda each: len({*each}) == 1, words))
    for candidate in candidates:
        if candidate.aa_of:
            continue
        points = [
            (float(work.parameters[size]), value)
            for work in members
            for value in _values(by_label[work.label], candidate.label)
        ]
        if points:
            yield Curve(
                family=str(first.parameters.get("test") or shared or first.kind),
                size=size,
                candidate=candidate.label,
                metric=by_label[first.label].metric,
                sizes=tuple(x for x, _ in points),
                values=tuple(y for _, y in points),
                total_bytes=first.parameters.get("total_bytes"),
            )


def _over_candidates(
    members: Sequence[Candidate], work: Workload, sample: Samples, size: str
) -> Curve:
    points = [(float(c.settings[size]), y) for c in members for y in _values(sample, c.label)]
    return Curve(
        family=work.label,
        size=size,
        candidate="",
        metric=sample.metric,
        sizes=tuple(x for x, _ in points),
        values=tuple(y for _, y in points),
        total_bytes=work.parameters.get("total_bytes"),
    )


def _values(sample: Samples, label: str) -> list[float]:
    """The values of a candidate that have a logarithm."""
    pairs = zip(sample.candidates, sample.values, strict=True)
    return [value for name, value in pairs if name == label and value > 0]
