"""Control groups of workloads: shares and limits of block I/O, in cgroup v2 or v1.

v2 has `io.bfq.weight`, `io.weight` (iocost) and `io.max`; v1 has `blkio.bfq.weight` and
`blkio.throttle.*` (Documentation/admin-guide/cgroup-v1/blkio-controller.rst). The groups are
journalled and go with the session.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host import knobs
from schedlab.host.control import Control
from schedlab.kinds.resolved import IoGroup


@dataclass(frozen=True)
class Hierarchy:
    """Where control groups of block I/O are made: `version` is `v1` or `v2`."""

    root: Path
    version: str


def hierarchy() -> Hierarchy:
    """The hierarchy that controls block I/O here; HostError when none does."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, options, *_ = line.split()
        root = Path(where)
        if kind == "cgroup2" and "io" in (root / "cgroup.controllers").read_text().split():
            if "io" not in (root / "cgroup.subtree_control").read_text().split():
                raise HostError(
                    f"{root}: block I/O is not controlled below it",
                    f"echo +io > {root}/cgroup.subtree_control",
                )
            return Hierarchy(root, "v2")
        if kind == "cgroup" and "blkio" in options.split(","):
            return Hierarchy(root, "v1")
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
        names = {"v1": ("blkio.bfq.weight",), "v2": ("io.bfq.weight", "io.weight")}[where.version]
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
        file, text = {
            "v1": ("blkio.throttle.read_bps_device", f"{number} {bytes_per_s}"),
            "v2": ("io.max", f"{number} rbps={bytes_per_s}"),
        }[where.version]
        self._control.write_knob(path / file, text)
