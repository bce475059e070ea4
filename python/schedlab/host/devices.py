"""Block devices: which carry what, and which may be written to raw. The default is refusal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from schedlab.errors import HostError
from schedlab.host import content, kernel_paths, processes
from schedlab.host.kernel_paths import Mount, shown
from schedlab.host.settings import knobs
from schedlab.nouns.reading import opened

SYS_BTRFS = Path("/sys/fs/btrfs")
T = TypeVar("T")
_LOOP_GET_STATUS64, _LOOP_INFO_BYTES = 0x4C05, 232  # include/uapi/linux/loop.h


def with_queues() -> tuple[str, ...]:
    """The block devices whose scheduler can be chosen, without idle loop devices."""
    names = []
    for entry in sorted(knobs.SYS_BLOCK.iterdir()):
        idle_loop = entry.name.startswith("loop") and not (entry / "loop").exists()
        if (entry / "queue" / "scheduler").exists() and not idle_loop:
            names.append(entry.name)
    return tuple(names)


def each_with_queue(look: Callable[[str], T], named: Iterable[str] = ()) -> dict[str, T]:
    """`look` at the named devices, else at all with a queue, by kernel name.

    Of all, one that is removed meanwhile is left out, also if another one gets its name; a named
    one must be there.
    """
    if named:
        return {knobs.device_name(device): look(device) for device in named}
    seen = {}
    for device in with_queues():
        for tries_left in (2, 1, 0):
            try:
                seen[device] = look(device)
                break
            except (OSError, HostError):
                if not (knobs.SYS_BLOCK / device / "queue").exists():
                    break
                if not tries_left:
                    raise
    return seen


def loop_schedulers() -> tuple[str, ...]:
    """The offer of a new loop device, read from any loop device there is."""
    for entry in sorted(knobs.SYS_BLOCK.glob("loop*")):
        if (entry / "queue" / "scheduler").exists():
            return knobs.offered(entry.name)
    raise HostError("this machine has no loop devices", "modprobe loop, or use --directory DIR")


def size_bytes(device: str | Path) -> int:
    """Size of a block device or partition; HostError when there is none of that name."""
    knobs.device_name(str(device))
    return int(text_of(knobs.CLASS_BLOCK / knobs.kernel_name(device) / "size")) * 512


def disks_below(directory: str | Path) -> tuple[str, ...]:
    """The whole disks that hold a directory, through partitions, dm, md and loop devices.

    Empty where that cannot be seen (network and overlay file systems, containers).
    """
    disks: set[str] = set()
    for source in _sources_of(directory):
        _descend(source, disks)
    return tuple(sorted(disks))


def _sources_of(directory: str | Path) -> list[str]:
    """Names of the block devices that a directory's file system is mounted from."""
    number = Path(directory).stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if link.exists():
        return [link.resolve().name]
    source = Path(mount_of(directory).source)  # btrfs and others have a separate device number
    name = knobs.kernel_name(source) if source.is_block_device() else ""
    return list(btrfs_members(name) or filter(None, [name]))


def btrfs_members(name: str) -> tuple[str, ...]:
    """All devices of the btrfs that `name` belongs to."""
    for members in SYS_BTRFS.glob("*/devices"):
        names = sorted(entry.name for entry in members.iterdir())
        if name in names:
            return tuple(names)
    return ()


def _descend(name: str, disks: set[str]) -> None:
    entry = knobs.CLASS_BLOCK / name
    if (entry / "partition").exists():
        entry = entry.resolve().parent
    below = list((entry / "slaves").glob("*")) if (entry / "slaves").is_dir() else []
    for lower in below:
        _descend(lower.name, disks)
    if not below and entry.exists():
        disks.add(entry.name)


def mount_of(directory: str | Path) -> Mount:
    """The mount of a directory; an empty one if that is unknown."""
    wanted = Path(directory).resolve()
    best = Mount()
    for mount in kernel_paths.mounts():
        target = Path(mount.target)
        inside = target == wanted or target in wanted.parents
        if inside and len(mount.target) >= len(best.target):
            best = mount
    return best


def reasons_in_use(entry: Path) -> list[str]:
    """Who uses a disk or partition (its sysfs directory), its own partitions included."""
    family = [entry, *(part.parent for part in entry.glob("*/partition"))]
    reasons = [f"it has partition {member.name}" for member in family[1:]]
    if text_of(entry / "ro") == "1":
        reasons.append("it is read-only")
    if text_of(entry / "size") == "0":
        reasons.append("it has no medium (size 0)")
    numbers = {text_of(member / "dev"): member.resolve().name for member in family}
    return [
        *reasons,
        *_mounted(numbers),
        *_swap_and_holders(family),
        *_loops_beside(numbers),
        *_opened(numbers),
        *_of_backing_device(entry),
    ]


def _of_backing_device(entry: Path) -> list[str]:
    """Who uses the device behind a loop device, and what it holds, down the whole chain.

    The kernel does not claim it for the loop device: its mounts go on beside what is written here.
    """
    loop = entry.resolve().name
    number = _backing_of(loop)[1] if (entry / "loop").is_dir() else ""
    if not number:
        return []
    below = Path("/sys/dev/block") / number
    name = below.resolve().name
    reasons = [
        each for each in reasons_in_use(below) if not each.startswith(f"it is below {loop} ")
    ]
    with contextlib.suppress(OSError), opened(knobs.device_file(name)) as descriptor:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        reasons += [f"it holds {each}" for each in content.signatures(descriptor, size)]
    return [f"it is on {name}, and {each}" for each in reasons]


def _mounted(numbers: dict[str, str]) -> list[str]:
    """Mounts of these devices, in this and every other mount namespace."""
    targets: dict[tuple[str, str], str] = {}
    seen: set[str] = set()
    for process in ("self", *map(str, processes.every())):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours to see
            namespace = str(Path(f"/proc/{process}/ns/mnt").readlink())
            if namespace in seen:
                continue
            seen.add(namespace)
            where = "" if process == "self" else f", in the mount namespace of process {process}"
            for mount in kernel_paths.mounts(process):
                source = Path(mount.source).name if mount.source.startswith("/dev/") else ""
                name = numbers.get(mount.number) or (source if source in numbers.values() else "")
                if name:
                    targets.setdefault((name, shown(mount.target)), where)
    return [f"it is mounted on {target} ({name}{w})" for (name, target), w in targets.items()]


def _swap_and_holders(family: list[Path]) -> list[str]:
    """Swap areas and holders (dm, md, LVM, LUKS)."""
    reasons = []
    for entry in family:
        name = entry.resolve().name
        for area in kernel_paths.swap_areas():
            if area.resolve() == knobs.device_file(name):
                reasons.append(f"it is swap space in use ({name})")
        holders = sorted(entry.glob("holders/*"))
        reasons += [f"it is held by {holder.name} ({name})" for holder in holders]
    return reasons


def _loops_beside(numbers: dict[str, str]) -> list[str]:
    """Loop devices on top of these devices, or behind which the same file is.

    The kernel lets both write, so what one of them holds is lost by writing to the other.
    """
    reasons = []
    known = {
        entry.parents[1].name: _backing_of(entry.parents[1].name)
        for entry in sorted(knobs.SYS_BLOCK.glob("loop*/loop/backing_file"))
    }
    files = {known[name][0]: name for name in numbers.values() if name in known}
    for loop, (file, number) in known.items():
        if number in numbers:
            reasons.append(f"it is below {loop} ({numbers[number]})")
        if file in files and loop not in numbers.values():
            reasons.append(f"its file is behind {loop} as well ({files[file]})")
    return reasons


def _backing_of(loop: str) -> tuple[str, str]:
    """(what identifies the file behind a loop device, its device number if it is a device)."""
    try:
        with opened(f"/dev/{loop}") as descriptor:
            status = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_LOOP_INFO_BYTES))
    except OSError:
        return kernel_paths.backing_file(knobs.SYS_BLOCK / loop), ""
    device, inode, number = struct.unpack_from("<3Q", status)
    return f"{device}:{inode}", f"{os.major(number)}:{os.minor(number)}" if number else ""


def _opened(numbers: dict[str, str], patience_s: float = 1.0) -> list[str]:
    """Other processes that have one of these devices open; those of a moment (udev) may finish."""
    deadline = time.monotonic() + patience_s
    while (openers := _openers(numbers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return openers


def _openers(numbers: dict[str, str]) -> list[str]:
    openers = set()
    for process in {*processes.every()} - {os.getpid()}:
        with contextlib.suppress(OSError):
            for link in os.scandir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    device = link.stat()
                    number = f"{os.major(device.st_rdev)}:{os.minor(device.st_rdev)}"
                    if stat.S_ISBLK(device.st_mode) and number in numbers:
                        openers.add(str(process))
    return [f"process {each} ({processes.name_of(each)}) has it open" for each in sorted(openers)]


def text_of(path: Path) -> str:
    """The stripped text of a small file; empty when it cannot be read."""
    return knobs.text(path) or ""
