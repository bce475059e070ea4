"""Control of a host: change settings, make what is needed, and always put everything back.

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
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from schedlab.errors import HostError
from schedlab.host import devices, emulated, journal, knobs, owned, recover, write_ahead
from schedlab.host import scratch as scratch_device
from schedlab.host.guardian import Guardian
from schedlab.spec import GateFinding

Setting = str | int | float
LOCK_WAIT_S = 30.0
GATE = "knob-changed"


@dataclass(frozen=True)
class Applied:
    """What a device was really set to.

    `tunables` are those asked for, with the values that the kernel took; `queue` is everything
    under `queue/` afterwards; `notes` say where the kernel or we took something else than typed
    (rounding, a legacy name).
    """

    device: str
    requested: str
    scheduler: str
    tunables: Mapping[str, str] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Control:
    """The only way in which schedlab changes a host; one per host at a time.

    `named_devices` are those that the user typed: only then the scheduler of the disk that holds
    `/` may be changed. `report` gets a sentence for what a user should know. On entering, what a
    session that died left behind is put back first (`recovered`); RestoreError if that fails.
    On leaving, `restored` tells what was put back; RestoreError if something was not.
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
        self._lock = journal.HostLock(self.state_directory)
        self._guardian = Guardian(self.state_directory, self._lock)
        self._queues: set[Path] = set()
        self._expected: dict[str, str] = {}
        self._originals: dict[str, str] = {}
        self._set_in_queue: dict[Path, set[str]] = {}
        self._cgroups: set[Path] = set()
        self._servers: list[emulated.Server] = []
        self._dilations: dict[str, float] = {}

    def __enter__(self) -> Control:
        self._owner = os.getpid()
        journal.prepare(self.state_directory)
        self._lock.acquire(LOCK_WAIT_S)
        try:
            self.recovered = recover.settle(self.state_directory)
            for line in self.recovered.lines():
                self._report(f"left by a session that died: {line}")
            self.recovered.raise_if_failed()
            self._journal = journal.Journal(self.state_directory)
            self._guardian.ensure()
        except BaseException:
            self._guardian.dismiss()
            self._lock.release()
            raise
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
            try:
                for server in self._servers:
                    server.close()
                self.restored = recover.settle(self.state_directory)
                for server in self._servers:
                    server.reap()
            finally:
                self._guardian.dismiss()
                self._lock.release()
        for change in self.restored.foreign:
            self._report(f"{change.path} was left at {change.found}, which somebody else set")
        self.restored.raise_if_failed()

    @property
    def guardian_process_id(self) -> int:
        """The process that puts everything back should this one die."""
        return self._guardian.process_id

    def set_scheduler(
        self, device: str, scheduler: str, tunables: Mapping[str, Setting] | None = None
    ) -> Applied:
        """Give a device a fresh scheduler with the kernel's defaults, then these tunables.

        `scheduler` is set anew even if the device has it, so that nothing of a candidate before
        is left. Tunables are files of `queue/iosched/` or `queue/`. HostError for a name or value
        that the kernel does not take; what was set by then is put back at the end all the same.
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
        effective: dict[str, str] = {}
        for file, stretched in emulated.dilated(queue, self._dilations.get(name, 1.0)).items():
            self._write(queue / file, knobs.as_text(stretched))
        for key, value in (tunables or {}).items():
            path = knobs.tunable_path(queue, key)
            got = self._write(path, knobs.as_text(value))
            if path.parent == queue:
                self._set_in_queue.setdefault(queue, set()).add(str(path))
            if not knobs.same(got, knobs.as_text(value)):
                notes.append(f"{key}={knobs.as_text(value)} was rounded to {got} by the kernel")
            effective[key] = got
        found = knobs.snapshot(queue)
        self._expect(queue, found)
        return Applied(name, scheduler, found["scheduler"], effective, found, tuple(notes))

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
                return knobs.read_value(path)
        queue = knobs.queue_above(path)
        if queue:
            self._allow(queue.parent.name)
            self._set_in_queue.setdefault(queue, set()).add(str(path))
        self._guard(queue)
        got = self._write(path, text)
        if queue:
            self._expect(queue, knobs.snapshot(queue))
        else:
            self._expected[str(path)] = got
        return got

    def check(self) -> tuple[GateFinding, ...]:
        """Read every knob again; a finding for each that is not as we left it.

        The whole `queue/` of each device is compared. A dead guardian is replaced and reported.
        """
        if self._guardian.ensure():
            self._report("the guardian had died and was started again")
        found: dict[str, str] = {}
        for queue in self._queues:
            found |= {str(queue / name): value for name, value in knobs.snapshot(queue).items()}
        findings = []
        for path, expected in self._expected.items():
            now = found.get(path) or _read_or_gone(path)
            if now != expected:
                detail = f"{path} is {now} instead of {expected}: somebody else changed it"
                findings.append(GateFinding(GATE, detail))
        return tuple(findings)

    def keep(self) -> None:
        """Leave everything that was set so far as it is, also after the end."""
        self._journal.append("keep")
        for memory in (self._expected, self._originals, self._queues, self._set_in_queue):
            memory.clear()

    def scratch(self, size_bytes: int, directory: str | Path) -> scratch_device.Scratch:
        """A scratch device backed by a new file in `directory`; HostError with what is missing."""
        scratch_device.require_root()
        self._guardian.ensure()
        return scratch_device.make(self._journal, size_bytes, Path(directory))

    def emulated(self, emulation: emulated.Emulation) -> emulated.Emulated:
        """An emulated device; HostError with what is missing, SpecError for what cannot be."""
        self._guardian.ensure()
        device = emulated.make(self._journal, self.state_directory, emulation)
        if device.server:
            self._servers.append(device.server)
        self._dilations[Path(device.path).name] = device.facts["dilate"]
        return device

    def directory(self, parent: str | Path) -> Path:
        """A new directory of ours inside `parent`, removed with all in it at the end."""
        self._guardian.ensure()
        path = Path(parent).resolve() / owned.new_name("files")
        self._journal.append("own", what="directory", path=str(path))
        _made(path, "name another directory")
        return path

    def filesystem(self, device: scratch_device.Scratch, kind: str = "ext4") -> Path:
        """A new file system on a scratch device; where it is mounted."""
        where = self.directory(self.state_directory)
        scratch_device.make_filesystem(self._journal, device.path, kind, where)
        return where

    def cgroup(self, what: str, root: Path | None = None) -> Path:
        """A new cgroup of ours under `root` (v2's by default), removed with what runs in it."""
        self._guardian.ensure()
        path = (root or owned.cgroup_root()) / owned.new_name(what)
        self._journal.append("own", what="cgroup", path=str(path))
        _made(path, "run as root, or have the cgroup delegated to you")
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
                f"name it: --device /dev/{name}",
            )

    def _guard(self, queue: Path | None) -> None:
        """Before a write: the guardian lives, and the whole queue is in the journal."""
        if self._guardian.ensure():
            self._report("the guardian had died and was started again")
        if queue is None or queue in self._queues:
            return
        values = knobs.snapshot(queue)
        self._journal.append("queue", queue=str(queue), values=values)
        self._originals |= {str(queue / name): value for name, value in values.items()}
        self._queues.add(queue)

    def _make_fresh(self, queue: Path, wanted: str) -> None:
        """Switch to `wanted` by way of another scheduler, queue/ settings of ours undone first."""
        for path in sorted(self._set_in_queue.pop(queue, ())):
            with contextlib.suppress(HostError):  # a value of another scheduler; the switch resets
                self._write(Path(path), self._originals[path])
        scheduler = queue / "scheduler"
        if knobs.read_value(scheduler) == wanted:
            others = [name for name in knobs.offered(queue.parent.name) if name != wanted]
            if others:
                self._write(scheduler, "none" if "none" in others else others[0])
        self._write(scheduler, wanted)

    def _write(self, path: Path, text: str) -> str:
        """Journal, write, read back, journal what became of it; what the knob reads now."""
        original = self._originals.setdefault(str(path), _read(path))
        with _refusals_explained(path, text):
            write_ahead.write(self._journal, path, text, original)
            got = knobs.read_value(path)
        if not knobs.same(got, text) and not knobs.is_rounding(path, text, got):
            if path.name == "scheduler":
                raise HostError(f"{path} took {text} without an error, but it reads {got}")
            raise HostError(
                f"{path}: {text} was written, but it reads {got}: the value is out of range",
                f"cat {path} shows what it accepts; its default is {original}",
            )
        return got

    def _expect(self, queue: Path, found: Mapping[str, str]) -> None:
        """From now on every file of that queue shall read as it does now."""
        inside = f"{queue}/"
        self._expected = {k: v for k, v in self._expected.items() if not k.startswith(inside)}
        self._expected |= {str(queue / name): value for name, value in found.items()}


@contextlib.contextmanager
def _refusals_explained(path: Path, text: str) -> Iterator[None]:
    """HostError naming knob and value when the kernel refuses."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "run it as root (sudo), where /sys and /proc/sys are writable"
            raise HostError(f"cannot write {path}: {error.strerror}", hint) from error
        if path.name == "scheduler" and error.errno in (errno.EINVAL, errno.ENOENT):
            raise knobs.unknown_scheduler(path.parents[1].name, text) from error
        now = _read_or_gone(str(path))
        raise HostError(
            f"{path} does not take {text} ({error.strerror}); it reads {now}",
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


def _made(path: Path, hint: str) -> None:
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise HostError(f"cannot make {path}: {error.strerror}", hint) from error


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C, TERM and HUP wait until everything is put back."""
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
