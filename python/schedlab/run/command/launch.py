"""Start commands for a measurement: in a separate cgroup, with a limit; keep their output.

The start itself is the compiled module's (crates/load/src/launch.rs): the clock is read directly
before the exec. Output goes to memory, so that logging does not write to the measured disk.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from schedlab.errors import GateError, HostError, as_root
from schedlab.host import processes
from schedlab.host.safety import owned
from schedlab.kinds.brought import program_path
from schedlab.kinds.launching import (
    SHELL,
    VARIABLES,
    Launching,
    Tokens,
    replaced,
    replaced_in_line,
)
from schedlab.nouns import GateFinding
from schedlab.nouns.load_result import Ending
from schedlab.run.command.confinement import TEMPORARY, Wall

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control

POLL_S = 0.1
TERM_PATIENCE_S = 2.0
LAUNCH_TRIES = 7
MIB = 1 << 20
CONFINE_HINT = "is there every --writable path? --unconfined starts it without"
# What a program prints when the kernel refuses it something, as a wall makes the kernel do.
REFUSALS = tuple(os.strerror(number).lower() for number in (errno.EACCES, errno.EPERM, errno.EROFS))


@dataclass(frozen=True)
class Launch:
    """A command to start; `scheduling` and `confinement` as crates/load has them."""

    argv: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    user: str = ""
    stdin: str = ""
    cgroups: Sequence[str] = ()
    scheduling: Mapping[str, Any] | None = None
    cpus: Sequence[int] = ()
    timeout_s: float | None = None
    output_limit_bytes: int = 64 * MIB
    same_session: bool = False
    confinement: Mapping[str, Any] | None = None
    room: int | None = None


@dataclass(frozen=True)
class Ended:
    """How a command ended. `status` is None when a signal ended it; `timed_out` when we did."""

    elapsed_s: float
    status: int | None
    signal: int | None
    timed_out: bool
    output_exceeded: bool
    stdout: bytes
    stderr: bytes
    usage: Mapping[str, float] = field(default_factory=dict)

    def failure(self, ok_exit: Sequence[int] = (0,)) -> str:
        """Why it did not succeed, in words; empty when it did or was stopped at its limit."""
        if self.timed_out or self.output_exceeded:
            return ""
        if self.signal is not None:
            names = {each.value: each.name for each in signal.Signals}
            return f"was killed by {names.get(self.signal, f'signal {self.signal}')}"
        return "" if self.status in ok_exit else f"exited with status {self.status}"

    def last_lines(self, count: int) -> str:
        """The last lines of stderr, or of stdout when it printed no errors."""
        text = (self.stderr.strip() or self.stdout.strip()).decode(errors="replace")
        return "\n".join(text.splitlines()[-count:])


def wall_hint(kind: Launching, group: WorkGroup, ended: Ended) -> str:
    """The way out for a program that a wall may have stopped; empty where none held it, or where it
    printed nothing of that kind."""
    printed = (ended.stderr + ended.stdout).decode(errors="replace").lower()
    if group.wall and group.wall.holds(kind) and any(text in printed for text in REFUSALS):
        place = "--writable PATH opens a place of files, " if kind.confine == "files" else ""
        return f"schedlab holds this program, which may be why: {place}--unconfined starts it free"
    return ""


class WorkGroup:
    """The processes that commands start: those in a cgroup of ours, and all that descend from the
    keepers of the commands (crates/load/src/keeper.rs), wherever they went.

    `wall` is what holds those that a user brings. In a `rooms` of the group (or of `beside`, those
    of servers that a command shall live with) programs under the same wall see each other.
    """

    def __init__(
        self, control: Control | None, name: str, wall: Wall | None = None,
        beside: WorkGroup | None = None,
    ) -> None:  # fmt: skip
        self.wall = wall
        self.beside = beside
        self._kept: list[Any] = []
        self._rooms: dict[tuple[object, ...], Any] = {}
        self._joined: tuple[str, ...] = ()
        self.path: Path | None = None
        if control is not None and os.geteuid() == 0:
            self.path = control.cgroup(name, root=hierarchy())
        self.paths = [self.path] if self.path else []

    @classmethod
    def joining(cls, group: WorkGroup, joined: Sequence[str]) -> WorkGroup:
        """The same processes, which join further cgroups by these files."""
        work_group = copy.copy(group)  # with the same keepers and paths
        for file in joined:
            work_group.join(Path(file).parent)
        return work_group

    def join(self, group: Path) -> None:
        """Have what is started from now on join this group, too.

        In the hierarchy of our own group, which a process cannot be in as well, ours moves below.
        """
        if self.path and self.path.parent == group.parent:
            self.path = group / self.path.name
            if self.path not in self.paths:
                self.path.mkdir()
                self.paths.append(self.path)
        else:
            self._joined = (*self._joined, str(group / "cgroup.procs"))

    @property
    def files(self) -> tuple[str, ...]:
        """The files through which a process joins."""
        own = (str(self.path / "cgroup.procs"),) if self.path else ()
        return (*own, *self._joined)

    def room(self, kind: Launching) -> int | None:
        """The room of programs that live beside each other; None: each has one of its own."""
        servers = self.beside if self.beside and kind.keep_daemons else self
        if servers.beside:
            return None
        return servers._room(kind.confine, kind.writable, kind.user)

    def _room(self, *key: object) -> int:
        from schedlab import _core

        if key not in self._rooms:
            order = json.dumps({"cgroups": self.files[:1]})
            try:
                self._rooms[key] = _core.Room(order)
            except OSError as error:
                raise HostError(f"cannot confine programs: {error}", CONFINE_HINT) from error
        pid: int = self._rooms[key].pid()
        return pid

    def started(self, child: Any) -> None:
        """Note that a command was started."""
        self._kept.append(child)

    def members(self) -> list[tuple[int, str]]:
        """(process id, name) of everything that still runs in it."""
        rooms = {room.pid() for room in self._rooms.values()}
        keepers = {child.keeper() for child in self._kept}
        mine = {pid for path in self.paths for pid in processes.below(path) if pid}
        mine.update(processes.descendants(rooms | keepers))
        return [(pid, processes.name_of(pid) or "?") for pid in sorted(mine - rooms - keepers)]

    def end(self) -> list[str]:
        """End the remaining processes: TERM, then KILL; returns their names."""
        left = self.members()
        self._signal(signal.SIGTERM)
        owned.wait_until(lambda: not self.members(), TERM_PATIENCE_S if left else 0.0)
        walled = [child for child in self._kept if child.walls()]
        for each in (*walled, *self._rooms.values()):  # at once, however fast they fork
            each.end()
        owned.wait_until(lambda: not self._signal(signal.SIGKILL), 10.0)
        for each in self._kept:  # by whom what they left was found until now
            each.end()
        self._kept.clear()
        self._rooms.clear()
        return [name for _, name in left]

    def _signal(self, number: int) -> bool:
        """Send it to all; whether there were any."""
        members = self.members()
        for pid, _ in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(members)

    def forget_ended(self) -> None:
        """Let go of commands that have ended and left nothing."""
        for child in tuple(self._kept):
            if child.wait(0.0) and not processes.descendants([child.keeper()]):
                child.end()
                self._kept.remove(child)


def paths_of(*groups: WorkGroup) -> tuple[Path, ...]:
    """The cgroups of these groups, where they have one."""
    return tuple(path for group in groups for path in group.paths)


def noted(findings: Sequence[GateFinding]) -> list[GateFinding]:
    """Findings that are only noted: the machine is measured together with its daemons."""
    return [replace(each, fatal=False) for each in findings]


def hierarchy() -> Path | None:
    """The root of the hierarchy of our cgroups: None for v2, else v1's pids or freezer."""
    try:
        owned.cgroup_root()
    except HostError:
        for name in ("pids", "freezer"):
            root = Path("/sys/fs/cgroup") / name
            if (root / "cgroup.procs").exists():
                return root
        raise
    return None


def run(launch: Launch, group: WorkGroup, look: Callable[[], None] = lambda: None) -> Ended:
    """Start a command and await its end, or end it at its limit.

    `look` is called ten times a second, and at the end. HostError naming the step when
    the kernel does not start it so. Ctrl-C ends the command.
    """
    with _streams() as streams:
        child = _started(launch, group, streams)
        try:
            timed_out, exceeded, ending = _await(child, launch, streams, look)
        except BaseException:
            group.end()
            raise
        if timed_out or exceeded:
            group.end()
            ending = child.wait(10.0)
        group.forget_ended()
        return _ended(ending, launch, streams, timed_out, exceeded)


class Running:
    """A program that runs in the background, and is polled for its end."""

    def __init__(self, child: Any, launch: Launch, streams: Sequence[int]) -> None:
        self._child = child
        self._launch = launch
        self._streams = streams

    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        ending = self._child.wait(0.0)
        return _ended(ending, self._launch, self._streams) if ending else None

    def kill(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if not self._child.wait(0.0):
            os.kill(self._child.pid(), number)

    def last_lines(self, count: int) -> str:
        """Its last output."""
        ended = _ended(None, self._launch, self._streams)
        return ended.last_lines(count)


@contextlib.contextmanager
def background(launch: Launch, group: WorkGroup) -> Iterator[Running]:
    """A program that runs in the background; HostError as of `run`. The caller ends it."""
    with _streams() as streams:
        yield Running(_started(launch, group, streams), launch, streams)


def _started(launch: Launch, group: WorkGroup, streams: Sequence[int]) -> Any:
    from schedlab import _core

    order = order_of(launch, group, streams)
    try:
        child = _core.Launched(json.dumps(order))
    except OSError as error:
        raise _refused(error, launch) from error
    group.started(child)
    return child


def _ended(
    ending: str | None,
    launch: Launch,
    streams: Sequence[int],
    timed_out: bool = False,
    exceeded: bool = False,
) -> Ended:
    report = msgspec.json.decode(ending, type=Ending) if ending else None
    stdout, stderr = (_content(fd, launch.output_limit_bytes) for fd in streams[1:])
    return Ended(
        elapsed_s=report.elapsed_ns / 1e9 if report else 0.0,
        status=report.status if report else None,
        signal=report.signal if report else None,
        timed_out=timed_out,
        output_exceeded=exceeded,
        stdout=stdout,
        stderr=stderr,
        usage=_usage(report),
    )


def launch_of(
    kind: Launching,
    line: str,
    tokens: Tokens,
    group: WorkGroup,
    **options: Any,
) -> Launch:
    """The launch of a phase's shell line, or (empty) of the command itself."""
    facts = {VARIABLES[name]: str(value) for name, value in tokens.items()}
    confinement = group.wall.order(kind, tokens["dir"]) if group.wall else None
    if confinement and confinement.get("files"):
        facts["TMPDIR"] = TEMPORARY
    return Launch(
        argv=_words(kind, line, tokens),
        directory=tokens["dir"],
        environment=kind.environment_of(facts),
        user=kind.user,
        stdin=_input(kind, group),
        cgroups=group.files,
        output_limit_bytes=kind.output_limit_bytes,
        confinement=confinement,
        room=None if confinement is None else group.room(kind),
        **options,
    )


def _input(kind: Launching, group: WorkGroup) -> str:
    """Where the file of its standard input is; a program could put a link there later."""
    if not kind.stdin:
        return ""
    return group.wall.place(kind.stdin) if group.wall else str(Path(kind.stdin).resolve())


def _words(kind: Launching, line: str, tokens: Tokens) -> list[str]:
    if line := line or kind.shell:
        return [SHELL, "-c", replaced_in_line(line, tokens)]
    return [replaced(word, tokens) for word in kind.command()]


def ends_of(text: bytes) -> bytes:
    """The first and last MiB of an output."""
    if len(text) <= 2 * MIB:
        return text
    return text[:MIB] + b"\n[...]\n" + text[-MIB:]


def launch_cost_s(wall: Wall) -> float:
    """Median time from the exec to the end of `/bin/true`: it is in every elapsed time."""
    group = WorkGroup(None, "cost")
    launch = Launch(["/bin/true"], Path("/"), {"PATH": "/usr/bin:/bin"}, timeout_s=10,
                    confinement=None if wall.missing else {})  # fmt: skip
    return statistics.median(run(launch, group).elapsed_s for _ in range(LAUNCH_TRIES))


def order_of(launch: Launch, group: WorkGroup, streams: Sequence[int] = ()) -> dict[str, object]:
    """The program for the compiled module, as JSON types."""
    program = program_path(launch.argv[0], launch.environment.get("PATH"))
    if program is None:
        raise HostError(
            f"program {launch.argv[0]!r} is not found", "use its full path, or install it"
        )
    order: dict[str, object] = {
        "program": program,
        "argv": list(launch.argv),
        "environment": [f"{k}={v}" for k, v in launch.environment.items()],
        "directory": str(launch.directory),
        "streams": list(streams),
        "input": launch.stdin or os.devnull,
        "cgroups": list(dict.fromkeys([*group.files, *launch.cgroups])),
        "scheduling": launch.scheduling,
        "cpus": list(launch.cpus),
        "same_session": launch.same_session,
        "confinement": launch.confinement,
        "kept": True,
        "room": launch.room,
    }
    if launch.user:
        order["user"] = _ids(launch.user)
    return order


def _ids(user: str) -> dict[str, object] | None:
    """The ids of a user; None when that is who we are."""
    import pwd

    entry = pwd.getpwnam(user)
    if entry.pw_uid == os.geteuid():
        return None
    groups = os.getgrouplist(user, entry.pw_gid)
    return {"uid": entry.pw_uid, "gid": entry.pw_gid, "groups": groups}


def _await(
    child: Any, launch: Launch, streams: Sequence[int], look: Callable[[], None]
) -> tuple[bool, bool, str | None]:
    """(reached its time limit, printed too much, how it ended as JSON or None)."""
    began = time.monotonic()
    while True:
        left = POLL_S
        if launch.timeout_s is not None:
            left = min(left, max(0.0, began + launch.timeout_s - time.monotonic()))
        ending = child.wait(left)
        look()
        if ending:
            return False, False, ending
        if launch.timeout_s is not None and time.monotonic() - began >= launch.timeout_s:
            return True, False, None
        if any(os.fstat(fd).st_size > launch.output_limit_bytes for fd in streams[1:]):
            return False, True, None


@contextlib.contextmanager
def _streams() -> Iterator[tuple[int, int, int]]:
    """Descriptors for the standard streams: nothing, which the start replaces by a file, and two
    files in memory, which a command of another user may open by their names (memfd_create(2):
    anybody may read and write).
    """
    fds: list[int] = []
    try:
        fds.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        fds += [os.memfd_create(name) for name in ("schedlab-stdout", "schedlab-stderr")]
        yield (fds[0], fds[1], fds[2])
    finally:
        for fd in fds:
            os.close(fd)


def _content(fd: int, limit_bytes: int) -> bytes:
    size = min(os.fstat(fd).st_size, limit_bytes)
    return os.pread(fd, size, 0)


def _usage(usage: Ending | None) -> dict[str, float]:
    if not usage:
        return {}
    user_s, system_s = usage.user_ns / 1e9, usage.system_ns / 1e9
    return {
        "cpu_s": user_s + system_s,
        "user_s": user_s,
        "system_s": system_s,
        "rss_bytes": float(usage.rss_bytes),
        "major_faults": float(usage.major_faults),
        "context_switches": float(usage.switches),
        "own_read_bytes": float(usage.read_bytes),
        "own_dirtied_bytes": float(usage.dirtied_bytes),
    }


def _refused(error: OSError, launch: Launch) -> HostError | GateError:
    """The error for a program that the kernel refused, with what helps."""
    step, who = str(error.filename), f" as {launch.user}" if launch.user else ""
    what = {
        "program": (f"cannot execute {launch.argv[0]}{who}", "is it executable by that user?"),
        "directory": (
            f"{launch.directory} cannot be entered{who}",
            "chmod a+x the directories above it, or --user root",
        ),
        "input": (f"cannot read {launch.stdin or os.devnull}", "is it a file, and no link by now?"),
        "user": (f"cannot become {launch.user}", as_root("omit --user")),
        "confinement": (
            f"cannot confine {launch.argv[0]}",
            CONFINE_HINT,
        ),
        "cgroup": ("cannot join the cgroup", "run it as root, outside of a container"),
        "policy": (f"the kernel refuses the policy {launch.scheduling}", "see `schedlab doctor`"),
        "affinity": (f"no such CPU: {launch.cpus}", "choose others with --cpus"),
    }
    text, hint = what.get(step, (f"cannot start {launch.argv[0]}{who}", "see ulimit -u"))
    return HostError(f"{text}: {error.strerror}", hint)
