"""Confinement of a started program: no other block devices, or no files but the target's.

Built between fork and exec by crates/load/src/confine.rs. By default (`devices`) a program can open
no block device but the held one; its files are its own affair. `files` holds these as well: only
the target, `/dev/shm` (its TMPDIR) and the places that the user named can be written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.host import kernel_paths, knobs, owned

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

    def order(self) -> dict[str, Any]:
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
        self.missing = _probe()

    def order(self, kind: Launching, directory: Path) -> dict[str, Any] | None:
        """The confinement of one program that works in `directory`; None: nothing holds it."""
        if not self._holds(kind):
            return None
        order: dict[str, Any] = {"detached": _of_other_sessions(directory)}
        if self.device:
            order["device"] = self.device.order()
        if kind.confine == "files":
            writable = list(dict.fromkeys([str(directory), *kind.writable]))
            order |= {"files": True, "writable": writable}
        return order

    def device_path(self, kind: Launching) -> str:
        """How a program opens the held device; empty where there is none."""
        if self.device is None:
            return ""
        is_held = self._holds(kind)
        return str(knobs.device_file(self.device.name)) if is_held else self.device.path

    def _holds(self, kind: Launching) -> bool:
        is_wanted = kind.confine == "files" or (kind.confine == "devices" and _needed())
        return is_wanted and not self.missing

    def facts(self, kind: Launching) -> Mapping[str, str]:
        """The confinement that a program had, and why not more."""
        if kind.confine == "nothing":
            return {"held": "nothing", "reason": "--unconfined"}
        if self.missing:
            return {"held": "nothing", "reason": self.missing}
        return {"held": kind.confine, "reason": ""}


def _of_other_sessions(directory: Path) -> list[str]:
    """File systems that other sessions mounted and want to unmount while this program runs."""
    inside = {directory, *directory.parents}
    mounted = (Path(mount.target) for mount in kernel_paths.mounts())
    return [str(at) for at in mounted if owned.holds_files(at) and at not in inside]


def _needed() -> bool:
    """Whether this user may open a block device for writing at all."""
    if os.geteuid() == 0:
        return True
    names = (entry.name for entry in knobs.CLASS_BLOCK.iterdir())
    return any(os.access(knobs.device_file(name), os.W_OK) for name in names)


def _probe() -> str:
    """Why this kernel cannot confine a program of ours; empty when it can."""
    import json

    from schedlab import _core

    order = {"program": "/bin/true", "argv": ["true"], "environment": [], "directory": "/",
             "streams": [0, 1, 2], "confinement": {"files": True}}  # fmt: skip
    try:
        _core.Launched(json.dumps(order)).wait(10.0)
    except OSError as error:
        return f"the kernel allows no mount namespace here ({error.strerror})"
    return ""
