"""Block devices: which carry what, and which may be written to raw. The default is refusal."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

from schedlab.errors import HostError
from schedlab.host import knobs


def with_queues() -> tuple[str, ...]:
    """The block devices whose scheduler can be chosen, idle loop devices left out."""
    names = []
    for entry in sorted(knobs.SYS_BLOCK.iterdir()):
        idle_loop = entry.name.startswith("loop") and not (entry / "loop").exists()
        if (entry / "queue" / "scheduler").exists() and not idle_loop:
            names.append(entry.name)
    return tuple(names)


def loop_schedulers() -> tuple[str, ...]:
    """What a new loop device will offer, seen at any loop device there is."""
    for entry in sorted(knobs.SYS_BLOCK.glob("loop*")):
        if (entry / "queue" / "scheduler").exists():
            return knobs.offered(entry.name)
    raise HostError("this machine has no loop devices", "modprobe loop, or use --directory DIR")


def size_bytes(device: str | Path) -> int:
    """Size of a block device or partition; HostError when there is none of that name."""
    knobs.device_name(str(device))
    return int(_text(knobs.CLASS_BLOCK / Path(device).resolve().name / "size")) * 512


def disks_below(directory: str | Path) -> tuple[str, ...]:
    """The whole disks that hold a directory, through partitions, dm, md and loop devices.

    Empty where that cannot be seen (network and overlay file systems, containers).
    """
    found: set[str] = set()
    for source in _sources_of(directory):
        _descend(source, found)
    return tuple(sorted(found))


def _sources_of(directory: str | Path) -> list[str]:
    """Names of the block devices that a directory's file system is mounted from."""
    number = Path(directory).stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if link.exists():
        return [link.resolve().name]
    mounted = mount_of(directory)  # btrfs and others have a device number of their own
    source = Path(mounted["source"]) if mounted else Path()
    return [source.resolve().name] if source.is_block_device() else []


def _descend(name: str, found: set[str]) -> None:
    entry = knobs.CLASS_BLOCK / name
    if (entry / "partition").exists():
        entry = entry.resolve().parent
    below = list((entry / "slaves").glob("*")) if (entry / "slaves").is_dir() else []
    for lower in below:
        _descend(lower.name, found)
    if not below and entry.exists():
        found.add(entry.name)


def mount_of(directory: str | Path) -> dict[str, str]:
    """The mount that a directory lies on: source, target, kind and options; empty if unknown."""
    wanted = Path(directory).resolve()
    best: dict[str, str] = {}
    for mount in mounts():
        target = Path(mount["target"])
        inside = target == wanted or target in wanted.parents
        if inside and len(mount["target"]) >= len(best.get("target", "")):
            best = mount
    return best


def mounts() -> list[dict[str, str]]:
    """Every mount of this process: device number, source, target, kind and options."""
    found = []
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        first, _, second = line.partition(" - ")
        _, _, number, _, target, options, *_ = first.split()
        kind, source, *_ = second.split()
        unescape = {"\\040": " ", "\\011": "\t", "\\134": "\\"}
        for code, character in unescape.items():
            target = target.replace(code, character)
        found.append(
            {
                "number": number,
                "source": source,
                "target": target,
                "kind": kind,
                "options": options,
            }
        )
    return found


def require_destroyable(device: str, destroy_data: bool) -> None:
    """HostError unless raw writes to a device were asked for and nothing can be lost by them."""
    reasons = reasons_against_writing(device)
    if reasons:
        raise HostError(
            f"{device} will not be written to: {'; '.join(reasons)}",
            "use a device without content, --scratch SIZE, or --directory DIR",
        )
    if not destroy_data:
        raise HostError(
            f"raw writes would destroy what is on {device}", f"add --destroy-data {device}"
        )


def reasons_against_writing(device: str) -> tuple[str, ...]:
    """Why a device may not be written to raw; empty when nothing speaks against it."""
    path = Path(device) if "/" in device else Path("/dev") / device
    if not path.exists():
        return ("it does not exist",)
    if not path.is_block_device():
        return ("it is not a block device",)
    entry = knobs.CLASS_BLOCK / path.resolve().name
    family = [entry, *(part.parent for part in entry.glob("*/partition"))]
    reasons = [f"it has partition {member.name}" for member in family[1:]]
    if _text(entry / "ro") == "1":
        reasons.append("it is read-only")
    if _text(entry / "size") == "0":
        reasons.append("it has no medium (size 0)")
    for member in family:
        reasons += _users(member)
    if not any(
        reason.startswith(("it is mounted", "it is held", "it is swap")) for reason in reasons
    ):
        reasons += _claimed(path)
    return (*reasons, *_signatures(path))


def _users(entry: Path) -> list[str]:
    """Mounts, swap areas and holders (dm, md, LVM, LUKS) of a disk or partition."""
    name, number = entry.resolve().name, _text(entry / "dev")
    reasons = [
        f"it is mounted on {mount['target']} ({name})"
        for mount in mounts()
        if mount["number"] == number or Path(mount["source"]).resolve() == Path("/dev") / name
    ]
    for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]:
        if Path(line.split()[0]).resolve() == Path("/dev") / name:
            reasons.append(f"it is swap space in use ({name})")
    holders = entry / "holders"
    if holders.is_dir():
        reasons += [f"it is held by {holder.name} ({name})" for holder in holders.iterdir()]
    return reasons


def _claimed(path: Path) -> list[str]:
    """Ask the kernel: an exclusive open fails while anybody has claimed the device."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return ["the kernel has it in use (mounted elsewhere, RAID, swap or mapped)"]
        return [f"it cannot be opened ({error.strerror}); run as root"]
    return []


def _signatures(path: Path) -> list[str]:
    """What libblkid finds: partition tables, file systems, LVM, LUKS, RAID, swap."""
    program = shutil.which("blkid", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        return ["blkid is missing, so it cannot be told whether it is empty"]
    probe = subprocess.run(
        [program, "-p", "-o", "export", str(path)], capture_output=True, text=True, check=False
    )
    if probe.returncode == 2 and not probe.stdout.strip():
        return []  # blkid(8): 2 is "nothing found"; it is 2 as well if the device is unreadable
    if probe.returncode not in (0, 2):
        return [f"blkid cannot tell what is on it ({probe.stderr.strip() or 'ambivalent'})"]
    found = dict(line.split("=", 1) for line in probe.stdout.splitlines() if "=" in line)
    reasons = []
    if "PTTYPE" in found:
        reasons.append(f"it has a {found['PTTYPE']} partition table")
    if "TYPE" in found:
        reasons.append(f"it has a {found['TYPE']} signature ({found.get('USAGE', 'unknown')})")
    if "PART_ENTRY_SCHEME" in found and not reasons:
        return []  # an empty partition: only its place in the parent's table is known
    return reasons or ["blkid found something on it that it does not name"]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
