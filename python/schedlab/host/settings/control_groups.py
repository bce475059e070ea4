"""Where control groups of block I/O and of CPUs are made: cgroup v2, or the hierarchies of v1."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import HostError, nearest
from schedlab.host import kernel_paths
from schedlab.host.kernel_paths import Hierarchy
from schedlab.host.safety import owned


def io_hierarchy() -> Hierarchy:
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


def io_group(name: str) -> Path:
    """The control group of block I/O with that name; HostError when there is none."""
    return existing_group(io_hierarchy().root, name)


def existing_group(root: Path, name: str) -> Path:
    """The control group `name` below `root`; HostError with the nearest ones."""
    home = root / name.strip("/")
    if ".." in Path(name).parts or not home.is_dir():
        known = {path.name for path in root.iterdir() if path.is_dir()}
        raise HostError(f"there is no control group {home}", nearest(name, known, listed_max=30))
    return home


def cpu_hierarchy() -> Path:
    """Where cpu cgroups are made: v1's cpu hierarchy, else v2 with the cpu controller."""
    for name in ("cpu", "cpu,cpuacct"):
        root = Path("/sys/fs/cgroup") / name
        if (root / "cpu.shares").exists():
            return root
    root = owned.cgroup_root()
    if "cpu" not in (root / "cgroup.subtree_control").read_text().split():
        raise HostError(
            f"the cpu controller is not enabled in {root}",
            f"echo +cpu > {root}/cgroup.subtree_control",
        )
    return root
