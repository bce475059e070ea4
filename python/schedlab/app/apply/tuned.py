"""Keep what was applied by a profile of tuned instead of a udev rule, and remove it again.

The profile `schedlab` includes the active one, takes our devices out of its [disk] instance, which
would own them first, and sets them in separate instances; see tuned.conf(5).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from schedlab.app.apply import applied
from schedlab.app.apply.applied import HEADER, Applied
from schedlab.errors import HostError
from schedlab.host import knobs
from schedlab.host.devices import text_of
from schedlab.store.files import write_atomic

NAME = "schedlab"
# In `Applied.written`: the profile that was active before ours.
PARENT = "tuned_parent"
Report = Callable[[str], None]


def profile_path(root: Path) -> Path:
    """Our profile: below profiles/ where this version of tuned has that directory."""
    base = root / "etc/tuned"
    home = base / "profiles" if (base / "profiles").is_dir() else base
    return home / NAME / "tuned.conf"


def is_profile(path: Path) -> bool:
    """Whether a file of a record is our profile."""
    return path.name == "tuned.conf" and path.parent.name == NAME


def named(records: Sequence[Applied], root: Path) -> list[Applied]:
    """The records, which now name the profile and the one that was active before.

    HostError where tuned has no active profile, or a profile of that name is not ours.
    """
    path = profile_path(root)
    applied.refuse_foreign(path, "keep it by a udev rule: --persist")
    parent = text_of(root / "etc/tuned/active_profile")
    if parent == NAME:
        ours = (r.written.get(PARENT, "") for r in applied.load_all())
        parent = next(filter(None, ours), "")
    if not parent:
        raise HostError("tuned has no active profile", "keep it by a udev rule: --persist")
    return [
        replace(applied.with_file(r, path), written={**r.written, PARENT: parent}) for r in records
    ]


def whole_text(records: Sequence[Applied], root: Path) -> str:
    """The profile of these records, and of those of other devices that are in it."""
    return profile_text([*applied.others_in(profile_path(root), records), *records])


def profile_text(records: Sequence[Applied]) -> str:
    """The profile of all these devices."""
    lines = ["[main]", "summary=I/O settings that schedlab decided"]
    lines += [f"include={records[0].written[PARENT]}", ""]
    lines += ["[disk]", f"devices={','.join(f'!{r.device}' for r in records)}", ""]
    knob_lines = []
    for record in records:
        settings = applied.settings_of(record)
        lines += [f"[disk_{NAME}_{record.device}]", "type=disk", f"devices={record.device}"]
        lines += [f"elevator={settings.pop('scheduler')}", ""]
        queue = knobs.SYS_BLOCK / record.device / "queue"
        knob_lines += [f"{queue / name}={value}" for name, value in settings.items()]
    if knob_lines:
        lines += [f"[sysfs_{NAME}]", "type=sysfs", *knob_lines]
    return HEADER + "\n".join(lines).rstrip() + "\n"


def is_active(root: Path) -> bool:
    """Whether tuned has our profile active."""
    return text_of(root / "etc/tuned/active_profile") == NAME


def activate(profile: str, root: Path, report: Report) -> None:
    """Activate a profile where tuned runs here, else print how."""
    program = shutil.which("tuned-adm", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None or root != Path("/"):
        report(f"note: activate the profile: tuned-adm profile {profile}")
        return
    words = [program, "profile", *profile.split()]
    process = subprocess.run(words, check=False, capture_output=True, text=True)
    if process.returncode:
        report(f"note: tuned-adm profile {profile}: {process.stderr.strip()}")


def remove(record: Applied, path: Path, report: Report) -> None:
    """Our profile without this device; without any device it goes, and the one before is active."""
    text = text_of(path)
    if not applied.is_ours(text):
        state = "changed by another program; it is kept" if text else "removed by another program"
        report(f"note: {path} was {state}")
        return
    others = applied.others_in(path, [record])
    root = next(p for p in path.parents if p.name == "tuned").parents[1]
    active = is_active(root)
    if others:
        write_atomic(path, profile_text(others))
        if active:
            activate(NAME, root, report)
        return
    if active:
        activate(record.written.get(PARENT, ""), root, report)
    applied.remove_file(path)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
