"""The virtual machine: qemu with counted instructions as its clock, without a device that answers
at the host's time. It runs as the user, without a network, and ends with its owner.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import HostError
from schedlab.guest.kernels import Kernel
from schedlab.host import processes

QEMU = "qemu-system-x86_64"
# A line of the console that is for us; the rest is the kernel's.
MARK = "@schedlab "
RESULT_BYTES = 256 << 20
CONSOLE_BYTES_MAX = 16 << 20
_LOOK_S = 0.1
# A guest that prints nothing for so long hangs: of the host's time, as a run reports its end; of
# processor time until its first process starts, which takes some 5 s.
_SILENCE_S, _START_CPU_S = 1800.0, 100.0
_IS_WHOLE = "is its file whole, and built for a virtual machine? schedlab kernel list"
_ARGUMENTS = (
    *("console=ttyS0", "quiet", "panic=-1", "nokaslr", "norandmaps", "idle=poll"),
    *("random.trust_cpu=off", "random.trust_bootloader=off"),
)


@dataclass(frozen=True)
class BootSettings:
    """The inputs of a boot beside its files: 2^`shift` ns an instruction, memory, seed, and
    `words` on the command line of the kernel."""

    shift: int = 1
    memory_bytes: int = 2560 << 20
    seed: int = 1
    words: str = ""

    @property
    def instructions_per_s(self) -> int:
        """Of the guest's time."""
        return 1_000_000_000 >> self.shift

    def as_json(self) -> dict[str, int | str]:
        """The fields."""
        return asdict(self)


def version() -> str:
    """That of qemu, as it prints it; HostError without one."""
    if not shutil.which(QEMU):
        raise HostError(
            f"a kernel runs in qemu, and {QEMU} is not installed",
            "apt install qemu-system-x86 busybox-static",
        )
    text = subprocess.run([QEMU, "--version"], check=True, capture_output=True, text=True).stdout
    return text.partition("version ")[2].splitlines()[0].strip()


def command(
    kernel: Kernel, initrd: Path, root: Path, settings: BootSettings, console: str = "file:console"
) -> list[str]:
    """The command that boots a kernel: no network, no disk, the root and the result as memory.

    The region of the result is the file `result` beside the `initrd`.
    """
    result = initrd.parent / "result"
    arguments = " ".join((*_ARGUMENTS, settings.words)).strip()
    images = {
        "root": f"size={root.stat().st_size},mem-path={root},readonly=on,share=off",
        "result": f"size={RESULT_BYTES},mem-path={result},share=on",
    }
    devices = {"root": "unarmed=on", "result": "unarmed=off"}
    memory = []
    for name, where in images.items():
        memory += ["-object", f"memory-backend-file,id={name},{where}"]
        memory += ["-device", f"nvdimm,id=of-{name},memdev={name},{devices[name]}"]
    return [
        *("prlimit", f"--fsize={max(RESULT_BYTES, CONSOLE_BYTES_MAX)}", "--core=0"),
        *("setpriv", "--pdeathsig", "KILL", QEMU, "-M", "pc,nvdimm=on,usb=off"),
        *("-accel", "tcg,thread=single", "-smp", "1"),
        *("-icount", f"shift={settings.shift},sleep=off", "-seed", str(settings.seed)),
        # Where strings are fast, the kernel copies memory by one instruction a byte.
        *("-cpu", "max,rdrand=off,rdseed=off,la57=off,erms=off,fsrm=off"),
        *("-m", f"{settings.memory_bytes >> 20}M,slots=4,maxmem=16G"),
        *("-display", "none", "-nodefaults", "-no-reboot", "-nic", "none", "-monitor", "none"),
        *("-rtc", "base=2026-01-01,clock=vm"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-serial", console, *memory),
        *("-kernel", str(kernel.image), "-initrd", str(initrd), "-append", arguments),
    ]


def run(
    words: list[str], place: Path, kernel: Kernel, heed: Callable[[Mapping[str, Any]], None]
) -> None:
    """Run a machine to its end; `heed` gets each message of the guest as it comes.

    HostError with the cause where the guest did not end by itself. Nothing is left running.
    """
    is_ended = False
    with _started(words, place) as process:
        patience = _Patience(process.pid, kernel.release)
        for message in _messages(place / "console", process, patience):
            is_ended = is_ended or "ended" in message
            heed(message)
        code = process.wait()
    if not is_ended:
        raise HostError(*_cause(code, place, kernel))


class _Patience:
    """How long a machine is waited for; `check` raises HostError for one that hangs."""

    def __init__(self, pid: int, release: str) -> None:
        self._pid, self._release = pid, release
        self._heard_at_s, self._cpu_limit_s = time.monotonic(), _START_CPU_S

    def heard(self) -> None:
        """It printed something."""
        self._heard_at_s = time.monotonic()

    def is_up(self) -> None:
        """It sent a message, so its first process works."""
        self._cpu_limit_s = math.inf

    def check(self) -> None:
        """Called again and again while it prints nothing."""
        cpu_s, silence_s = processes.cpu_s(self._pid), time.monotonic() - self._heard_at_s
        if cpu_s > self._cpu_limit_s or silence_s > _SILENCE_S:
            raise HostError(
                f"Linux {self._release}: the machine hangs: it prints nothing", _IS_WHOLE
            )


def _messages(
    console: Path, process: subprocess.Popen[bytes], patience: _Patience
) -> Iterator[Mapping[str, Any]]:
    """Those of the guest, until the machine ended and all is read."""
    console.touch()
    with console.open(encoding="utf-8", errors="replace") as file:
        for line in _lines(file.readline, process, patience):
            if line.startswith(MARK) and (message := _message(line)):
                patience.is_up()
                yield message


def _message(line: str) -> Mapping[str, Any]:
    """That of a line; empty where something else was printed into it."""
    with suppress(ValueError):
        found = json.loads(line.removeprefix(MARK))
        return found if isinstance(found, dict) else {}
    return {}


@contextmanager
def _started(words: list[str], place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (place / "qemu.log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=place, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            # Ctrl-C is for us; the machine is then killed below.
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _lines(
    read: Callable[[], str], process: subprocess.Popen[bytes], patience: _Patience
) -> Iterator[str]:
    """Whole lines of the console until the machine ended and all is read."""
    part = ""
    while True:
        is_over = process.poll() is not None
        while text := read():
            part += text
            patience.heard()
            if part.endswith("\n"):
                yield part.rstrip()
                part = ""
        if is_over:
            return
        patience.check()
        time.sleep(_LOOK_S)


def _cause(code: int, place: Path, kernel: Kernel) -> tuple[str, str]:
    """Why a machine ended too early, and what helps."""
    text = (place / "console").read_text(encoding="utf-8", errors="replace")
    printed = (line.strip() for line in text.splitlines())
    lines = [line for line in printed if line and not line.startswith(MARK.strip())]
    name = f"Linux {kernel.release}"
    if panics := [line for line in lines if "Kernel panic" in line]:
        before = lines[max(0, lines.index(panics[0]) - 1)]
        why = panics[0].partition("Kernel panic - ")[2] or panics[0]
        return f"{name} panicked: {why} (before: {before})", "schedlab kernel check shows a boot"
    if code == -signal.SIGKILL:
        hint = "it needs about 2 GiB of free memory: `free -m`; then run it again"
        return f"{name}: qemu was killed", hint
    if code < 0:
        return f"{name}: qemu ended by {signal.Signals(-code).name}", "run it again, or update qemu"
    log = (place / "qemu.log").read_text(encoding="utf-8", errors="replace").strip()
    if last := (log.splitlines() or lines)[-1:]:
        hint = "check it: schedlab kernel check"
        return f"{name}: the machine ended without a result: {last[0]}", hint
    return f"{name}: the machine ended without a result: it printed nothing", _IS_WHOLE
