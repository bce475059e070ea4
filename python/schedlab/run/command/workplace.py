"""Where a command works: a directory on the target's file system, or a directory of ours beside a
bare device. Its ownership, its copies, its cache, and file systems that are made again."""

from __future__ import annotations

import pwd
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from schedlab.errors import HostError
from schedlab.host import scratch
from schedlab.host.safety import owned
from schedlab.kinds.brought import program_path
from schedlab.kinds.command import Command
from schedlab.run.command.confinement import HeldDevice
from schedlab.run.io import cache
from schedlab.run.io.drain import flush
from schedlab.store.copying import copy_into
from schedlab.store.files import mark_made

if TYPE_CHECKING:
    from schedlab.host.safety.control import Control
    from schedlab.kinds.resolved import ResolvedTarget
    from schedlab.nouns import Target


class WorkPlace:
    """The working directory of all commands of a session, and the device below it."""

    def __init__(self, control: Control, wanted: Target, target: ResolvedTarget) -> None:
        self.control = control
        self.device = target.raw_path
        self.held = HeldDevice.at(self.device, wanted.path) if target.raw_size_bytes else None
        self.is_ours = wanted.kind in ("scratch", "emulated")
        self.is_bare = target.directory is None
        self.filesystem = wanted.filesystem or "ext4"
        directory = target.directory or control.directory(tempfile.gettempdir())
        self.directory = Path(directory).resolve()  # once: what it leads to later is not opened
        self._fresh_in: dict[str, int] = {}
        self._kept_open: BinaryIO | None = None

    @property
    def flushed(self) -> Path:
        """The path to sync so that nothing of a run is left to write."""
        return self.device if self.is_bare else self.directory

    def flush(self) -> None:
        """Write back the dirty pages of the target."""
        flush(self.flushed)

    def open(self, kinds: Iterable[Command]) -> None:
        """Give our directory to the commands' users, and copy in their files."""
        commands = tuple(kinds)
        for kind in commands:
            if self.is_ours or self.is_bare:
                self.directory.chmod(0o755)
                if kind.user:
                    shutil.chown(self.directory, kind.user)
            if self.is_ours and not self.is_bare:
                self.directory.parent.chmod(0o711)  # the state directory's mount point
            if self.is_ours and self.is_bare and kind.user:
                shutil.chown(self.device, kind.user)  # its node goes with the device
        for kind in commands:
            self._copy_in(kind)

    def refresh(self, label: str, kind: Command, block: int, kinds: Iterable[Command]) -> None:
        """Make the file system and the copies again where `fresh` asks for it before this run.

        On a directory of the user's only the copy is made again. HostError when a process keeps
        the file system busy.
        """
        due = kind.fresh == "run" or (kind.fresh == "block" and self._fresh_in.get(label) != block)
        if not due:
            return
        self._fresh_in[label] = block
        if not self.is_ours:
            self._copy_in(kind)
            return
        try:
            cache.unmount(self.directory, str(self.device))
        except OSError as error:
            if not self.directory.is_mount():
                owned.mount(str(self.device), self.directory, self.filesystem)
            raise HostError(
                f"{label}: fresh = {kind.fresh!r}: the file system cannot be made again: "
                f"{error.strerror}",
                "use --conclude to end the programs that --setup or the command left running there",
            ) from error
        scratch.format_device(str(self.device), self.filesystem)
        owned.mount(str(self.device), self.directory, self.filesystem)
        self.open(kinds)

    def set_cache(self, kind: Command) -> str:
        """Bring the page cache into the requested state; returns the action."""
        if kind.cache == "cold" and (program := program_path(kind.command()[0])):
            # First, because ldd reads a program, also one on the target.
            cache.touch_program(program, self.directory)
        if self.is_bare:
            if kind.cache == "warm":  # When its last user closes it, a device loses its pages.
                self._kept_open = self.device.open("rb", buffering=0)
            return cache.set_device_cache(kind.cache, self.control, self.device)
        mounted = None
        if self.is_ours and self.directory.is_mount():
            mounted = (str(self.device), self.filesystem)
        return cache.set_cache(kind.cache, self.control, self.directory, mounted)

    def let_go(self) -> None:
        """The run is over: its device may lose its pages again."""
        if self._kept_open is not None:
            self._kept_open.close()
            self._kept_open = None

    def _copy_in(self, kind: Command) -> None:
        """Put a copy of the command's files into the directory, replacing an old one."""
        if not kind.copy_in:
            return
        source = Path(kind.copy_in).resolve()
        entry = pwd.getpwnam(kind.user) if kind.user else None
        copy_into(self.directory, source, (entry.pw_uid, entry.pw_gid) if entry else ())
        mark_made(self.directory / source.name)
