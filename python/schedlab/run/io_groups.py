"""Control groups of workloads: shares and limits of block I/O, in cgroup v2 or v1.

v2 has `io.bfq.weight`, `io.weight` (iocost) and `io.max`; v1 has `blkio.bfq.weight` and
`blkio.throttle.*` (Documentation/admin-guide/cgroup-v1/blkio-controller.rst). The groups are
journalled and go with the session.
"""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import HostError
from schedlab.host import kernel_paths, knobs
from schedlab.host.control import Control
from schedlab.host.kernel_paths import Hierarchy
from schedlab.kinds.resolved import IoGroup


def hierarchy() -> Hierarchy:
    """The hierarchy that controls block I/O here; HostError when none does."""
    for each in kernel_paths.hierarchies():
        root = each.root
        if each.is_v2 and "io" in each.controllers:
            if "io" not in (root / "cgroup.subtree_control").read_text().split():
                raise HostError(
                    f"{root}: block I/O is not controlled below it",
                    f"echo +io > {root}/cgroup.subtree_control",
                )
            return each
        if not each.is_v2 and "blkio" in each.controllers:
            return each
    raise HostError(
        "no control groups for block I/O are mounted",
        "boot with systemd, or mount -t cgroup2 none /sys/fs/cgroup",
    )


class IoGroups:
    """The control groups of a session, made when they are first needed."""

    def __init__(self, control: Control, disk: str | None) -> None:
        """`disk` is the kernel name of the device that limits hold for."""
        self._control = control
        self._disk = disk
        self._created: dict[str, Path] = {}

    def directory(self, group: IoGroup) -> str:
        """The group, made and set as requested; HostError when the kernel refuses it."""
        where = hierarchy()
        path = self._created.get(group.name)
        if path is None:
            path = self._created[group.name] = self._control.cgroup(group.name, where.root)
        if group.weight:
            self._set_weight(path, where, group.weight)
        if group.read_bytes_per_s:
            self._set_limit(path, where, group.read_bytes_per_s)
        return str(path)

    def _set_weight(self, path: Path, where: Hierarchy, weight: int) -> None:
        names = ("io.bfq.weight", "io.weight") if where.is_v2 else ("blkio.bfq.weight",)
        present = [path / name for name in names if (path / name).exists()]
        if not present:
            raise HostError(
                f"{path} has none of {', '.join(names)}",
                "weights need a kernel with CONFIG_BFQ_GROUP_IOSCHED or CONFIG_BLK_CGROUP_IOCOST",
            )
        for file in present:
            self._control.write_knob(file, weight)

    def _set_limit(self, path: Path, where: Hierarchy, bytes_per_s: int) -> None:
        if self._disk is None:
            raise HostError(
                "a limit needs a single device below the files", "use --scratch or --device"
            )
        number = knobs.read_value(knobs.SYS_BLOCK / self._disk / "dev")
        file, text = "blkio.throttle.read_bps_device", f"{number} {bytes_per_s}"
        if where.is_v2:
            file, text = "io.max", f"{number} rbps={bytes_per_s}"
        self._control.write_knob(path / file, text)
