"""A block-layer capture, by class of processes: its JSON as explanations.

The format is documented in `crates/trace/src/blocks.rs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.spec.load_result import GroupResult, OverTime
from schedlab.spec.results import Explanation

NS = 1e-9
# A coefficient of bfq above this is a raised weight.
NOT_RAISED = 1.0
# Columns of the rows of a class over time: t_ms, reads, writes, other, bytes, then the parts.
BYTES = 4
PARTS = {"tag": 5, "plug": 6, "scheduler": 7, "device": 8, "total": 9}
# Operations are taken as single requests when their numbers differ by no more than this share, and
# one request at an end of the window.
SINGLE = 0.02
# A factor between an extra run and the scored ones from which it may not explain them.
UNLIKE = 2.0


def explanations(
    capture: Mapping[str, Any], engine: Sequence[GroupResult] = (), lead_s: float = 0.0
) -> tuple[Explanation, ...]:
    """One explanation per class that had requests, without `other` (all other processes).

    `engine` are the groups of the job that was captured. Of a group that is there only the measured
    window counts, not the load before it; and by its latency the time before and after the block
    layer is known. The job started `lead_s` after the
    time from which the capture counts.
    """
    explained = []
    seen = {group.name: group.series for group in engine}
    for number, of in enumerate(capture["classes"]):
        rows = [group for group in capture["groups"] if group["class"] == number]
        if number and sum(group["requests"] for group in rows):
            name = str(of["name"])
            over_time = seen.get(name, OverTime())
            explained.append(_of_class(capture, number, name, rows, over_time, lead_s))
    return tuple(explained)


def is_alike(value: float, usual: float) -> bool:
    """Whether a run is so near the scored ones that it may explain them, or nothing is known."""
    return min(value, usual) <= 0 or 1 / UNLIKE < value / usual < UNLIKE


def _of_class(
    capture: Mapping[str, Any],
    number: int,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    engine: OverTime,
    lead_s: float,
) -> Explanation:
    depth = capture["depth"]
    driver = depth["driver"]["series"]
    raised, until_s, moved = _raised(capture, number)
    lost = capture["lost"]
    window = engine.window_ms
    captured = (window[0] + lead_s * 1e3, window[1] + lead_s * 1e3) if window else None
    ramp = window if window and _served_before(engine, window[0]) else None
    count, sums_ns = _altogether(rows)
    if ramp and captured:
        count, sums_ns = _in_window(capture, number, captured)
    mean_s = {part: total * NS / count if count else 0.0 for part, total in sums_ns.items()}
    outside_s, per_operation = _outside(count, mean_s["total"], engine, ramp)
    return Explanation(
        group=name,
        tag_s=mean_s["tag"],
        scheduler_s=mean_s["scheduler"],
        device_s=mean_s["device"],
        device_depth=_depth(depth["driver"], captured),
        scheduler_depth=_depth(depth["scheduler"], captured),
        requests=count,
        lost=sum(int(n or 0) for n in lost.values()),
        bin_s=(driver[1][0] - driver[0][0]) / 1e3 if len(driver) > 1 else 0.1,
        depth_series=tuple(float(mean) for _, mean in driver),
        plug_s=mean_s["plug"],
        has_limits=bool(capture.get("sees_limits")),
        raised=raised,
        raised_s=until_s,
        raised_bytes=moved,
        outside_s=outside_s,
        requests_per_operation=per_operation,
        gap_share=_gap_share(capture.get("accounting") or {}),
    )


def _gap_share(accounting: Mapping[str, Any]) -> float:
    """The share of the sectors that the device moved which the capture has not."""
    device = accounting.get("device_sectors")
    return float(accounting["gap_sectors"] / max(device[1], 1)) if device else 0.0


def _served_before(engine: OverTime, t_ms: float) -> bool:
    """Whether anything was completed before a time: a ramp. A newcomer has none."""
    rows = (*engine.reads, *engine.writes)
    return any(row[0] + engine.bin_ms <= t_ms and row[1] for row in rows)


def _altogether(rows: Sequence[Mapping[str, Any]]) -> tuple[int, dict[str, float]]:
    """(requests, nanoseconds by part) of everything that was captured of a class."""
    requests = sum(group["total"]["count"] for group in rows)
    return requests, {part: sum(group[part]["sum_ns"] for group in rows) for part in PARTS}


def _in_window(
    capture: Mapping[str, Any], number: int, window: tuple[float, float]
) -> tuple[int, dict[str, float]]:
    """The same of the requests that were issued in the window, in whole bins."""
    series = [of["rows"] for of in capture["series"] if of["class"] == number]
    rows = [row for rows in series for row in rows if window[0] <= row[0] < window[1]]
    requests = sum(sum(row[1:BYTES]) for row in rows)
    return requests, {part: sum(row[column] for row in rows) for part, column in PARTS.items()}


def _depth(depth: Mapping[str, Any], window: tuple[float, float] | None) -> float:
    """Mean requests in the scheduler or the driver, in the window if there is one."""
    seen = [mean for t_ms, mean in depth["series"] if window and window[0] <= t_ms < window[1]]
    return float(sum(seen) / len(seen) if seen else depth["mean"])


def _outside(
    requests: int,
    inside_s: float,
    engine: OverTime,
    window: tuple[float, float] | None,
) -> tuple[float, float]:
    """(mean seconds of an operation outside the block layer, requests per operation).

    What the program waited beyond its request: in the system call before it, until it ran again
    after it, in io_uring's worker threads where a first try found no free tag (REQ_NOWAIT), and in
    the limits of a cgroup where the capture does not see those. Both 0 where the
    operations are not known; the first 0 where they are not single requests.
    """
    rows = (*engine.reads, *engine.writes)
    bins = [r for r in rows if window is None or window[0] <= r[0] < window[1]]
    operations = sum(row[1] for row in bins)
    if not operations:
        return 0.0, 0.0
    ratio = requests / operations
    if abs(ratio - 1) > SINGLE + 1 / operations:
        return 0.0, ratio
    latency_s = sum(row[3] for row in bins) * NS / operations
    return max(0.0, latency_s - inside_s), ratio


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
