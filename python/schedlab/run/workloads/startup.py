"""Start-up of a program from a cold cache, alone or while others read and write.

Parameters: `program` (a command line; it must end by itself), or without it an own program that
reads `program_bytes` in files as an application reads its libraries; `readers`, `writers` (workers
that run meanwhile, random `background_record_bytes` at `background_depth`), `span_bytes`,
`ramp_seconds` (load before the start), `limit_seconds` (then the program is killed and counted with
that time, as a lower bound).

The program, and the shared libraries that it is linked with, are copied to the place first, so that
they are read from the measured device; the time is from fork to exit.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SpecError
from schedlab.run.outcome import Outcome
from schedlab.run.place import Place, group, run_job
from schedlab.run.workloads.file_test import READ, WRITE
from schedlab.spec import GateFinding, Workload

# Shared libraries of desktop programs: sizes about log-normal, median 128 KiB.
SIZE_LOG_MEAN = 11.8
SIZE_LOG_DEVIATION = 1.2
LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Start:
    """What a started program gave; `status` is None when it was killed at the limit."""

    elapsed_s: float
    cpu_s: float
    status: int | None
    message: str


def writes(workload: Workload) -> bool:
    """The program is put there, and neighbours may write."""
    return True


def seconds(workload: Workload) -> float:
    """A rough estimate: a second beside the load before it."""
    return 1.0 + _ramp(workload)


def prepare(place: Place, workload: Workload) -> None:
    """Put the program onto the place, once; SpecError when there is none."""
    if place.directory is None:
        raise SpecError(f"{workload.label}: needs a file system", "use --scratch or --directory")
    home = _home(place, workload)
    if home.exists():
        return
    given = workload.parameters.get("program")
    words = shlex.split(str(given)) if given else ["cat"]
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise SpecError(f"program {given!r}: is not found", "name a program that is installed")
    partial = home.with_name(f"{home.name}.partial")
    (partial / "lib").mkdir(parents=True)
    shutil.copy(program, partial / "program")
    for library in shared_libraries(program):
        shutil.copy(library, partial / "lib" / library.name)
    arguments = words[1:]
    if not given:
        size_bytes = int(workload.parameters.get("program_bytes", 16 << 20))
        arguments = [str(home / name) for name in _write_files(partial, size_bytes)]
    (partial / "arguments.json").write_text(json.dumps(arguments))
    partial.rename(home)
    os.sync()


def shared_libraries(program: str) -> list[Path]:
    """What ldd says that an executable is linked with; empty for scripts and static programs."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    paths = (line.partition("=>")[2].split("(")[0].strip() for line in done.stdout.splitlines())
    return [Path(path) for path in paths if path.startswith("/")]


def measure(place: Place, workload: Workload, seed: int) -> Outcome:
    """Seconds until the program ended, and what its neighbours got done meanwhile."""
    home = _home(place, workload)
    command = [str(home / "program"), *json.loads((home / "arguments.json").read_text())]
    limit_s = float(workload.parameters.get("limit_seconds", LIMIT_SECONDS))
    libraries = {"LD_LIBRARY_PATH": str(home / "lib")}
    program = Program(command, {**os.environ, **libraries}, limit_s)
    groups = background(place, workload, seed)
    started, done = beside(groups, program, _ramp(workload)) if groups else (program.run(), {})
    gates: tuple[GateFinding, ...] = ()
    if started.status is None:
        text = f"the program had not ended after {limit_s:g} s and counts with that time"
        gates = (GateFinding("limit", text, fatal=False),)
    elif started.status:
        text = started.message or f"the program exited {started.status}"
        gates = (GateFinding("command-failed", text),)
    metrics = {"startup_s": started.elapsed_s, "cpu_s": started.cpu_s}
    for name, word, side in (("readers", "read", "reads"), ("writers", "write", "writes")):
        if name in done and done[name]["elapsed_ns"]:
            rate = done[name][side]["bytes"] / done[name]["elapsed_ns"] * 1e9
            metrics[f"{word}_bytes_per_s"] = rate
    errors = sum(done[g][s]["errors"] for g in done for s in ("reads", "writes"))
    return Outcome(metrics, {"command": command[0], "errors": errors}, gates)


def background(place: Place, workload: Workload, seed: int) -> list[dict[str, Any]]:
    """The groups of readers and writers that run meanwhile."""
    given = workload.parameters
    span = min(int(given.get("span_bytes", place.size_bytes)), place.size_bytes)
    groups = []
    for number, (name, direction) in enumerate((("readers", READ), ("writers", WRITE))):
        load = {
            "pattern": {"kind": "random", "replacement": True},
            "direction": direction,
            "record": int(given.get("background_record_bytes", 65536)),
            "span": span,
            "arrivals": {"kind": "closed", "depth": int(given.get("background_depth", 64))},
            "seed": seed + number,
        }
        if workers := int(given.get(name, 0)):
            options = {"workers": workers, "engine": "io_uring", "direct": True}
            groups.append(group(name, place, load, **options))
    return groups


def beside(
    groups: Sequence[Mapping[str, Any]], program: Program, ramp_s: float
) -> tuple[Start, dict[str, dict[str, Any]]]:
    """The program's start after the ramp of the load, and what the load's groups did beside it.

    The load runs in this thread, which hears Ctrl-C, and ends when the program does.
    """
    found: list[Start] = []
    ended = threading.Event()

    def later() -> None:
        try:
            if not ended.wait(ramp_s):
                found.append(program.run())
        finally:
            ended.set()

    thread = threading.Thread(target=later)
    thread.start()
    try:
        # The load is counted from half its ramp on: by then all workers are under way.
        longest_s = program.limit_s + ramp_s
        done = run_job(groups, longest_s, ramp_s / 2, should_end=ended.is_set)
    finally:
        ended.set()
        program.kill()
        thread.join()
    if not found:
        raise HostError("the load ended before the program began", "look at `dmesg` for I/O errors")
    return found[0], done


class Program:
    """A command that is run to its end, or killed at its limit."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], limit_s: float
    ) -> None:
        """`environment` is all that the command gets."""
        self.command = command
        self.environment = environment
        self.limit_s = limit_s
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> Start:
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
            return Start(0.0, 0.0, 126, f"{self.command[0]}: {error.strerror}")
        killer = threading.Timer(self.limit_s, self.kill)
        killer.start()
        try:
            assert child.stderr is not None
            message = child.stderr.read(4096).decode(errors="replace").strip()
            child.stderr.close()
            _, status, usage = os.wait4(child.pid, 0)
            elapsed_s = time.monotonic() - began
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            killer.cancel()
        cpu_s = usage.ru_utime + usage.ru_stime
        late = elapsed_s >= self.limit_s
        return Start(elapsed_s, cpu_s, None if late else child.returncode, message)

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


def _home(place: Place, workload: Workload) -> Path:
    """Where the workload's program lies on the place."""
    assert place.directory is not None
    given = workload.parameters.get("program", workload.parameters.get("program_bytes", ""))
    return place.directory / f"program-{zlib.crc32(str(given).encode()):08x}"


def _ramp(workload: Workload) -> float:
    return float(workload.parameters.get("ramp_seconds", 0.5))
