"""An experiment in, a result folder out: a kernel in virtual time as a place to run."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.errors import HostError, Interrupted, SpecError
from schedlab.guest import machine
from schedlab.guest.cache import (
    cache,
    held,
    keep_newest,
    making,
    remove_abandoned,
    require_space,
)
from schedlab.guest.image import image
from schedlab.guest.initramfs import initramfs
from schedlab.guest.kernels import Kernel
from schedlab.guest.machine import BootSettings, Heed, Message
from schedlab.host.facts import memory
from schedlab.store.files import DATA_FILTER, write_atomic

RESULT = "result"
_NAME = "virtual"
_PREFIX = "schedlab-virtual-"
_OF_SESSION = ("digest", "job_sha256", "seed")


@dataclass(frozen=True)
class Job:
    """The work inside, `do`: `measure`, `doctor …` or `shell`, and files below /job."""

    do: str
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """A machine that is ready to start: everything that decides what happens in it.

    It begins with the state after its boot, which is made once and kept: `facts` without the seed
    and the job decide that, and it with these the rest.
    """

    kernel: Kernel
    settings: BootSettings
    initrd: bytes
    root: Path
    job: bytes
    facts: Mapping[str, int | str]

    @classmethod
    def of(cls, kernel: Kernel, job: Job, settings: BootSettings) -> Boot:
        """For a job; HostError where qemu, busybox or a part of the kernel is missing."""
        qemu = machine.version()
        if kernel.lacks:
            options = ", ".join(kernel.lacks)
            raise SpecError(
                f"Linux {kernel.release} cannot be booted here: it lacks {options}",
                "build it with them, or take another: schedlab kernel list",
            )
        root = image()
        initrd, packed = initramfs(kernel), _packed(job, settings)
        facts = {
            "kernel": kernel.release,
            "kernel_sha256": _sha256(kernel.image),
            "root_sha256": _sha256(root),
            "first_root_sha256": _hex(initrd),
            "job_sha256": _hex(packed),
            "qemu": qemu,
            **settings.as_json(),
        }
        return cls(kernel, settings, initrd, root, packed, {"digest": _digest(facts), **facts})

    def run(self, heed: Heed, out: Path | None = None) -> None:
        """Start it and wait for its end; what it left in /result becomes the folder `out`.

        HostError where it ends without a result, the guest's own error as it was raised there.
        """

        def heed_errors(message: Message) -> None:
            _raise_error(message)
            heed(message)

        try:
            state = self._state()
            with self._laid_out(self.job) as place:
                words = machine.command(self.root, state / "ram", self.settings, is_shared=False)
                machine.run(words, place, self.kernel, state / "devices", heed_errors)
                if out is not None:
                    _unpack(place / "result", out, self.facts)
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted; the machine is gone, and nothing of it was kept",
                "run the command again: it starts from the beginning",
            ) from error

    def open_shell(self) -> None:
        """Start it with its console on this terminal, until it ends."""
        state = self._state()
        with self._laid_out(self.job) as place, suppress(KeyboardInterrupt):
            words = machine.command(self.root, state / "ram", self.settings, is_shared=False)
            machine.open_console(words, place, state / "devices")

    def _state(self) -> Path:
        """The directory of the state after the boot: its memory and its devices, made now where
        they are not in the cache, which keeps three."""
        facts = {key: self.facts[key] for key in self.facts if key not in _OF_SESSION}
        path = cache("states") / _digest(facts)[:32]
        if not path.exists():
            with making(path.parent):
                if not path.exists():  # another process has made it meanwhile
                    self._make_state(path)
        keep_newest(path)
        return path

    def _make_state(self, path: Path) -> None:
        needed = self.settings.memory_bytes // 3
        require_space(path.parent, needed, "the state of a machine", "XDG_CACHE_HOME")
        with (
            tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as directory,
            self._laid_out(b"") as place,
        ):
            new = Path(directory) / "state"
            new.mkdir()
            (place / "initrd").write_bytes(self.initrd)
            with (new / "ram").open("wb") as file:
                file.truncate(self.settings.memory_bytes)
            words = machine.command(self.root, new / "ram", self.settings, is_shared=True)
            words += machine.boot_words(self.kernel, place / "initrd", self.settings)
            machine.run(words, place, self.kernel, None, _raise_error)
            shutil.move(place / "devices", new / "devices")
            new.rename(path)

    @contextmanager
    def _laid_out(self, job: bytes) -> Iterator[Path]:
        """A directory with the files of the machine, for its life: the job is in the region in
        which its result comes back."""
        needed = self.settings.memory_bytes // 2
        if memory()["MemAvailable_bytes"] < needed:
            raise HostError(
                f"a machine needs {needed >> 20} MiB of free memory",
                "end other programs, or use a larger machine",
            )
        temporary = Path(tempfile.gettempdir())
        written = len(self.initrd) + machine.RESULT_BYTES + machine.CONSOLE_BYTES_MAX
        require_space(temporary, written, "a machine with its result", "TMPDIR")
        with ExitStack() as stack:
            with held(cache("machines")):  # Nobody takes a new one for an abandoned one.
                remove_abandoned(temporary.glob(f"{_PREFIX}*"))
                directory = tempfile.TemporaryDirectory(prefix=_PREFIX)
                place = Path(stack.enter_context(directory))
                stack.enter_context(held(place))
            with (place / "result").open("wb") as file:
                file.write(job)
                file.truncate(machine.RESULT_BYTES)
            yield place


def _packed(job: Job, settings: BootSettings) -> bytes:
    """The archive of a job, whose bytes depend on nothing else."""
    order = {"do": job.do, "seed": settings.seed}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in {**job.files, "job.json": json.dumps(order).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _raise_error(message: Message) -> None:
    """An error of the guest is raised here, with its exit code."""
    if told := message.error:
        error = HostError(told.message, told.hint)
        error.exit_code = told.code
        raise error


def _unpack(archive: Path, out: Path, facts: Mapping[str, int | str]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".") as directory:
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(directory, **DATA_FILTER)
            folder = Path(directory) / RESULT
            host = json.loads((folder / "host.json").read_text(encoding="utf-8"))
        except (tarfile.TarError, OSError, ValueError) as error:
            raise HostError("the machine left no result", "run it again") from error
        text = json.dumps({_NAME: facts, **host}, indent=1) + "\n"
        write_atomic(folder / "host.json", text)
        if out.exists():
            out.rmdir()  # an empty folder that the user made; no other gets here
        shutil.move(folder, out)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(facts: Mapping[str, int | str]) -> str:
    return _hex(json.dumps(facts, sort_keys=True).encode())


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
