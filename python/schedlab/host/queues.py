"""The request queues below a directory or device: where a scheduler would take effect.

    below = queues_below("/srv/db")
    below.queues            # ("sda", "sdb")
    below.reasons           # {"sda": ("it carries /",)}: why the user must name it
    print("\\n".join(below.lines()))

From the mount down: overlay to its directories, btrfs to all of its devices, partition to disk,
dm, md and bcache to what they are made of, an NVMe multipath head to its hidden paths. A loop
device's own queue is in the set; the disk below its file only with `below`.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host import devices, kernel_paths
from schedlab.host.kernel_paths import Mount, shown
from schedlab.host.settings import knobs
from schedlab.nouns.reading import opened

_DEPTH_MAX = 16
_WITHOUT_QUEUE = {
    "zfs": "ZFS schedules its I/O itself",
    "tmpfs": "it is memory",
    "ramfs": "it is memory",
    "nfs": "the server schedules",
    "nfs4": "the server schedules",
    "cifs": "the server schedules",
    "9p": "the server schedules",
    "virtiofs": "the host schedules",
}
_EXTERNAL = {"logdev": "log device", "rtdev": "realtime device"}
# include/uapi/linux, fs/ext4/ext4.h: struct ext4_super_block at byte 1024
_EXT4_SUPERBLOCK, _EXT4_JOURNAL = 1024, 0xE0


@dataclass(frozen=True)
class Node:
    """A mount, device or file on the way down; `label` is what it is to the one above."""

    name: str
    label: str = ""
    below: tuple[Node, ...] = ()
    queue: Path | None = None

    def lines(self, indent: str = "") -> Iterator[str]:
        """The tree as text, a line per node."""
        text = f"{self.label} {self.name}".strip()
        if self.queue:
            text += f": {_described(self.queue)}"
        yield indent + text
        for node in self.below:
            yield from node.lines(indent + "  ")

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for node in self.below:
            yield from node.walk()


@dataclass(frozen=True)
class QueueSet:
    """The queues below a path, and who else would feel a change.

    `queues` are kernel names with a choice of schedulers. `mounts` lists mounts of other file
    systems on them, and swap areas. `reasons` says, per queue, why the user must name it: it
    carries `/`, swap or another mount.
    """

    path: str
    tree: Node
    queues: tuple[str, ...]
    mounts: tuple[str, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The tree, then the other mounts and what must be named; for `doctor --path`."""
        lines = list(self.tree.lines())
        lines += [f"it also affects {mount}" for mount in self.mounts]
        for name, reasons in self.reasons.items():
            lines.append(f"{name} is switched only when named: {'; '.join(reasons)}")
        return lines


def queues_below(path: str | Path, below: bool = False) -> QueueSet:
    """The queues below a directory, file or block device; `below` goes below loop devices, too.

    HostError where there is none: network file systems, memory, ZFS, FUSE.
    """
    path = Path(path)
    if not path.exists():
        raise HostError(f"{path} does not exist", "name an existing directory")
    if path.is_block_device():
        name = knobs.kernel_name(path)
        tree = _device(name, "", below)
        own_number = ""  # a device is not one of its mounts: all of them feel it
    else:
        mount = devices.mount_of(path)
        own_number = mount.number
        tree = _mount(path, mount, below, _DEPTH_MAX)
    queues = _names(tree)
    mounts, reasons = _others(set(queues), own_number, below)
    return QueueSet(str(path), tree, queues, mounts, reasons)


def _names(tree: Node) -> tuple[str, ...]:
    return tuple(sorted({node.name for node in tree.walk() if node.queue}))


def _mount(path: Path, mount: Mount, below: bool, depth: int) -> Node:
    """A directory's file system and all below it. HostError when nothing below is a device."""
    kind = mount.kind or "unknown"
    if depth == 0:
        raise HostError(f"{path}: too many layers", "name a directory on a disk")
    nodes = tuple(_below_mount(mount, below, depth))
    if not any(True for node in nodes for _ in node.walk()):
        why = _WITHOUT_QUEUE.get(kind, "its devices are not visible from here")
        if kind.startswith("fuse") and kind != "fuseblk":
            why = "a program serves it (FUSE)"
        raise HostError(
            f"{path}: no request queue below this {kind} file system: {why}",
            "name a directory on a local disk, or use --scratch SIZE",
        )
    return Node(shown(mount.target or path), kind, nodes)


def _below_mount(mount: Mount, below: bool, depth: int) -> Iterator[Node]:
    if mount.kind == "overlay":
        yield from _overlay(mount, below, depth)
        return
    link = Path("/sys/dev/block") / (mount.number or "0:0")
    if link.exists():
        name = link.resolve().name
        yield _device(name, "", below)
        yield from _external(mount, name, below)
        return
    source = Path(mount.source)
    name = knobs.kernel_name(source) if source.is_block_device() else ""
    members = devices.btrfs_members(name) if mount.kind == "btrfs" else ()
    for member in members or ((name,) if name else ()):
        yield _device(member, "", below)


def _overlay(mount: Mount, below: bool, depth: int) -> Iterator[Node]:
    """Writes go to `upperdir`; reads of what was never written to the lower directories."""
    options = dict(o.partition("=")[::2] for o in mount.super_options)
    layers = [("upper", options.get("upperdir", ""))]
    layers += [("lower", each) for each in options.get("lowerdir", "").split(":")]
    for label, text in layers:
        layer = Path(text)
        if text and layer.is_dir():
            with contextlib.suppress(HostError):
                node = _mount(layer, devices.mount_of(layer), below, depth - 1)
                yield Node(node.name, f"{label} {shown(text)} on {node.label}", node.below)


def _external(mount: Mount, name: str, below: bool) -> Iterator[Node]:
    """Log and realtime devices of XFS, the external journal of ext4."""
    options = dict(o.partition("=")[::2] for o in mount.super_options)
    for key, label in _EXTERNAL.items():
        device = Path(options.get(key, ""))
        if options.get(key) and device.is_block_device():
            yield _device(knobs.kernel_name(device), label, below)
    if mount.kind in ("ext3", "ext4"):
        with contextlib.suppress(OSError, struct.error):
            journal = _ext4_journal(knobs.device_file(name))
            if journal:
                yield _device(journal, "journal", below)


def _ext4_journal(device: Path) -> str:
    """The device of an external journal; nothing where it is an inode of the file system."""
    with opened(device) as descriptor:
        data = os.pread(descriptor, 8, _EXT4_SUPERBLOCK + _EXT4_JOURNAL)
    inode, number = struct.unpack("<II", data)
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return link.resolve().name if inode == 0 and number and link.exists() else ""


def _device(name: str, label: str, below: bool, depth: int = _DEPTH_MAX) -> Node:
    """A device and what it is made of; leaves that can be scheduled have a queue."""
    entry = knobs.CLASS_BLOCK / name
    if depth == 0 or not entry.exists():
        return Node(name, label)
    if (entry / "partition").exists():
        disk = entry.resolve().parent.name
        return Node(name, label or "partition", (_device(disk, "disk", below, depth - 1),))
    parts = _parts(entry)
    if parts:
        kind = devices.text_of(entry / "dm" / "uuid").partition("-")[0] or _kind(name)
        lower = tuple(_device(part, "", below, depth - 1) for part in parts)
        return Node(name, label or kind, lower)
    queue = entry / "queue"
    chosen = knobs.SYS_BLOCK / name / "queue" if (queue / "scheduler").exists() else None
    return Node(name, label or _kind(name), _below_loop(entry, below, depth), chosen)


def _below_loop(entry: Path, below: bool, depth: int) -> tuple[Node, ...]:
    backing = kernel_paths.backing_file(entry)
    if not backing:
        return ()
    file = Path(backing)
    place = file if file.exists() else file.parent
    if below and place.exists():
        with contextlib.suppress(HostError):
            if place.is_block_device():
                return (_device(knobs.kernel_name(place), "backing device", below, depth - 1),)
            return (_mount(place, devices.mount_of(place), below, depth - 1),)
    return (Node(shown(backing), "file"),)


def _parts(entry: Path) -> tuple[str, ...]:
    """The devices below a device: slaves, the cache of bcache, the paths of NVMe multipath."""
    names = [path.name for path in entry.glob("slaves/*")]
    names += [p.resolve().parent.name for p in entry.glob("bcache/cache/cache[0-9]*")]
    head = re.fullmatch(r"(nvme\d+)(n\d+)", entry.name)
    if head and not (entry / "queue" / "scheduler").exists():
        names += [path.name for path in entry.glob("multipath/*")]
        hidden = entry.resolve().parent.glob(f"nvme*/{head[1]}c*{head[2]}")
        names += [path.name for path in hidden]
        names += [p.name for p in knobs.SYS_BLOCK.glob(f"{head[1]}c*{head[2]}")]
    return tuple(sorted(dict.fromkeys(names)))


def _kind(name: str) -> str:
    kinds = {"md": "md", "dm-": "dm", "loop": "loop", "bcache": "bcache"}
    return next((kind for start, kind in kinds.items() if name.startswith(start)), "disk")


def _described(queue: Path) -> str:
    try:
        offered = (queue / "scheduler").read_text(encoding="utf-8").split()
        depth = knobs.read_value(queue / "nr_requests")
        return f"{' '.join(offered)}, nr_requests {depth}"
    except OSError:
        return "its queue cannot be read"


def _others(
    queues: set[str], own_number: str, below: bool
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Mounts and swap areas of other file systems on these queues, and why to name each queue."""
    mounts: list[str] = []
    reasons: dict[str, list[str]] = {}
    known: dict[tuple[str, str], set[str]] = {}
    for mount in kernel_paths.mounts():
        key = (mount.number, mount.source)
        if key not in known:
            known[key] = queues_of(mount, below)
        shared, target = known[key] & queues, shown(mount.target)
        if not shared or (mount.number == own_number and target != "/"):
            continue
        if mount.number != own_number:
            mounts.append(f"{target} ({mount.kind}, on {', '.join(sorted(shared))})")
        for name in sorted(shared):
            reasons.setdefault(name, []).append(f"it carries {target}")
    for area, names in _swap_areas(below):
        if felt := sorted(names & queues):
            mounts.append(f"the swap area {area} (on {', '.join(felt)})")
        for name in felt:
            reasons.setdefault(name, []).append(f"it carries the swap area {area}")
    return tuple(mounts), {name: tuple(dict.fromkeys(why)) for name, why in reasons.items()}


def queues_of(mount: Mount, below: bool = False) -> set[str]:
    """The queues below a mount; none where it has none."""
    with contextlib.suppress(OSError, HostError):
        nodes = _below_mount(mount, below, _DEPTH_MAX)
        return {name for node in nodes for name in _names(node)}
    return set()


def _swap_areas(below: bool) -> Iterator[tuple[str, set[str]]]:
    for area in kernel_paths.swap_areas():
        with contextlib.suppress(OSError, HostError):
            if area.is_block_device():
                yield shown(area), set(_names(_device(knobs.kernel_name(area), "", below)))
            else:
                tree = _mount(area, devices.mount_of(area), below, _DEPTH_MAX)
                yield shown(area), set(_names(tree))
