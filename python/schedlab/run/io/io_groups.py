"""Control groups of workloads: shares and limits of block I/O, in cgroup v2 or v1.

The groups are journalled and go with the session.
"""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import HostError
from schedlab.host.safety.control import Control
from schedlab.host.settings import settings
from schedlab.host.settings.control_groups import io_hierarchy
from schedlab.kinds.resolved import IoGroup


class IoGroups:
    """The control groups of a session, made when they are first needed."""

    def __init__(self, control: Control, disk: str | None) -> None:
        """`disk` is the kernel name of the device that limits hold for."""
        self._control = control
        self._disk = disk
        self._created: dict[str, Path] = {}

    def directory(self, group: IoGroup) -> str:
        """The group, made and set as requested; HostError when the kernel refuses it."""
        path = self._created.get(group.name)
        if path is None:
            root = io_hierarchy().root
            path = self._created[group.name] = self._control.cgroup(group.name, root)
        if group.weight:
            self._set(path, "io.weight", str(group.weight))
        if group.read_bytes_per_s:
            if self._disk is None:
                raise HostError(
                    "a limit needs a single device below the files", "use --scratch or --device"
                )
            self._set(path, "io.max", f"rbps={group.read_bytes_per_s}")
        return str(path)

    def _set(self, path: Path, file: str, text: str) -> None:
        for knob, value in settings.group_knobs(path, file, text, self._disk or ""):
            self._control.write_knob(knob, value)
