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
from typing import TYPE_CHECKING

from schedlab.design.plan import arms
from schedlab.errors import GateError, HostError
from schedlab.host import processes
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.resolved import Outcome
from schedlab.nouns import Candidate, Cell, GateFinding, Workload
from schedlab.nouns.durability import METRICS
from schedlab.nouns.quantities import counted, duration_text
from schedlab.run import gates
from schedlab.run.command import launch
from schedlab.run.command.command_runs import CommandRuns
from schedlab.run.command.confinement import Wall
from schedlab.run.command.launch import Ended
from schedlab.run.command.workplace import WorkPlace
from schedlab.run.io import durability
from schedlab.run.io.drain import drain
from schedlab.run.io.durability import Durable, Watched
from schedlab.run.io.neighbours import DirtyPeak, foreign_reads, read_bytes_of

if TYPE_CHECKING:
    from schedlab.kinds.launching import Tokens
    from schedlab.run.io.io import IoSession

SHORT_OF_LAUNCHES = 20
# Below this share of the command's own bytes, the work goes to another disk.
SHARE_ON_QUEUES = 0.05
IGNORED_BYTES = 1 << 20
CPU_BOUND = 0.9


@dataclass(frozen=True)
class Ran:
    """How a command ended, seconds until its dirty data was on the device, its calls of fsync."""

    ended: Ended
    synced_s: float
    durable: Durable | None = None


@dataclass(frozen=True)
class Rehearsal:
    """Findings of one unmeasured run, under the scheduler that was set before."""

    elapsed_s: float
    cpu_share: float
    queue_bytes: Mapping[str, int]
    timeout_s: float
    values: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0
    syncs: int = 0

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
        if self.syncs:
            lines.append(f"{label}: it waited {counted(self.syncs, 'time')} for durable data")
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
        self.runs = CommandRuns(self.control, self.wall, self.kinds.values())
        self.rehearsals: dict[str, Rehearsal] = {}
        self.launch_cost_s = launch.launch_cost_s(self.wall)
        self._syncs: Watched | None = None
        self._no_syncs = ""  # why there is no capture of them

    def open(self) -> None:
        """Copy in, set up and rehearse every command, under the scheduler as found."""
        self.report(f"starting a program takes {self.launch_cost_s * 1e3:.2g} ms (in every time)")
        for label, kind in self.kinds.items():
            if reason := self.wall.missing:
                self.report(f"{label}: only the rights of its user hold it: {reason}")
            kind.check_room(label, self.session.target.size_bytes)
        self.place.open(self.kinds.values())
        for label, kind in self.kinds.items():
            if isinstance(kind, FioJob):
                kind.check_files(label, self.place.directory, is_ours=True)
        places = durability.places_of(self._queues, self.place.directory)
        # Before anything starts: a server of the setup is followed from its first process on.
        self._syncs, self._no_syncs = durability.watch(places, follow=True)
        workloads = {each.label: each for each in self.session.admitted.experiment.workloads}
        for label, kind in self.kinds.items():
            self.runs.set_up(label, kind, self._tokens(kind))
        for label, kind in self.kinds.items():
            if kind.knows_its_time():
                self.report(f"{label}: {self._promise(kind.estimate_s())}")
            self.rehearsals[label] = self._rehearse(workloads[label], kind)
            if isinstance(kind, FioJob):
                kind.mark_files(self.place.directory)
            for line in self.rehearsals[label].lines(label):
                self.report(line)
        if not any(rehearsal.syncs for rehearsal in self.rehearsals.values()):
            self._syncs = None  # each system call of the machine costs a little more meanwhile

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
        self.runs.clean_up(commands)
        self._syncs = None

    def measure(
        self, kind: Command, cell: Cell, workload: Workload, candidate: Candidate
    ) -> Outcome:
        """One run; GateError where it could not take place as it should."""
        label, tokens = workload.label, self._tokens(kind, cell.seed)
        self.place.refresh(label, kind, cell.block, self.kinds.values())
        if kind.prepare_run:
            self.session.settings.as_found()
            self.runs.phase(label, kind, "prepare", tokens)
        quiet_s = drain(self.place.flushed, self._queues, kind.settle_s)
        effective = self.session.set_again(candidate)
        drops = gates.cache_drops()
        cached = self.place.set_cache(kind)
        servers_read = self._servers_read(kind)
        before, moved_before = (
            gates.snapshot(self.session.target.device, self.runs.groups),
            _moved(self._queues),
        )
        began, dirty = time.time(), DirtyPeak()
        timeout_s = self.runs.limit_s(label, kind)
        ran = self._run(kind, tokens, timeout_s, dirty)
        ended = ran.ended
        after = gates.snapshot(self.session.target.device, self.runs.groups)
        moved = {
            queue: (read - moved_before[queue][0], written - moved_before[queue][1])
            for queue, (read, written) in _moved(self._queues).items()
        }
        servers_read = self._servers_read(kind) - servers_read
        findings = [*self.control.check()]
        left = [name for _, name in self.runs.work.members()]
        if not kind.keep_daemons:
            self.runs.work.end()
        self.runs.phase(label, kind, "conclude", tokens)
        findings += gates.findings(before, after, None)
        if kind.cache == "warm":
            findings += gates.warm_findings(drops)
        findings += launch.noted(gates.neighbour_findings(before, after))
        own_read = ended.usage.get("own_read_bytes", 0.0) + max(servers_read, 0)
        reads = {queue: read for queue, (read, _) in moved.items()}
        is_complete = not (left or ended.timed_out or ended.output_exceeded)
        findings += [*foreign_reads(reads, own_read, is_complete), *dirty.findings()]
        outcome = self._outcome(workload, kind, ran, began)
        self.runs.failures.note(label, candidate.label, kind, ended)
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
        return replace(outcome, metrics={**outcome.metrics, **bytes_moved}, properties=facts,
                       gates=(*findings, *outcome.gates))  # fmt: skip

    def description(self, label: str, kind: Command) -> dict[str, object]:
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
        return read_bytes_of({*named, *(pid for pid, _ in self.runs.standing.members())})

    def _run(
        self,
        kind: Command,
        tokens: Tokens,
        timeout_s: float | None,
        dirty: DirtyPeak | None = None,
    ) -> Ran:
        dirty = dirty or DirtyPeak()
        started = launch.launch_of(kind, "", tokens, self.runs.work, timeout_s=timeout_s)
        before = self._seen(kind)
        ended = launch.run(started, self.runs.work, dirty.look)
        after = self._seen(kind)
        began = time.monotonic()
        self.place.flush()
        sync_s = time.monotonic() - began if kind.sync == "inside" else 0.0
        self.place.let_go()
        return Ran(ended, ended.elapsed_s + sync_s, after - before if after and before else None)

    def _seen(self, kind: Command) -> Durable | None:
        """All calls of fsync until now, also of servers by name; None where none are captured."""
        if self._syncs is None:
            return None
        self._syncs.follow(pid for server in kind.servers for pid in processes.called(server))
        return self._syncs.seen()

    def _outcome(self, workload: Workload, kind: Command, ran: Ran, began_s: float) -> Outcome:
        """That of every command, with the time until its data was on the device."""
        ended = ran.ended
        outcome = self.runs.outcome(workload, kind, ended, self.place.directory, began_s)
        if ended.timed_out:
            return outcome
        gates_found = list(outcome.gates)
        if ended.elapsed_s < SHORT_OF_LAUNCHES * self.launch_cost_s:
            text = f"{ended.elapsed_s:.2g} s is less than {SHORT_OF_LAUNCHES} times a start"
            gates_found.append(GateFinding("too-short", text, fatal=False))
        metrics = {**outcome.metrics, "elapsed_synced_s": ran.synced_s}
        bounds, facts = dict(outcome.bounds), dict(outcome.properties)
        if ran.durable and (chain := ran.durable.chain()):
            values, least = ran.durable.metrics()
            metrics, bounds = metrics | values, bounds | least
            facts["durability"] = vars(chain)
            if lost := ran.durable.lost:
                text = f"the end of {lost} of {chain.calls} calls of fsync was not seen"
                gates_found.append(GateFinding("capture-gap", text, fatal=False))
        return replace(outcome, metrics=metrics, bounds=bounds, properties=facts,
                       gates=tuple(gates_found))  # fmt: skip

    def _rehearse(self, workload: Workload, kind: Command) -> Rehearsal:
        """One run, not measured: does it start, end, print its metrics and use the queues?

        A command that fails has a second try.
        """
        label = workload.label
        tokens = self._tokens(kind)
        self.runs.phase(label, kind, "prepare", tokens)
        drain(self.place.flushed, self._queues, kind.settle_s)
        self.place.set_cache(kind)
        for _ in range(2):
            before, began = _moved(queues_of_all()), time.time()
            ran = self._run(kind, tokens, kind.timeout_s or None)
            ended = ran.ended
            failure = ended.failure(kind.ok_exit)
            if not failure or kind.ignore_exit:
                break
            self.report(f"{label}: {failure} in the rehearsal")
            self.runs.work.end()
        moved, elsewhere = _moved_since(before, self._queues)
        if not kind.keep_daemons and (left := self.runs.work.end()):
            self.report(f"{label}: still running and ended: {', '.join(sorted(set(left)))}")
        self.runs.phase(label, kind, "conclude", tokens)
        outcome = self._outcome(workload, kind, ran, began)
        self.runs.refuse(label, kind, ended, outcome)
        own = {*kind.metrics, *ended.usage}
        values = {name: value for name, value in outcome.metrics.items() if name not in own}
        self._check_syncs(workload, outcome)
        if workload.metric not in outcome.metrics and workload.metric not in kind.metrics:
            near = difflib.get_close_matches(workload.metric, values, 3) or list(values)
            raise HostError(
                f"{label}: the rehearsal gave no {workload.metric}, the metric that decides",
                f"--metric with one of {', '.join(near) or 'elapsed, cpu'}",
            )
        self._check_queues(label, kind, ended, moved, elsewhere)
        share = outcome.properties["cpu_share"]
        limit_s = self.runs.rehearsed(label, kind, ran.synced_s)
        syncs = outcome.properties.get("durability", {}).get("calls", 0)
        return Rehearsal(ran.synced_s, share, moved, limit_s, values, self._runs(), syncs)

    def _check_syncs(self, workload: Workload, outcome: Outcome) -> None:
        """HostError where the wait for durable data decides, or is required, and was not seen."""
        required = {each.metric for each in self.session.admitted.experiment.requires
                    if each.workload == workload.label}  # fmt: skip
        for name in (workload.metric, *sorted(required)):
            if name in METRICS and name not in outcome.metrics:
                raise HostError(
                    f"{workload.label}: the rehearsal gave no {name}: "
                    f"{self._no_syncs or 'it did not sync files on the measured device'}",
                    "see `schedlab doctor`" if self._no_syncs else "use @dir@ in the command",
                )

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

    def _tokens(self, kind: Command, seed: int = 0) -> Tokens:
        device = self.wall.device_path(kind) or str(self.session.target.raw_path)
        return self.runs.tokens(self.place.directory, device, seed)

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


def _moved_since(
    before: Mapping[str, tuple[int, int]], queues: Iterable[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes moved since then on these queues, and on others; HostError for one that is gone."""
    seen = {queue: sum(now) - sum(before[queue]) for queue, now in _moved(before).items()}
    for queue in queues:
        if queue not in seen:
            raise HostError(f"{queue} was removed during the rehearsal", "see `dmesg`")
    return {queue: seen.pop(queue) for queue in queues}, seen
