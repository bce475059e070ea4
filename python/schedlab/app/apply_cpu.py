"""Apply, keep and undo the CPU's setting: the time slice of SCHED_RR, a sysctl.

The record is one of `applied.py` whose device is called `cpu`. What keeps it after a reboot is a
file of sysctl.d(5).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from schedlab.app import applied
from schedlab.app.applied import HEADER, Applied
from schedlab.errors import HostError, SpecError
from schedlab.host import knobs
from schedlab.host.control import Control
from schedlab.spec import Candidate
from schedlab.store.files import write_atomic

DEVICE = "cpu"
NAME = "sched_rr_timeslice_ms"
KNOB = Path("/proc/sys/kernel") / NAME
FILE = Path("etc/sysctl.d/90-schedlab.conf")
DIRECTORIES = ("usr/lib/sysctl.d", "usr/local/lib/sysctl.d", "run/sysctl.d", "etc/sysctl.d")
Report = Callable[[str], None]


def slice_of(candidate: Candidate) -> int | None:
    """The slice in ms that a candidate sets: `sched_rr_timeslice_ms=20`, or rr's of a result."""
    settings = candidate.settings
    if NAME in settings:
        value = settings[NAME]
    elif settings.get("policy") == "rr" and "slice_ms" in settings:
        value = settings["slice_ms"]
    else:
        return None
    if not re.fullmatch(r"[1-9]\d*(\.0)?", str(value)):
        raise SpecError(f"{NAME}={value}: not whole milliseconds from 1", f"write {NAME}=20")
    return int(float(value))


def apply(
    slice_ms: int, result: tuple[str, str], persist: bool, root: Path, report: Report
) -> Applied:
    """Set the slice, with `persist` also by sysctl.d; `result` is (folder, headline) or empty."""
    path = root / FILE
    if persist:
        _refuse_foreign(path)
    with Control(report=report) as control:
        before = knobs.read_value(KNOB)
        now = control.write_knob(KNOB, slice_ms)
        earlier = applied.find(DEVICE)
        if earlier is not None and earlier.boot_id == applied.boot_id():
            before = earlier.originals.get(str(KNOB), before)
        files = dict(earlier.files) if earlier else {}
        record = Applied(
            device=DEVICE,
            identity="sysctl",
            setting=f"{NAME}={now}",
            result=result[0],
            headline=result[1],
            applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
            boot_id=applied.boot_id(),
            command=shlex.join(["schedlab", *sys.argv[1:]]),
            originals={str(KNOB): before},
            values={str(KNOB): now},
            files={**files, **({str(path): None} if persist else {})},
        )
        # The record comes first: `undo` of a file that is not there yet harms nothing.
        applied.store(record)
        if persist:
            _write(path, now)
        control.keep()
    for other, value in settings_in(root):
        if other != path and persist:
            report(f"also sets it: {other} ({value}); the last file by name wins")
    return record


def _write(path: Path, value: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, f"{HEADER}kernel.{NAME} = {value}\n")
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", "run it as root (sudo)") from error


def _refuse_foreign(path: Path) -> None:
    found = _text(path)
    if found and not found.startswith(HEADER.strip()):
        raise HostError(
            f"{path}: is not ours", f"move it away, then try again: mv {path} {path}.old"
        )


def undo(record: Applied, report: Report) -> None:
    """The slice as it was, unless somebody else set it since; after a reboot only the file goes."""
    for name in record.files:
        path = Path(name)
        if _text(path).startswith(HEADER):
            path.unlink()
        elif path.exists():
            report(f"note: {path} was changed by somebody else and is left")
    if record.boot_id != applied.boot_id():
        return
    knob, wanted = next(iter(record.originals.items()))
    now = knobs.read_value(knob)
    if not knobs.same(now, record.values[knob]):
        report(f"{knob} is {now}, which somebody else set: it is left")
        return
    with Control(report=report) as control:
        control.write_knob(knob, wanted)
        control.keep()


def settings_in(root: Path) -> list[tuple[Path, str]]:
    """(file, value) of every sysctl.d file that sets the slice, the one that wins last."""
    files: dict[str, Path] = {}
    for directory in DIRECTORIES:  # a later directory overrides files of the same name
        for path in (root / directory).glob("*.conf"):
            files[path.name] = path
    found = []
    for name in sorted(files):
        for line in _text(files[name]).splitlines():
            match = re.match(rf"\s*-?\s*kernel[./]{NAME}\s*=\s*(\S+)", line)
            if match:
                found.append((files[name], match[1]))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
