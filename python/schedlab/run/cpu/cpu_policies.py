"""Cells of a comparison of CPU policies: tasks of a built-in workload, or a command, beside a load.

The candidate's policy is set on the work, the load or both; the effective policy is read
back from every task. All knobs and cgroups are journalled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.cpu.crew import ended, held, ran
from schedlab.cpu.policy import POLICIES, REAL_TIME, CpuPolicy
from schedlab.design.plan import arms
from schedlab.errors import SpecError
from schedlab.host.settings.control_groups import cpu_hierarchy
from schedlab.kinds.calculation import Calculation
from schedlab.kinds.cpu_command import CpuCommand
from schedlab.kinds.cpu_mix import HOG_WORK_NS, CpuMixKind, TaskGroup
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Cell, GateFinding, Workload
from schedlab.nouns.load_result import CrewResult
from schedlab.run import gates
from schedlab.run.admitted import Admitted
from schedlab.run.candidate_settings import CandidateSettings
from schedlab.run.command import launch
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.confinement import Wall
from schedlab.run.cpu.cpu_calculations import measured, policy_in
from schedlab.run.cpu.cpu_explain import RunQueueWatch, Waiting
from schedlab.run.cpu.cpu_ext import loaded
from schedlab.run.cpu.cpu_notes import host_facts, notes_of
from schedlab.run.cpu.cpu_policy import refuse_locked

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control
    from schedlab.kinds.launching import Tokens

BeforeStart = Callable[[Sequence[tuple[int, int]]], None]
PROBE_S = 0.02
POLICY_SHARE_MIN = 0.99
POLICY_LOOK_S = 1.0
# The load outlasts its command, which may take some seconds to end at its limit. A limit of
# centuries would not fit into the clock.
LOAD_MARGIN_S, LOAD_S_MAX = 60.0, 1e9

DEFAULT_WEIGHT = 100
SHARES_PER_WEIGHT = 1024 / DEFAULT_WEIGHT
PERIOD_US = 100_000


class PolicySession:
    """All cells of one opening."""

    def __init__(self, admitted: Admitted, control: Control, report: Callable[[str], None]) -> None:
        self.admitted = admitted
        self.control = control
        self.report = report
        self.policies = {
            (workload, arm.label): policy_in(kind, arm)
            for arm in arms(admitted.experiment)
            for (workload, label), kind in admitted.kinds.items()
            if label == arm.label
        }
        self.settings = CpuSettings(control, self.policies.values())
        self.runs = CommandRuns(control, Wall(), admitted.kinds.values())
        has_ext = any(policy.policy == "ext" for policy in self.policies.values())
        self.schedulers = launch.WorkGroup(control, "scheduler") if has_ext else None
        self._told: set[str] = set()

    @property
    def groups(self) -> tuple[Path, ...]:
        """The cgroups of commands and of what loads schedulers."""
        loaders = (self.schedulers,) if self.schedulers else ()
        return (*self.runs.groups, *launch.paths_of(*loaders))

    def open(self) -> None:
        """Set every candidate once on tasks that hardly run, and rehearse commands."""
        kinds = self.admitted.kinds.values()
        for note in notes_of(list(self.policies.values()), kinds):
            if note not in self.admitted.experiment.notes:
                self.report(note)
        commands: dict[str, CpuCommand] = {}
        for workload in self.admitted.experiment.workloads:
            for candidate in arms(self.admitted.experiment):
                kind = self.admitted.kind(workload, candidate)
                if isinstance(kind, CpuMixKind):
                    self._probe(kind, self.policies[workload.label, candidate.label])
                elif isinstance(kind, CpuCommand):
                    commands[workload.label] = kind
        for label, command in commands.items():
            self._rehearse(label, command)
            self._warm_up(label, command)

    def close(self) -> None:
        """End what commands started, after their cleanup; HostError for cleanups that failed."""
        first = self.admitted.experiment.candidates[0]
        kinds = {w.label: self.admitted.kind(w, first) for w in self.admitted.experiment.workloads}
        commands = ((label, kind, self._tokens(kind)) for label, kind in kinds.items()
                    if isinstance(kind, CpuCommand))  # fmt: skip
        self.runs.clean_up(commands)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One run of a workload under a candidate."""
        kind = self.admitted.kind(workload, candidate)
        policy = self.policies[workload.label, candidate.label]
        knobs = self.settings.apply(policy)
        with loaded(self.schedulers, policy) as (effective_policy, scheduler):
            before = gates.snapshot(None, self.groups)
            if isinstance(kind, CpuCommand):
                outcome = self._command(
                    workload, kind, effective_policy, cell.seed, candidate.label
                )
            elif isinstance(kind, Calculation):
                outcome = measured(kind, candidate, self._tell)
            else:
                assert isinstance(kind, CpuMixKind)
                if cell.seconds and not kind.is_finite:
                    import msgspec

                    kind = msgspec.structs.replace(kind, seconds=cell.seconds)
                outcome = self._mix(kind, effective_policy, cell.seed)
            after = gates.snapshot(None, self.groups)
            ejected = scheduler.findings() if scheduler else ()
        findings = (
            *ejected,
            *outcome.gates,
            *self.control.check(),
            *gates.findings(before, after, None),
            *launch.noted(gates.neighbour_findings(before, after)),
        )
        facts = {
            **gates.cpu_facts(before, after),
            **outcome.properties,
            "knobs": knobs,
            "sched_ext": scheduler.name if scheduler else "",
            "host": host_facts(),
            "requested": dict(candidate.settings),
        }
        return replace(outcome, gates=findings, properties=facts)

    def _tell(self, text: str) -> None:
        """Once, however many runs say it."""
        if text not in self._told:
            self._told.add(text)
            self.report(text)

    def _mix(self, kind: CpuMixKind, policy: CpuPolicy, seed: int) -> Outcome:
        result = self._run_mix(kind, policy, seed, kind.ramp_seconds, kind.seconds)
        outcome = kind.outcome(result)
        roles = kind.task_groups(len(_cpus(kind)))
        covered = [result.of(g.name).attributes for g in roles if policy.covers(g.is_load)]
        tasks = [row for rows in covered for row in rows]
        share = _share_under(policy, tasks)
        gate = _policy_gate(policy, share)
        effective = dict(zip(("policy", "nice", "priority", "slice_ns"), tasks[0], strict=True)
                         ) if tasks else {}  # fmt: skip
        return replace(
            outcome,
            gates=(*outcome.gates, *gate),
            properties={**outcome.properties, "effective": effective, "policy_share": share},
        )

    def explain(self, workload: Workload, candidate: Candidate) -> tuple[list[Waiting], str]:
        """One more run of a built-in workload, traced: (waits for a CPU, why there are none)."""
        kind = self.admitted.kind(workload, candidate)
        policy = self.policies[workload.label, candidate.label]
        if not isinstance(kind, CpuMixKind):
            return [], "--explain supports only built-in workloads"
        self.settings.apply(policy)
        watches: list[RunQueueWatch] = []
        is_load = [group.is_load for group in kind.task_groups(len(_cpus(kind)))]

        def watch(pids: Sequence[tuple[int, int]]) -> None:
            watches.append(RunQueueWatch(pids, is_load))

        with loaded(self.schedulers, policy) as (effective_policy, _):
            self._run_mix(kind, effective_policy, 1, kind.ramp_seconds, kind.seconds, watch)
        return watches[0].finish(), watches[0].problem

    def _probe(self, kind: CpuMixKind, policy: CpuPolicy) -> None:
        """HostError now for a refused policy, instead of in the first run."""
        cpus = set(_cpus(kind))
        hogs = sum(g.tasks for g in kind.task_groups(len(cpus)) if g.is_load)
        refuse_locked(policy, cpus, hogs)
        if policy.policy == "deadline" and kind.forks:
            raise SpecError("deadline: the kernel lets no DEADLINE task fork", "use fifo or rr")
        self.settings.apply(policy)
        with loaded(self.schedulers, policy) as (effective_policy, _):
            self._run_mix(kind, effective_policy, 1, 0.0, PROBE_S)

    def _run_mix(
        self,
        kind: CpuMixKind,
        policy: CpuPolicy,
        seed: int,
        ramp_s: float,
        window_s: float,
        before_start: BeforeStart = lambda pids: None,
    ) -> CrewResult:
        cpus = _cpus(kind)
        groups = [self._group(group, policy, len(cpus)) for group in kind.task_groups(len(cpus))]
        job = {
            "groups": groups,
            "ramp_ns": int(ramp_s * 1e9),
            "window_ns": int(window_s * 1e9),
            "cpus": list(kind.cpus),
            "seed": seed,
        }
        with held(job, policy) as crew:
            before_start(crew.pids())
            return ran(crew)

    def _group(self, group: TaskGroup, policy: CpuPolicy, cpu_count: int) -> dict[str, object]:
        """A group of the job, under the candidate where it covers that side."""
        covered = policy.covers(group.is_load)
        tasks = group.tasks * (int(group.role.get("workers", 0)) + 1)
        spec: dict[str, object] = {
            "name": group.name,
            "role": {k: v for k, v in group.role.items() if v is not None},
            "tasks": group.tasks,
            "own_sessions": covered and policy.autogroup == "own",
            "cgroups": list(self._cgroup(group, policy, covered)),
        }
        given = policy if covered else CpuPolicy()
        return {**spec, "scheduling": given.attributes(tasks, cpu_count)}

    def _cgroup(self, group: TaskGroup, policy: CpuPolicy, covered: bool) -> Sequence[str]:
        if group.weight:
            if covered and policy.policy in REAL_TIME:
                raise SpecError(f"{policy.policy} tasks ignore weights", "compare other and batch")
            return self.settings.group(group.cgroup, group.weight, policy.max, policy.group_idle)
        if not policy.uses_groups:
            return ()
        name = "load" if group.is_load else "work"
        if not covered:
            return self.settings.group(name, DEFAULT_WEIGHT)
        return self.settings.group(
            name, policy.weight or DEFAULT_WEIGHT, policy.max, policy.group_idle
        )

    def _command(
        self,
        workload: Workload,
        kind: CpuCommand,
        policy: CpuPolicy,
        seed: int,
        candidate: str,
    ) -> Outcome:
        """A command under the policy, beside its load."""
        label, tokens = workload.label, self._tokens(kind, seed)
        self.runs.phase(label, kind, "prepare", tokens)
        covered = policy.covers(is_load=False)
        cpu_count = len(kind.cpus or os.sched_getaffinity(0))
        groups = TaskGroup("work", {}, 1)
        options: dict[str, object] = {
            "cpus": kind.cpus,
            "timeout_s": self.runs.limit_s(label, kind),
        }
        # Without a cgroup, its session is how its processes are found again.
        options["same_session"] = bool(policy.autogroup == "shared" and self.runs.work.path)
        if covered:
            options["scheduling"] = policy.attributes(1, cpu_count)
        group = launch.WorkGroup.joining(self.runs.work, self._cgroup(groups, policy, covered))
        began, watch = time.time(), PolicyWatch(self.runs.work, policy)
        order = launch.launch_of(kind, "", tokens, group, **options)
        with self._load(label, kind, policy) as load:
            ended = launch.run(order, group, watch.look)
        left = [] if kind.keep_daemons else self.runs.work.end()
        self.runs.phase(label, kind, "conclude", tokens)
        self.runs.failures.note(label, candidate, kind, ended)
        outcome = self.runs.outcome(workload, kind, ended, tokens["dir"], began)
        metrics = dict(outcome.metrics)
        if load and load[0]:
            metrics["load_work_per_s"] = load[0]
        share = watch.share if covered else 1.0
        return replace(
            outcome,
            metrics=metrics,
            gates=(*outcome.gates, *_policy_gate(policy, share)),
            properties={
                **outcome.properties,
                "policy_share": share,
                "left_behind": left,
                "session": "shared" if options["same_session"] else "own",
            },
        )

    def _warm_up(self, label: str, kind: CpuCommand) -> None:
        """The unmeasured runs of every candidate that a command asks for."""
        workload = next(w for w in self.admitted.experiment.workloads if w.label == label)
        for candidate in arms(self.admitted.experiment) if kind.warm_up else ():
            policy = self.policies[workload.label, candidate.label]
            self.settings.apply(policy)
            with loaded(self.schedulers, policy) as (effective_policy, _):
                for _ in range(kind.warm_up):
                    self._command(workload, kind, effective_policy, 0, candidate.label)

    def _rehearse(self, label: str, kind: CpuCommand) -> None:
        """Set up, then one run that is not measured."""
        self.runs.set_up(label, kind, self._tokens(kind))
        tokens = self._tokens(kind)
        self.runs.phase(label, kind, "prepare", tokens)
        began = time.time()
        started = launch.launch_of(
            kind, "", tokens, self.runs.work, cpus=kind.cpus, timeout_s=kind.timeout_s or None
        )
        ended = launch.run(started, self.runs.work)
        self.runs.work.end()
        self.runs.phase(label, kind, "conclude", tokens)
        workload = Workload(label, kind.kind, "elapsed_s")
        outcome = self.runs.outcome(workload, kind, ended, tokens["dir"], began)
        self.runs.refuse(label, kind, ended, outcome)
        limit_s = self.runs.rehearsed(label, kind, ended.elapsed_s)
        self.report(
            f"{label}: rehearsed in {ended.elapsed_s:.3g} s, "
            f"{outcome.properties['cpu_share']:.0%} of it on a CPU; a run ends after {limit_s:g} s "
            "at the latest"
        )

    def _tokens(self, kind: CpuCommand, seed: int = 0) -> Tokens:
        return self.runs.tokens(Path(kind.directory or ".").resolve(), seed=seed)

    @contextmanager
    def _load(self, label: str, kind: CpuCommand, policy: CpuPolicy) -> Iterator[list[float]]:
        """Hogs beside a command; their work per second is in the list afterwards."""
        work: list[float] = []
        if not kind.load:
            yield work
            return
        cpus = set(kind.cpus or os.sched_getaffinity(0))
        refuse_locked(policy, cpus, kind.load)
        window_s = min(self.runs.limit_s(label, kind) + LOAD_MARGIN_S, LOAD_S_MAX)
        group = TaskGroup("load", {"kind": "hog", "work_ns": HOG_WORK_NS}, kind.load, is_load=True)
        job = {
            "groups": [self._group(group, policy, len(cpus))],
            "window_ns": int(window_s * 1e9),
            "cpus": list(kind.cpus),
        }
        with held(job, policy) as crew:
            crew.start()
            yield work
            result = ended(crew)
        work.append(result.groups[0].units / max(result.window_s, 1e-9))


class PolicyWatch:
    """The least share of a command's threads under the policy: at the start and once a second."""

    def __init__(self, group: launch.WorkGroup, policy: CpuPolicy) -> None:
        self.share = 1.0
        self._group, self._policy = group, policy
        self._due = 0.0

    def look(self) -> None:
        """Read the threads, if it is time."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + POLICY_LOOK_S
        self.share = min(self.share, _share_under(self._policy, [*_threads(self._group)]))


def _threads(group: launch.WorkGroup) -> Iterator[tuple[int, int, int, int]]:
    from schedlab import _core

    for pid, _ in group.members():
        for task in Path(f"/proc/{pid}/task").glob("*"):
            scheduling = _core.scheduling_of(int(task.name))
            if scheduling is not None:
                yield scheduling


def _share_under(policy: CpuPolicy, rows: Sequence[Sequence[int]]) -> float:
    """The share of tasks with the requested policy and nice value or priority."""
    if not rows:
        return 1.0
    number = POLICIES[policy.policy].number
    real_time = policy.policy in REAL_TIME

    def fits(row: Sequence[int]) -> bool:
        same = row[2] == policy.priority if real_time else row[1] == policy.nice
        return row[0] == number and (same or policy.policy in ("deadline", "idle", "ext"))

    return sum(map(fits, rows)) / len(rows)


def _policy_gate(policy: CpuPolicy, share: float) -> tuple[GateFinding, ...]:
    if share >= POLICY_SHARE_MIN:
        return ()
    text = f"only {share:.0%} of the tasks had the requested policy {policy.policy}"
    return (GateFinding("policy-changed", text),)


def _cpus(kind: CpuMixKind) -> tuple[int, ...]:
    return kind.cpus or tuple(sorted(os.sched_getaffinity(0)))


class CpuSettings:
    """The settings of the machine that any candidate has, and cpu cgroups of ours."""

    def __init__(self, control: Control, policies: Iterable[CpuPolicy]) -> None:
        self.control = control
        self._settings = CandidateSettings(control, (), map(_of_host, policies))
        self._groups: dict[str, Path] = {}

    def apply(self, policy: CpuPolicy) -> Mapping[str, str]:
        """Set the candidate's settings, and all others as they were found; what they read now."""
        return self._settings.apply(_of_host(policy))[0]

    def group(self, name: str, weight: int, limit: str = "", idle: bool = False) -> Sequence[str]:
        """A cpu cgroup of ours with these settings; the file through which tasks join."""
        path = self._groups.get(name)
        if path is None:
            path = self._groups[name] = self.control.cgroup(f"cpu-{name}", root=cpu_hierarchy())
        quota, _, period = limit.partition("/")
        if (path / "cpu.shares").exists():
            values = {"cpu.shares": str(max(2, round(weight * SHARES_PER_WEIGHT)))}
            values["cpu.cfs_period_us"] = period or str(PERIOD_US)
            values["cpu.cfs_quota_us"] = quota or "-1"
        else:
            values = {"cpu.weight": str(weight)}
            values["cpu.max"] = f"{quota or 'max'} {period or PERIOD_US}"
        if idle:  # an idle group takes no weight
            values = {k: v for k, v in values.items() if k not in ("cpu.shares", "cpu.weight")}
        self.control.write_knob(path / "cpu.idle", str(int(idle)))
        for file, text in values.items():
            self.control.write_knob(path / file, text)
        return [str(path / "cgroup.procs")]


def _of_host(policy: CpuPolicy) -> Candidate:
    """The settings of the whole machine among the candidate's."""
    return Candidate(policy.policy, policy.host_settings)
