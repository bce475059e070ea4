"""Confinement of a started program: no other block devices, or no files but the target's.

Built between fork and exec by crates/load/src/confine.rs, in a process namespace of its own
(crates/load/src/keeper.rs). By default (`devices`) a program can open no block device but the held
one, and set nothing of the kernel; its files are its own affair. `files` holds these as well: only
the target, `/dev/shm` (its TMPDIR) and the places that the user named can be written to.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.host import kernel_paths
from schedlab.host.safety import owned
from schedlab.host.settings import knobs

if TYPE_CHECKING:
    from schedlab.kinds.launching import Launching

TEMPORARY = "/dev/shm"
# Below these, a typed path is no name of a device.
_NOT_NAMES = {"shm", "mqueue", "hugepages", "pts", "fd"}


@dataclass(frozen=True)
class HeldDevice:
    """The block device that programs may open, by its number: `path` may lead elsewhere later."""

    path: str
    major: int
    minor: int
    typed: str = ""

    @classmethod
    def at(cls, path: Path, typed: str = "") -> HeldDevice | None:
        """The block device at a path, such as /proc/PID/fd/N; None for anything else."""
        status = path.stat()
        if not stat.S_ISBLK(status.st_mode):
            return None
        major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
        return cls(str(path), major, minor, typed)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return Path(f"/sys/dev/block/{self.major}:{self.minor}").resolve().name

    def order(self) -> dict[str, object]:
        """The arguments of crates/load/src/confine.rs."""
        node, first = knobs.device_file(self.name), Path(self.typed).parts[2:3]
        is_name = self.typed.startswith("/dev/") and not _NOT_NAMES.intersection(first)
        link = self.typed if is_name and self.typed != str(node) else ""
        return {"path": str(node), "major": self.major, "minor": self.minor, "name": self.name,
                "link": link}  # fmt: skip


class Wall:
    """Confinement of a session's programs. `missing` is why the kernel cannot; empty: it can."""

    def __init__(self, device: HeldDevice | None = None) -> None:
        self.device = device
        self.missing, self.walls = _probe()
        self._places: dict[str, str] = {}

    def order(self, kind: Launching, directory: Path) -> dict[str, object] | None:
        """The confinement of one program that works in `directory`; None: nothing holds it."""
        if not self.holds(kind):
            return None
        order: dict[str, object] = {"detached": _left_out(directory)}
        if self.device:
            order["device"] = self.device.order()
        if kind.confine == "files":
            writable = list(dict.fromkeys([str(directory), *map(self.place, kind.writable)]))
            order |= {"files": True, "writable": writable}
        return order

    def resolve(self, kind: Launching) -> None:
        """Resolve the paths of a program now, before another one could put a link there."""
        for path in (*kind.writable, *filter(None, [kind.stdin])):
            self.place(path)

    def place(self, path: str) -> str:
        """Where a path leads, resolved once: a program could put a link there."""
        return self._places.setdefault(path, str(Path(path).resolve()))

    def device_path(self, kind: Launching) -> str:
        """How a program opens the held device; empty where there is none."""
        if self.device is None:
            return ""
        is_held = self.holds(kind)
        return str(knobs.device_file(self.device.name)) if is_held else self.device.path

    def holds(self, kind: Launching) -> bool:
        """Whether walls are around this program."""
        return kind.confine != "nothing" and not self.missing

    def facts(self, kind: Launching) -> Mapping[str, object]:
        """The confinement that a program had, and why not more."""
        if kind.confine == "nothing":
            return {"held": "nothing", "reason": "--unconfined", "walls": []}
        if self.missing:
            return {"held": "nothing", "reason": self.missing, "walls": []}
        users = {"user"} if kind.user not in ("", pwd.getpwuid(os.geteuid()).pw_name) else set()
        return {"held": kind.confine, "reason": "", "walls": sorted({*self.walls, *users})}


def _left_out(directory: Path) -> list[str]:
    """File systems that other sessions mounted and want to unmount while this program runs, and
    those that show the processes and control groups of others."""
    inside = {directory, *directory.parents}

    def is_left_out(mount: kernel_paths.Mount) -> bool:
        at = Path(mount.target)
        if mount.kind in ("proc", "cgroup", "cgroup2"):
            return not at.is_relative_to("/proc") and not at.is_relative_to("/sys")
        return owned.holds_files(at) and at not in inside

    return [mount.target for mount in kernel_paths.mounts() if is_left_out(mount)]


def _probe() -> tuple[str, list[str]]:
    """Why this kernel cannot confine a program of ours, empty when it can; its walls."""
    import json

    from schedlab import _core

    order = {"program": "/bin/true", "argv": ["true"], "environment": [], "directory": "/",
             "streams": [0, 1, 2], "confinement": {"files": True}}  # fmt: skip
    try:
        child = _core.Launched(json.dumps(order))
    except OSError as error:
        return f"the kernel allows no namespaces here ({error.strerror})", []
    child.wait(10.0)
    return "", child.walls()
