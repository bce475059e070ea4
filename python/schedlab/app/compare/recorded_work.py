"""A recorded load as a workload, as the options of `compare --trace` describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schedlab.app.compare.comparison import Place
from schedlab.errors import SpecError, nearest
from schedlab.kinds.trace_replay import SIDES, TraceReplay, file_of, sha256_of
from schedlab.nouns import Workload


def workload_of(place: Place, typed: Mapping[str, Any]) -> Workload:
    """The workload; its metric is the first of `--metric`, else the mean latency of what the
    trace does most. SpecError for a trace that cannot be replayed.

    On a device that may only be read, only the reads are replayed.
    """
    name = file_of(typed["trace"])
    parameters: dict[str, object] = {
        "trace": str(name.resolve()) + typed["trace"].removeprefix(str(name)),
        "trace_sha256": sha256_of(name),
    }
    parameters |= {
        key: typed[key] for key in ("timing", "fit", "cgroups", "seconds") if typed.get(key)
    }
    if typed.get("think_limit_s"):
        parameters["think_limit_ms"] = 1e3 * typed["think_limit_s"]
    if place.read_only:
        parameters["reads_only"] = True
    kind = msgspec.convert(parameters, TraceReplay)
    totals = {one["direction"]: one for one in kind.summary()["groups"] if not one["name"]}
    busiest = max(totals, key=lambda direction: totals[direction]["requests"])
    there = [operation for operation, side in SIDES.items() if side in totals]
    there.sort(key=lambda operation: SIDES[operation] != busiest)
    usual = [
        *(f"{operation}_latency_ns_{what}" for operation in there for what in ("mean", "p99")),
        "requests_per_s",
        *(f"{operation}_bytes_per_s" for operation in there),
        *kind.own_metrics(),
    ]
    for metric in typed["metrics"]:
        if metric not in (*usual, *kind.metrics):
            raise SpecError(
                f"--metric {metric}: the replay of {name.name} does not measure it",
                nearest(metric, usual),
            )
    metrics = list(dict.fromkeys((*typed["metrics"], *usual)))
    return Workload(name.name, kind.kind, metrics[0], parameters, tuple(metrics[1:]))
