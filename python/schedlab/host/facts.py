"""The facts of a machine: `host.json` of a result folder. Read only, works without root.

What cannot be read is omitted or null, never guessed.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import platform
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

import schedlab
from schedlab.errors import HostError
from schedlab.host import devices, kernel_paths
from schedlab.host.safety import journal
from schedlab.host.settings import knobs
from schedlab.host.settings.knobs import text
from schedlab.nouns.reading import opened

CPU = Path("/sys/devices/system/cpu")
CLOCK = Path("/sys/devices/system/clocksource/clocksource0")
_SYSCTLS = (
    "kernel/sched_rr_timeslice_ms",
    "kernel/sched_rt_period_us",
    "kernel/sched_rt_runtime_us",
    "kernel/sched_autogroup_enabled",
    "kernel/io_uring_disabled",
    "kernel/perf_event_paranoid",
    "kernel/unprivileged_bpf_disabled",
    "vm/dirty_background_ratio",
    "vm/dirty_ratio",
    "vm/swappiness",
)
_CONFIG_PREFIXES = (
    "CONFIG_HZ",
    "CONFIG_PREEMPT",
    "CONFIG_BFQ",
    "CONFIG_IOSCHED_BFQ",
    "CONFIG_MQ_IOSCHED",
    "CONFIG_BLK_WBT",
    "CONFIG_BLK_CGROUP",
    "CONFIG_RT_GROUP_SCHED",
    "CONFIG_SCHED_",
    "CONFIG_DEBUG_INFO_BTF",
    "CONFIG_NO_HZ",
)
# No disk seeks and turns half a revolution in less.
DISK_MS_MIN = 1.0
_READ_BYTES = 4096
_LIBRARIES = ("numpy", "click", "rich", "xlsxwriter", "msgspec")


def collect(
    target: str | Path | None = None, device_names: Iterable[str] | None = None
) -> dict[str, object]:
    """Everything about this machine that may decide a measurement.

    `target` is the directory or device that is worked on: its mount and disks are described.
    `device_names` limits the devices whose `queue/` is read; all (but idle loops) otherwise.
    """
    names = device_names if device_names is not None else devices.with_queues()
    facts: dict[str, object] = {
        "schema": 1,
        "kernel": kernel(),
        "cpu": cpu(),
        "memory": memory(),
        "virtualisation": virtualisation(),
        "clock": {
            "source": text(CLOCK / "current_clocksource"),
            "available": (text(CLOCK / "available_clocksource") or "").split(),
        },
        "ticks_per_second": knobs.ticks_per_second(),
        "sysctl": {name: text(Path("/proc/sys") / name) for name in _SYSCTLS},
        "pressure": {name: text(Path("/proc/pressure") / name) for name in ("cpu", "io", "memory")},
        "load_average": list(os.getloadavg()),
        "cgroup": text("/proc/self/cgroup"),
        # without those that were removed since they were listed
        "devices": {name: of for name in names if "scheduler" in (of := device(name))["queue"]},
        "versions": versions(),
        "user_id": os.geteuid(),
    }
    if target is not None:
        facts["target"] = describe_target(target)
    return facts


def kernel() -> dict[str, object]:
    """Release, version, command line, boot id and the build options that matter here."""
    system = os.uname()
    return {
        "system": system.sysname,
        "release": system.release,
        "version": system.version,
        "machine": system.machine,
        # what follows " -- " is for init, not for the kernel
        "command_line": (text("/proc/cmdline") or "").partition(" -- ")[0],
        "boot_id": journal.boot_id(),
        "config": config(),
        "preemption": text("/sys/kernel/debug/sched/preempt"),
    }


def config() -> dict[str, str]:
    """Build options of the running kernel that concern scheduling; empty if not to be had."""
    content = ""
    with contextlib.suppress(OSError):
        content = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    content = content or text(f"/boot/config-{os.uname().release}") or ""
    lines = (line for line in content.splitlines() if line.startswith(_CONFIG_PREFIXES))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def release() -> tuple[int, ...]:
    """The first two numbers of the kernel's release."""
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def has_rt_throttling() -> bool:
    """Whether sched_rt_runtime_us limits real-time tasks: since Linux 6.12 the fair server leaves
    time to others instead, except with CONFIG_RT_GROUP_SCHED (kernel/sched/rt.c)."""
    return release() < (6, 12) or config().get("CONFIG_RT_GROUP_SCHED") == "y"


def cpu() -> dict[str, object]:
    """Model, topology, frequency control and vulnerabilities' mitigations."""
    first: dict[str, str] = {}
    for line in (text("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    return {
        "model": first.get("model name") or first.get("Processor") or platform.machine(),
        "microcode": first.get("microcode"),
        "online": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "smt": smt(),
        "governors": governors(),
        "driver": text(CPU / "cpufreq/policy0/scaling_driver"),
        "turbo": turbo(),
        "isolated": text(CPU / "isolated"),
        "vulnerabilities": {p.name: text(p) for p in sorted((CPU / "vulnerabilities").glob("*"))},
    }


def governors() -> dict[str, str]:
    """CPU frequency governor by policy; empty where the kernel does not control frequency."""
    paths = sorted(CPU.glob("cpufreq/policy*/scaling_governor"))
    return {path.parent.name: value for path in paths if (value := text(path))}


def turbo() -> bool | None:
    """Whether the CPU may exceed its nominal frequency; None when the kernel does not report it."""
    if (disabled := text(CPU / "intel_pstate/no_turbo")) is not None:
        return disabled == "0"
    if (boost := text(CPU / "cpufreq/boost")) is not None:
        return boost == "1"
    return None


def smt() -> bool | None:
    """Whether two threads share a core now; None when the kernel does not report it."""
    active = text(CPU / "smt/active")
    return None if active is None else active == "1"


def memory() -> dict[str, Any]:
    """Sizes in bytes, as /proc/meminfo has them, the transparent huge page mode, and whether free
    memory goes back to a hypervisor."""
    wanted = {"MemTotal", "MemAvailable", "SwapTotal", "Dirty", "Cached"}
    sizes = {}
    for line in (text("/proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key in wanted:
            sizes[f"{key}_bytes"] = int(value.split()[0]) * 1024
    return {
        **sizes,
        "huge_pages": text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "free_pages_reported": free_pages_reported(),
    }


def free_pages_reported(drivers: Path = Path("/sys/bus/virtio/drivers")) -> bool:
    """Whether this guest reports its free pages, so that the hypervisor takes them back.

    The first touch of such a page is a fault in the hypervisor, dearer than a read from a fast
    device. Source: VIRTIO_BALLOON_F_REPORTING in include/uapi/linux/virtio_balloon.h.
    """
    reporting_bit = 5
    feature_bits = [text(path) or "" for path in drivers.glob("virtio_balloon/virtio*/features")]
    return any(bits[reporting_bit : reporting_bit + 1] == "1" for bits in feature_bits)


def virtualisation() -> dict[str, object]:
    """Whether this is a virtual machine or a container, and which as far as visible."""
    flags = text("/proc/cpuinfo") or ""
    vendor = text("/sys/class/dmi/id/sys_vendor")
    hypervisor = text("/sys/hypervisor/type")
    environment = b""
    with contextlib.suppress(OSError):
        environment = Path("/proc/1/environ").read_bytes()
    marks = [name for name in ("/.dockerenv", "/run/.containerenv") if Path(name).exists()]
    return {
        "virtual_machine": " hypervisor" in flags or hypervisor is not None,
        "product": " ".join(filter(None, [vendor, text("/sys/class/dmi/id/product_name")])) or None,
        "hypervisor": hypervisor,
        "container": bool(marks) or b"container=" in environment,
    }


def device(name: str) -> dict[str, Any]:
    """The identity of a block device, and everything under its `queue/`."""
    entry = knobs.SYS_BLOCK / name
    return {
        "model": text(entry / "device/model"),
        "firmware": text(entry / "device/firmware_rev") or text(entry / "device/rev"),
        "driver": (entry / "device/driver").resolve().name or None,
        "size_bytes": int(text(entry / "size") or 0) * 512,
        "below": sorted(path.name for path in (entry / "slaves").glob("*")),
        "backing_file": kernel_paths.shown(kernel_paths.backing_file(entry)) or None,
        "direct_io": text(entry / "loop/dio"),
        "schedulers": _schedulers(name),
        "queue": knobs.snapshot(entry / "queue"),
        **queue_facts(name),
    }


def _schedulers(name: str) -> list[str]:
    """Schedulers that a device offers; none if it takes none or was removed since it was listed."""
    try:
        return list(knobs.offered(name))
    except (HostError, OSError):
        return []


QueueFacts = TypedDict(
    "QueueFacts",
    {
        "rotational": bool | None, "hardware_queues": int | None, "driver_tags": int | None,
        "driver_tags_in_use": int | None, "nr_requests": int | None,
    },
)  # fmt: skip


def queue_facts(name: str) -> QueueFacts:
    """Facts that decide a comparison of schedulers on a device, independent of its tunables.

    `rotational` is what it reports (bfq believes it). `driver_tags` is how many requests
    the driver takes at once, over all `hardware_queues`: a scheduler sees a backlog only beyond
    it. None where the kernel does not report it.
    """
    entry = knobs.SYS_BLOCK / name
    hardware_queues = sorted((entry / "mq").glob("[0-9]*"))
    tags = [int(value) for q in hardware_queues if (value := text(q / "nr_tags") or "").isdigit()]
    depths = [depth for q in hardware_queues if (depth := _tag_depth(name, q.name)) is not None]
    requests = text(entry / "queue" / "nr_requests")
    rotational = text(entry / "queue" / "rotational")
    return {
        "rotational": None if rotational is None else rotational == "1",
        "hardware_queues": len(hardware_queues) or None,
        "driver_tags": sum(tags) if tags else None,
        "driver_tags_in_use": sum(depths) if depths else None,
        "nr_requests": int(requests) if requests else None,
    }


def _tag_depth(name: str, hardware_queue: str) -> int | None:
    """To how many tags a lower `nr_requests` has narrowed a driver; only debugfs shows it."""
    shown = text(Path("/sys/kernel/debug/block") / name / f"hctx{hardware_queue}" / "tags") or ""
    for line in shown.splitlines():
        key, _, value = line.partition("=")
        if key == "depth" and value.isdigit():
            return int(value)
    return None


def random_read_ms(device: str | Path, reads: int = 16) -> float:
    """Median time of a random 4 KiB read of a device past the page cache, one at a time.

    HostError when it cannot be read so.
    """
    import mmap
    import random
    import statistics
    import time

    buffer = mmap.mmap(-1, _READ_BYTES)  # aligned to a page
    times_ms = []
    try:
        with opened(device, os.O_RDONLY | os.O_DIRECT) as descriptor:
            blocks = os.lseek(descriptor, 0, os.SEEK_END) // _READ_BYTES
            for _ in range(reads if blocks else 0):
                began = time.perf_counter()
                os.preadv(descriptor, [buffer], random.randrange(blocks) * _READ_BYTES)
                times_ms.append((time.perf_counter() - began) * 1e3)
    except OSError as error:
        raise HostError(f"cannot read {device}: {error.strerror}", "run it as root") from error
    if not times_ms:
        raise HostError(f"{device} has no medium")
    return statistics.median(times_ms)


def rotational_doubt(name: str) -> str:
    """A sentence when a device reports moving heads, but answers faster than heads can move.

    Empty when it does not report them, is as slow as a disk, or is unreadable. Reads 16 blocks.
    """
    if text(knobs.SYS_BLOCK / name / "queue" / "rotational") != "1":
        return ""
    try:
        measured_ms = random_read_ms(knobs.device_file(name))
    except HostError:
        return ""
    if measured_ms >= DISK_MS_MIN:
        return ""
    return (
        f"{name} reports itself as rotational, but answers random reads in {measured_ms:.2f} ms: "
        "bfq treats it as a disk with moving heads"
    )


def describe_target(target: str | Path) -> dict[str, object]:
    """Where the work goes: the mount of a directory and its disks, or the device."""
    path = Path(target)
    if path.is_block_device():
        return {"device": knobs.kernel_name(path)}
    status = os.statvfs(path)
    return {
        "directory": str(path.resolve()),
        "mount": devices.mount_of(path).facts(),
        "disks": list(devices.disks_below(path)),
        "free_bytes": status.f_bavail * status.f_frsize,
    }


def versions() -> dict[str, str | None]:
    """schedlab, Python and the libraries that results pass through."""
    facts: dict[str, str | None] = {
        "schedlab": schedlab.__version__,
        "python": sys.version.split()[0],
        "libc": " ".join(platform.libc_ver()),
    }
    for library in _LIBRARIES:
        try:
            facts[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            facts[library] = None
    return facts
