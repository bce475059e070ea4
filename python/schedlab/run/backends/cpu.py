"""Cells of a quantum experiment: workers on the running kernel, one quantum a cell.

Two designs. A *run* per cell: fresh workers, all their bursts captured. Or, with the workload's
parameter `flip`, one crew that lives as long as the session, whose quantum is flipped from cell to
cell (`cpu_flip`). Small effects need the second: the same precision comes much sooner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedlab.cpu.bursts import Bursts, Capture, check
from schedlab.cpu.crew import Quantum, held_crew, totals
from schedlab.cpu.settings import Settings
from schedlab.design.plan import arms
from schedlab.errors import HostError, SpecError, nearest
from schedlab.kinds import OVERRIDE, WorkloadKind
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.readers_together import jain
from schedlab.kinds.resolved import Outcome
from schedlab.run import gates
from schedlab.run.admitted import Admitted
from schedlab.run.backends.cpu_flip import FlipSession
from schedlab.run.backends.cpu_policies import PolicySession
from schedlab.run.backends.cpu_policy import policy_name, policy_of, time_ms
from schedlab.run.phases import closed_after
from schedlab.spec import Candidate, Cell, Experiment, GateFinding, Workload
from schedlab.spec.latency import merge

if TYPE_CHECKING:
    from schedlab._core import CpuCrew
    from schedlab.host.control import Control

# What a candidate sets; `effective_ms` is what the kernel makes of `slice_ms`.
SETTINGS = ("policy", "slice_ms", "effective_ms")
POLL_S = 0.1
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
    return Settings(
        processes=work.processes,
        duration_ns=None if work.seconds is None else int(work.seconds * 1e9),
        policy=policy_name(sched, where),
        priority=work.priority,
        slice_ms=time_ms(sched, "slice_ms", where),
        cpus=work.cpus,
        kernel=work.kernel,
    )


def check_candidates(experiment: Experiment, kinds: Mapping[tuple[str, str], WorkloadKind]) -> None:
    """SpecError or HostError for a candidate that cannot be measured on a workload.

    `kinds` are the workloads by label under each candidate. Calculations have their own sessions.
    """
    quanta = sum(isinstance(kind, Calculation) for kind in kinds.values())
    if 0 < quanta < len(kinds):
        raise SpecError(
            "a calculation cannot be measured together with other workloads",
            "write it into an experiment file of its own",
        )
    for (_, label), kind in kinds.items():
        candidate = next(arm for arm in arms(experiment) if arm.label == label)
        if isinstance(kind, Calculation):
            settings_of(kind, candidate)
        else:
            policy_of(candidate)


def work_of(admitted: Admitted, workload: Workload, candidate: Candidate) -> Calculation:
    """The typed parameters of a cell."""
    kind = admitted.kind(workload, candidate)
    assert isinstance(kind, Calculation)
    return kind


@contextlib.contextmanager
def open_session(
    admitted: Admitted, control: Control | None, report: Callable[[str], None]
) -> Iterator[RunSession | Flips | PolicySession]:
    """A session of fresh workers, of one group whose quantum is flipped, or of policies."""
    experiment = admitted.experiment
    if not all(isinstance(kind, Calculation) for kind in admitted.kinds.values()):
        if control is None:
            raise HostError("CPU policies are measured under host control only")
        policies = PolicySession(admitted, control, report)
        with closed_after(policies.close, report):
            policies.open()
            yield policies
        return
    workload = experiment.workloads[0]
    work = work_of(admitted, workload, experiment.candidates[0])
    if not work.flip:
        yield RunSession(admitted, control, report)
        return
    settings = replace(settings_of(work, experiment.candidates[0]), tell_slices=True)
    with held_crew(settings, control) as (crew, _):
        crew.start()
        yield Flips(admitted, control, crew)


class RunSession:
    """Fresh workers for every cell."""

    def __init__(
        self, admitted: Admitted, control: Control | None, report: Callable[[str], None]
    ) -> None:
        self.admitted = admitted
        self.control = control
        self.report = report
        self._reported: set[str] = set()

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One run of all workers under one quantum, with its bursts and its checks."""
        settings = settings_of(work_of(self.admitted, workload, candidate), candidate)
        before = gates.snapshot(None)
        with held_crew(settings, self.control) as (crew, quantum):
            pids = crew.pids()
            capture = Capture(pids)
            began_ns = time.monotonic_ns()
            crew.start()
            while not crew.wait(POLL_S):
                pass
            rows = totals(crew)
            bursts = capture.finish()
        after = gates.snapshot(None)
        for reason in bursts.passed_over:
            self._tell(reason)
        findings = (*gates.findings(before, after, None), *self._knobs(), *_trouble(bursts, rows))
        return Outcome(
            _metrics(rows),
            {**_facts(settings, quantum, bursts, rows), **gates.cpu_facts(before, after)},
            findings,
            {
                "burst_ns": merge(task["histogram"] for task in bursts.tasks),
                "timeline": _timeline(bursts, pids, began_ns),
            },
        )

    def _knobs(self) -> tuple[GateFinding, ...]:
        return self.control.check() if self.control else ()

    def _tell(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self.report(text)


class Flips:
    """The cells of one crew whose quantum is flipped."""

    def __init__(self, admitted: Admitted, control: Control | None, crew: CpuCrew) -> None:
        experiment = admitted.experiment
        self.admitted = admitted
        quanta = {float(c.settings["effective_ms"]): c for c in experiment.candidates}
        shortest = quanta[min(quanta)]
        neutral = settings_of(work_of(admitted, experiment.workloads[0], shortest), shortest)
        self._session = FlipSession(control, crew, tuple(quanta), neutral)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """The slices granted under the candidate's quantum."""
        work = work_of(self.admitted, workload, candidate)
        return self._session.measure(settings_of(work, candidate))


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    counts = [row["count"] for row in rows]
    cpu_s = sum(row["calculation_cpu_ns"] for row in rows) / 1e9
    metrics = {"calculations": float(sum(counts)), "cpu_s": cpu_s}
    if cpu_s:
        metrics["calculations_per_cpu_s"] = sum(counts) / cpu_s
    if any(counts):
        metrics["fairness_jain"] = jain(counts)
    return metrics


def _policy_facts(settings: Settings, quantum: Quantum) -> dict[str, Any]:
    return {
        "policy": settings.policy,
        "requested_slice_ms": quantum.requested_ms,
        "effective_slice_ms": quantum.effective_ms,
    }


def _facts(
    settings: Settings, quantum: Quantum, bursts: Bursts, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    cpu_ns, switches = _account(rows)
    facts = _policy_facts(settings, quantum) | {
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
                "calculations": row["count"],
                "cpu_burst_s": bursts.of(row["pid"])["total_ns"] / 1e9
                if bursts.has_bursts
                else row["cpu_ns"] / 1e9,
                "bursts": bursts.of(row["pid"])["bursts"],
                "voluntary_switches": row["voluntary_switches"],
                "involuntary_switches": row["involuntary_switches"],
            }
            for number, row in enumerate(rows)
        ],
    }
    if quantum.effective_ms is not None and settings.policy == "rr":
        # n processes of equal priority: each waits for at most one quantum of every other.
        facts["longest_wait_ms"] = (settings.processes - 1) * quantum.effective_ms
    return facts


def _account(rows: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """CPU time and switches of all workers."""
    switches = sum(row["voluntary_switches"] + row["involuntary_switches"] for row in rows)
    return sum(row["cpu_ns"] for row in rows), switches


def _trouble(bursts: Bursts, rows: Sequence[Mapping[str, Any]]) -> Iterator[GateFinding]:
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
