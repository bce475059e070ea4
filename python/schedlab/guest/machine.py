"""The virtual machine: qemu with counted instructions as its clock, without a device that answers
at the host's time. It runs as the user, without a network, and ends with its owner.
"""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from schedlab.errors import HostError
from schedlab.guest.kernels import Kernel
from schedlab.guest.monitor import MachineGone, Monitor
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
_LOADED = ("-incoming", "defer")  # Its state comes through the monitor.
_ARGUMENTS = (
    *("console=ttyS0", "quiet", "panic=-1", "nokaslr", "norandmaps", "idle=poll"),
    *("random.trust_cpu=off", "random.trust_bootloader=off"),
)


class Told(msgspec.Struct):
    """An error of the guest, with its exit code."""

    message: str
    hint: str
    code: int


class Message(msgspec.Struct):
    """A message of the guest: it is ready, up, or has ended; an error; a line for the user, or
    progress; rates under a scheduler on one of the cells.
    """

    ready: bool = False
    up: bool = False
    ended: bool = False
    error: Told | None = None
    report: str | None = None
    progress: dict[str, Any] | None = None
    cell: int = 0
    scheduler: str = ""
    rates: list[dict[str, float]] | None = None


Heed = Callable[[Message], None]


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


def command(root: Path, memory: Path, settings: BootSettings, *, is_shared: bool) -> list[str]:
    """The machine: no network, no disk; the root, and the file `result` of the working directory,
    as memory. `memory` is the file of its own, which is changed where it `is_shared`.

    It is the same for the boot whose state is kept and for each session that begins there.
    """
    own = "on" if is_shared else "off"
    images = {
        "ram": f"size={settings.memory_bytes},mem-path={memory},share={own}",
        "root": f"size={root.stat().st_size},mem-path={root},readonly=on,share=on",
        "result": f"size={RESULT_BYTES},mem-path=result,share=on",
    }
    devices = {"root": "unarmed=on", "result": "unarmed=off"}
    words = []
    for name, where in images.items():
        words += ["-object", f"memory-backend-file,id={name},{where}"]
        if name in devices:
            words += ["-device", f"nvdimm,id=of-{name},memdev={name},{devices[name]}"]
    return [
        *("prlimit", f"--fsize={max(RESULT_BYTES, CONSOLE_BYTES_MAX)}", "--core=0"),
        *("setpriv", "--pdeathsig", "KILL", QEMU),
        *("-M", "pc,nvdimm=on,usb=off,memory-backend=ram"),
        *("-accel", "tcg,thread=single", "-smp", "1"),
        *("-icount", f"shift={settings.shift},sleep=off", "-seed", "1"),
        # Where strings are fast, the kernel copies memory by one instruction a byte.
        *("-cpu", "max,rdrand=off,rdseed=off,la57=off,erms=off,fsrm=off"),
        *("-m", f"{settings.memory_bytes >> 20}M,slots=4,maxmem=16G"),
        *("-display", "none", "-nodefaults", "-no-reboot", "-nic", "none"),
        *("-rtc", "base=2026-01-01,clock=vm"),
        # By a word to its port the guest stops itself, always at the same instruction.
        *("-device", "pvpanic", "-action", "panic=pause"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *words,
    ]


def boot_words(kernel: Kernel, initrd: Path, settings: BootSettings) -> list[str]:
    """For a machine that boots."""
    arguments = " ".join((*_ARGUMENTS, settings.words)).strip()
    return ["-kernel", str(kernel.image), "-initrd", str(initrd), "-append", arguments]


def run(
    words: list[str],
    place: Path,
    kernel: Kernel,
    state: Path | None,
    heed: Heed,
) -> None:
    """Run a machine from a state to its end; `heed` gets each message of the guest as it comes.
    Without a state it boots, and its state is saved as `devices` when it is ready.

    HostError with the cause where the guest did not end by itself. Nothing is left running.
    """
    is_ended = False
    words = [*words, *(_LOADED if state else ())]
    (place / "console").touch()
    with Monitor() as monitor, _started([*words, *monitor.words], place, monitor) as process:
        patience = _Patience(process.pid, kernel.release)
        with suppress(MachineGone):
            if state:
                monitor.load(state)
            for message in _messages(place / "console", process, patience):
                if message.ready and not state:
                    monitor.save(place / "devices")
                    return
                is_ended = is_ended or message.ended
                heed(message)
        code = process.wait()
    if not is_ended:
        raise HostError(*_cause(code, place, kernel))


def open_console(words: list[str], place: Path, state: Path) -> None:
    """Run a machine with its console on this terminal."""
    with (
        Monitor() as monitor,
        _started([*words, *_LOADED, *monitor.words], place, monitor, None) as process,
    ):
        monitor.load(state)
        process.wait()


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
) -> Iterator[Message]:
    """Those of the guest, until the machine ended and all is read."""
    with console.open(encoding="utf-8", errors="replace") as file:
        for line in _lines(file.readline, process, patience):
            if line.startswith(MARK) and (message := _message(line)):
                patience.is_up()
                yield message


def _message(line: str) -> Message | None:
    """That of a line; None where something else was printed into it."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line.removeprefix(MARK), type=Message)
    return None


@contextmanager
def _started(
    words: list[str], place: Path, monitor: Monitor, console: str | None = "console"
) -> Iterator[subprocess.Popen[bytes]]:
    """With the file of its console, or with this terminal as its console."""
    serial = f"file:{console}" if console else "mon:stdio"
    with (place / "qemu.log").open("wb") as log:
        output = log if console else None
        process = subprocess.Popen(
            [*words, "-serial", serial], cwd=place, pass_fds=[monitor.theirs.fileno()],
            stdin=subprocess.DEVNULL if console else None, stdout=output, stderr=output,
            # Ctrl-C is for us; the machine is then killed below.
            start_new_session=bool(console),
        )  # fmt: skip
    monitor.is_started()
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
