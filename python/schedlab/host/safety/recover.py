"""Restore everything from the journal: the same code at a normal end, in the guardian, in
`schedlab recover`, and before any command that finds the journal of a session that died.

Rules: a scheduler comes before what switching it resets. A value that is none of those that we
ever wrote, or saw our writes cause, was set by another program: it is kept and reported. What
was restored is read again; each failure is reported with the shell line that does it by hand.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, RestoreError, SpecError, cause_of
from schedlab.host import content, devices, kernel_paths, processes
from schedlab.host.emulated import emulated_removal
from schedlab.host.safety import cleanup, journal, journalled, leftovers, owned, write_ahead
from schedlab.host.safety.journal import Entry, Journal
from schedlab.host.settings import knobs
from schedlab.nouns.reading import open_regular, opened

PASSES = 3
FORGET = "schedlab recover --forget-undo"
GUARDIAN_PATIENCE_S = 30.0
WORKERS_PATIENCE_S = 2.0
COMMAND_TIMEOUT_S = 60.0
_REMOVERS = {
    "file": owned.remove_file,
    "directory": owned.remove_directory,
    "mount": owned.remove_mount,
    "cgroup": owned.remove_cgroup,
    emulated_removal.KIND: emulated_removal.remove,
}


@dataclass(frozen=True)
class KnobChange:
    """A knob: its changed value, and the original that it should get or got back."""

    path: str
    found: str
    original: str


@dataclass(frozen=True)
class Failure:
    """Something that could not be restored, why, and the shell line that does it by hand."""

    what: str
    reason: str
    command: str


@dataclass
class Recovery:
    """The outcome of a restoration (with `dry_run`: of one that would be done)."""

    restored: list[KnobChange] = field(default_factory=list)
    foreign: list[KnobChange] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cleanups: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    dry_run: bool = False

    def lines(self) -> list[str]:
        """A sentence for each thing done, left or failed."""
        state = "would be restored" if self.dry_run else "restored"
        gone = "would be removed" if self.dry_run else "removed"
        lines = [f"{c.path}: {c.found} -> {c.original} ({state})" for c in self.restored]
        lines += [f"{what} ({gone})" for what in self.removed]
        lines += [
            f"{c.path}: left at {c.found}, which another program set (it was {c.original})"
            for c in self.foreign
        ]
        lines += self.cleanups + self.refused
        return lines + self.notices + [f"{f.what}: {f.reason}" for f in self.failed]

    def add(self, other: Recovery) -> None:
        """Take over what another session's recovery did."""
        for each in ("restored", "foreign", "removed", "failed", "refused", "cleanups", "notices"):
            getattr(self, each).extend(getattr(other, each))

    def raise_if_failed(self) -> None:
        """RestoreError with the shell lines when something could not be restored.

        HostError for what a journal named and no session of ours can have changed.
        """
        if self.refused and not self.failed:
            raise HostError(
                "; ".join(self.refused), "see who can write there; the rest is restored"
            )
        if not self.failed:
            return
        what = "; ".join(f"{f.what}: {f.reason}" for f in self.failed)
        commands = "\n".join(f"  {f.command}" for f in self.failed)
        raise RestoreError(f"could not restore {what}", f"as root:\n{commands}")


class _Knowledge:
    """The journal's knowledge of each knob: its original, and every value that is ours.

    `unconfirmed` is the path of a write whose outcome is not in the journal: the session died
    in that instant, so the current values of its neighbours are our doing.
    """

    def __init__(self, log: Journal, entries: Iterable[Entry]) -> None:
        self.journal = log
        self.originals: dict[str, str] = {}
        self.queues: list[Path] = []
        self.things: list[Entry] = []
        self.data: list[Entry] = []
        self.commands: dict[int, str] = {}
        self.unconfirmed = ""
        self.odd = 0
        self.refused: list[str] = []
        self.cleanups: list[Entry] = []
        self.written: set[str] = set()
        self._ours: dict[str, set[str]] = {}
        for entry in entries:
            if not journalled.is_whole(entry):
                self.odd += 1  # a shape that this version does not know
            elif path := journalled.foreign(entry):
                self.refused.append(path)
            else:
                self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        kind = entry["kind"]
        if kind == "queue":
            queue = Path(entry["queue"])
            self.queues.append(queue)
            for name, value in entry["values"].items():
                self.originals.setdefault(str(queue / name), value)
        elif kind == "write":
            path = entry["path"]
            self.originals.setdefault(path, entry["original"])
            self._ours.setdefault(path, set()).add(entry["new"])
            self.unconfirmed = path
            self.written.add(path)
        elif kind == "after":
            self.caused(entry["values"])
            self.unconfirmed = ""
        elif kind == "own":
            self.things.append(entry)
        elif kind == "data":
            self.data.append(entry)
        elif kind == "command":
            self.commands[entry["number"]] = entry["undo"]
        elif kind == "undone":
            self.commands.pop(entry["number"], None)
        elif kind == "disown":
            self.things = [t for t in self.things if t["path"] != entry["path"]]
        elif kind == "cleanup":
            self.cleanups.append(entry)
        elif kind == "cleaned":
            self.cleanups = [c for c in self.cleanups if c["label"] != entry["label"]]
        elif kind == "keep":
            self._keep(entry)

    def _keep(self, entry: Entry) -> None:
        """Forget what stays: everything, or what belongs to a record, if that was stored."""
        places = entry.get("settings")
        if places is None:
            for memory in (self.originals, self.queues, self._ours, self.commands):
                memory.clear()
            self.unconfirmed = ""
        elif _digest(entry["record"]) == entry["sha256"]:
            self.queues = [queue for queue in self.queues if str(queue) not in places]
            for memory in (self.originals, self._ours):
                for path in [p for p in memory if _is_in(p, places)]:
                    del memory[path]
            if _is_in(self.unconfirmed, places):
                self.unconfirmed = ""

    def caused(self, values: dict[str, str]) -> None:
        """Take note of what a write of ours made of knobs."""
        for path, value in values.items():
            self._ours.setdefault(path, set()).add(value)

    def is_ours(self, path: str, value: str) -> bool:
        """Whether a value of a knob is one that we set, or caused by setting another."""
        return any(knobs.same(value, ours) for ours in self._ours.get(path, ()))

    def confirm(self, dry_run: bool) -> None:
        """Note, in the journal too, the side effects of the last write, if not yet noted."""
        path, self.unconfirmed = self.unconfirmed, ""
        if not path:
            return
        queue = knobs.queue_above(path)
        values = {str(queue / k): v for k, v in knobs.snapshot(queue).items()} if queue else {}
        for knob in filter(None, (path, knobs.companion(path))):
            if (value := _read(str(knob))) is not None:
                values[str(knob)] = value
        self.caused(values)
        if not dry_run:
            with contextlib.suppress(HostError):
                self.journal.append("after", path=path, values=values)

    def knobs_elsewhere(self) -> list[str]:
        """Knobs that are not in the `queue/` of a device, last written first."""
        inside = [str(queue) + "/" for queue in self.queues]
        paths = [p for p in self.originals if not any(p.startswith(q) for q in inside)]
        return paths[::-1]


def _is_in(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _digest(path: str) -> str:
    """The checksum of a record; nothing where there is none."""
    with contextlib.suppress(SpecError), open_regular(Path(path), "") as file:
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def restore_all(
    directory: Path, dry_run: bool = False, wait_s: float = GUARDIAN_PATIENCE_S
) -> Recovery:
    """Restore what every dead session of a state directory left, and what a reboot left.

    The caller holds the host lock. A running session is not touched, with a notice. A guardian at
    work is waited for; HostError when it takes longer than `wait_s`.
    """
    recovery = Recovery(dry_run=dry_run)
    for path in journal.sessions(directory):
        restored = restore_stale_session(path, dry_run, wait_s)
        if restored is not None:
            recovery.add(restored)
        elif path.exists():
            owner = journal.read(path).owner
            recovery.notices.append(f"a running session is not touched: process {owner}")
    for left in leftovers.stale(directory):
        _remove({"what": left.what, "path": left.path}, recovery, directory)
    return recovery


def forget_commands(directory: Path) -> None:
    """Take the commands of dead sessions for undone: by hand, or for good."""
    for path in journal.sessions(directory):
        if log := _stale(path, GUARDIAN_PATIENCE_S):
            for number in _Knowledge(log, log.content().entries).commands:
                log.append("undone", number=number)
            log.release()


def restore_stale_session(
    path: Path, dry_run: bool = False, wait_s: float = GUARDIAN_PATIENCE_S
) -> Recovery | None:
    """`restore_session` for a dead one; None for a running one, or one that is gone."""
    log = _stale(path, wait_s)
    if log is None:
        return None
    try:
        return restore_session(log, dry_run)
    finally:
        log.release()


def _stale(path: Path, wait_s: float) -> Journal | None:
    """The journal of a dead session, locked; None for a running one or one that is gone."""
    since = time.monotonic()
    while True:
        log = Journal.open_stale(path)
        if log is not None or not path.exists():
            return log
        content = journal.read(path)
        if journal.is_alive(content.owner.partition(" ")[0]):
            return None
        cleanups = sum(entry["kind"] == "cleanup" for entry in content.entries)
        if time.monotonic() > since + wait_s + cleanups * cleanup.PATIENCE_S:
            raise HostError(
                f"the guardian of a session that died is still running: {path}", "try again later"
            )
        time.sleep(0.02)


def restore_session(log: Journal, dry_run: bool = False) -> Recovery:
    """Restore what one session changed; the caller holds its lock. Then its journal is removed.

    Of another boot, settings are not replayed and only files are removed. The journal is kept as
    long as something could not be restored; a damaged one is renamed.
    """
    recovery = Recovery(dry_run=dry_run)
    content = log.content()
    if log.is_gone():
        recovery.notices.append(f"{log.path} was deleted: restored from memory")
    if not dry_run:
        with contextlib.suppress(OSError):
            log.end_last_line()
    known = _Knowledge(log, content.entries)
    if content.other_boot:
        if known.originals:
            recovery.notices.append("the journal is of another boot: its settings ended with it")
        known.things = [t for t in known.things if t["what"] in ("file", "directory")]
    else:
        if dry_run:
            lines = (f"{each['label']}: cleanup {each['line']!r}" for each in known.cleanups)
            recovery.cleanups += [f"{line} (would be run)" for line in lines]
        else:
            recovery.cleanups += cleanup.run_all(known.cleanups, known.things)
            recovery.notices += emulated_removal.quiesce(known.things)
        known.confirm(dry_run)
        for number in sorted(known.commands, reverse=True):
            _undo_command(number, known, recovery)
        # A limit of a device changes its `queue/` (io.cost turns wbt off), so it is undone first.
        _restore_knobs(known.knobs_elsewhere(), known, recovery)
        for queue in known.queues:
            _restore_queue(queue, known, recovery)
        for entry in () if dry_run else known.data:
            _remember(entry, log.path.parent, recovery)
    for thing in reversed(known.things):
        _remove(thing, recovery, log.path.parent)
    _finish(log.path, content, known, recovery)
    return recovery


def restore_if_stale(directory: Path) -> Recovery:
    """Restore what dead sessions left, unless another command is doing so.

    RestoreError when something could not be restored.
    """
    if not journal.exists(directory) and not leftovers.stale(directory):
        return Recovery()
    journal.prepare(directory)
    with journal.held(directory, wait_s=0.0) as got:
        recovery = restore_all(directory) if got else Recovery()
    recovery.notices.clear()  # other sessions are no business of a command that only looks
    recovery.raise_if_failed()
    return recovery


def _finish(path: Path, content: journal.Content, known: _Knowledge, recovery: Recovery) -> None:
    aside = path.with_suffix(".damaged")
    reasons = [f"line {number} is damaged" for number in content.damaged_lines]
    if known.odd:
        reasons.append(f"{known.odd} lines have a format that this version does not know")
    for reason in reasons:
        command = f"less {shlex.quote(str(aside))}"
        recovery.failed.append(Failure(str(path), reason, command))
    recovery.refused += [
        f"{aside} names {kernel_paths.shown(each)}, which is no setting and nothing of schedlab's: "
        "it is left alone"
        for each in known.refused
    ]
    if recovery.dry_run:
        return
    if reasons or known.refused:
        path.replace(aside)
    elif not recovery.failed:
        path.unlink(missing_ok=True)


def _remember(entry: Entry, state: Path, recovery: Recovery) -> None:
    """Note what the session left on a device that the user gave up, so that it counts as ours."""
    try:
        link = Path("/sys/dev/block") / entry["number"]
        if devices.text_of(link / "diskseq") != entry["sequence"]:
            return  # gone, or another medium by now
        # A worker that was killed with its owner may be in its last write.
        owned.wait_until(lambda: not processes.holding(entry["number"]), WORKERS_PATIENCE_S)
        with opened(knobs.device_file(link.resolve().name)) as descriptor:
            number = os.fstat(descriptor).st_rdev
            if f"{os.major(number)}:{os.minor(number)}" == entry["number"]:
                notes = journal.lasting_directory(state)
                content.remember(notes, entry["key"], descriptor, entry["size_bytes"])
    except (OSError, KeyError, TypeError) as error:
        recovery.notices.append(
            f"the record of a write to a device could not be stored: {cause_of(error)}"
        )


def _restore_queue(queue: Path, known: _Knowledge, recovery: Recovery) -> None:
    """Restore the scheduler of a device, then its other settings and tunables."""
    if not queue.is_dir():
        return  # the device is gone and its settings with it
    scheduler = str(queue / "scheduler")
    paths = [p for p in known.originals if p.startswith(f"{queue}/") and p != scheduler]
    current = _read(scheduler)
    original = known.originals.get(scheduler)
    if current is not None and original is not None and current != original:
        if not known.is_ours(scheduler, current):
            recovery.foreign.append(KnobChange(scheduler, current, original))
            paths = [p for p in paths if "/iosched/" not in p]
        else:
            foreign = _foreign_beside(paths, known)
            recovery.foreign += foreign
            paths = [p for p in paths if p not in {change.path for change in foreign}]
            _restore_knobs([scheduler], known, recovery)
            for change in () if recovery.dry_run else foreign:
                if _read(change.path) != change.found:  # the switch has reset it
                    _write(change.path, change.found, known)
    number = f"{queue}/nr_requests"
    left = {change.path for change in recovery.foreign}
    if number in known.written - left and not recovery.dry_run:
        _widen_tags(queue, known)
    _restore_knobs(sorted(paths), known, recovery)


def undo_command(log: Journal, number: int, undo: str) -> str:
    """Run the shell line that undoes a command, and note it; why it failed, empty if it did not."""
    reason = shell_line(undo)
    if not reason:
        with contextlib.suppress(HostError):
            log.append("undone", number=number)
    return reason


def shell_line(line: str) -> str:
    """Run a line of the user's by the shell; why it failed, empty if it did not.

    What it leaves in the background keeps its output, so that is no pipe.
    """
    try:
        with os.fdopen(os.memfd_create("schedlab-stderr"), "rb") as errors:
            ended = subprocess.run(
                ["/bin/sh", "-c", line], check=False, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=errors, timeout=COMMAND_TIMEOUT_S,
            )  # fmt: skip
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        return f"it did not end within {COMMAND_TIMEOUT_S:g} s"
    except OSError as error:
        return cause_of(error)
    return ": ".join((f"exit status {ended.returncode}", *last)) if ended.returncode else ""


def _undo_command(number: int, known: _Knowledge, recovery: Recovery) -> None:
    undo = known.commands[number]
    if recovery.dry_run:
        recovery.notices.append(f"would run: {undo}")
    elif reason := undo_command(known.journal, number, undo):
        recovery.failed.append(Failure(f"`{undo}`", reason, f"{undo}; {FORGET}"))


def _widen_tags(queue: Path, known: _Knowledge) -> None:
    """Give the driver its tags back that a lower `nr_requests` under none has taken from it."""
    scheduler, steps = str(queue / "scheduler"), knobs.tag_steps(queue)
    now = _read(scheduler)
    if steps is None or now is None or "none" not in knobs.offered(queue.parent.name):
        return
    number = str(queue / "nr_requests")
    if not known.is_ours(number, _read(number) or ""):
        return  # another program's value by now
    beside = [str(queue / name) for name in knobs.snapshot(queue) if name != "scheduler"]
    before = {path: _read(path) for path in beside}
    if now != "none":
        _write(scheduler, "none", known)
    for step in steps:
        _write(number, step, known)
    if now != "none":
        _write(scheduler, now, known)
        for path, value in before.items():  # what the detour has reset
            if value is not None and _read(path) != value and knobs.writable(path):
                _write(path, value, known)


def _foreign_beside(paths: list[str], known: _Knowledge) -> list[KnobChange]:
    """Settings of another program beside our scheduler, before our switch resets them.

    The tunables of the current scheduler end with it, independent of who set them.
    """
    beside = [path for path in paths if "/iosched/" not in path]
    changes = _differing(beside, known.originals)
    return [change for change in changes if not known.is_ours(change.path, change.found)]


def _restore_knobs(paths: list[str], known: _Knowledge, recovery: Recovery) -> None:
    """Restore each path that differs, again if one resets another, and read them once more.

    A path that is gone died with its scheduler or device.
    """
    first: dict[str, KnobChange] = {}
    foreign: set[str] = set()
    reasons: dict[str, str] = {}
    for _ in range(1 if recovery.dry_run else PASSES):
        differing = [c for c in _differing(paths, known.originals) if c.path not in foreign]
        for change in differing:
            path = change.path
            if path not in first and not known.is_ours(path, change.found):
                foreign.add(path)
                recovery.foreign.append(change)
                continue
            first.setdefault(path, change)
            if not recovery.dry_run:
                reasons[path] = _write(path, change.original, known)
        if not differing:
            break
    still = {} if recovery.dry_run else {c.path: c for c in _differing(paths, known.originals)}
    for path, change in first.items():
        if path not in still:
            recovery.restored.append(change)
            continue
        reason = reasons[path] or f"it reads {still[path].found} instead of {change.original}"
        command = f"echo {shlex.quote(change.original)} > {shlex.quote(path)}"
        recovery.failed.append(Failure(path, reason, command))


def _differing(paths: Iterable[str], originals: dict[str, str]) -> list[KnobChange]:
    values = [(path, _read(path)) for path in paths]
    return [
        KnobChange(path, value, originals[path])
        for path, value in values
        if value is not None and value != originals[path] and knobs.writable(path)
    ]


def _read(path: str) -> str | None:
    try:
        return knobs.read_value(path)
    except OSError:
        return None


def _write(path: str, value: str, known: _Knowledge) -> str:
    """Write, in the journal as any other; the reason when the kernel does not take it."""
    queue = knobs.queue_above(path)
    before = knobs.snapshot(queue) if queue else {}
    try:
        try:
            known.caused(write_ahead.write(known.journal, path, value, value))
        except HostError:  # no journal to be had, no reason to leave the knob as it is
            knobs.write_value(path, value)
            known.caused(write_ahead.caused(Path(path), queue, before))
    except OSError as error:
        return cause_of(error)
    return ""


def _remove(thing: Entry, recovery: Recovery, state: Path) -> None:
    """Remove one owned thing and the note about it; a failure is noted with the shell line."""
    what, path = thing["what"], thing["path"]
    if recovery.dry_run:
        if Path(path).exists():
            recovery.removed.append(f"{what} {path}")
        return
    try:
        if _remover(thing):
            recovery.removed.append(f"{what} {path}")
        leftovers.forget(state, path)
    except OSError as error:
        quoted = shlex.quote(path)
        command = {
            "loop": f"losetup -d {quoted}",
            "mount": f"umount {quoted}",
            "cgroup": f"rmdir {quoted}",
            "directory": f"rm -r {quoted}",
            emulated_removal.KIND: f"umount -lf {quoted}/fuse; rm -r {quoted}",
        }.get(what, f"rm {quoted}")
        recovery.failed.append(Failure(f"{what} {path}", cause_of(error), command))


def _remover(thing: dict[str, Any]) -> bool:
    if thing["what"] == "loop":
        return owned.remove_loop(thing["index"], thing["backing"])
    return _REMOVERS[thing["what"]](thing["path"])
