"""Apply, keep and undo settings of the whole machine: sysctls, CPUs, modules, huge pages.

The record is one of `applied.py` whose device is called `machine` (`cpu` in older ones). A file of
sysctl.d(5) keeps sysctls after a reboot, one of tmpfiles.d(5) the files in sysfs and debugfs: they
exist only once those are mounted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from schedlab.app.apply import applied
from schedlab.app.apply.applied import HEADER, Applied
from schedlab.errors import SpecError
from schedlab.host.devices import text_of
from schedlab.host.safety.control import Control
from schedlab.host.settings import knobs, setters, settings
from schedlab.host.settings.settings import CPU_PREFIX, SYSCTL, SettingScope
from schedlab.nouns import Candidate

DEVICE = "machine"
#: What the record is called by people, and was called when it had only the CPU scheduler.
NAMES = (DEVICE, "cpu")
SLICE = "sched_rr_timeslice_ms"
AUTOGROUP = "sched_autogroup_enabled"
SYSCTL_FILE = Path("etc/sysctl.d/90-schedlab.conf")
TMPFILES_FILE = Path("etc/tmpfiles.d/90-schedlab.conf")
# Of files with one name that in the first directory counts.
DIRECTORIES = ("etc/{}", "run/{}", "usr/local/lib/{}", "usr/lib/{}")
Report = Callable[[str], None]


def of_result(candidate: Candidate) -> Candidate:
    """A candidate of a CPU comparison, with its settings of the whole machine by their names.

    Tasks of rr need their policy for its slice to act. SpecError for what cannot be applied.
    """
    policy = candidate.settings.get("policy", "other")
    values, left = {}, []
    for key, value in candidate.settings.items():
        if key == "slice_ms" and policy == "rr":
            values[SLICE] = value
        elif key == "autogroup" and value == "off":
            values[AUTOGROUP] = 0
        elif "." in key or settings.is_machine(key):
            values[key.removeprefix(CPU_PREFIX)] = value
        elif key not in ("policy", "priority", "apply_to"):
            left.append(f"{key}={value}")
    is_implied = bool(values or left) if policy == "other" else policy == "rr" and SLICE in values
    if not is_implied:
        left.insert(0, f"policy={policy}")
    if left:
        hint = "a policy belongs to tasks: chrt, nice or systemd set it"
        if values:
            rest = " --set ".join(f"{n}={knobs.as_text(v)}" for n, v in values.items())
            hint += f"; to apply the rest: schedlab apply {rest}"
        raise SpecError(f"{candidate.label}: apply cannot set {', '.join(left)}", hint)
    return Candidate(candidate.label, values)


def values_of(candidate: Candidate) -> dict[str, str]:
    """The settings of the machine in a candidate, as text; {} where it has only those of disks."""
    values = {}
    for name, value in candidate.settings.items():
        if not settings.is_machine(name):
            continue
        least = 1 if name == SLICE else -1
        is_number = re.fullmatch(r"-?\d+(\.0)?", str(value))
        if name == SLICE and not (is_number and float(value) >= least):
            raise SpecError(f"{name}={value}: not whole milliseconds from 1", f"write {name}=20")
        values[name] = knobs.as_text(float(value)) if is_number else str(value)
    return values


def knobs_of(values: Mapping[str, str]) -> dict[Path, str]:
    """The files of these settings and their texts; HostError for one that this kernel has not."""
    for name, value in values.items():
        settings.check(name, value, SettingScope(), values.get("governor", ""))
    found = {
        path: text
        for name, value in values.items()
        for path, text in settings.resolve(name, value, SettingScope())
    }
    return {path: found[path] for path in sorted(found, key=knobs.is_late)}


def planned(values: Mapping[str, str], persist: bool, root: Path) -> list[str]:
    """The planned writes as lines."""
    wanted = {str(path): text for path, text in knobs_of(values).items()}
    lines = [f"{path} = {text}" for path, text in wanted.items()]
    earlier = applied.find(DEVICE)
    if persist or (earlier and earlier.files):
        texts = _file_texts({**_still_set(earlier, applied.boot_id()), **wanted}, root)
        lines += [f"{path}: {line}" for path, text in texts.items() for line in text.splitlines()]
    return lines


def apply(
    values: Mapping[str, str], result: tuple[str, str], persist: bool, root: Path, report: Report
) -> Applied:
    """Set the machine, with `persist` also for every boot; `result`: (folder, headline)."""
    wanted = knobs_of(values)
    paths = [*wanted, *filter(None, map(knobs.companion, wanted))]
    with Control(report=report) as control:
        before = {str(path): settings.read(path) for path in paths}
        for path, text in wanted.items():
            control.write_knob(path, text)
        record = applied.record_now(
            DEVICE,
            "sysctl",
            "",
            result=result[0],
            headline=result[1],
            originals=before,
            values={str(path): settings.read(path) for path in paths},
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
    for path in wanted if persist else ():
        for file, value in settings_in(root, path):
            if file not in texts:
                report(f"also sets it: {file} ({value}); the last file by name wins")
    if not persist and (outside := [path for path in wanted if SYSCTL not in path.parents]):
        report(f"sysctl.d cannot keep {outside[0]}; --persist uses tmpfiles.d")
    return record


def _onto(record: Applied, earlier: Applied | None) -> Applied:
    """A second apply keeps the originals from before the first, and the first's other settings."""
    if earlier is None:
        return replace(record, setting=_setting(record.values))
    values = {**_still_set(earlier, record.boot_id), **record.values}
    originals = earlier.originals if earlier.boot_id == record.boot_id else {}
    return replace(
        record,
        originals={**record.originals, **originals},
        values=values,
        setting=_setting(values),
        files=earlier.files,
        made=earlier.made,
    )


def _setting(values: Mapping[str, str]) -> str:
    """Names and values, each name once."""
    named = {settings.name_of(Path(path)): text for path, text in knobs.one_of_each(values).items()}
    return ",".join(f"{name}={text}" for name, text in named.items())


def _still_set(earlier: Applied | None, boot_id: str) -> Mapping[str, str]:
    """The values of an earlier apply: those of another boot only where files set them again."""
    if earlier is None or not (earlier.files or earlier.boot_id == boot_id):
        return {}
    return earlier.values


def _file_texts(values: Mapping[str, str], root: Path) -> dict[Path, str]:
    """The files that keep these settings, and what is in them below the header."""
    texts: dict[Path, str] = {}
    for path, value in knobs.one_of_each(values).items():
        if SYSCTL in Path(path).parents:
            name = ".".join(Path(path).relative_to(SYSCTL).parts)
            file, line = root / SYSCTL_FILE, f"{name} = {value}\n"
        else:
            file, line = root / TMPFILES_FILE, f"w {path} - - - - {value}\n"
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
        originals = knobs.one_of_each(record.originals)
        for knob in sorted(originals, key=knobs.is_late):
            wanted = originals[knob]
            now = text_of(Path(knob)) and knobs.read_value(knob)
            if knobs.same(now, wanted):
                continue
            if not now:
                report(f"note: {knob} is not there now: its module or CPU is gone")
            elif not _holds(record, knob):
                there = _in_force(knob)
                value = knobs.read_value(there)
                report(f"{there} is {value}, which another program set: it is kept")
            else:
                control.write_knob(knob, wanted)
        control.keep()


def _holds(record: Applied, knob: str) -> bool:
    """Whether a file, and the other one of its setting, still read as we left them."""
    other = knobs.companion(knob)
    is_one = other and knobs.companion(other)  # not so of a governor and what it sets
    both = [each for each in (knob, str(other) if is_one else "") if each in record.values]
    return all(knobs.same(knobs.read_value(each), record.values[each]) for each in both)


def _in_force(knob: str) -> Path:
    """Of two files of one setting the one that holds it: the kernel sets the other to 0."""
    other = knobs.companion(knob)
    is_other = other and knobs.companion(other) and knobs.read_value(knob) == "0"
    return other if other and is_other else Path(knob)


def settings_in(root: Path, knob: Path) -> list[tuple[Path, str]]:
    """(file, value) of every sysctl.d or tmpfiles.d file that sets a knob, the last one wins.

    Of tmpfiles.d, too, the order is that of the names; see tmpfiles.d(5).
    """
    if SYSCTL in knob.parents:
        name = r"[./]".join(map(re.escape, knob.relative_to(SYSCTL).parts))
        kind, pattern = "sysctl.d", rf"\s*-?\s*{name}\s*=\s*(\S+)"
    else:
        kind, pattern = "tmpfiles.d", rf"\s*w\S*\s+{re.escape(str(knob))}(?:\s+\S+){{4}}\s+(\S+)"
    directories = [directory.format(kind) for directory in DIRECTORIES]
    return [
        (file, match[1])
        for file in setters.overriding(root, directories, "*.conf")
        for line in text_of(file).splitlines()
        if (match := re.match(pattern, line))
    ]
