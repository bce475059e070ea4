"""The settings that `schedlab apply` made, and their originals: one record per device.

Records outlive a reboot: `applied/NAME.json` below the lasting directory (journal.py). A record has
the whole `queue/` as it was before the first `apply` and as the last one left it; the tunables in
each belong to its scheduler. It also names the files that keep the setting after a reboot. Storing
a record is the one step that makes its settings stay: a kill before it restores what was before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SpecError, as_root, cause_of
from schedlab.host.devices import text_of
from schedlab.host.safety import journal
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, udev
from schedlab.nouns import from_json, to_json
from schedlab.nouns.names import safe_name
from schedlab.store.files import write_atomic

OF_ROOT_HINT = "make it possible to write there: it may be full, or read-only"
ROOT_HINT = as_root("schedlab status, and --dry-run with apply")
HEADER = "# Written by schedlab apply; `schedlab undo` removes it.\n"
# Attributes of a disk in sysfs that stay the same over reboots.
IDENTITIES = ("device/wwid", "wwid", "device/serial", "serial")
# What the kernel sets again when the scheduler changes, besides the scheduler's tunables.
SWITCHED = ("scheduler", "nr_requests", "wbt_lat_usec", "async_depth")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
RULES = Path("etc/udev/rules.d/90-schedlab.rules")
# Kinds of devices for which no rule is written unless they are named.
UNLASTING = ("loop", "zram", "ram", "dm-", "md", "nbd")


@dataclass(frozen=True)
class Applied:
    """One device (or `sysctl`) whose setting stays: identity, values, and who decided.

    `originals` are the knobs before the first apply, `values` as the last one left them.
    `instance` is the device since it was connected: a setting ends with it, as with the boot.
    `files` maps the path of a file that we wrote to its content before (`None`: it did not exist),
    `made` are the directories that were made for them. `written` is of earlier versions, whose
    records are read, too: the profile of tuned that was active before theirs.
    """

    device: str
    identity: str
    setting: str
    result: str
    headline: str
    applied_at: str
    boot_id: str
    command: str
    originals: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    instance: str = ""
    schema: int = 2


def record_now(device: str, identity: str, setting: str, **more: Any) -> Applied:
    """The record of what this command sets in this boot."""
    return Applied(
        device, identity, setting,
        applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
        boot_id=boot_id(),
        command=shlex.join(["schedlab", *sys.argv[1:]]),
        **more,
    )  # fmt: skip


def directory() -> Path:
    """Where the records are."""
    return journal.lasting_directory() / "applied"


def is_ours(text: str) -> bool:
    """Whether a file with this text was written by us."""
    return text.startswith(HEADER.strip())


def refuse_foreign(path: Path) -> None:
    """HostError where there is a file of that name that is not ours."""
    text = text_of(path)
    if text and not is_ours(text):
        hint = f"move it away, then try again: mv {path} {path}.old"
        raise HostError(f"{path}: schedlab did not write it", hint)


def boot_id() -> str:
    """This boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()


def instance(device: str) -> str:
    """The device since it was connected: sysfs numbers each `queue/` that it ever makes.

    `diskseq` does not do: it counts media, and the settings of a reader outlive its medium.
    """
    try:
        return str((knobs.SYS_BLOCK / device / "queue").stat().st_ino)
    except OSError:
        return ""


def is_in_effect(record: Applied) -> bool:
    """Whether the boot and the device that the record is about are those of now."""
    same_device = record.instance in ("", instance(record.device))
    return record.boot_id == boot_id() and same_device


def has_medium(device: str) -> bool:
    """False for a loop device to which no file is attached; others may always have one."""
    home = knobs.SYS_BLOCK / device
    return not device.startswith("loop") or (home / "loop").is_dir()


def goes_with_scheduler(name: str) -> bool:
    """Whether the kernel sets a file of `queue/` when the scheduler changes."""
    return name.startswith("iosched/") or name in SWITCHED


def identity(device: str) -> str:
    """The identity over reboots, `ATTRIBUTE:VALUE`: WWID, else serial, else `name:NAME`."""
    block = knobs.CLASS_BLOCK / device
    for name in IDENTITIES:
        if text := text_of(block / name):
            return f"{name}:{text}"
    return f"name:{device}"


def present_name(record: Applied) -> str:
    """The present name of a record's device; names may change at a boot."""
    if record.identity.startswith("name:") or identity(record.device) == record.identity:
        return record.device
    names = sorted(path.name for path in knobs.SYS_BLOCK.iterdir())
    return next((n for n in names if identity(n) == record.identity), record.device)


def knob_name(record: Applied, tunable: str) -> str:
    """Where a tunable is below `queue/`, also while the device or its scheduler is away."""
    queue, inside = knobs.SYS_BLOCK / record.device / "queue", f"iosched/{tunable}"
    for name in (inside, tunable):
        if str(queue / name) in record.values or (queue / name).is_file():
            return name
    return inside


def settings_of(record: Applied) -> dict[str, str]:
    """The settings of a record by their names below `queue/`: the scheduler first, its tunables in
    their order.
    """
    scheduler, _, tunables = record.setting.partition(":")
    pairs = (text.partition("=") for text in filter(None, tunables.split(",")))
    return {"scheduler": scheduler, **{knob_name(record, key): value for key, _, value in pairs}}


def others_in(path: Path, records: Sequence[Applied]) -> list[Applied]:
    """The records of other devices that one of our files keeps, too."""
    mine = {record.device for record in records}
    return [each for each in load_all() if str(path) in each.files and each.device not in mine]


def with_file(record: Applied, path: Path) -> Applied:
    """The record that names a file before it is written, and the directories it needs."""
    missing = [str(d) for d in path.parents if not d.exists()]
    shared = [d for r in load_all() if str(path) in r.files for d in r.made]
    created = tuple(dict.fromkeys((*record.made, *shared, *missing)))
    return replace(record, files={**record.files, str(path): None}, made=created)


def write_file(path: Path, text: str) -> None:
    """Write one of our files whole; what a kill left of an earlier try is removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_halves(path)
        write_atomic(path, text)
    except OSError as error:
        raise _refused(str(path), error) from error


def _refused(what: str, error: OSError) -> HostError:
    return HostError(f"{what}: {error.strerror}", ROOT_HINT if os.geteuid() else OF_ROOT_HINT)


def remove_file(path: Path) -> None:
    """Remove one of our files, if it is there. HostError where this user may not."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(f"cannot remove {path}", error) from error


def remove_traces(record: Applied) -> None:
    """Remove what a kill left beside our files, and the directories made for them, where empty."""
    for name in record.files:
        _remove_halves(Path(name))
    for name in sorted(record.made, key=len, reverse=True):
        with contextlib.suppress(OSError):
            Path(name).rmdir()


def remove_half_records() -> None:
    """Remove what a kill left of records that were never complete."""
    _remove_halves(directory() / "*.json")


def _remove_halves(path: Path) -> None:
    """Temporary files of `write_atomic` that a kill left; the name may be a pattern."""
    for half in path.parent.glob(f".{path.name}.*"):
        if re.fullmatch(r"[0-9a-f]{12}", half.name.rpartition(".")[2]):
            remove_file(half)


def store(record: Applied) -> None:
    """Write a record durably, before its settings become lasting."""
    try:
        directory().mkdir(parents=True, exist_ok=True)
        _remove_halves(_path(record.device))
        write_atomic(_path(record.device), _text(record))
    except OSError as error:
        raise _refused(str(directory()), error) from error


def _text(record: Applied) -> str:
    return json.dumps(to_json(record), indent=1) + "\n"


@contextlib.contextmanager
def stored(records: Sequence[Applied], control: Control) -> Iterator[None]:
    """Store records, and with each its settings stay; then let the block write their files.

    If that fails, all is as before. Records first: a kill leaves no file that `undo` does not know.
    Back in the other order.
    """
    earlier = {record.device: find(record.device) for record in records}
    contents = {Path(name): _content(Path(name)) for record in records for name in record.files}
    try:
        for record in records:
            places = {str(knobs.queue_above(path) or path) for path in record.values}
            control.keep_with(_path(record.device), _text(record), sorted(places))
            store(record)
        yield
    except BaseException:
        for path, content in contents.items():
            if _content(path) == content:
                continue
            if content is None:
                path.unlink()
            else:
                write_atomic(path, content)
        for record in records:
            before = earlier[record.device]
            if before is None:
                remove_traces(record)
                forget(record.device)
            else:
                store(before)
        raise


def _content(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def load_all() -> list[Applied]:
    """Every record; a damaged one is a SpecError that names its file."""
    records = []
    for path in sorted(directory().glob("*.json")):
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SpecError(
                f"{path}: {cause_of(error)}", f"read it, then remove it: rm {path}"
            ) from error
        records.append(from_json(Applied, data, str(path)))
    return records


def find(device: str) -> Applied | None:
    """The record of a device."""
    return next((record for record in load_all() if record.device == device), None)


def forget(device: str) -> None:
    """Remove the record of a device."""
    remove_file(_path(device))
    _remove_halves(_path(device))


def _path(device: str) -> Path:
    return directory() / f"{safe_name(device)}.json"


def rule_text(record: Applied) -> str:
    """The udev rule of one record; tunables after the scheduler, they exist only then.

    It is for this whole disk alone: no partition, no device mapper or loop device above it with
    the same identity, no single path of a multipath disk.
    """
    attribute, _, value = record.identity.partition(":")
    parts = ['ACTION=="add|change"', 'SUBSYSTEM=="block"', 'ENV{DEVTYPE}=="disk"']
    if attribute == "name":
        parts.append(f'KERNEL=="{record.device}"')
    else:
        others = "|".join(f"{kind}*" for kind in UNLASTING)
        parts += [f'KERNEL!="{others}"', 'ENV{DM_MULTIPATH_DEVICE_PATH}!="1"']
        parts.append(f'ATTR{{{attribute}}}=="{udev.pattern(value)}"')
    values = settings_of(record).items()
    return ", ".join([*parts, *(f'ATTR{{queue/{name}}}="{text}"' for name, text in values)])
