"""Emulated devices: a model of a disk or SSD behind a real block device, /dev/loopN.

    program → file system → /dev/loopN (scheduler under test) → FUSE file → server with the model

Everything of a device is below one directory with a random name, which is in the journal before
it exists: `fuse/` with the mounted file `disk`. The server has that directory's name among its
arguments. So the clean-up (emulated_removal.py) finds mount, server and loop device from the
journal alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from schedlab.errors import SIMULATED_QUEUE, HostError, SpecError, as_root, cause_of
from schedlab.host import processes
from schedlab.host.emulated.emulated_calibration import calibrate, models
from schedlab.host.emulated.emulated_facts import Account, DeviceFacts, EmulatedFacts, findings
from schedlab.host.emulated.emulated_removal import KIND, SERVER_MODULE
from schedlab.host.safety import owned
from schedlab.host.safety.descriptors import above_standard
from schedlab.host.safety.journal import Journal
from schedlab.host.safety.write_back import WriteBack
from schedlab.host.scratch import Scratch, new_loop, require_root
from schedlab.host.settings import knobs
from schedlab.nouns import GateFinding
from schedlab.nouns.foreign import refuse_foreign
from schedlab.nouns.reading import read_text
from schedlab.package import IMPORT_PATH

DEFAULT_SIZE_BYTES = 8 << 30
DEFAULT_TAGS = 128
START_PATIENCE_S = 30.0
ANSWER_PATIENCE_S = 10.0
STOPPED_PATIENCE_S = 5.0
TIME_UNITS = ("ns", "us", "ms")


@dataclass(frozen=True)
class Emulation:
    """The device to emulate.

    `model` is a shipped name or the path of a device file. `queue_depth` is the depth of the
    hardware queue: the model holds so many commands and the driver has so many tags (at least 4:
    with fewer, the commands wait in the device in order). None is the model's own. `dilate` k lets
    modelled time pass k times slower. `data` is `memory`, `none` (reads give zeros; raw tests
    only) or the path of a file. `settings` change keys of the device file.

    `lead_us` sends replies early, to make up for the way from and to the program; None: as long
    as that way was measured, where the model takes three times as long between two completions.
    `spin_us` of each wait are spent awake; None: what the model needs.
    """

    model: str
    size_bytes: int | None = DEFAULT_SIZE_BYTES
    queue_depth: int | None = None
    rotational: bool | None = None
    policy: str | None = None
    service: str | None = None
    dilate: float = 1.0
    data: str = "memory"
    lead_us: float | None = None
    spin_us: int | None = None
    readers: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0

    def device_config(self) -> dict[str, object]:
        """The part that describes the model, for the compiled server."""
        name, text = model_text(self.model)
        return {
            "device": text,
            "place": name,
            "set": dict(self.settings),
            "size_bytes": self.size_bytes,
            "queue_depth": self.queue_depth,
            "policy": self.policy,
            "service": self.service,
            "seed": self.seed,
        }

    def describe(self) -> EmulatedFacts:
        """Facts of the device, before it exists. SpecError for what cannot be."""
        if not 1 <= self.dilate < math.inf:
            raise SpecError(f"dilate = {self.dilate}: expected at least 1", "--dilate 1")
        name, text = model_text(self.model)
        text_of_facts = models().emulated_facts(json.dumps(self.device_config()))
        facts: DeviceFacts = json.loads(text_of_facts)
        depth = facts["queue_depth"] if self.queue_depth is None else self.queue_depth
        if self.rotational is not None:
            facts["rotational"] = self.rotational
        tags, in_order = _driver_facts(depth)
        own = {"emulated": True, "model": name, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        more = {"dilate": self.dilate, "data": self.data, "tags": tags, "served_in_order": in_order}
        return cast("EmulatedFacts", {**own, **facts, **more})


def shipped_models() -> dict[str, str]:
    """Device files that come with schedlab: name and text."""
    return dict(models().sim_names("device"))


def model_text(model: str) -> tuple[str, str]:
    """Name and text of a shipped model or of a device file. SpecError when there is none."""
    shipped = shipped_models()
    if model in shipped:
        return model, shipped[model]
    path, hint = Path(model), f"shipped models: {', '.join(sorted(shipped))}"
    try:
        text = read_text(path, hint)
    except SpecError as error:
        what = "neither a shipped model nor a readable device file"
        raise SpecError(f"{error}: {what}", hint) from error
    refuse_foreign(path, text)
    return path.stem, text


def own_size_bytes(emulation: Emulation) -> int:
    """The size that a device file gives in so many words; 0 for models that have any size."""
    facts = replace(emulation, size_bytes=None).describe()
    return facts["size_bytes"] if facts["kind"] == "fixed" else 0


@dataclass(frozen=True)
class Emulated(Scratch):
    """An emulated device; like a scratch device, with its model and the way to its server."""

    facts: EmulatedFacts = field(default_factory=lambda: cast("EmulatedFacts", {}))
    server: Server | None = None

    def mark(self) -> None:
        """Begin a window: what `account` gives counts from here."""
        self._server().ask("mark")

    def account(self) -> Account:
        """Requests served since `mark`, how late, how deep; see `Report` in crates/emulate."""
        return cast("Account", self._server().ask("read"))

    def hold(self, commands: int) -> None:
        """Let the device hold so many commands from now on, with scheduler none and reset."""
        if commands == self.facts["queue_depth"]:
            return
        self.reset(commands)
        self.facts["queue_depth"] = commands
        self.facts["tags"], self.facts["served_in_order"] = _driver_facts(commands)
        _set_queue(owned.SYS_BLOCK / Path(self.path).name / "queue", self.facts)

    def reset(self, commands: int | None = None) -> None:
        """Put head, caches and translation layer into their first state; data stay.

        It waits for requests that are still in the device. `commands` changes how many it holds.
        """
        deadline = time.monotonic() + ANSWER_PATIENCE_S
        while True:
            try:
                self._server().ask("reset", queue_depth=commands)
                return
            except HostError:
                if time.monotonic() > deadline or not self.is_alive():
                    raise
                time.sleep(0.005)

    def write_back(self, patience_s: float) -> list[str]:
        """Unmount and flush, at the speed of the machine; what could not be, in sentences."""
        with self.at_once():
            writer = WriteBack(int(Path(self.path).name.removeprefix("loop")))
            failures = writer.failures(patience_s)
            writer.end()
        return failures

    def is_alive(self) -> bool:
        """Whether the server still serves."""
        return self.server is not None and self.server.is_alive()

    def gate_findings(self, account: Account) -> tuple[GateFinding, ...]:
        """Reasons to discard a run on this device, from its account; see emulated_facts."""
        return findings(account, self.facts)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Meanwhile everything is answered without delay, to prepare what is measured later.

        What is still dirty at the end is written at the speed of the model.
        """
        self._server().ask("bypass", on=True)
        try:
            yield
        finally:
            self._server().ask("bypass", on=False)

    def _server(self) -> Server:
        if self.server is None:
            raise HostError(f"{self.path} has no server", "ask the process that made it")
        return self.server


class Server:
    """The owner's side of the serving process."""

    def __init__(self, directory: Path, emulation: Emulation, preallocate: bool) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._buffer = b""
        self._closed = threading.Event()
        config = {
            "device": emulation.device_config(),
            "data": emulation.data,
            "preallocate": preallocate,
            "dilate": emulation.dilate,
            "spin_us": emulation.spin_us,
            "readers": emulation.readers or 1,
        }
        self._socket, theirs = socket.socketpair()
        control = above_standard(theirs.detach())
        fuse = above_standard(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
        try:
            _mount_fuse(directory / "fuse", fuse)
            self._process = self._start(fuse, control, json.dumps(config))
        finally:
            os.close(fuse)
            os.close(control)
        self._socket.settimeout(START_PATIENCE_S)
        self.facts = self._receive()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self, fuse: int, control: int, config: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-S", "-m", SERVER_MODULE, str(self.directory)]
        # A file, not a pipe: a pipe would fill up if no process read it while the server lives.
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        return subprocess.Popen(
            [*program, str(fuse), str(control), config],
            pass_fds=(fuse, control),
            env={**os.environ, "PYTHONPATH": IMPORT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,
        )

    @property
    def process_id(self) -> int:
        """Its process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def _is_stopped(self) -> bool:
        return processes.stat_fields(self.process_id)[:1] in (["T"], ["t"])

    def ask(self, command: str, **content: Any) -> dict[str, Any]:
        """Send a command, return the answer. HostError when the server does not answer."""
        line = json.dumps({"command": command, **content}) + "\n"
        with self._lock:
            try:
                self._socket.settimeout(ANSWER_PATIENCE_S)
                self._socket.sendall(line.encode(), socket.MSG_NOSIGNAL)
                answer = self._receive()
            except OSError as error:
                raise self._died(cause_of(error)) from error
        if "error" in answer:
            raise HostError(f"the emulated device refuses {command}: {answer['error']}")
        return answer

    def _receive(self) -> dict[str, object]:
        while b"\n" not in self._buffer:
            try:
                part = self._socket.recv(1 << 16)
            except OSError as error:
                raise self._died(cause_of(error)) from error
            if not part:
                raise self._died("it has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, object] = json.loads(line)
        return answer

    def _died(self, reason: str) -> HostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._messages.seek(0)
        message = self._messages.read().decode(errors="replace").strip()
        return HostError(
            f"the server of the emulated device does not answer ({reason}){': ' + message[-500:]}"
            if message
            else f"the server of the emulated device does not answer ({reason})",
            "start the run again",
        )

    def _watch(self) -> None:
        """End a server that is stopped: what waits for it then fails instead of hanging."""
        since: float | None = None
        while not self._closed.wait(1.0) and self.is_alive():
            if not self._is_stopped():
                since = None
                continue
            since = since or time.monotonic()
            if time.monotonic() > since + STOPPED_PATIENCE_S:
                self._process.kill()

    def close(self) -> None:
        """Let everything still in the device be answered at once; the end is near."""
        self._closed.set()
        if self.is_alive() and not self._is_stopped():
            with contextlib.suppress(HostError):
                self.ask("bypass", on=True)
        self._socket.close()

    def reap(self) -> None:
        """Wait for the process that `quiesce` has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ANSWER_PATIENCE_S)
        self._messages.close()


def make(journal: Journal, parent: Path, emulation: Emulation) -> Emulated:
    """Make an emulated device, each part in the journal before it exists.

    HostError with what the machine lacks, SpecError for a model that cannot be.
    """
    require_root(f"{SIMULATED_QUEUE} --device {emulation.model}")
    require_fuse()
    facts = emulation.describe()
    preallocate = _check_memory(emulation, facts["size_bytes"])
    directory = parent.resolve() / owned.new_name(KIND)
    journal.append("own", what=KIND, path=str(directory))
    try:
        (directory / "fuse").mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise HostError(f"cannot make {directory}: {error.strerror}") from error
    server = Server(directory, emulation, preallocate)
    backing = directory / "fuse" / "disk"
    index = new_loop(journal, str(backing))
    path, direct_io = f"/dev/loop{index}", owned.attach_loop(index, backing)
    queue = owned.SYS_BLOCK / Path(path).name / "queue"
    _set_queue(queue, facts)
    server.ask("watch", inflight=str(queue.parent / "inflight"))
    facts = cast("EmulatedFacts", {**facts, **calibrate(path, server, emulation, facts)})
    device = Emulated(
        path=path,
        backing_file=str(backing),
        size_bytes=facts["size_bytes"],
        direct_io=direct_io,
        rotational=facts["rotational"],
        facts=facts,
        server=server,
    )
    device.reset()
    return device


def require_fuse() -> None:
    """HostError unless FUSE is there."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise HostError(
            f"an emulated device needs FUSE (/dev/fuse: {error.strerror})",
            "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN",
        ) from error


def _check_memory(emulation: Emulation, size_bytes: int) -> bool:
    """Whether to take all memory at once: then writing back can never wait for memory."""
    if emulation.data != "memory":
        return False
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free_kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    free_bytes = free_kib << 10
    if size_bytes > free_bytes // 2:
        raise HostError(
            f"the data of {size_bytes >> 20} MiB would take more than half of the free memory, "
            f"{free_bytes >> 20} MiB",
            "use less (--size), or keep the data in a file (--data FILE)",
        )
    return size_bytes <= free_bytes // 4


def _mount_fuse(where: Path, descriptor: int) -> None:
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0,max_read={1 << 20}"
    flags = 2 | 4  # MS_NOSUID, MS_NODEV
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (b"schedlab", os.fsencode(where), b"fuse", flags, options.encode())
    if libc.mount(*arguments) != 0:
        code = ctypes.get_errno()
        raise HostError(
            f"cannot mount FUSE on {where}: {os.strerror(code)}",
            as_root(SIMULATED_QUEUE, "run as root; in a container with CAP_SYS_ADMIN"),
        )


def dilated(queue: Path, dilate: float) -> dict[str, int]:
    """Times of the scheduler that is set, stretched: file below `queue/` and new value.

    What the kernel does not let anybody set stays as it is: bfq's weight raising, writeback, and
    the think times of programs.
    """
    stretched: dict[str, int] = {}
    # slice_idle is slice_idle_us in ms.
    units = [(name, unit) for each in knobs.iosched().values() for name, unit in each.items()]
    times = [f"iosched/{n}" for n, unit in units if unit in TIME_UNITS and n != "slice_idle"]
    for name in [*times, "wbt_lat_usec"] if dilate != 1 else ():
        with contextlib.suppress(OSError, ValueError):
            before = int((queue / name).read_text())
            if before > 0:
                stretched[name] = round(before * dilate)
    return stretched


def _driver_facts(commands: int) -> tuple[int, bool]:
    """The driver's tags for a device that holds so many commands; whether it serves in order."""
    return min(max(commands, knobs.LEAST_TAGS), DEFAULT_TAGS), commands < knobs.LEAST_TAGS


def _set_queue(queue: Path, facts: EmulatedFacts) -> None:
    """Give the queue of a device of ours what the model has; it goes with the device.

    Under `none` a new `nr_requests` is the number of tags, and stays that when another scheduler
    is selected; a number equal to the one that is read changes nothing, hence the detour.
    """
    (queue / "scheduler").write_text("none")
    (queue / "rotational").write_text(str(int(facts["rotational"])))
    (queue / "max_sectors_kb").write_text("1024")
    tags = facts["tags"]
    for step in knobs.tag_steps(queue, tags) or (str(tags),):
        (queue / "nr_requests").write_text(step)
    taken = int((queue / "nr_requests").read_text())
    if taken != tags:
        raise HostError(f"the kernel gave the device {taken} tags instead of {tags}")
