"""Start-up of a program from a cold cache, alone or while others read and write.

The program, and the shared libraries that it is linked with, are copied to the target first, so
that they are read from the measured device. The time counts from fork to exit.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schedlab.errors import HostError, SpecError
from schedlab.kinds.actors import RANDOM_ENDLESS
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.brought import programs_of_line
from schedlab.kinds.engine import group, run_job, work
from schedlab.kinds.file_access import READ, WRITE, Positive, Seconds
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.nouns import GateFinding
from schedlab.nouns.load_result import GroupResult

# Shared libraries of desktop programs: sizes about log-normal, median 128 KiB.
SIZE_LOG_MEAN = 11.8
SIZE_LOG_DEVIATION = 1.2
LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class TimedRun:
    """A program that ended; `status` is None when it was killed at the limit."""

    elapsed_s: float
    user_s: float
    system_s: float
    status: int | None
    message: str

    @property
    def cpu_s(self) -> float:
        """User and system time."""
        return self.user_s + self.system_s


class Startup(WorkloadKind, frozen=True):
    """Start-up of a program, alone or beside `readers` and `writers`.

    Without `program`, a built-in one reads `program_bytes` in files as an application reads its
    libraries. Nothing confines `program` (docs/guides/host-safety.md). `ramp_seconds` is the load
    before the start. At `limit_seconds` the program is killed and counts with that time, as a lower
    bound.
    """

    kind: ClassVar[str] = "startup"
    is_buffered = True
    metrics: ClassVar[tuple[str, ...]] = (
        "startup_s", "cpu_s", "read_bytes_per_s", "write_bytes_per_s",
    )  # fmt: skip
    actors: ClassVar[Mapping[str, str]] = {
        "read_bytes_per_s": "readers", "write_bytes_per_s": "writers",
    }  # fmt: skip
    needs_files: ClassVar[bool] = True

    program: str = ""
    program_bytes: Annotated[int, Meta(ge=4096)] = 16 << 20
    readers: Annotated[int, Meta(ge=0, le=1024)] = 0
    writers: Annotated[int, Meta(ge=0, le=1024)] = 0
    background_record_bytes: Positive = 65536
    background_depth: Annotated[int, Meta(ge=1, le=32767)] = 64
    span_bytes: Annotated[int, Meta(ge=0)] = 0
    ramp_seconds: Seconds = 0.5
    limit_seconds: Annotated[float, Meta(gt=0)] = LIMIT_SECONDS

    def programs(self) -> tuple[str, ...]:
        """The user's program."""
        return (self.program,) if self.program else ()

    def brought(self) -> tuple[str, ...]:
        """The user's program."""
        return tuple(programs_of_line(self.program))

    def check(self, label: str) -> None:
        """The program is installed."""
        if self.program and not self._executable():
            hint = "name a program that is installed"
            raise SpecError(f"{label}: program {self.program!r} is not found", hint)

    def estimate_s(self) -> float:
        """A rough estimate: a second beside the load before it."""
        return 1.0 + self.ramp_seconds

    def prepare(self, target: ResolvedTarget, label: str) -> None:
        """Put the program onto the target, once; SpecError when there is none."""
        home = self._home(target, label)
        if home.exists():
            return
        words = shlex.split(self.program) if self.program else ["cat"]
        program = self._executable()
        if program is None:
            hint = "name a program that is installed"
            raise SpecError(f"{label}: program {words[0]!r} is not found", hint)
        partial = home.with_name(f"{home.name}.partial")
        (partial / "lib").mkdir(parents=True)
        shutil.copy(program, partial / "program")
        for library in shared_libraries(program):
            shutil.copy(library, partial / "lib" / library.name)
        arguments = words[1:]
        if not self.program:
            arguments = [str(home / name) for name in _write_files(partial, self.program_bytes)]
        (partial / "arguments.json").write_text(json.dumps(arguments))
        partial.rename(home)
        os.sync()

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """Seconds until the program ended, and what its neighbours got done meanwhile."""
        home = self._home(target, label)
        command = [str(home / "program"), *json.loads((home / "arguments.json").read_text())]
        libraries = {"LD_LIBRARY_PATH": str(home / "lib")}
        program = Program(command, {**os.environ, **libraries}, self.limit_seconds)
        groups = self.background(target, seed)
        ramp_s = self.ramp_seconds
        started, loads = beside(groups, program, ramp_s) if groups else (program.run(), {})
        gates: tuple[GateFinding, ...] = ()
        late = started.status is None
        if late:
            text = f"the program was still running after {self.limit_seconds:g} s"
            gates = (GateFinding("limit", f"{text} and counts with that time", fatal=False),)
        elif started.status:
            text = started.message or f"the program exited {started.status}"
            gates = (GateFinding("command-failed", text),)
        metrics = {"startup_s": started.elapsed_s, "cpu_s": started.cpu_s}
        for name, load in loads.items():
            if load.elapsed_ns:
                is_read = name == "readers"
                word, side = ("read", load.reads) if is_read else ("write", load.writes)
                metrics[f"{word}_bytes_per_s"] = side.bytes / load.elapsed_ns * 1e9
        errors = sum(side.errors for load in loads.values() for side in load.sides)
        bounds = {"startup_s": "at-least"} if late else {}
        facts = {"command": command[0], "errors": errors}
        return Outcome(metrics, facts, gates, bounds=bounds)

    def background(self, target: ResolvedTarget, seed: int) -> list[dict[str, object]]:
        """The groups of readers and writers that run meanwhile."""
        groups = []
        sides = (("readers", self.readers, READ), ("writers", self.writers, WRITE))
        for number, (name, workers, direction) in enumerate(sides):
            load = work(
                RANDOM_ENDLESS, direction, self.background_record_bytes, seed + number,
                self.background_depth, span=self.used_bytes(target.size_bytes),
            )  # fmt: skip
            if workers:
                options = {"workers": workers, "engine": "io_uring", "direct": True}
                groups.append(group(name, target, load, **options))
        return groups

    def _executable(self) -> str | None:
        words = shlex.split(self.program) if self.program else ["cat"]
        return shutil.which(words[0]) if words else None

    def _home(self, target: ResolvedTarget, label: str) -> Path:
        """Where the workload's program is on the target."""
        if target.directory is None:
            raise SpecError(f"{label}: needs a file system", "use --scratch or --directory")
        what = self.program or str(self.program_bytes)
        return target.directory / f"program-{zlib.crc32(what.encode()):08x}"


def shared_libraries(program: str) -> list[Path]:
    """The libraries of an executable, from ldd; empty for scripts and static programs."""
    process = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    paths = (line.partition("=>")[2].split("(")[0].strip() for line in process.stdout.splitlines())
    return [Path(path) for path in paths if path.startswith("/")]


def beside(
    groups: Sequence[Mapping[str, Any]], program: Program, ramp_s: float
) -> tuple[TimedRun, dict[str, GroupResult]]:
    """The program's start after the ramp of the load, and the work of the load's groups.

    The load runs in this thread, which hears Ctrl-C, and ends when the program does.
    """
    starts: list[TimedRun] = []
    ended = threading.Event()

    def later() -> None:
        try:
            if not ended.wait(ramp_s):
                starts.append(program.run())
        finally:
            ended.set()

    thread = threading.Thread(target=later)
    thread.start()
    try:
        # The load is counted from half its ramp on: by then all workers are under way.
        longest_s = program.limit_s + ramp_s
        loads = run_job(groups, longest_s, ramp_s / 2, should_end=ended.is_set)
    finally:
        ended.set()
        program.kill()
        thread.join()
    if not starts:
        raise HostError("the load ended before the program began", "look at `dmesg` for I/O errors")
    return starts[0], loads


@dataclass
class Program:
    """A command that is run to its end, or killed at its limit.

    `environment` is all that it gets; of its complaints `kept_bytes` are kept.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    limit_s: float = threading.TIMEOUT_MAX
    kept_bytes: int = 4096
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def run(self) -> TimedRun:
        """Fork, execute and await it."""
        began = time.monotonic()
        try:
            child = self._child = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            return TimedRun(0.0, 0.0, 0.0, 126, f"{self.command[0]}: {error.strerror}")
        killer = threading.Timer(self.limit_s, self.kill)
        killer.start()
        try:
            assert child.stderr is not None
            message = child.stderr.read(self.kept_bytes).decode(errors="replace").strip()
            while child.stderr.read(65536):  # who writes into a closed pipe is killed
                pass
            child.stderr.close()
            _, status, usage = os.wait4(child.pid, 0)
            elapsed_s = time.monotonic() - began
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:  # a signal to us alone: it would hold the file system we unmount
            child.kill()
            child.wait()
            raise
        finally:
            killer.cancel()
        ended = None if elapsed_s >= self.limit_s else child.returncode
        return TimedRun(elapsed_s, usage.ru_utime, usage.ru_stime, ended, message)

    def kill(self) -> None:
        """End it now, if it runs."""
        if self._child and self._child.returncode is None:
            self._child.kill()


def _write_files(folder: Path, size_bytes: int) -> list[str]:
    """Files of together about `size_bytes`; their names in the order of reading."""
    rng = random.Random(1)
    names: list[str] = []
    while size_bytes > 0:
        size = max(4096, min(int(rng.lognormvariate(SIZE_LOG_MEAN, SIZE_LOG_DEVIATION)), 4 << 20))
        names.append(f"file{len(names):03d}")
        (folder / names[-1]).write_bytes(rng.randbytes(min(size, size_bytes)))
        size_bytes -= size
    rng.shuffle(names)
    return names
