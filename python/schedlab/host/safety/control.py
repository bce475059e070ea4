"""Control of a host: change settings, make devices and files, and always restore everything.

    with Control() as control:
        scratch = control.scratch(1 << 30, Path("/var/tmp"))
        control.set_scheduler(scratch.path, "bfq", {"low_latency": 0})
        ...  # measure
        findings = control.check()  # did anybody change a knob under us?

Leaving the block, Ctrl-C, SIGKILL and the loss of the guardian all end with every setting as it
was: see journal.py, guardian.py and recover.py.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from schedlab.errors import SIMULATED_CPU, SIMULATED_QUEUE, HostError, as_root
from schedlab.host import devices
from schedlab.host import scratch as scratch_device
from schedlab.host.emulated import emulated
from schedlab.host.safety import journal, leftovers, owned, recover, write_ahead
from schedlab.host.safety.consent import Consent, hold
from schedlab.host.safety.guardian import Guardian
from schedlab.host.settings import knobs
from schedlab.nouns import GateFinding

Setting = str | int | float
LOCK_WAIT_S = 30.0
GATE = "knob-changed"


@dataclass(frozen=True)
class EffectiveSettings:
    """The settings that a device really got.

    `tunables` are the requested ones, with the effective values; `queue` is everything
    under `queue/` afterwards; `notes` say where the effective value differs from the typed one
    (rounding, a legacy name).
    """

    device: str
    requested: str
    scheduler: str
    tunables: Mapping[str, str] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Control:
    """The only way in which schedlab changes a host.

    Several may run at once, each with its own journal and guardian; a device or
    knob belongs to the first one that changes or claims it (`claim`), until that one ends.
    `named_devices` are those that the user typed: only then the scheduler of the disk that holds
    `/` may be changed. `report` gets a sentence for what a user should know. On entering, what a
    dead session left behind is restored first (`recovered`); RestoreError if that fails.
    On leaving, `restored` lists what was restored; RestoreError if something was not.
    """

    def __init__(
        self,
        named_devices: Iterable[str] = (),
        state_directory: str | Path | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.state_directory = journal.state_directory(state_directory)
        self.recovered = recover.Recovery()
        self.restored = recover.Recovery()
        self._named = tuple(named_devices)
        self._report = report
        self._queues: set[Path] = set()
        self._expected: dict[str, str] = {}
        self._originals: dict[str, str] = {}
        self._set_in_queue: dict[Path, set[str]] = {}
        self._cgroups: set[Path] = set()
        self._claims: set[str] = set()
        self._narrowed: set[Path] = set()
        self._throttling: dict[tuple[Path, bool], str] = {}
        self._throttled: set[Path] = set()
        self._servers: list[emulated.Server] = []
        self._held: list[int] = []
        self._agreed: list[Consent] = []
        self._models: dict[str, Mapping[str, Any]] = {}
        self._commands: dict[int, str] = {}

    def __enter__(self) -> Control:
        self._owner = os.getpid()
        journal.prepare(self.state_directory)
        with journal.HostLock(self.state_directory) as lock:
            lock.acquire(LOCK_WAIT_S)
            self.recovered = recover.restore_all(self.state_directory)
            self.recovered.notices.clear()  # running sessions: only their claims matter
            for line in self.recovered.lines():
                self._report(f"left changed by a session that died: {line}")
            self.recovered.raise_if_failed()
            self._journal = journal.Journal.create(self.state_directory)
        self._guardian = Guardian(self._journal)
        try:
            self._guardian.ensure()
        except BaseException:
            self._guardian.dismiss()
            self._journal.clear()
            self._journal.release()
            raise
        if self._guardian.is_confined:
            self._report("killing this command's control group ends its guardian as well")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._owner:
            return  # a forked child leaves the block too; the settings are not its own
        with _undisturbed():
            self.expect_within(0)
            try:
                while self._held:
                    os.close(self._held.pop())
                self._agreed.clear()
                for server in self._servers:
                    server.close()
                self.restored = recover.restore_session(self._journal)
                for server in self._servers:
                    server.reap()
            finally:
                self._guardian.dismiss()
                self._journal.release()
        for change in self.restored.foreign:
            self._report(f"{change.path} was left at {change.found}, which another program set")
        for notice in self.restored.notices:
            self._report(notice)
        self.restored.raise_if_failed()

    def expect_within(self, seconds: float) -> None:
        """Have this process killed, and all restored, unless this is called again in time.

        0 until the next call, and from the end on: it may be silent.
        """
        self._guardian.expect(seconds)

    def claim(self, *devices_or_knobs: str | Path) -> None:
        """Have devices and knobs for this session alone until its end.

        A device is claimed as a whole disk, even if a partition is named. Changing one claims it,
        too. HostError that names the session which has it.
        """
        wanted = {self._resource(each) for each in devices_or_knobs} - self._claims
        if not wanted:
            return
        with journal.HostLock(self.state_directory) as lock:
            lock.acquire(LOCK_WAIT_S)
            for path in journal.sessions(self.state_directory):
                if path != self._journal.path:
                    self._refuse_claimed(path, wanted)
            self._journal.append("claim", resources=sorted(wanted))
        self._claims |= wanted

    def _refuse_claimed(self, session: Path, wanted: set[str]) -> None:
        """HostError if another session has one of `wanted`; a dead session is restored first."""
        content = journal.read(session)
        taken = sorted(wanted & content.claims)
        if not taken:
            return
        recovery = recover.restore_stale_session(session)
        if recovery is not None:
            recovery.raise_if_failed()
            return
        raise HostError(
            f"{', '.join(taken)} is in use by another schedlab: process {content.owner}",
            "wait until it has finished, or stop it with Ctrl-C; it restores its settings",
        )

    @staticmethod
    def _resource(device_or_knob: str | Path) -> str:
        """`/dev/NAME` of a whole disk, or the real path of a knob."""
        text = str(device_or_knob)
        if text.startswith(("/sys/", "/proc/sys/")) or Path(text).is_file():
            return str(Path(text).resolve())
        return f"/dev/{knobs.device_name(text)}"

    def write_to(self, consent: Consent) -> str:
        """Begin to write to a device that the user gave up; the path that an engine opens.

        The device is claimed, and what the session leaves there is noted at its end, so that it
        counts as ours next time.
        """
        self._agreed.append(consent)  # the device stays held for callers that keep only the path
        identity = consent.identity
        self.claim(consent.name)
        self._guardian.ensure()
        self._journal.append(
            "data",
            number=identity.number,
            sequence=identity.sequence,
            size_bytes=identity.size_bytes,
            key=identity.lasting_key,
        )
        return consent.target

    def hold(self, device: str | Path) -> Path:
        """Have a device of ours for this session; the path under which an engine may write to it.

        HostError when another process uses it.
        """
        try:
            self._held.append(hold(device))
        except OSError as error:
            raise HostError(
                f"cannot hold {device}: {error.strerror}", "use another device"
            ) from error
        return Path(f"/proc/{os.getpid()}/fd/{self._held[-1]}")

    def set_rotational(self, device: str, rotational: bool) -> str:
        """Set what a device reports (1: it has moving heads); returns the old value.

        bfq and others decide by it. It stays over changes of the scheduler, until the end.
        """
        queue = knobs.queue_of(device)
        self._allow(queue.parent.name)
        self._guard(queue)
        path = queue / "rotational"
        before = _read(path)
        self._write(path, str(int(rotational)))
        self._expect(queue, knobs.snapshot(queue))
        return before

    def set_scheduler(
        self,
        device: str,
        scheduler: str,
        tunables: Mapping[str, Setting] | None = None,
        found: Mapping[str, str] | None = None,
    ) -> EffectiveSettings:
        """Give a device a fresh scheduler with the kernel's defaults, then these tunables.

        `scheduler` is set again even if the device has it, so that nothing of the last candidate
        is left. `found` (path below `queue/` -> value) replaces defaults. Tunables are files of
        `queue/iosched/` or `queue/`. HostError for a name or value that the kernel refuses;
        settings changed by then are restored at the end all the same.
        """
        name = knobs.device_name(device)
        queue = knobs.queue_of(name)
        self._allow(name)
        wanted = knobs.canonical(name, scheduler)
        notes = []
        if wanted != scheduler:
            notes.append(f"scheduler {scheduler} is called {wanted} today")
        self._guard(queue)
        self._make_fresh(queue, wanted)
        model = self._models.get(name, {"dilate": 1.0})
        for file, text in (found or {}).items() if name not in self._models else ():
            if knobs.writable(queue / file) and _read(queue / file) != text:
                self._write(queue / file, text)
        effective: dict[str, str] = {}
        for file, stretched in emulated.dilated(queue, model["dilate"]).items():
            self._write(queue / file, knobs.as_text(stretched))
        for key, value in (tunables or {}).items():
            path = knobs.tunable_path(queue, key)
            got = self._write(path, knobs.as_text(value))
            if path.parent == queue:
                self._set_in_queue.setdefault(queue, set()).add(str(path))
            if not knobs.same(got, knobs.as_text(value)):
                notes.append(f"{key}={knobs.as_text(value)} was rounded to {got} by the kernel")
            effective[key] = got
        before = knobs.snapshot(queue)
        self._expect(queue, before)
        return EffectiveSettings(
            name, scheduler, before["scheduler"], effective, before, tuple(notes)
        )

    def write_knob(self, path: str | Path, value: Setting) -> str:
        """Set any other knob, journalled and read back; what it reads now.

        HostError when the kernel does not take the value. Files of our own cgroups are written
        and read back only: they go with the cgroup.
        """
        path = Path(path)
        text = knobs.as_text(value)
        if not self._cgroups.isdisjoint(path.parents):
            with _refusals_explained(path, text):
                knobs.write_value(path, text)
                got = self._expected[str(path)] = knobs.read_value(path)
            return _accepted(path, text, got)
        queue = knobs.queue_above(path)
        if queue:
            self._allow(queue.parent.name)
            self._set_in_queue.setdefault(queue, set()).add(str(path))
        self._guard(queue)
        if queue is None:
            self.claim(path)
        got = self._write(path, text)
        if queue:
            self._expect(queue, knobs.snapshot(queue))
        if queue is None or queue not in path.parents:
            self._expected[str(path)] = got
        if (other := knobs.companion(path)) and str(other) in self._expected:
            self._expected[str(other)] = knobs.read_value(other)
        return got

    def run_command(self, run: str, undo: str) -> int:
        """Run a shell line that changes the host; its number, by which `undo_command` undoes it.

        `undo` is in the journal before. It runs when this session ends, at the latest, and also
        where the first did not run to its end: it must do no harm then. HostError when it fails.
        """
        self._guard(None)
        self._commands[number := len(self._commands) + 1] = undo
        self._journal.append("command", number=number, run=run, undo=undo)
        if reason := recover.shell_line(run):
            raise HostError(f"`{run}`: {reason}", "run it by hand; it was undone by: " + undo)
        for queue in self._queues:
            self._expect(queue, knobs.snapshot(queue))
        return number

    def undo_command(self, number: int) -> None:
        """Undo a command; HostError when that fails."""
        undo = self._commands[number]
        if reason := recover.undo_command(self._journal, number, undo):
            raise HostError(f"`{undo}`: {reason}", "run it by hand")
        for queue in self._queues:
            self._expect(queue, knobs.snapshot(queue))

    def check(self) -> tuple[GateFinding, ...]:
        """Read every knob again; a finding for each that is not as we left it.

        The whole `queue/` of each device is compared. A dead guardian is replaced and reported.
        """
        if self._guardian.ensure():
            self._report("the guardian had died and was restarted")
        values: dict[str, str] = {}
        for queue in self._queues:
            values |= {str(queue / name): value for name, value in knobs.snapshot(queue).items()}
        findings = []
        for path, expected in self._expected.items():
            now = values.get(path) or _read_or_gone(path)
            if now != expected:
                detail = f"{path} is {now} instead of {expected}: another program changed it"
                findings.append(GateFinding(GATE, detail))
        return tuple(findings)

    def keep(self) -> None:
        """Leave everything that was set so far as it is, also after the end."""
        self._journal.append("keep")
        for memory in (self._expected, self._originals, self._queues, self._set_in_queue):
            memory.clear()

    def keep_with(self, record: Path, text: str, settings: Iterable[str]) -> None:
        """Leave these knobs or `queue/` directories as they are as soon as a file holds a text.

        So one step, the replacement of that file, makes them stay and records it.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._journal.append(
            "keep", record=str(record.absolute()), sha256=digest, settings=list(settings)
        )

    def scratch(
        self, size_bytes: int, directory: str | Path, rotational: bool = False
    ) -> scratch_device.Scratch:
        """A scratch device backed by a new file in `directory`; HostError with what is missing.

        It reports itself as an SSD unless `rotational`.
        """
        scratch_device.require_root()
        self._guardian.ensure()
        device = scratch_device.make(self._journal, size_bytes, Path(directory), rotational)
        self.claim(device.path)
        self._throttle_as(device.path, device.rotational)
        return device

    def emulated(self, emulation: emulated.Emulation) -> emulated.Emulated:
        """An emulated device; HostError with what is missing, SpecError for what cannot be."""
        self._guardian.ensure()
        device = emulated.make(self._journal, self.state_directory, emulation)
        if device.server:
            self._servers.append(device.server)
        self.claim(device.path)
        self._throttle_as(device.path, device.rotational)
        self._models[Path(device.path).name] = device.facts
        return device

    def directory(self, parent: str | Path) -> Path:
        """A new directory of ours inside `parent`, removed with all in it at the end."""
        self._guardian.ensure()
        path = Path(parent).resolve() / owned.new_name(owned.FILES)
        leftovers.own(self._journal, "directory", str(path))
        _make_directory(path, "name another directory")
        return path

    def filesystem(self, device: scratch_device.Scratch, kind: str = "ext4") -> Path:
        """A new file system on a scratch device; where it is mounted."""
        where = self.directory(self.state_directory)
        scratch_device.make_filesystem(self._journal, device.path, kind, where)
        return where

    def owe_cleanup(self, label: str, line: str, order: Mapping[str, Any]) -> None:
        """Have the cleanup of a command run if this process dies; `line` is for people."""
        self._guardian.ensure()
        self._journal.append("cleanup", label=label, line=line, order=dict(order))

    def cleaned(self, label: str) -> None:
        """Its cleanup is done, or was tried."""
        self._journal.append("cleaned", label=label)

    def cgroup(self, what: str, root: Path | None = None) -> Path:
        """A new cgroup of ours under `root` (v2's by default), removed with what runs in it."""
        self._guardian.ensure()
        path = (root or owned.cgroup_root()) / owned.new_name(what)
        self._journal.append("own", what="cgroup", path=str(path))
        _make_directory(path, as_root("have the cgroup delegated to you", "run as root"))
        self._cgroups.add(path)
        return path

    def drop_caches(self) -> None:
        """Write dirty pages out and drop the page cache, dentries and inodes."""
        os.sync()
        path = Path("/proc/sys/vm/drop_caches")
        with _refusals_explained(path, "3"):
            knobs.write_value(path, "3")

    def _allow(self, name: str) -> None:
        """HostError for the disk that holds `/`, unless the user named it."""
        if name not in devices.disks_below("/"):
            return
        if name not in {knobs.device_name(device) for device in self._named}:
            raise HostError(
                f"{name} holds /: its settings are changed only when you name it",
                f"name it: --device {knobs.device_file(name)}",
            )

    def _guard(self, queue: Path | None) -> None:
        """Before a write: the guardian lives, and the whole queue is in the journal."""
        if self._guardian.ensure():
            self._report("the guardian had died and was restarted")
        if queue is None or queue in self._queues:
            return
        self.claim(queue.parent.name)
        values = knobs.snapshot(queue)
        self._journal.append("queue", queue=str(queue), values=values)
        self._originals |= {str(queue / name): value for name, value in values.items()}
        self._queues.add(queue)

    def _make_fresh(self, queue: Path, wanted: str) -> None:
        """Switch to `wanted` by way of another scheduler, queue/ settings of ours undone first."""
        for path in sorted(self._set_in_queue.pop(queue, ())):
            with contextlib.suppress(HostError):  # a value of another scheduler; the switch resets
                self._write(Path(path), self._originals[path])
            self._expected.pop(path, None)  # of io.cost: its line is no file of `queue/`
        self._throttle(queue)
        scheduler = queue / "scheduler"
        tags = self._models.get(queue.parent.name, {}).get("tags", sys.maxsize)
        if queue in self._narrowed and (steps := knobs.tag_steps(queue, tags)):
            self._write(scheduler, "none")
            for step in steps:
                self._write(queue / "nr_requests", step)
            self._narrowed.discard(queue)
        if knobs.read_value(scheduler) == wanted:
            others = [name for name in knobs.offered(queue.parent.name) if name != wanted]
            if others:
                self._write(scheduler, "none" if "none" in others else others[0])
                self._throttle(queue)
        self._write(scheduler, wanted)
        self._throttle(queue)

    def _throttle(self, queue: Path) -> None:
        """Throttling of writeback as the kernel has it with this scheduler: bfq turns it off.

        Once it is written, it stays over changes of the scheduler (block/blk-wbt.c); a change of
        its own forgets what it learnt under the last one.
        """
        path = queue / "wbt_lat_usec"
        key = (queue, knobs.read_value(queue / "scheduler") == "bfq")
        if queue not in self._throttled:
            self._throttling[key] = _read_or_gone(str(path))
            return
        for text in dict.fromkeys(("0", self._throttling.get(key, "0"))):
            self._write(path, text)

    def _throttle_as(self, path: str, rotational: bool) -> None:
        """Throttle a loop device as what it says it is: the kernel added it as an SSD."""
        queue = knobs.queue_of(path)
        now = _read_or_gone(str(queue / "wbt_lat_usec"))
        if now not in ("0", "(gone)"):
            self._throttling[queue, False] = "75000" if rotational else now
            self._throttled.add(queue)

    def _write(self, path: Path, text: str) -> str:
        """Journal, write, read back, journal what became of it; what the knob reads now."""
        original = self._originals.setdefault(str(path), _read(path))
        if path.name == "nr_requests" and _read_or_gone(str(path.parent / "scheduler")) == "none":
            self._narrowed.add(path.parent)
        if path.name == "wbt_lat_usec":
            self._throttled.add(path.parent)
        ahead = path.with_name("read_ahead_kb")
        ahead_kb = _read_or_gone(str(ahead))
        with _refusals_explained(path, text):
            caused = write_ahead.write(self._journal, path, text, original)
            got = knobs.read_value(path)
        # The kernel computes it anew whenever a limit of requests changes (block/blk-settings.c).
        if path != ahead and str(ahead) in caused:
            self._write(ahead, ahead_kb)
        return _accepted(path, text, got, original)

    def _expect(self, queue: Path, values: Mapping[str, str]) -> None:
        """From now on every file of that queue shall read as it does now."""
        inside = f"{queue}/"
        self._expected = {k: v for k, v in self._expected.items() if not k.startswith(inside)}
        self._expected |= {str(queue / name): value for name, value in values.items()}


def _accepted(path: Path, text: str, got: str, original: str = "") -> str:
    """The value of a knob after a write; HostError where it is not the written one."""
    if knobs.accepts(got, text) or knobs.is_rounding(path, text, got):
        return got
    if path.name == "scheduler":
        raise HostError(f"{path} accepted {text} without an error, but reads {got}")
    default = f"; its default is {original}" if original else ""
    raise HostError(
        f"{path}: {text} was written, but it reads {got}: the value is out of range",
        f"cat {knobs.keyed(path)[0]} shows what it accepts{default}",
    )


@contextlib.contextmanager
def _refusals_explained(path: Path, text: str) -> Iterator[None]:
    """HostError naming knob and value when the kernel refuses."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            is_of_cpus = "/sched" in str(path) and path.name != "scheduler"
            without = SIMULATED_CPU if is_of_cpus else SIMULATED_QUEUE
            hint = as_root(without, "sudo, where /sys and /proc/sys are writable")
            raise HostError(f"cannot write {path}: {error.strerror}", hint) from error
        if path.name == "scheduler" and error.errno in (errno.EINVAL, errno.ENOENT):
            raise knobs.unknown_scheduler(path.parents[1].name, text) from error
        now = _read_or_gone(str(path))
        raise HostError(
            f"{path} refuses {text} ({error.strerror}); it reads {now}",
            f"choose a value in its range: see cat {path} and the kernel's documentation",
        ) from error


def _read(path: Path) -> str:
    try:
        return knobs.read_value(path)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}", f"ls -l {path}") from error


def _read_or_gone(path: str) -> str:
    try:
        return knobs.read_value(path)
    except OSError:
        return "(gone)"


def _make_directory(path: Path, hint: str) -> None:
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise HostError(f"cannot make {path}: {error.strerror}", hint) from error


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C, TERM and HUP wait until everything is restored."""
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, lambda which, frame: came.append(which))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for which in came[:1]:
            os.kill(os.getpid(), which)
