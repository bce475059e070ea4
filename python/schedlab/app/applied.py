"""What `schedlab apply` left behind on purpose, and what it was before: one record per device.

Records outlive a reboot: `applied/NAME.json` below the lasting directory (journal.py). They hold
the whole `queue/` as it was, every value that was set, and the files that keep it after a reboot
with their former content, so that `undo` restores rule directories byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab.errors import HostError, SpecError
from schedlab.host import journal, knobs
from schedlab.spec import from_json, to_json
from schedlab.spec.names import safe_name
from schedlab.store.files import write_atomic

HEADER = "# Written by schedlab apply; `schedlab undo` removes it.\n"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Applied:
    """One device (or `sysctl`) whose setting stays: identity, values, and who decided.

    `originals` are the knobs that differ from before, as they were; `values` as we left them.
    `files` maps the path of a file that we wrote to its content before (`None`: it did not exist).
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
    schema: int = 1


def directory() -> Path:
    """Where the records are."""
    return journal.lasting_directory() / "applied"


def boot_id() -> str:
    """This boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()


def identity(device: str) -> str:
    """What stays the same over reboots: WWID, else serial, else the kernel's name."""
    block = knobs.CLASS_BLOCK / device
    for name in ("device/wwid", "wwid", "device/serial", "serial"):
        try:
            text = (block / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if text:
            return f"{name.rpartition('/')[2]}:{text}"
    return f"name:{device}"


def store(record: Applied) -> None:
    """Write a record durably, before what it says becomes lasting."""
    try:
        directory().mkdir(parents=True, exist_ok=True)
        write_atomic(_path(record.device), json.dumps(to_json(record), indent=1) + "\n")
    except OSError as error:
        raise HostError(f"{directory()}: {error.strerror}", "run it as root (sudo)") from error


def load_all() -> list[Applied]:
    """Every record; a damaged one is a SpecError that names its file."""
    found = []
    for path in sorted(directory().glob("*.json")):
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SpecError(f"{path}: {error}", f"look at it, then remove it: rm {path}") from error
        found.append(from_json(Applied, data, str(path)))
    return found


def find(device: str) -> Applied | None:
    """The record of a device."""
    return next((record for record in load_all() if record.device == device), None)


def forget(device: str) -> None:
    """Remove the record of a device."""
    _path(device).unlink(missing_ok=True)


def _path(device: str) -> Path:
    return directory() / f"{safe_name(device)}.json"
