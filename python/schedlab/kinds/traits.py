"""How the requests of a workload reach the device, by its kind and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import fields

from schedlab.kinds import KINDS, WorkloadKind, overrides
from schedlab.nouns import AA_SUFFIX, Record, Workload
from schedlab.store.exporters import Parameters

# Parameters that count processes or requests in flight; each must be 1.
AT_ONCE = ("depth", "workers", "processes", "jobs", "readers", "writers", "clients")


def with_traits(record: Record) -> Record:
    """The record that knows which of its workloads are buffered, and which are one stream."""
    works = record.experiment.workloads
    return replace(
        record,
        buffered=frozenset(work.label for work in works if fills_page_cache(work)),
        unordered=frozenset(work.label for work in works if nothing_to_order(work)),
    )


def parameters_of(record: Record) -> Parameters:
    """The parameters of all runs: defaults of the kind, the workload's own, the candidate's."""
    works = {work.label: work for work in record.experiment.workloads}
    candidates = {each.label: each for each in record.experiment.candidates}
    cells = {(run.workload, run.candidate) for run in record.analysed_runs}
    return {
        (work, label): {
            **{f.name: f.default for f in fields(_kind(works[work])) if f.default is not NODEFAULT},
            **works[work].parameters,
            **overrides(candidates.get(label.removesuffix(AA_SUFFIX))),
        }
        for work, label in cells
    }


def fills_page_cache(workload: Workload) -> bool:
    """Whether the workload's pages go through the page cache, by its parameters."""
    parameters = workload.parameters
    if mode := parameters.get("mode"):
        return not str(mode).startswith("direct")
    return not parameters.get("direct", not _kind(workload).is_buffered)


def nothing_to_order(workload: Workload) -> bool:
    """Whether the workload has one request at a time, by its parameters.

    One process with one direct request in flight leaves a scheduler nothing to choose between.
    A buffered write does not count: the kernel writes its pages back many at a time.
    """
    parameters: Mapping[str, Any] = workload.parameters
    if not _kind(workload).is_one_stream or fills_page_cache(workload):
        return False
    if (
        isinstance(parameters.get("arrivals"), Mapping)
        and parameters["arrivals"].get("kind") != "closed"
    ):
        return False
    return all(_count(parameters.get(name, 1)) <= 1 for name in AT_ONCE)


def _kind(workload: Workload) -> type[WorkloadKind]:
    return KINDS.get(workload.kind, WorkloadKind)


def _count(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 1.0
