"""Apply, keep and undo settings of the CPU scheduler: sysctls, and the knobs of EEVDF in debugfs.

The record is one of `applied.py` whose device is called `cpu`. A file of sysctl.d(5) keeps sysctls
after a reboot, one of tmpfiles.d(5) the files in debugfs: nothing else sets those at boot, and they
exist only once debugfs is mounted.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from schedlab.app import applied
from schedlab.app.applied import HEADER, Applied
from schedlab.errors import HostError, SpecError
from schedlab.host import knobs
from schedlab.host.control import Control
from schedlab.host.devices import text_of
from schedlab.spec import Candidate

DEVICE = "cpu"
SLICE = "sched_rr_timeslice_ms"
AUTOGROUP = "sched_autogroup_enabled"
KNOB = "knob."  # before the name of a setting, in a candidate of a result
SYSCTLS = Path("/proc/sys/kernel")
DEBUG = Path("/sys/kernel/debug/sched")
# Files of DEBUG that are settings of the scheduler; the others report or belong to a CPU.
DEBUG_NAMES = (
    "base_slice_ns", "min_granularity_ns", "latency_ns", "idle_min_granularity_ns",
    "wakeup_granularity_ns", "migration_cost_ns", "nr_migrate", "tunable_scaling",
)  # fmt: skip
SYSCTL_FILE = Path("etc/sysctl.d/90-schedlab.conf")
TMPFILES_FILE = Path("etc/tmpfiles.d/90-schedlab.conf")
DIRECTORIES = ("usr/lib/{}", "usr/local/lib/{}", "run/{}", "etc/{}")
Report = Callable[[str], None]


def is_name(name: str) -> bool:
    """Whether this is what a setting of the CPU scheduler is called."""
    return name.startswith("sched_") or name in DEBUG_NAMES


def of_result(candidate: Candidate) -> Candidate:
    """A candidate of a CPU comparison, with its settings of the whole system by their names.

    Tasks of rr need their policy for its slice to act. SpecError for what cannot be applied.
    """
    policy = candidate.settings.get("policy", "other")
    values, left = {}, []
    for key, value in candidate.settings.items():
        name = key.removeprefix(KNOB)
        if name != key and is_name(name):
            values[name] = value
        elif key == "slice_ms" and policy == "rr":
            values[SLICE] = value
        elif key == "autogroup" and value == "off":
            values[AUTOGROUP] = 0
        elif key not in ("policy", "priority", "apply_to"):
            left.append(f"{key}={value}")
    is_implied = bool(values or left) if policy == "other" else policy == "rr" and SLICE in values
    if not is_implied:
        left.insert(0, f"policy={policy}")
    if left:
        hint = "a policy belongs to tasks: chrt, nice or systemd set it"
        if all(text.startswith(KNOB) for text in left):
            hint = f"write it to its file below {SYSCTLS} or {DEBUG}"
        if values:
            rest = " --set ".join(f"{n}={knobs.as_text(v)}" for n, v in values.items())
            hint += f"; to apply the rest: schedlab apply {rest}"
        raise SpecError(f"{candidate.label}: apply cannot set {', '.join(left)}", hint)
    return Candidate(candidate.label, values)


def values_of(candidate: Candidate) -> dict[str, int]:
    """The settings of a candidate as numbers; {} for those of disks."""
    settings, values = candidate.settings, {}
    for name, value in settings.items():
        if not is_name(name):
            continue
        least = 1 if name == SLICE else -1
        if not re.fullmatch(r"-?\d+(\.0)?", str(value)) or float(value) < least:
            unit = "whole milliseconds from 1" if name == SLICE else "a whole number"
            raise SpecError(f"{name}={value}: not {unit}", f"write {name}=20")
        values[name] = int(float(value))
    if values and len(values) < len(settings):
        other = next(name for name in settings if name not in values)
        raise SpecError(f"{other} is no setting of the CPU scheduler", "apply it to a disk alone")
    return values


def path_of(name: str) -> Path:
    """The file of a setting; HostError where this kernel does not offer it."""
    if name in DEBUG_NAMES:
        if (DEBUG / name).exists():
            return DEBUG / name
        if not DEBUG.is_dir():
            raise HostError(
                f"{name} is in debugfs, which is not mounted",
                f"mount -t debugfs debugfs {DEBUG.parent}",
            )
        raise HostError(f"this kernel has no {name}", f"it has: {', '.join(debug_settings())}")
    if not (SYSCTLS / name).exists():
        known = ", ".join(sorted(path.name for path in SYSCTLS.glob("sched_*")))
        raise HostError(f"this kernel has no {name}", f"it has: {known}")
    return SYSCTLS / name


def debug_settings() -> list[str]:
    """Settings in debugfs that this kernel offers."""
    return [name for name in DEBUG_NAMES if (DEBUG / name).exists()]


def planned(values: Mapping[str, int], persist: bool, root: Path) -> list[str]:
    """What would be written, as lines."""
    lines = [f"{path_of(name)} = {value}" for name, value in values.items()]
    earlier = applied.find(DEVICE)
    if persist or (earlier and earlier.files):
        wanted = {str(path_of(name)): str(value) for name, value in values.items()}
        texts = _file_texts({**_still_set(earlier, applied.boot_id()), **wanted}, root)
        lines += [f"{path}: {line}" for path, text in texts.items() for line in text.splitlines()]
    return lines


def apply(
    values: Mapping[str, int], result: tuple[str, str], persist: bool, root: Path, report: Report
) -> Applied:
    """Set the CPU scheduler, with `persist` also for every boot; `result`: (folder, headline)."""
    paths = {name: path_of(name) for name in values}
    with Control(report=report) as control:
        before = {str(path): _read(path) for path in paths.values()}
        now = {str(path): control.write_knob(path, values[n]) for n, path in paths.items()}
        record = Applied(
            device=DEVICE,
            identity="sysctl",
            setting=",".join(f"{name}={now[str(path)]}" for name, path in paths.items()),
            result=result[0],
            headline=result[1],
            applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
            boot_id=applied.boot_id(),
            command=shlex.join(["schedlab", *sys.argv[1:]]),
            originals=before,
            values=now,
        )
        record = _onto(record, applied.find(DEVICE))
        # What an earlier apply keeps after a reboot has one setting: the files never lag behind.
        persist = persist or bool(record.files)
        texts = _file_texts(record.values, root) if persist else {}
        for path in texts:
            applied.refuse_foreign(path)
            record = applied.with_file(record, path)
        with applied.stored([record], control):
            for path, text in texts.items():
                applied.write_file(path, HEADER + text)
    for path in paths.values() if persist else ():
        for file, value in settings_in(root, path):
            if file not in texts:
                report(f"also sets it: {file} ({value}); the last file by name wins")
    if any(path.parent == DEBUG for path in paths.values()) and not persist:
        report("sysctl.d cannot keep a setting in debugfs; --persist uses tmpfiles.d")
    return record


def _read(path: Path) -> str:
    try:
        return knobs.read_value(path)
    except PermissionError as error:
        raise HostError(
            f"{path}: not permitted", "lockdown of the kernel closes debugfs; it cannot be set"
        ) from error
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", "run it as root (sudo)") from error


def _onto(record: Applied, earlier: Applied | None) -> Applied:
    """A second apply keeps the originals from before the first, and the first's other settings."""
    if earlier is None:
        return record
    values = {**_still_set(earlier, record.boot_id), **record.values}
    originals = earlier.originals if earlier.boot_id == record.boot_id else {}
    return replace(
        record,
        originals={**record.originals, **originals},
        values=values,
        setting=",".join(f"{Path(path).name}={value}" for path, value in values.items()),
        files=earlier.files,
        made=earlier.made,
    )


def _still_set(earlier: Applied | None, boot_id: str) -> Mapping[str, str]:
    """The values of an earlier apply: those of another boot only where files set them again."""
    if earlier is None or not (earlier.files or earlier.boot_id == boot_id):
        return {}
    return earlier.values


def _file_texts(values: Mapping[str, str], root: Path) -> dict[Path, str]:
    """The files that keep these settings, and what is in them below the header."""
    texts: dict[Path, str] = {}
    for path, value in values.items():
        if Path(path).parent == DEBUG:
            file, line = root / TMPFILES_FILE, f"w {path} - - - - {value}\n"
        else:
            file, line = root / SYSCTL_FILE, f"kernel.{Path(path).name} = {value}\n"
        texts[file] = texts.get(file, "") + line
    return texts


def undo(record: Applied, report: Report) -> None:
    """Restore each setting unless another program set it since; after a reboot, only files."""
    for name in record.files:
        path = Path(name)
        if applied.is_ours(text_of(path)):
            applied.remove_file(path)
        elif path.exists():
            report(f"note: {path} was changed by another program; it is kept")
    if record.boot_id != applied.boot_id():
        return
    with Control(report=report) as control:
        for knob, wanted in record.originals.items():
            now = knobs.read_value(knob)
            if knobs.same(now, wanted):
                continue
            if not knobs.same(now, record.values[knob]):
                report(f"{knob} is {now}, which another program set: it is kept")
                continue
            control.write_knob(knob, wanted)
        control.keep()


def settings_in(root: Path, knob: Path) -> list[tuple[Path, str]]:
    """(file, value) of every sysctl.d or tmpfiles.d file that sets a knob, the last one wins.

    Of tmpfiles.d, too, the order is that of the names; see tmpfiles.d(5).
    """
    if knob.parent == DEBUG:
        kind, pattern = "tmpfiles.d", rf"\s*w\S*\s+{re.escape(str(knob))}(?:\s+\S+){{4}}\s+(\S+)"
    else:
        kind, pattern = "sysctl.d", rf"\s*-?\s*kernel[./]{knob.name}\s*=\s*(\S+)"
    files: dict[str, Path] = {}
    for directory in DIRECTORIES:  # a later directory overrides files of the same name
        for path in (root / directory.format(kind)).glob("*.conf"):
            files[path.name] = path
    settings = []
    for name in sorted(files):
        for line in text_of(files[name]).splitlines():
            if match := re.match(pattern, line):
                settings.append((files[name], match[1]))
    return settings
