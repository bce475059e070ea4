"""The charts of the NCQ study as rows, with captions that are computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.sim.ncq_study import ALPHAS, BUFFERS_MIB, POLICIES, USUAL_ALPHA, WORKLOADS, Study

PAPER_READS = {("A", "s"): 0.41, ("A", "ts"): 0.27, ("A", "tsb"): 0.22, ("B", "tsb"): 0.35}
# A ratio closer to 1 than this is no change.
FLAT = 0.05
USUAL_BUFFER_MIB = 64


@dataclass(frozen=True)
class Figure:
    """One chart: rows, the columns on its axes, and a caption. `kind` is `bar` or `line`."""

    title: str
    note: str
    rows: Sequence[Mapping[str, Any]]
    kind: str
    x: str
    y: str
    by: str
    log: bool = False


def figures(study: Study) -> list[Figure]:
    """All charts in the order of the page."""
    return [
        *(_policies(study, direction) for direction in ("read", "write")),
        _alphas(study),
        *(_buffers(study, workload) for workload in ("A", "B")),
        _sequential(study),
        _iops(study),
    ]


def change(ratio: float) -> str:
    """`grows 2.1×`, `falls to 0.40` or `stays within 5 %`."""
    if abs(ratio - 1) <= FLAT:
        return f"stays within {FLAT:.0%}"
    return f"grows {ratio:.2f}×" if ratio > 1 else f"falls to {ratio:.2f}"


def _overload(study: Study, buffer_mib: int, workloads: Sequence[str] = WORKLOADS) -> str:
    """Which workloads overload the device under some policy, as a sentence."""
    cells = [
        workload
        for workload in workloads
        if any(study.is_overloaded(workload, policy, buffer_mib) for policy in POLICIES)
    ]
    if not cells:
        return "No workload overloads the device."
    return f"Overloaded under some policy: {', '.join(cells)}."


def _policies(study: Study, direction: str) -> Figure:
    metric = f"mean_{direction}_ms"
    paper = PAPER_READS if direction == "read" else {}
    rows: list[dict[str, Any]] = [
        {
            "workload": workload,
            "policy": policy.upper(),
            "share of FCFS": study.ratio(metric, workload, policy, USUAL_BUFFER_MIB),
            "paper": paper.get((workload, policy)),
        }
        for workload in WORKLOADS
        for policy in POLICIES
    ]
    best = min(rows, key=lambda row: row["share of FCFS"])
    ticks = sum(row["paper"] is not None for row in rows)
    note = (
        f"The smallest share is {best['share of FCFS']:.2f}, {best['policy']} on "
        f"{best['workload']}. Black ticks: the {ticks} values that the paper's text states. "
        f"{_overload(study, USUAL_BUFFER_MIB)}"
    )
    title = f"Mean {direction} response, share of FCFS ({USUAL_BUFFER_MIB} MiB)"
    return Figure(title, note, rows, "bar", "workload", "share of FCFS", "policy")


def _alphas(study: Study) -> Figure:
    values = {
        (way, alpha): study.mean(f"max_{way}_ms", "A", "tsb", 32, alpha)
        for way in ("read", "write")
        for alpha in ALPHAS
    }
    rows = [
        {"α": alpha, "longest response (ms)": value, "direction": way}
        for (way, alpha), value in values.items()
    ]
    parts = [
        f"the longest {way} {change(values[way, high] / values[way, low])} from α = {low} to {high}"
        for way in ("read", "write")
        for low, high in ((ALPHAS[0], USUAL_ALPHA), (USUAL_ALPHA, ALPHAS[-1]))
    ]
    note = f"{'; '.join(parts)}."
    title = "Longest response over α (A, TSB, 32 MiB)"
    return Figure(
        title, note[0].upper() + note[1:], rows, "line", "α", "longest response (ms)", "direction"
    )


def _buffers(study: Study, workload: str) -> Figure:
    values = {
        (policy, buffer): study.mean("mean_read_ms", workload, policy, buffer)
        for policy in POLICIES
        for buffer in BUFFERS_MIB
    }
    rows = [
        {"buffer (MiB)": buffer, "mean read (ms)": value, "policy": policy.upper()}
        for (policy, buffer), value in values.items()
    ]
    small, large = BUFFERS_MIB[0], BUFFERS_MIB[-1]
    parts = [
        f"{policy.upper()} {change(values[policy, large] / values[policy, small])}"
        for policy in POLICIES
    ]
    loaded = [
        str(buffer)
        for buffer in BUFFERS_MIB
        if any(study.is_overloaded(workload, policy, buffer) for policy in POLICIES)
    ]
    overload = f" Overloaded: {', '.join(loaded)} MiB." if loaded else ""
    note = f"From {small} to {large} MiB: {', '.join(parts)}.{overload} Both axes are logarithmic."
    title = f"Mean read response over the size of the buffer ({workload})"
    return Figure(title, note, rows, "line", "buffer (MiB)", "mean read (ms)", "policy", log=True)


def _sequential(study: Study) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "direction": direction,
            "share of FCFS": study.ratio(f"mean_{direction}_ncq_ms", "D", policy, 32),
            "policy": policy.upper(),
            "paper": 1.06 if (direction, policy) == ("write", "tsb") else None,
        }
        for direction in ("read", "write")
        for policy in POLICIES
    ]
    worse = [f"{row['policy']} on {row['direction']}s" for row in rows if row["share of FCFS"] > 1]
    note = f"Worse than FCFS: {', '.join(worse) or 'none'}. Black ticks: the paper's text."
    title = "D from NCQ entry, share of FCFS (32 MiB)"
    return Figure(title, note, rows, "bar", "direction", "share of FCFS", "policy")


def _iops(study: Study) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "workload": workload,
            "IOPS": study.mean("iops", workload, policy, USUAL_BUFFER_MIB),
            "policy": policy.upper(),
            "paper": None,
        }
        for workload in WORKLOADS
        for policy in POLICIES
    ]
    parts = []
    for workload in WORKLOADS:
        rates = [row["IOPS"] for row in rows if row["workload"] == workload]
        parts.append(f"{workload} {max(rates) / min(rates) - 1:.1%}")
    note = (
        f"Largest difference between policies: {', '.join(parts)}. "
        f"{_overload(study, USUAL_BUFFER_MIB)}"
    )
    title = f"I/O operations per second ({USUAL_BUFFER_MIB} MiB)"
    return Figure(title, note, rows, "bar", "workload", "IOPS", "policy")
