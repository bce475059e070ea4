"""Knobs: kernel settings that are files, with a reader, a writer and a read-back check.

A scheduler's name is read as the bracketed word of `queue/scheduler`; there is no list of known
schedulers or tunables, what sysfs shows is what there is. See Documentation/block/queue-sysfs.rst.

Files of control groups have a line per device: `io.max@8:0` is the knob of the device 8:0 in
`io.max`, and `io.weight@default` that of the group. See Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from schedlab.errors import HostError
from schedlab.nouns.reading import opened

SYS_BLOCK = Path("/sys/block")
CLASS_BLOCK = Path("/sys/class/block")
NUMBERS = Path("/sys/dev/block")
# Schedulers that have had another name since Linux 5.0 …
RENAMED = {"noop": "none", "deadline": "mq-deadline"}
# … and one that is gone. Its successor is another algorithm: never measured in its name.
REPLACED = {"cfq": "bfq"}
_BRACKETED = re.compile(r"\[([^\]\s]+)\]")
_IN_PARENTHESES = re.compile(r"\((\w+)\)")  # /sys/kernel/debug/sched/preempt
_SCHEDULER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}")
_SWITCH = {"Y": "1", "N": "0"}
_TICK_ROUNDED = ("expire", "expire_sync", "expire_async", "timeout_sync", "timeslice_ms")
_CLOCK_MONOTONIC_COARSE = 6
#: Of a queue with fewer the kernel makes as many (BLKDEV_MIN_RQ, block/blk-sysfs.c).
LEAST_TAGS = 4
_KEYED = re.compile(r"(.+)@([^@]+)")
# What a line that is not there means; writing it removes the line.
_WITHOUT_LINE = {
    "io.max": "rbps=max wbps=max riops=max wiops=max",
    "io.latency": "target=0",
    "io.cost.qos": "enable=0 ctrl=auto",
    "io.cost.model": "ctrl=auto",
}
# Two files of one setting: the kernel sets the other to 0, and takes no 0 for the bytes.
_VM = Path("/proc/sys/vm")
GOVERNOR, PREFERENCE = "scaling_governor", "energy_performance_preference"
_PAIRS = (("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio"))


def read_value(path: str | Path) -> str:
    """The value of a knob: the bracketed word of a choice, else the text. OSError as is."""
    file, key = keyed(path)
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    if key:
        return _line_of(file.name, key, text)
    chosen = (_IN_PARENTHESES if file.name == "preempt" else _BRACKETED).search(text)
    return chosen.group(1) if chosen else text


def write_value(path: str | Path, value: str) -> None:
    """Hand `value` to the kernel in one write. OSError as is; nothing is read back here."""
    file, key = keyed(path)
    with opened(file, os.O_WRONLY | os.O_TRUNC) as descriptor:
        os.write(descriptor, f"{key} {value}".strip().encode())


def keyed(path: str | Path) -> tuple[Path, str]:
    """(file, key of its line); the key is empty for a file with one value."""
    match = _KEYED.fullmatch(Path(path).name)
    return (Path(path).with_name(match[1]), match[2]) if match else (Path(path), "")


def _line_of(name: str, key: str, text: str) -> str:
    """The line of a device, as it can be written again; figures that the kernel chose are not."""
    lines = (line.partition(" ") for line in text.splitlines())
    value = next((rest for first, _, rest in lines if first == key), "").strip()
    if not value:
        return _WITHOUT_LINE.get(name, "0")
    words = value.split()
    if name.startswith("io.cost.") and "ctrl=auto" in words:
        return " ".join(word for word in words if word.startswith(("enable=", "ctrl=")))
    return value


def companion(path: str | Path) -> Path | None:
    """The other file that the kernel sets with this one: of one setting, or after a governor."""
    others = {**dict(_PAIRS), **{ratio: size for size, ratio in _PAIRS}}
    path = Path(path)
    if path.name == GOVERNOR and (preference := path.with_name(PREFERENCE)).exists():
        return preference
    return _VM / others[path.name] if path.parent == _VM and path.name in others else None


Key = TypeVar("Key", str, Path)


def one_of_each(values: Mapping[Key, str]) -> dict[Key, str]:
    """Of two files of one setting the one that is in force: the kernel takes no 0 for the other."""
    texts = {str(path): text for path, text in values.items()}
    return {
        path: text
        for path, text in values.items()
        if not (text == "0" and texts.get(str(companion(path)), "0") != "0")
    }


def is_late(path: str | Path) -> bool:
    """Whether a knob is written after all others: a governor sets the preference."""
    return Path(path).name == PREFERENCE


def text(path: str | Path) -> str | None:
    """The stripped content of a small file; None when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def as_text(value: str | int | float) -> str:
    """The text that is written for a setting: 32.0 and 32 are both `32`."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def same(left: str, right: str) -> bool:
    """Whether two readings mean the same: `032` and `32`, `Y` and `1`, spaces and tabs."""
    if left.split() == right.split() or _SWITCH.get(left, left) == _SWITCH.get(right, right):
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False


def accepts(got: str, requested: str) -> bool:
    """Whether a knob that reads `got` has what was requested; of `KEY=VALUE …` only these keys."""
    words = dict(word.partition("=")[::2] for word in got.split())
    wanted = [word.partition("=") for word in requested.split()]
    if all(equals for _, equals, _ in wanted):
        return all(same(words.get(key, ""), value) for key, _, value in wanted)
    return same(got, requested)


def rounding_of(path: str | Path) -> int:
    """By how much the kernel may round a knob, in its own unit; 1 means not at all.

    Times that become jiffies are rounded to a tick (milliseconds), read-ahead and request sizes
    in KiB to a page.
    """
    name = Path(path).name
    if name.endswith(_TICK_ROUNDED):
        return max(1, round(1000 / ticks_per_second()))
    if name.endswith("_kb"):
        return max(1, os.sysconf("SC_PAGE_SIZE") // 1024)
    return 1


def is_rounding(path: str | Path, requested: str, got: str) -> bool:
    """Whether `got` is `asked` as the kernel rounds that knob, and not another value."""
    try:
        difference = abs(int(got) - int(requested))
        return int(requested) > 0 and int(got) > 0 and difference < rounding_of(path)
    except ValueError:
        return False


def ticks_per_second() -> int:
    """HZ of the running kernel: the coarse clock's resolution is one tick."""
    return round(1 / time.clock_getres(_CLOCK_MONOTONIC_COARSE))


def kernel_name(path: str | Path) -> str:
    """The name in sysfs of a device file: `etherd!e0.0` for /dev/etherd/e0.0.

    The last part of the path where it is no device file.
    """
    with contextlib.suppress(OSError):
        status = Path(path).stat()
        link = NUMBERS / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if stat.S_ISBLK(status.st_mode) and link.exists():
            return link.resolve().name
    return Path(path).resolve().name


def device_file(name: str) -> Path:
    """The device file of a name in sysfs, where udev or devtmpfs put it."""
    return Path("/dev") / name.replace("!", "/")


def device_name(device: str) -> str:
    """The whole disk behind `sda`, `/dev/sda`, `/dev/disk/by-id/…` or a partition of it.

    HostError when there is no such block device. `/dev/sda` need not be there, other paths must.
    """
    path = Path(device) if "/" in device else device_file(device)
    in_kernel = device.removeprefix("/dev/").replace("/", "!")
    name = kernel_name(path) if path.exists() else in_kernel
    entry = CLASS_BLOCK / name
    if "/" in device and path.exists() and not path.is_block_device():
        raise HostError(f"{device} is not a block device", "schedlab io get shows the devices")
    if not entry.exists():
        raise HostError(f"{device}: there is no such block device", "schedlab io get shows them")
    if (entry / "partition").exists():
        return entry.resolve().parent.name
    return name


def queue_of(device: str) -> Path:
    """The `queue/` directory of a device; HostError when it has none."""
    queue = SYS_BLOCK / device_name(device) / "queue"
    if not queue.is_dir():
        raise HostError(f"{device} has no request queue ({queue} does not exist)")
    return queue


def queue_above(path: str | Path) -> Path | None:
    """The `queue/` directory of a knob, or None for a knob of no device."""
    _, key = keyed(path)
    if ":" in key:
        return SYS_BLOCK / (NUMBERS / key).resolve().name / "queue"
    for parent in Path(path).parents:
        if parent.name == "queue" and parent.parent.parent == SYS_BLOCK:
            return parent
    return None


def offered(device: str) -> tuple[str, ...]:
    """The schedulers that a device offers now, in the kernel's order."""
    path = scheduler_file(device)
    return tuple(path.read_text(encoding="utf-8").replace("[", "").replace("]", "").split())


def scheduler_file(device: str) -> Path:
    """`queue/scheduler` of a device; HostError when its driver takes no scheduler."""
    path = queue_of(device) / "scheduler"
    if path.exists():
        return path
    below = sorted(p.name for p in (path.parent.parent / "slaves").glob("*"))
    hint = f"set it on the device below: {', '.join(below)}" if below else ""
    raise HostError(f"{device} has no scheduler ({path} does not exist)", hint)


def snapshot(queue: Path) -> dict[str, str]:
    """Every readable file under `queue/`: path below it -> value. Empty if the device is gone."""
    values = {}
    for directory in (queue, queue / "iosched"):
        try:
            paths = sorted(directory.iterdir())
        except OSError:
            continue
        for path in paths:
            try:
                if not path.is_dir():
                    values[str(path.relative_to(queue))] = read_value(path)
            except OSError:
                continue  # write-only, or not meaningful on this device (EINVAL)
    return values


def tag_steps(queue: Path, most: int = sys.maxsize) -> tuple[str, str] | None:
    """Two values of `nr_requests` that give a driver all its tags again, under scheduler none.

    `most` is how many of them a model has.

    Lowering `nr_requests` under none narrows the tags of the driver themselves. They stay narrow
    when another scheduler is set, although `nr_requests` then reads its default; and a value that
    it reads already is ignored when written. None where the depth cannot be read.
    """
    try:
        of_driver = int(read_value(queue.parent / "mq" / "0" / "nr_tags"))
    except (OSError, ValueError):
        return None
    tags = min(of_driver, most)
    other = tags - 1 if tags > LEAST_TAGS else tags + 1
    return (str(other), str(tags)) if other <= of_driver else None


def writable(path: str | Path) -> bool:
    """Whether the kernel accepts a new value there (by its mode, for any user)."""
    try:
        return bool(keyed(path)[0].stat().st_mode & 0o200)
    except OSError:
        return False


@functools.cache
def iosched() -> Mapping[str, Mapping[str, str]]:
    """The tunables of the schedulers that kernels of today have, with their units: those of
    crates/model/src/tunables.toml that are the kernel's.
    """
    from schedlab._core import host_tunables

    rows = json.loads(host_tunables())
    return {
        scheduler: {r["name"]: r["unit"] for r in rows.get(scheduler, ()) if r["name"][:2] != "x_"}
        for scheduler in ("none", "mq-deadline", "kyber", "bfq")
    }


def tunables(queue: Path) -> dict[str, str]:
    """The tunables of the scheduler that is set now: name -> value."""
    values = snapshot(queue)
    return {k.removeprefix("iosched/"): v for k, v in values.items() if k.startswith("iosched/")}


def canonical(device: str, scheduler: str) -> str:
    """The name to write: a former name becomes today's unless the device still offers it.

    HostError for a text that cannot be a scheduler's name.
    """
    if not _SCHEDULER_NAME.fullmatch(scheduler):
        raise unknown_scheduler(device, scheduler)
    if scheduler in offered(device):
        return scheduler
    return RENAMED.get(scheduler, scheduler)


def unknown_scheduler(device: str, scheduler: str) -> HostError:
    """The error for a name that the kernel does not take."""
    names = offered(device)
    hint = f"it offers {', '.join(names)}; others may need their module loaded (modprobe)"
    return HostError(
        f"{device} does not offer scheduler {scheduler!r}", of_successor(scheduler, names) or hint
    )


def of_successor(scheduler: str, names: Iterable[str]) -> str:
    """The hint for a scheduler that is gone, where `names` are offered; empty for any other."""
    if scheduler not in REPLACED:
        return ""
    successor = REPLACED[scheduler]
    there = "" if successor in names else f", after modprobe {successor}"
    return (
        f"{scheduler} left the kernel with 5.0; {successor}, its successor, is another algorithm: "
        f"name {successor}{there}. To simulate {scheduler} itself: "
        f"schedlab sim compare --schedulers {scheduler},{successor}"
    )


def tunable_path(queue: Path, name: str) -> Path:
    """Where a tunable lives: `queue/iosched/` first, then `queue/`; HostError with the known."""
    for path in (queue / "iosched" / name, queue / name):
        if "/" not in name and name != "scheduler" and path.is_file() and writable(path):
            return path
    known = tunables(queue) or {k: v for k, v in snapshot(queue).items() if writable(queue / k)}
    known.pop("scheduler", None)
    values = ", ".join(f"{key}={value}" for key, value in sorted(known.items()))
    scheduler = read_value(queue / "scheduler")
    raise HostError(
        f"{queue.parent.name}: scheduler {scheduler} has no tunable {name!r}", f"it has {values}"
    )
