"""A block-layer capture, by class of processes: its JSON as explanations.

The format is documented in `crates/trace/src/blocks.rs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.spec.results import Explanation

NS = 1e-9
# A coefficient of bfq above this is a raised weight.
NOT_RAISED = 1.0
# Columns of the rows of a class over time: t_ms, reads, writes, other, bytes, …
BYTES = 4
# Operations are taken as single requests when their numbers differ by no more than this share.
SINGLE = 0.02


def explanations(
    capture: Mapping[str, Any], engine: Sequence[Mapping[str, Any]] = ()
) -> tuple[Explanation, ...]:
    """One explanation per class that had requests, without `other` (all other processes).

    `engine` are the groups of the job that was captured, as in crates/load/src/io/result.rs: by
    their latency the time before and after the block layer is known.
    """
    explained = []
    seen = {str(group["name"]): group for group in engine}
    for number, of in enumerate(capture["classes"]):
        rows = [group for group in capture["groups"] if group["class"] == number]
        if number and sum(group["requests"] for group in rows):
            name = str(of["name"])
            explained.append(_of_class(capture, number, name, rows, seen.get(name, {})))
    return tuple(explained)


def _of_class(
    capture: Mapping[str, Any],
    number: int,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    engine: Mapping[str, Any],
) -> Explanation:
    depth = capture["depth"]
    driver = depth["driver"]["series"]
    raised, until_s, moved = _raised(capture, number)
    lost = capture["lost"]
    outside_s, per_operation = _outside(rows, engine)
    return Explanation(
        group=name,
        tag_s=_mean_s(rows, "tag"),
        scheduler_s=_mean_s(rows, "scheduler"),
        device_s=_mean_s(rows, "device"),
        device_depth=float(depth["driver"]["mean"]),
        scheduler_depth=float(depth["scheduler"]["mean"]),
        requests=sum(group["requests"] for group in rows),
        lost=sum(int(n or 0) for n in lost.values()),
        bin_s=(driver[1][0] - driver[0][0]) / 1e3 if len(driver) > 1 else 0.1,
        depth_series=tuple(float(mean) for _, mean in driver),
        plug_s=_mean_s(rows, "plug"),
        has_limits=bool(capture.get("sees_limits")),
        raised=raised,
        raised_s=until_s,
        raised_bytes=moved,
        outside_s=outside_s,
        requests_per_operation=per_operation,
    )


def _outside(rows: Sequence[Mapping[str, Any]], engine: Mapping[str, Any]) -> tuple[float, float]:
    """(mean seconds of an operation outside the block layer, requests per operation).

    What the program waited beyond its request: in the system call before it, until it ran again
    after it, in io_uring's worker threads where a first try found no free tag (REQ_NOWAIT), and in
    the limits of a cgroup where the capture does not see those. Both 0 where the
    operations are not known; the first 0 where they are not single requests.
    """
    series = engine.get("series", {})
    bins = [*series.get("reads", ()), *series.get("writes", ())]
    operations = sum(row[1] for row in bins)
    requests = sum(group["total"]["count"] for group in rows)
    if not operations:
        return 0.0, 0.0
    ratio = requests / operations
    if abs(ratio - 1) > SINGLE:
        return 0.0, ratio
    latency_s = sum(row[3] for row in bins) * NS / operations
    return max(0.0, latency_s - _mean_s(rows, "total")), ratio


def _mean_s(rows: Sequence[Mapping[str, Any]], part: str) -> float:
    """Mean seconds of a request in one part; 0 where nothing was seen."""
    count = sum(group[part]["count"] for group in rows)
    return sum(group[part]["sum_ns"] for group in rows) * NS / count if count else 0.0


def _raised(capture: Mapping[str, Any], number: int) -> tuple[float, float, float]:
    """(largest coefficient, seconds, bytes) until bfq stopped raising the weight of a class.

    All 0 where it never raised it, or never stopped.
    """
    weights = [
        (t_ms, raising)
        for of in capture.get("bfq") or ()
        if of["class"] == number
        for t_ms, _, raising, *_ in of["rows"]
    ]
    began = next((t for t, raising in weights if raising > NOT_RAISED), None)
    if began is None:
        return 0.0, 0.0, 0.0
    ended = next((t for t, raising in weights if t > began and raising <= NOT_RAISED), None)
    if ended is None:
        return 0.0, 0.0, 0.0
    moved = sum(
        row[BYTES]
        for of in capture["series"]
        if of["class"] == number
        for row in of["rows"]
        if row[0] < ended
    )
    largest = max(raising for t, raising in weights if t < ended)
    return float(largest), (ended - began) / 1e3, float(moved)
