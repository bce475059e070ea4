"""Cells of block I/O: a temporary or emulated device, a device, or a file in a directory.

A cell is one candidate (scheduler, tunables, changed parameters) on one workload. Everything that
is set or made goes through `host.control`, which restores it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from schedlab.design.plan import arms
from schedlab.errors import GateError, HostError, SchedlabError
from schedlab.host import devices, scratch
from schedlab.host.emulated.emulated import Emulated, Emulation
from schedlab.host.safety.consent import objections
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs
from schedlab.kinds import Outcome, ResolvedTarget, WorkloadKind
from schedlab.kinds.command import Command
from schedlab.nouns import Candidate, Cell, GateFinding, Target, Workload, latency
from schedlab.nouns.results import ReplayFidelity
from schedlab.run import gates
from schedlab.run.admitted import Admitted
from schedlab.run.candidate_settings import AS_IS, CandidateSettings, groups_of_work
from schedlab.run.command.phases import closed_after
from schedlab.run.io import fidelity
from schedlab.run.io.drain import flush
from schedlab.run.io.io_commands import CommandCells
from schedlab.run.io.io_groups import IoGroups

# Budgets below this have no time to wait until the machine is quiet; caches are dropped anyway.
SETTLED_FROM_S = 300.0
SETTLE_S = 5.0
# A machine that is never quiet is waited for less and less, down to this, and never for longer than
# a run takes.
SETTLE_LEAST_S = 0.5


class IoSession:
    """A prepared target, under a control that restores everything."""

    def __init__(
        self,
        admitted: Admitted,
        target: ResolvedTarget,
        control: Control,
        emulated: Emulated | None = None,
    ) -> None:
        self.admitted = admitted
        self.target = target
        self.control = control
        made_here = admitted.experiment.target.kind in ("scratch", "emulated")
        own = (target.device,) if target.device else ()
        self._groups = IoGroups(control, target.device)
        self.emulated = emulated
        self.described: set[str] = set()
        self.fidelity: Mapping[str, ReplayFidelity] = {}
        self._commands = emulated.facts["queue_depth"] if emulated else 0
        self._watch = gates.Watch(own, counted=target.device)
        budget_s = admitted.experiment.stopping.budget_s
        # An emulated device is in memory: other writes of the host do not pass through it.
        is_short = 0 < budget_s < SETTLED_FROM_S
        self._settle_s = 0.0 if is_short or emulated is not None else SETTLE_S
        self.queues = own if made_here else admitted.queues
        self.commands: CommandCells | None = None
        self.settings: CandidateSettings

    def rehearse(self) -> None:
        """Set every candidate once, so that impossible settings are reported before the first run.

        Then what workloads need on the target, such as an archive, is put there.
        """
        for candidate in arms(self.admitted.experiment):
            self._set(candidate)
        with self.emulated.at_once() if self.emulated else contextlib.nullcontext():
            for workload in self.admitted.experiment.workloads:
                for candidate in self.admitted.experiment.candidates:
                    kind = self.admitted.kind(workload, candidate)
                    kind.prepare(self._with_groups(kind), workload.label)
            if self.emulated and self.target.directory:
                flush(self.target.directory)

    def measure(self, cell: Cell, workload: Workload, candidate: Candidate) -> Outcome:
        """One run; the gates are checked before and after, independent of the outcome."""
        kind = with_times(self.admitted.kind(workload, candidate), cell)
        if self.emulated is None:
            outcome = self._measured(kind, cell, workload, candidate)
            return self._with_description(outcome, kind, workload.label)
        try:
            self.emulated.hold(kind.device_commands() or self._commands)
            self.emulated.reset()
            self.emulated.mark()
            outcome = self._measured(kind, cell, workload, candidate)
            outcome = _judged(outcome, self.emulated)
            return self._with_description(outcome, kind, workload.label)
        except (SchedlabError, OSError) as error:
            if self.emulated.is_alive():
                raise
            raise HostError(
                f"the server of the emulated device {self.emulated.path} ended during the run, so "
                f"its requests failed: {error}",
                "--resume continues with a new device",
            ) from error

    def _with_description(self, outcome: Outcome, kind: WorkloadKind, label: str) -> Outcome:
        """The outcome with the facts that reports need from one run of a workload.

        They are in every run until one is not discarded, because reports omit discarded runs.
        """
        if label in self.described:
            return outcome
        if not any(finding.fatal for finding in outcome.gates):
            self.described.add(label)
        facts: dict[str, object] = {}
        if self.emulated is not None:
            facts["emulated_device"] = dict(self.emulated.facts)
        if self.commands and isinstance(kind, Command):
            facts |= self.commands.description(label, kind)
        if label in self.fidelity:
            facts["fidelity"] = self.fidelity[label]
        return dataclasses.replace(outcome, properties={**outcome.properties, **facts})

    def _measured(
        self, kind: WorkloadKind, cell: Cell, workload: Workload, candidate: Candidate
    ) -> Outcome:
        if self.commands and isinstance(kind, Command):
            return self.commands.measure(kind, cell, workload, candidate)
        effective = self.set_again(candidate)
        dropped = os.geteuid() == 0 and self._has_cache(kind)
        if dropped:
            drops = gates.cache_drops()
            self.control.drop_caches()
            if gates.cache_drops() == drops:
                text = "the page cache was not emptied: the kernel counted no drop of it"
                raise GateError("cache-kept", text, "see `dmesg`")
        target = self._with_groups(kind)
        run_s = max(SETTLE_LEAST_S, kind.estimate_s())
        before = self._watch.before(min(self._settle_s, run_s))
        if self._settle_s:
            unsettled = any(finding.gate == "unsettled" for finding in before.findings)
            self._settle_s = max(SETTLE_LEAST_S, self._settle_s / 2) if unsettled else SETTLE_S
        outcome = kind.measure(target, workload.label, cell.seed)
        after = gates.snapshot(self.target.device)
        outcome = bounded(outcome, workload.metric)
        findings = (
            *outcome.gates,
            *before.findings,
            *self.control.check(),
            *self._watch.findings(before, self._claimed(outcome), self._claimed_cold(outcome)),
        )
        if errors := outcome.properties.get("errors"):
            findings = (*findings, GateFinding("io-errors", f"{errors} requests failed"))
        return dataclasses.replace(
            outcome,
            properties={
                **device_facts(self.target.device),
                **outcome.properties,
                **gates.cpu_facts(before.snapshot, after),
                "effective": effective,
                "caches_dropped": dropped,
            },
            gates=findings,
        )

    def _has_cache(self, kind: WorkloadKind) -> bool:
        bare = self.target.directory is None and self.emulated is None
        return has_cache(kind, self.target.device if bare else None)

    def _with_groups(self, kind: WorkloadKind) -> ResolvedTarget:
        """The target, with the control groups that a run needs, set as it asks."""
        if not kind.groups():
            return self.target
        directories = {each.name: self._groups.directory(each) for each in kind.groups()}
        return dataclasses.replace(self.target, groups=directories)

    def set_again(self, candidate: Candidate) -> dict[str, str]:
        """Set what the rehearsal could set: a failure now means that another program interferes."""
        try:
            return self._set(candidate)
        except HostError as error:
            if not self.target.path.exists():
                raise
            raise GateError("knob-changed", str(error)) from error

    def _claimed(self, outcome: Outcome) -> tuple[int, int] | None:
        """Bytes that the device must have counted, where that can be known."""
        claimed = outcome.properties.get("claimed_bytes")
        if claimed is None or not self.target.counts_alone:
            return None
        return int(claimed[0]), int(claimed[1])

    def _claimed_cold(self, outcome: Outcome) -> int:
        """Bytes that the device must at least have read, because the cache was cold."""
        if self.target.device is None or os.geteuid() != 0:
            return 0
        return int(outcome.properties.get("claimed_cold_bytes") or 0)

    def _set(self, candidate: Candidate) -> dict[str, str]:
        """Set everything that the candidate names; what it reads then."""
        return self.settings.apply(candidate)[0]

    def find_settings(self) -> None:
        """Note what candidates set, before the first; what commands start joins its groups."""
        work = None
        if self.commands:
            runs = self.commands.runs
            work = groups_of_work(self.control, runs.work, runs.standing)
        candidates = self.admitted.experiment.candidates
        self.settings = CandidateSettings(self.control, self.queues, candidates, work)


def has_cache(kind: WorkloadKind, device: str | None) -> bool:
    """Whether a page cache can answer a run: its own, a file system's, or one below a loop.

    `device` is the kernel's name of a bare, real device; None: files, or an emulated device.
    """
    if device is None or not kind.bypasses_cache:
        return True
    below = knobs.SYS_BLOCK / device / "loop" / "dio"
    return below.exists() and knobs.read_value(below) != "1"


def is_bare(target: Target, kinds: Iterable[WorkloadKind]) -> bool:
    """Whether a device that is made here gets no file system."""
    needs_files = any(kind.needs_files for kind in kinds)
    return target.filesystem == "none" or not (needs_files or target.filesystem)


def _judged(outcome: Outcome, device: Emulated) -> Outcome:
    """The outcome with the account of the emulated device and what that says against it."""
    try:
        account = device.account()
    except HostError as error:
        broken = GateFinding("device-alive", str(error))
        return dataclasses.replace(outcome, gates=(*outcome.gates, broken))
    facts: dict[str, object] = {"emulated": account, "driver_tags": device.facts["tags"]}
    return dataclasses.replace(
        outcome,
        properties={**outcome.properties, **facts},
        gates=(*outcome.gates, *device.gate_findings(account)),
    )


def with_times(kind: WorkloadKind, cell: Cell) -> WorkloadKind:
    """The workload with the window and the ramp that a pilot chose, where it has such."""
    import msgspec

    times = {"seconds": cell.seconds, "ramp_seconds": cell.ramp_seconds}
    chosen = {name: s for name, s in times.items() if s and getattr(kind, name, 0)}
    return msgspec.structs.replace(kind, **chosen) if chosen else kind


def bounded(outcome: Outcome, metric: str) -> Outcome:
    """The outcome with a bound in place of a latency quantile that too few requests support.

    A run in which a process was not served is a result, never a failed run: without a request the
    bound is the age of the oldest one, or the window.
    """
    prefix, separator, name = metric.rpartition("latency_ns_")
    if metric in outcome.metrics or not separator or name not in latency.QUANTILES:
        return outcome
    rows = outcome.histograms.get("latency_ns", ())
    value = latency.bound(rows, latency.QUANTILES[name])
    if value is None:
        value = outcome.metrics.get(f"{prefix}latency_ns_mean")
        if f"{prefix}latency_ns_mean" not in outcome.bounds:
            value = outcome.metrics.get("elapsed_s", 0.0) * 1e9
    if not value:
        return outcome
    return dataclasses.replace(
        outcome,
        metrics={**outcome.metrics, metric: value},
        bounds={**outcome.bounds, metric: "at-least"},
    )


@contextmanager
def open_session(
    admitted: Admitted, control: Control | None, report: Callable[[str], None]
) -> Iterator[IoSession]:
    """The prepared target of the experiment; `control` removes everything of ours at the end."""
    if control is None:
        raise HostError("block I/O is measured under host control only")
    target, emulated = resolve(admitted, control, report)
    session = IoSession(admitted, target, control, emulated)
    if not any(isinstance(kind, Command) for kind in admitted.kinds.values()):
        session.find_settings()
        session.rehearse()
        session.fidelity = fidelity.rehearse(session, report)
        yield session
        return
    # Commands are set up and rehearsed under the scheduler as found.
    session.commands = CommandCells(session, report)
    session.find_settings()
    with closed_after(session.commands.close, report):
        session.commands.open()
        session.rehearse()
        session.fidelity = fidelity.rehearse(session, report)
        session.commands.warm_up(arms(admitted.experiment))
        yield session


def _bare_target(bare: ResolvedTarget, control: Control, admitted: Admitted) -> ResolvedTarget:
    """A bare device as our engine takes it: held for us. Commands open it by its name."""
    if all(isinstance(kind, Command) for kind in admitted.kinds.values()):
        return bare
    return dataclasses.replace(bare, path=control.hold(bare.path))


def resolve(
    admitted: Admitted, control: Control, report: Callable[[str], None]
) -> tuple[ResolvedTarget, Emulated | None]:
    """The device or file of a target; what it makes is journalled as ours.

    A device that is made here gets a file system where one is needed, and file tests go to a file
    of half its size.
    """
    target = admitted.experiment.target
    size = target.size_bytes
    if target.kind == "scratch":
        report(f"filling a temporary device of {size >> 20} MiB with random data")
        home = target.path or "/var/tmp"
        loop = control.scratch(size, home, rotational=says_rotational(target, home))
        if not loop.direct_io:
            report(f"{loop.path}: the file below takes no direct I/O; its page cache takes part")
        bare = _device(Path(loop.path), counts_alone=True)
        if is_bare(target, admitted.kinds.values()):
            return _bare_target(bare, control, admitted), None
        mounted = control.filesystem(loop, target.filesystem or "ext4")
        if all(kind.brings_files for kind in admitted.kinds.values()):
            return dataclasses.replace(bare, counts_alone=False, directory=mounted), None
        return _with_files(bare, mounted), None
    if target.kind == "emulated":
        device = control.emulated(emulation_of(target))
        report(f"{device.path} emulates {target.model}")
        bare = _device(Path(device.path), counts_alone=True)
        if is_bare(target, admitted.kinds.values()):
            return _bare_target(bare, control, admitted), device
        with device.at_once():
            mounted = control.filesystem(device, target.filesystem or "ext4")
            resolved = dataclasses.replace(bare, counts_alone=False, directory=mounted)
            if not all(kind.brings_files for kind in admitted.kinds.values()):
                resolved = _with_files(bare, mounted)
            flush(mounted)
            return resolved, device
    if target.kind == "device":
        consent = next((c for c in admitted.permission.consents if c.covers(target.path)), None)
        if admitted.permission.consents and not consent:
            raise HostError(
                f"{target.path}: leads to another device than the one that you gave up",
                "name the device itself, such as /dev/sdb",
            )
        # From here on it is the device that is held: the typed path may lead elsewhere.
        path = Path(control.write_to(consent) if consent else admitted.place)
        alone = consent is not None or not objections(path, allow_unknown_data=True)
        if target.rotational not in ("", AS_IS):
            control.set_rotational(str(path), target.rotational == "1")
        return _device(path, alone), None
    directory = Path(admitted.place)
    if all(kind.brings_files for kind in admitted.kinds.values()):
        only = admitted.queues[0] if len(admitted.queues) == 1 else None
        resolved = ResolvedTarget(directory, size, only, 512, False, directory, size, directory)
        return resolved, None
    scratch.check_space(directory, size)
    own = control.directory(directory)
    report(f"filling a file of {size >> 20} MiB in {own} with random data")
    scratch.fill(own / "data", size)
    disks = devices.disks_below(directory)
    only = disks[0] if len(disks) == 1 else None
    block = logical_block_bytes(only) if only else 512
    raw = knobs.device_file(only) if only else own / "data"
    raw_size = devices.size_bytes(raw) if only else size
    tags = driver_tags(only) if only else 0
    return ResolvedTarget(own / "data", size, only, block, False, raw, raw_size, own, tags), None


def emulation_of(target: Target) -> Emulation:
    """The emulated device that a target asks for."""
    return Emulation(
        model=target.model,
        size_bytes=target.size_bytes or None,
        queue_depth=target.queue_depth or None,
        rotational=target.rotational == "1" if target.rotational in ("0", "1") else None,
        dilate=target.dilate,
    )


def _with_files(bare: ResolvedTarget, mounted: Path) -> ResolvedTarget:
    """The file system made on a device of ours, with a file for the file tests."""
    size = bare.size_bytes // 2 & -(1 << 20)
    scratch.fill(mounted / "data", size)
    return dataclasses.replace(
        bare, path=mounted / "data", size_bytes=size, counts_alone=False, directory=mounted
    )


def says_rotational(target: Target, directory: str) -> bool:
    """Whether a scratch device shall report moving heads: as requested, by default not.

    `as-is`: the value that the disks below its file report.
    """
    if target.rotational != AS_IS:
        return target.rotational == "1"
    below = [knobs.queue_of(disk) / "rotational" for disk in devices.disks_below(directory)]
    return any(knobs.read_value(path) == "1" for path in below)


def logical_block_bytes(disk: str) -> int:
    """The unit that O_DIRECT is aligned to."""
    return int(knobs.read_value(knobs.queue_of(disk) / "logical_block_size"))


def driver_tags(disk: str) -> int:
    """How many requests the driver takes at a time; 0 where the kernel does not report it.

    The tags of all hardware queues, or what the device itself takes (SCSI's queue_depth).
    """
    home = knobs.SYS_BLOCK / disk
    tags = 0
    for file in home.glob("mq/*/nr_tags"):
        with contextlib.suppress(OSError, ValueError):
            tags += int(knobs.read_value(file))
    with contextlib.suppress(OSError, ValueError):
        tags = min(tags, int(knobs.read_value(home / "device" / "queue_depth"))) or tags
    return tags


def device_facts(disk: str | None) -> dict[str, object]:
    """Reports of the device while it is measured, for a run's properties."""
    if disk is None:
        return {}
    queue = knobs.queue_of(disk)
    facts: dict[str, object] = {"driver_tags": driver_tags(disk)}
    for name in ("rotational", "nr_requests"):
        with contextlib.suppress(OSError, ValueError):
            facts[name] = int(knobs.read_value(queue / name))
    return facts


def _device(path: Path, counts_alone: bool) -> ResolvedTarget:
    disk = knobs.device_name(str(path))
    size = devices.size_bytes(path)
    block, tags = logical_block_bytes(disk), driver_tags(disk)
    return ResolvedTarget(path, size, disk, block, counts_alone, path, size, tags=tags)
