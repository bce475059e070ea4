"""An experiment in, a result folder out: a kernel in virtual time as a place to run."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, Interrupted, SchedlabError, SpecError
from schedlab.guest import machine
from schedlab.guest.cache import cache, held, remove_abandoned, require_space
from schedlab.guest.image import image
from schedlab.guest.initramfs import initramfs
from schedlab.guest.kernels import Kernel
from schedlab.guest.machine import BootSettings
from schedlab.host.facts import memory
from schedlab.store.files import DATA_FILTER, write_atomic

RESULT = "result"
_NAME = "virtual"
_PREFIX = "schedlab-virtual-"
Heed = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Job:
    """The work inside, `do`: `measure`, `doctor …` or `shell`, and files below /job."""

    do: str
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """A machine that is ready to start: everything that decides what happens in it."""

    kernel: Kernel
    settings: BootSettings
    initrd: bytes
    root: Path
    facts: Mapping[str, Any]

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
        order = json.dumps({"do": job.do}).encode()
        initrd = initramfs(kernel, {**job.files, "job.json": order})
        facts = {
            "kernel": kernel.release,
            "kernel_sha256": _sha256(kernel.image),
            "root_sha256": _sha256(root),
            "first_root_sha256": hashlib.sha256(initrd).hexdigest(),
            "qemu": qemu,
            **settings.as_json(),
        }
        text = json.dumps(facts, sort_keys=True).encode()
        return cls(kernel, settings, initrd, root, {"digest": _hex(text), **facts})

    def run(self, heed: Heed, out: Path | None = None) -> None:
        """Start it and wait for its end; what it left in /result becomes the folder `out`.

        HostError where it ends without a result, the guest's own error as it was raised there.
        """
        errors: list[SchedlabError] = []

        def heed_errors(message: Mapping[str, Any]) -> None:
            if "error" in message:
                errors.append(_error(message["error"]))
            else:
                heed(message)

        with self._laid_out() as place:
            try:
                machine.run(self._command(place), place, self.kernel, heed_errors)
            except KeyboardInterrupt as error:
                raise Interrupted(
                    "interrupted; the machine is gone, and nothing of it was kept",
                    "run the command again: it starts from the beginning",
                ) from error
            if errors:
                raise errors[0]
            if out is not None:
                _unpack(place / "result", out, self.facts)

    def open_shell(self) -> None:
        """Start it with its console on this terminal, until it ends."""
        with self._laid_out() as place:
            command = self._command(place, console="mon:stdio")
            with suppress(KeyboardInterrupt):
                subprocess.run(command, cwd=place, check=False)

    def _command(self, place: Path, **more: str) -> list[str]:
        return machine.command(self.kernel, place / "initrd", self.root, self.settings, **more)

    @contextmanager
    def _laid_out(self) -> Iterator[Path]:
        """A directory with the files of the machine, for its life."""
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
            (place / "initrd").write_bytes(self.initrd)
            with (place / "result").open("wb") as file:
                file.truncate(machine.RESULT_BYTES)
            yield place


def _unpack(archive: Path, out: Path, facts: Mapping[str, Any]) -> None:
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


def _error(fields: Mapping[str, Any]) -> SchedlabError:
    """An error of the guest, with its exit code."""
    error = HostError(str(fields["message"]), str(fields["hint"]))
    error.exit_code = int(fields["code"])
    return error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
