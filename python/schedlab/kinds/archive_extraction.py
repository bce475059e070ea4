"""Extraction of a tar archive from a cold cache: real, user and system time, CPU share.

The archive is copied to the target first, so that it is read from the measured device.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schedlab.errors import HostError, SpecError
from schedlab.kinds import source_tree
from schedlab.kinds.base import WorkloadKind
from schedlab.kinds.resolved import Outcome, ResolvedTarget
from schedlab.kinds.startup import Program, TimedRun
from schedlab.nouns import GateFinding
from schedlab.nouns.reading import opened

# strerror(ENOSPC), as tar prints it.
NO_SPACE = os.strerror(errno.ENOSPC)


class ArchiveExtraction(WorkloadKind, frozen=True):
    """One extraction; without `archive`, a generated archive like a source tree of `size_bytes`."""

    kind: ClassVar[str] = "archive-extraction"
    is_buffered = True
    metrics: ClassVar[tuple[str, ...]] = ("elapsed_s", "user_s", "system_s", "cpu_s")
    needs_files: ClassVar[bool] = True

    archive: str = ""
    size_bytes: Annotated[int, Meta(ge=4096)] = 64 << 20
    decompressor: Literal["none", "gzip", "xz", "zstd"] = "none"

    def programs(self) -> tuple[str, ...]:
        """The archive of the user, which tar unpacks."""
        return (f"tar --extract --file {self.archive}",) if self.archive else ()

    def brought(self) -> tuple[str, ...]:
        """The archive of the user."""
        return (self.archive,) if self.archive else ()

    def check(self, label: str) -> None:
        """The archive can be read."""
        if self.archive and not Path(self.archive).is_file():
            raise SpecError(f"{label}: {self.archive} is not a file", "name a tar archive")

    def estimate_s(self) -> float:
        """A rough estimate: unpacking and syncing at 100 MB/s."""
        return max(self.size_bytes / 1e8, 0.5)

    def prepare(self, target: ResolvedTarget, label: str) -> None:
        """Put the archive onto the target, once."""
        path = self._path(target, label)
        if path.exists():
            return
        if self.archive:
            try:
                shutil.copyfile(self.archive, path)
            except OSError as error:
                hint = "name a readable tar archive"
                raise SpecError(f"{self.archive}: {error.strerror}", hint) from error
        else:
            try:
                source_tree.write_archive(path, self.size_bytes, self.decompressor, seed=1)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise _too_large(label, "the archive", path.parent) from error
        os.sync()

    def measure(self, target: ResolvedTarget, label: str, seed: int) -> Outcome:
        """One extraction, until everything is on the device; the files are removed afterwards."""
        assert target.directory is not None
        archive = self._path(target, label)
        tar = extraction(archive, target.directory)
        if tar.status and NO_SPACE in tar.message:
            raise _too_large(label, "what the archive holds", target.directory)
        text = tar.message.split("\n")[0] or f"tar exited {tar.status}"
        return Outcome(
            metrics={name: getattr(tar, name) for name in self.metrics},
            properties={"cpu_share": tar.cpu_s / tar.elapsed_s, "command": "tar --extract"},
            gates=(GateFinding("command-failed", text),) if tar.status else (),
        )

    def _path(self, target: ResolvedTarget, label: str) -> Path:
        """Where the workload's archive is on the target: a file of its own for each archive."""
        if target.directory is None:
            raise SpecError(f"{label}: needs a file system", "use --scratch or --directory")
        name = f"tree-{self.size_bytes}.tar.{self.decompressor}"
        if self.archive:
            name = f"{zlib.crc32(self.archive.encode()):08x}-{Path(self.archive).name}"
        return target.directory / name


def _too_large(label: str, what: str, directory: Path) -> SpecError:
    free_mib = shutil.disk_usage(directory).free >> 20
    text = f"{label}: {what} does not fit: the target has {free_mib} MiB free"
    return SpecError(text, "choose a larger target, or a smaller archive (size_bytes)")


def extraction(archive: Path, directory: Path) -> TimedRun:
    """One extraction into a new subdirectory, which is removed."""
    into = directory / "extracted"
    into.mkdir()
    command = ["tar", "--extract", "--file", str(archive), "--directory", str(into)]
    try:
        return timed(command, into)
    finally:
        shutil.rmtree(into)


def timed(command: list[str], written: Path) -> TimedRun:
    """A command, whose time is that until its writes are on the device as well."""
    if shutil.which(command[0]) is None:
        raise HostError(f"{command[0]} is not installed", f"apt install {command[0]}")
    began = time.monotonic()
    ended = Program(command, {**os.environ, "LC_ALL": "C"}, kept_bytes=1 << 20).run()
    with opened(written) as handle:
        _sync_filesystem(handle)
    return replace(ended, elapsed_s=time.monotonic() - began)


def _sync_filesystem(handle: int) -> None:
    """syncfs(2): Python has no wrapper; other file systems are not waited for."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(handle):
        error = ctypes.get_errno()
        raise HostError(f"syncfs: {os.strerror(error)}")
