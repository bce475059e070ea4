"""A block-layer capture: what is read of its JSON, which is stored and printed as it is
(`crates/trace/src/blocks.rs` documents it), and the same by class of processes as explanations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from schedlab.nouns.load_result import GroupResult, OverTime
from schedlab.nouns.results import Explanation

NS = 1e-9
# A coefficient of bfq above this is a raised weight.
NOT_RAISED = 1.0
# Columns of the rows of a class over time: t_ms, reads, writes, other, bytes, then the parts.
BYTES = 4
Part = Literal["tag", "plug", "scheduler", "device", "total"]
PARTS: Mapping[Part, int] = {"tag": 5, "plug": 6, "scheduler": 7, "device": 8, "total": 9}
# Operations are taken as single requests when their numbers differ by no more than this share, and
# one request at an end of the window.
SINGLE = 0.02
# A factor between an extra run and the scored ones from which it may not explain them.
UNLIKE = 2.0


# In ns; `bins` are rows (low, high, count).
Times = TypedDict(
    "Times", {"count": int, "sum_ns": int, "max_ns": int, "bins": list[tuple[int, int, int]]}
)
# A class has its first process, and how many it has.
ClassSeen = TypedDict("ClassSeen", {"name": str, "process": int | None, "processes": int})
GroupSeen = TypedDict(
    "GroupSeen",
    {
        "class": int, "operation": str, "size_max": int | None, "requests": int, "bytes": int,
        "tag": Times, "plug": Times, "scheduler": Times, "device": Times, "total": Times,
    },
)  # fmt: skip
SeriesSeen = TypedDict("SeriesSeen", {"class": int, "rows": list[list[int]]})
BfqSeen = TypedDict("BfqSeen", {"class": int, "rows": list[tuple[int, int, float, str, int]]})
# `series` has rows (t_ms, mean).
DepthSeen = TypedDict("DepthSeen", {"mean": float, "max": int, "series": list[tuple[int, float]]})
Place = Literal["scheduler", "driver", "both", "limits"]
Accounting = TypedDict(
    "Accounting",
    {"captured_sectors": int, "device_sectors": tuple[int, int] | None, "gap_sectors": int},
)


class BlockSeen(TypedDict):
    """A snapshot or the result of a block capture."""

    device: str
    scheduler: str
    elapsed_ns: int
    sees_limits: bool
    classes: list[ClassSeen]
    groups: list[GroupSeen]
    series: list[SeriesSeen]
    depth: dict[Place, DepthSeen]
    tags: int
    totals: dict[str, int]
    bfq: list[BfqSeen] | None
    lost: dict[str, int]
    waiting: list[tuple[int, str, int]]
    accounting: Accounting
    cost: dict[str, object] | None


def explanations(
    capture: BlockSeen, engine: Sequence[GroupResult] = (), lead_s: float = 0.0
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
            over_time = seen.get(of["name"], OverTime())
            explained.append(_of_class(capture, number, of["name"], rows, over_time, lead_s))
    return tuple(explained)


def is_alike(value: float, usual: float) -> bool:
    """Whether a run is so near the scored ones that it may explain them, or nothing is known."""
    return min(value, usual) <= 0 or 1 / UNLIKE < value / usual < UNLIKE


def _of_class(
    capture: BlockSeen,
    number: int,
    name: str,
    rows: Sequence[GroupSeen],
    engine: OverTime,
    lead_s: float,
) -> Explanation:
    depth = capture["depth"]
    driver = depth["driver"]["series"]
    raised, until_s, moved = _raised(capture, number)
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
        lost=sum(capture["lost"].values()),
        bin_s=(driver[1][0] - driver[0][0]) / 1e3 if len(driver) > 1 else 0.1,
        depth_series=tuple(mean for _, mean in driver),
        plug_s=mean_s["plug"],
        has_limits=capture["sees_limits"],
        raised=raised,
        raised_s=until_s,
        raised_bytes=moved,
        outside_s=outside_s,
        requests_per_operation=per_operation,
        gap_share=_gap_share(capture["accounting"]),
    )


def _gap_share(accounting: Accounting) -> float:
    """The share of the sectors that the device moved which the capture has not."""
    device = accounting["device_sectors"]
    return accounting["gap_sectors"] / max(device[1], 1) if device else 0.0


def _served_before(engine: OverTime, t_ms: float) -> bool:
    """Whether anything was completed before a time: a ramp. A newcomer has none."""
    rows = (*engine.reads, *engine.writes)
    return any(row[0] + engine.bin_ms <= t_ms and row[1] for row in rows)


def _altogether(rows: Sequence[GroupSeen]) -> tuple[int, dict[Part, float]]:
    """(requests, nanoseconds by part) of everything that was captured of a class."""
    requests = sum(group["total"]["count"] for group in rows)
    return requests, {part: sum(group[part]["sum_ns"] for group in rows) for part in PARTS}


def _in_window(
    capture: BlockSeen, number: int, window: tuple[float, float]
) -> tuple[int, dict[Part, float]]:
    """The same of the requests that were issued in the window, in whole bins."""
    series = [of["rows"] for of in capture["series"] if of["class"] == number]
    rows = [row for rows in series for row in rows if window[0] <= row[0] < window[1]]
    requests = sum(sum(row[1:BYTES]) for row in rows)
    return requests, {part: sum(row[column] for row in rows) for part, column in PARTS.items()}


def _depth(depth: DepthSeen, window: tuple[float, float] | None) -> float:
    """Mean requests in the scheduler or the driver, in the window if there is one."""
    seen = [mean for t_ms, mean in depth["series"] if window and window[0] <= t_ms < window[1]]
    return sum(seen) / len(seen) if seen else depth["mean"]


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


def _raised(capture: BlockSeen, number: int) -> tuple[float, float, float]:
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
    return largest, (ended - began) / 1e3, float(moved)
