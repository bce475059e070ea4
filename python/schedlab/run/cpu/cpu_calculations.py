"""Calculations that are counted: fresh workers for a run, all their bursts captured.

With the workload's parameter `flip` one crew lives as long as the session instead, whose quantum is
flipped from cell to cell (`cpu_flip`): small effects need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from schedlab.cpu.bursts import Bursts, Capture, check
from schedlab.cpu.crew import Quantum, Settings, held, pids_of, ran
from schedlab.cpu.policy import CpuPolicy
from schedlab.errors import SpecError, nearest
from schedlab.kinds import OVERRIDE, WorkloadKind
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.readers_together import jain
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, GateFinding
from schedlab.nouns.latency import merge
from schedlab.nouns.load_result import TaskResult
from schedlab.run.cpu.cpu_policy import policy_of, time_ms

# What a candidate sets; `effective_ms` is what the kernel makes of `slice_ms`.
SETTINGS = ("policy", "slice_ms", "effective_ms")
# The first seconds of a run whose bursts are kept one by one, for the Gantt chart.
TIMELINE_NS = 3_000_000_000
# Beyond this a run carries a (not fatal) finding.
BURST_SUM_TOLERANCE = 0.003


def settings_of(work: Calculation, candidate: Candidate) -> Settings:
    """The workers of a cell: the work from the workload, policy and quantum from the candidate.

    SpecError for settings that it cannot have.
    """
    where = f"candidate {candidate.label!r}"
    sched = {k: v for k, v in candidate.settings.items() if not k.startswith(OVERRIDE)}
    if unknown := [key for key in sched if key not in SETTINGS]:
        raise SpecError(
            f"{where}: {unknown[0]!r} is not a setting of calculations",
            nearest(unknown[0], SETTINGS),
        )
    if work.flip and time_ms(sched, "effective_ms", where) is None:
        raise SpecError(
            f"{where}: flip needs effective_ms, the quantum that the kernel grants",
            "schedlab cpu sweep --precision finds it; or omit flip",
        )
    sched.pop("effective_ms", None)
    return Settings(
        processes=work.processes,
        duration_ns=None if work.seconds is None else int(work.seconds * 1e9),
        policy=policy_of(replace(candidate, settings=sched), work.priority),
        cpus=work.cpus,
        kernel=work.kernel,
    )


def policy_in(kind: WorkloadKind, candidate: Candidate) -> CpuPolicy:
    """The candidate's settings for a workload; SpecError or HostError for those that cannot be."""
    if isinstance(kind, Calculation):
        return settings_of(kind, candidate).policy
    return policy_of(candidate)


def measured(work: Calculation, candidate: Candidate, report: Callable[[str], None]) -> Outcome:
    """One run of all workers, with its bursts and its checks; `report` gets why not the best source
    of bursts was taken. The quantum of rr is set already."""
    settings = settings_of(work, candidate)
    with held(settings.job(), settings.policy) as crew:
        quantum, pids = Quantum.of(crew, settings.policy), pids_of(crew)
        capture = Capture(pids)
        began_ns = time.monotonic_ns()
        rows = ran(crew).groups[0].tasks
        bursts = capture.finish()
    for reason in bursts.passed_over:
        report(reason)
    return Outcome(
        _metrics(rows),
        _facts(settings, quantum, bursts, rows),
        tuple(_trouble(bursts, rows)),
        {
            "burst_ns": merge(task["histogram"] for task in bursts.tasks),
            "timeline": _timeline(bursts, pids, began_ns),
        },
    )


def _metrics(rows: Sequence[TaskResult]) -> dict[str, float]:
    counts = [row.count for row in rows]
    cpu_s = sum(row.calculation_cpu_ns for row in rows) / 1e9
    metrics = {"calculations": float(sum(counts)), "cpu_s": cpu_s}
    if cpu_s:
        metrics["calculations_per_cpu_s"] = sum(counts) / cpu_s
    if any(counts):
        metrics["fairness_jain"] = jain(counts)
    return metrics


def _facts(
    settings: Settings, quantum: Quantum, bursts: Bursts, rows: Sequence[TaskResult]
) -> dict[str, object]:
    cpu_ns, switches = _account(rows)
    facts: dict[str, object] = {
        **quantum.facts(settings.policy),
        "capture": bursts.method,
        "lost_records": bursts.lost,
        "untraced_starts": bursts.untraced_starts,
        "checks": [
            {"name": one.name, "found": one.found, "expected": one.expected}
            for one in check(bursts, cpu_ns, switches)
        ],
        "workers": [
            {
                "worker": number,
                "calculations": row.count,
                "cpu_burst_s": bursts.of(row.pid)["total_ns"] / 1e9
                if bursts.has_bursts
                else row.cpu_ns / 1e9,
                "bursts": bursts.of(row.pid)["bursts"],
                "voluntary_switches": row.voluntary_switches,
                "involuntary_switches": row.involuntary_switches,
            }
            for number, row in enumerate(rows)
        ],
    }
    if quantum.effective_ms is not None and settings.policy.policy == "rr":
        # n processes of equal priority: each waits for at most one quantum of every other.
        facts["longest_wait_ms"] = (settings.processes - 1) * quantum.effective_ms
    return facts


def _account(rows: Sequence[TaskResult]) -> tuple[int, int]:
    """CPU time and switches of all workers."""
    switches = sum(row.voluntary_switches + row.involuntary_switches for row in rows)
    return sum(row.cpu_ns for row in rows), switches


def _trouble(bursts: Bursts, rows: Sequence[TaskResult]) -> Iterator[GateFinding]:
    """Notes on this run for a careful reader; none of them makes the count wrong."""
    cpu_ns, switches = _account(rows)
    for one in check(bursts, cpu_ns, switches):
        # Each worker's last switch may come after its account was read.
        allowed = len(rows) / max(switches, 1) if one.unit == "bursts" else BURST_SUM_TOLERANCE
        if abs(one.deviation) > allowed:
            yield GateFinding("bursts", one.sentence(), fatal=False)
    if bursts.lost:
        yield GateFinding("bursts-lost", f"{bursts.lost} records were lost", fatal=False)


def _timeline(bursts: Bursts, pids: Sequence[int], began_ns: int) -> list[tuple[int, int, int]]:
    """Rows (worker, start, duration) in ns since the start, for the first seconds."""
    number = {pid: index for index, pid in enumerate(pids)}
    return [
        (number[task], max(0, end - length - began_ns), length)
        for end, length, task, *_ in bursts.records
        if task in number and end - began_ns <= TIMELINE_NS
    ]
