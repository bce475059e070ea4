"""Whether a workload gives a scheduler anything to order at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlab.spec.caching import fills_page_cache
from schedlab.spec.experiment import Workload

# Kinds whose work is one stream of requests, unless their parameters say otherwise.
ONE_STREAM = ("file-test", "device-timings")
# Parameters that count processes or requests in flight; each must be 1.
AT_ONCE = ("depth", "workers", "processes", "jobs", "readers", "writers", "clients")


def nothing_to_order(workload: Workload) -> bool:
    """Whether the workload has one request at a time, by its parameters.

    One process with one direct request in flight leaves a scheduler nothing to choose between.
    A buffered write does not count: the kernel writes its pages back many at a time.
    """
    parameters: Mapping[str, Any] = workload.parameters
    if workload.kind not in ONE_STREAM or fills_page_cache(workload):
        return False
    if (
        isinstance(parameters.get("arrivals"), Mapping)
        and parameters["arrivals"].get("kind") != "closed"
    ):
        return False
    return all(_count(parameters.get(name, 1)) <= 1 for name in AT_ONCE)


def _count(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 1.0
