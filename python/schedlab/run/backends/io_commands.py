"""Cells of block I/O whose workload is a command: the order of its phases, its checks, its numbers.

One run: prepare under the scheduler as found → wait for quiet queues → switch → cache → start,
wait, sync → read back → end leftover processes → conclude → numbers out of the output.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from schedlab.design.plan import arms
from schedlab.errors import GateError, HostError, SpecError
from schedlab.host import processes
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.resolved import Outcome
from schedlab.run import gates, launch
from schedlab.run.confinement import Wall
from schedlab.run.drain import drain
from schedlab.run.failures import Failures
from schedlab.run.launch import Ended, WorkGroup
from schedlab.run.metrics_from_output import Reader, written_file
from schedlab.run.neighbours import DirtyPeak, foreign_reads, read_bytes_of
from schedlab.run.phases import clean_up, run_phase, set_up
from schedlab.run.workplace import WorkPlace
from schedlab.spec import Candidate, Cell, GateFinding, Workload
from schedlab.spec.quantities import duration_text

if TYPE_CHECKING:
    from schedlab.run.backends.io import IoSession

TIMEOUT_FACTOR, TIMEOUT_LEAST_S = 20.0, 60.0
SHORT_OF_LAUNCHES = 20
# Below this share of the command's own bytes, the work goes to another disk.
SHARE_ON_QUEUES = 0.05
IGNORED_BYTES = 1 << 20
CPU_BOUND = 0.9


@dataclass(frozen=True)
class Rehearsal:
    """Findings of one unmeasured run, under the scheduler that was set before."""

    elapsed_s: float
    cpu_share: float
    queue_bytes: Mapping[str, int]
    timeout_s: float
    values: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0

    def lines(self, label: str) -> list[str]:
        """Notes for the user."""
        moved = ", ".join(f"{n >> 10} KiB on {queue}" for queue, n in self.queue_bytes.items())
        values = "".join(f", {name} {value:g}" for name, value in self.values.items())
        lines = [
            f"{label}: rehearsed in {self.elapsed_s:.3g} s, {self.cpu_share:.0%} of it on a CPU, "
            f"{moved}{values}; a run ends after {self.timeout_s:g} s at the latest"
        ]
        if self.runs:
            together_s = self.runs * self.elapsed_s
            lines.append(f"{label}: {self.runs} runs take about {duration_text(together_s)}")
        if self.cpu_share >= CPU_BOUND:
            lines.append(
                f"{label}: {self.cpu_share:.0%} of its time is spent on the CPU: I/O schedulers "
                "can change little"
            )
        return lines


class CommandCells:
    """All runs of commands in one opening of the target."""

    def __init__(self, session: IoSession, report: Callable[[str], None]) -> None:
        self.session = session
        self.report = report
        self.control = session.control
        self.kinds: dict[str, Command] = {}
        for workload in session.admitted.experiment.workloads:
            kind = session.admitted.kind(workload, session.admitted.experiment.candidates[0])
            if isinstance(kind, Command):
                self.kinds[workload.label] = kind
        self.place = WorkPlace(self.control, session.admitted.experiment.target, session.target)
        self.wall = Wall(self.place.held)
        self.work = WorkGroup(self.control, "command", self.wall)
        self.standing = WorkGroup(self.control, "setup", self.wall)
        self.groups = launch.paths_of(self.work, self.standing)
        self.readers = {label: Reader(kind.output_metrics()) for label, kind in self.kinds.items()}
        self.rehearsals: dict[str, Rehearsal] = {}
        self.launch_cost_s = launch.launch_cost_s(self.wall)
        self._failures = Failures()
        self._number = 0

    def open(self) -> None:
        """Copy in, set up and rehearse every command, under the scheduler as found."""
        self.report(f"starting a program takes {self.launch_cost_s * 1e3:.2g} ms (in every time)")
        for label, kind in self.kinds.items():
            if reason := self.wall.missing:
                self.report(f"{label}: only the rights of its user hold it: {reason}")
            kind.check_room(label, self.session.target.size_bytes)
        self.place.open(self.kinds.values())
        for label, kind in self.kinds.items():
            set_up(self.control, label, kind, self._tokens(kind), self.standing)
        for label, kind in self.kinds.items():
            if kind.knows_its_time():
                self.report(f"{label}: {self._promise(kind.estimate_s())}")
            self.rehearsals[label] = self._rehearse(label, kind)
            for line in self.rehearsals[label].lines(label):
                self.report(line)

    def warm_up(self, candidates: Sequence[Candidate]) -> None:
        """The unmeasured runs of every candidate that commands ask for."""
        for workload in self.session.admitted.experiment.workloads:
            for candidate in candidates:
                kind = self.session.admitted.kind(workload, candidate)
                for _ in range(kind.warm_up if isinstance(kind, Command) else 0):
                    assert isinstance(kind, Command)
                    cell = Cell(-1, 0, workload.label, candidate.label, 0)
                    with contextlib.suppress(GateError):
                        self.measure(kind, cell, workload, candidate)

    def close(self) -> None:
        """Clean up, and end everything that was set up; HostError for cleanups that failed."""
        commands = ((label, kind, self._tokens(kind)) for label, kind in self.kinds.items())
        clean_up(self.control, commands, self.work, self.standing)

    def measure(
        self, kind: Command, cell: Cell, workload: Workload, candidate: Candidate
    ) -> Outcome:
        """One run; GateError where it could not take place as it should."""
        label, tokens = workload.label, self._tokens(kind, cell.seed)
        self.place.refresh(label, kind, cell.block, self.kinds.values())
        if kind.prepare_run:
            self.session.settings.as_found()
            run_phase(label, kind, "prepare", tokens, self.standing)
        quiet_s = drain(self.place.flushed, self._queues, kind.settle_s)
        effective = self.session.set_again(candidate)
        drops = gates.cache_drops()
        cached = self.place.set_cache(kind)
        servers_read = self._servers_read(kind)
        before, moved_before = (
            gates.snapshot(self.session.target.device, self.groups),
            _moved(self._queues),
        )
        began, dirty = time.time(), DirtyPeak()
        timeout_s = kind.timeout_s or self.rehearsals[label].timeout_s
        ended, synced_s = self._run(kind, tokens, timeout_s, dirty)
        after = gates.snapshot(self.session.target.device, self.groups)
        moved = {
            queue: (read - moved_before[queue][0], written - moved_before[queue][1])
            for queue, (read, written) in _moved(self._queues).items()
        }
        servers_read = self._servers_read(kind) - servers_read
        findings = [*self.control.check()]
        left = [name for _, name in self.work.members()]
        if not kind.keep_daemons:
            self.work.end()
        run_phase(label, kind, "conclude", tokens, self.standing)
        findings += gates.findings(before, after, None)
        if kind.cache == "warm":
            findings += gates.warm_findings(drops)
        findings += launch.noted(gates.neighbour_findings(before, after))
        own_read = ended.usage.get("own_read_bytes", 0.0) + max(servers_read, 0)
        reads = {queue: read for queue, (read, _) in moved.items()}
        is_complete = not (left or ended.timed_out or ended.output_exceeded)
        findings += [*foreign_reads(reads, own_read, is_complete), *dirty.findings()]
        outcome = self._outcome(kind, label, ended, synced_s, began, findings)
        self._failures.note(label, candidate.label, kind, ended)
        facts = {
            **gates.cpu_facts(before, after),
            **outcome.properties,
            "effective": effective,
            "cache": cached,
            "drain_s": quiet_s,
            "left_behind": [] if kind.keep_daemons else left,
            "timeout_s": timeout_s,
            "launch_cost_s": self.launch_cost_s,
            "rehearsed_s": self.rehearsals[label].elapsed_s,
            "moved_bytes": {queue: list(each) for queue, each in moved.items()},
            "dirty_peak_bytes": dirty.peak_bytes,
            "dirty_background_bytes": dirty.limit_bytes,
        }
        bytes_moved = {"read_bytes": float(sum(r for r, _ in moved.values())),
                       "written_bytes": float(sum(w for _, w in moved.values()))}  # fmt: skip
        return replace(outcome, metrics={**outcome.metrics, **bytes_moved}, properties=facts)

    def description(self, label: str, kind: Command) -> dict[str, Any]:
        """Facts of a command that are the same in all its runs."""
        rehearsal = self.rehearsals[label]
        return {
            "environment": kind.environment_facts(),
            "confinement": self.wall.facts(kind),
            "rehearsal": {"cpu_share": rehearsal.cpu_share, "bytes": dict(rehearsal.queue_bytes)},
        }

    def _servers_read(self, kind: Command) -> int:
        """Bytes that what was set up, and the servers by name, had read."""
        named = (pid for server in kind.servers for pid in processes.called(server))
        return read_bytes_of({*named, *(pid for pid, _ in self.standing.members())})

    def _run(
        self,
        kind: Command,
        tokens: Mapping[str, Any],
        timeout_s: float | None,
        dirty: DirtyPeak | None = None,
    ) -> tuple[Ended, float]:
        """(how it ended, seconds until its dirty data was on the device)."""
        dirty = dirty or DirtyPeak()
        started = launch.launch_of(kind, "", tokens, self.work, timeout_s=timeout_s)
        ended = launch.run(started, self.work, dirty.look)
        began = time.monotonic()
        self.place.flush()
        sync_s = time.monotonic() - began if kind.sync == "inside" else 0.0
        self.place.let_go()
        return ended, ended.elapsed_s + sync_s

    def _outcome(
        self,
        kind: Command,
        label: str,
        ended: Ended,
        synced_s: float,
        began_s: float,
        findings: Sequence[GateFinding],
    ) -> Outcome:
        """Metrics, bounds and gates of a run, however it ended."""
        gates_found = [*findings]
        bounds: dict[str, str] = {}
        output = {"out": launch.ends_of(ended.stdout), "err": launch.ends_of(ended.stderr)}
        facts: dict[str, Any] = {"status": ended.status, "signal": ended.signal}
        if ended.output_exceeded:
            text = f"it printed more than {kind.output_limit_bytes} bytes"
            gates_found.append(GateFinding("output", text))
        if ended.timed_out:
            timeout_s = kind.timeout_s or self.rehearsals[label].timeout_s
            metrics = {"elapsed_s": timeout_s, "elapsed_synced_s": timeout_s}
            bounds = dict.fromkeys(metrics, "at-least")
            text = f"it was still running after {timeout_s:g} s and counts with that time"
            gates_found.append(GateFinding("limit", text, fatal=False))
            if (name := _primary(self.session, label)) not in metrics:
                gates_found.append(GateFinding("exit-status", f"{text}; {name} is missing"))
            return Outcome(metrics, {**facts, "censored": True}, tuple(gates_found), bounds=bounds,
                           output=output)  # fmt: skip
        failure = ended.failure(kind.ok_exit)
        if failure:
            text = f"{failure}: {ended.last_lines(1)[:200]}".rstrip(": ")
            gates_found.append(GateFinding("exit-status", text, fatal=not kind.ignore_exit))
        read = written_file(self.place.directory, began_s)
        values, bounds, missing = self._values(kind, label, ended, read)
        gates_found += [] if failure and not kind.ignore_exit else missing
        usage = {k: v for k, v in ended.usage.items() if not k.startswith("own_")}
        facts["cpu_share"] = usage.get("cpu_s", 0.0) / max(ended.elapsed_s, 1e-9)
        if ended.elapsed_s < SHORT_OF_LAUNCHES * self.launch_cost_s:
            text = f"{ended.elapsed_s:.2g} s is less than {SHORT_OF_LAUNCHES} times a start"
            gates_found.append(GateFinding("too-short", text, fatal=False))
        metrics = {"elapsed_s": ended.elapsed_s, "elapsed_synced_s": synced_s, **usage, **values}
        return Outcome(metrics, facts, tuple(gates_found), bounds=bounds, output=output)

    def _values(
        self, kind: Command, label: str, ended: Ended, read: Callable[[str], bytes | None]
    ) -> tuple[dict[str, float], dict[str, str], list[GateFinding]]:
        """Numbers out of the output: (value by metric, bounds, gates that did not hold)."""
        values, missing = self.readers[label].read(ended.stdout, ended.stderr, read)
        if not isinstance(kind, FioJob):
            return values, {}, missing
        try:
            metrics, bounds = kind.values_of(ended.stdout)
        except SpecError as error:
            return values, {}, [*missing, GateFinding("no-value", str(error))]
        return {**values, **metrics}, bounds, missing

    def _rehearse(self, label: str, kind: Command) -> Rehearsal:
        """One run, not measured: does it start, end, print its metrics and use the queues?"""
        tokens = self._tokens(kind)
        run_phase(label, kind, "prepare", tokens, self.standing)
        drain(self.place.flushed, self._queues, kind.settle_s)
        self.place.set_cache(kind)
        before = _moved(queues_of_all())
        began = time.time()
        ended, synced_s = self._run(kind, tokens, kind.timeout_s or None)
        everywhere = _moved(before)
        seen = {queue: sum(now) - sum(before[queue]) for queue, now in everywhere.items()}
        moved = {queue: seen.pop(queue) for queue in self._queues}
        if not kind.keep_daemons and (left := self.work.end()):
            self.report(f"{label}: still running and ended: {', '.join(sorted(set(left)))}")
        run_phase(label, kind, "conclude", tokens, self.standing)
        if ended.timed_out:
            raise HostError(
                f"{label}: was still running after its --timeout of {kind.timeout_s:g} s, in the "
                "rehearsal already",
                "use a longer --timeout",
            )
        if ended.output_exceeded:
            raise HostError(
                f"{label}: printed more than {kind.output_limit_bytes} bytes in the rehearsal",
                "print less, or raise --output-limit",
            )
        if failure := ended.failure(kind.ok_exit):
            self._rehearsal_failed(kind, label, failure, ended)
        read = written_file(self.place.directory, began)
        values, _, missing = self._values(kind, label, ended, read)
        if missing:
            raise HostError(f"{label}: in the rehearsal {missing[0].detail}",
                            "correct --metric; this is what the command printed")  # fmt: skip
        self._check_metric(label, values)
        self._check_queues(label, kind, ended, moved, seen)
        timeout_s = kind.timeout_s or max(TIMEOUT_FACTOR * synced_s, TIMEOUT_LEAST_S)
        share = ended.usage.get("cpu_s", 0.0) / max(ended.elapsed_s, 1e-9)
        return Rehearsal(synced_s, share, moved, timeout_s, values, self._runs())

    def _check_metric(self, label: str, values: Mapping[str, float]) -> None:
        """HostError when the metric that decides is missing: no run could be used."""
        name = _primary(self.session, label)
        if name not in values and name not in self.kinds[label].metrics:
            near = difflib.get_close_matches(name, values, 3) or list(values)
            raise HostError(
                f"{label}: the rehearsal gave no {name}, the metric that decides",
                f"--metric with one of {', '.join(near) or 'elapsed, cpu'}",
            )

    def _rehearsal_failed(self, kind: Command, label: str, failure: str, ended: Ended) -> None:
        """One failure is tolerated; a command that fails twice cannot be measured."""
        if kind.ignore_exit:
            return
        again, _ = self._run(kind, self._tokens(kind), kind.timeout_s or None)
        self.work.end()
        if again.failure(kind.ok_exit) or again.timed_out:
            raise HostError(
                f"{label}: {failure} in the rehearsal:\n{ended.last_lines(20)}",
                "run it by hand in that directory, as that user; or allow it: --ok-exit STATUS",
            )
        self.report(f"{label}: {failure} in the rehearsal and succeeded when repeated")

    def _check_queues(
        self,
        label: str,
        kind: Command,
        ended: Ended,
        moved: Mapping[str, int],
        elsewhere: Mapping[str, int],
    ) -> None:
        """HostError when the command's I/O does not reach the queues that are switched."""
        if kind.anyway or not self.session.queues:
            return
        on_queues = sum(moved.values())
        own = ended.usage.get("own_read_bytes", 0.0) + ended.usage.get("own_dirtied_bytes", 0.0)
        if isinstance(kind, FioJob):
            own = max(own, kind.claimed_bytes(ended.stdout))
        names = ", ".join(moved)
        if on_queues == 0:
            raise HostError(
                f"{label}: moved nothing on {names}: a scheduler there cannot affect it",
                "work in @dir@, use --cache cold, or measure it anyway: --anyway",
            )
        if own > IGNORED_BYTES and on_queues < SHARE_ON_QUEUES * own:
            # A disk and a device on it move about the same: name both.
            nearest = sorted(elsewhere, key=lambda queue: abs(elsewhere[queue] - own))[:2]
            nearest = [q for q in nearest if q == nearest[0] or elsewhere[q] > own / 2]
            most = "".join(f"; {queue} moved {elsewhere[queue] >> 10} KiB" for queue in nearest)
            raise HostError(
                f"{label}: moved {int(own) >> 10} KiB, of which {on_queues >> 10} KiB were on "
                f"{names}{most}",
                "its files are elsewhere: use @dir@ in the command, or --anyway",
            )

    def _promise(self, run_s: float) -> str:
        """How long all runs take by the options of the work."""
        runs = self._runs()
        together = f", and {runs} runs about {duration_text(runs * run_s)}" if runs else ""
        return f"by its options the rehearsal takes {duration_text(run_s)}{together}"

    def _runs(self) -> int:
        """How many runs are planned; 0 where the data decides."""
        experiment = self.session.admitted.experiment
        if experiment.stopping.mode != "fixed":
            return 0
        return experiment.stopping.blocks * len(arms(experiment))

    def _tokens(self, kind: Command, seed: int = 0) -> dict[str, Any]:
        self._number += 1
        device = self.wall.device_path(kind) or str(self.session.target.raw_path)
        return {"dir": self.place.directory, "device": device, "run": f"{self._number:06d}",
                "seed": f"{seed:020d}"}  # fmt: skip

    @property
    def _queues(self) -> tuple[str, ...]:
        device = self.session.target.device
        return self.session.queues or ((device,) if device else ())


def queues_of_all() -> tuple[str, ...]:
    """Every block device with counters."""
    return tuple(path.name for path in gates.BLOCK.iterdir() if (path / "stat").exists())


def _moved(queues: Iterable[str]) -> dict[str, tuple[int, int]]:
    moved = {}
    for queue in queues:
        with contextlib.suppress(OSError):  # another's device may go meanwhile
            moved[queue] = gates.device_bytes(queue)
    return moved


def _primary(session: IoSession, label: str) -> str:
    workloads = session.admitted.experiment.workloads
    return next(each.metric for each in workloads if each.label == label)
