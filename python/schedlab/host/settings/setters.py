"""Who sets the scheduler of a disk: every place that a distribution has for it, in the order in
which they act at boot, so that the last one wins.

udev rules (udev.py) act when the disk appears and again at every `change` event; tmpfiles.d,
systemd units and rc.local once while the system starts; TLP and tuned when their service starts,
after all others. Sources: tmpfiles.d(5), systemd.unit(5), tlp-setting-disks, tuned.conf(5) and the
options `hardware.block.*` of NixOS. What the files leave open is shown as uncertain. The other
files of `queue/` (`read_ahead_kb`, `wbt_lat_usec`, …) are set in the same places.
"""

from __future__ import annotations

import configparser
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.host.settings import knobs, udev

# In the order in which they act at boot.
SOURCES = (
    "boot parameter",
    "ZFS",
    "NixOS",
    "udev",
    "tmpfiles",
    "systemd unit",
    "rc.local",
    "TLP",
    "tuned",
)
# Named, but they set nothing themselves: the kernel ignores `elevator=`, NixOS writes a rule, and
# ZFS has ignored its option since 0.8.3.
INDIRECT = ("boot parameter", "ZFS", "NixOS")
# What the kernel has, now or as a module; mq-deadline has its old name, too.
SCHEDULERS = ("none", "mq-deadline", "deadline", "kyber", "bfq")
UNITS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system",
         "usr/lib/systemd/system", "lib/systemd/system")  # fmt: skip
MODPROBE = ("etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d")
TMPFILES = ("etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d")
PROFILES = ("etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned")
INCLUDES_MAX = 8
#: Options of tuned's plugins that say for which machine or device a section is.
TUNED_MATCHES = ("devices_udev_regex", "uname_regex", "cpuinfo_regex")


@dataclass(frozen=True)
class Setter:
    """One place that sets the scheduler of the disk; `certain` unless the files leave it open.

    `name` is another file of `queue/` in `others`. `is_refused`: the kernel has no such scheduler,
    so that the one before stays.
    """

    source: str
    file: Path
    line: int
    value: str
    certain: bool = True
    name: str = "scheduler"
    is_refused: bool = False

    @property
    def place(self) -> str:
        """File and line; what acts besides udev is named."""
        where = f"{self.file}:{self.line}" if self.line else str(self.file)
        return where if self.source == "udev" else f"{self.source}, {where}"


Planned = Mapping[Path, str]
Line = tuple[Path, int, str]
# Options of a section of tuned, each with its file.
Unit = dict[str, tuple[str, Path]]
# What lines below it depend on: of a shell, and of a unit.
_CONDITION = re.compile(
    r"\b(?:if|case|for|while|until|exit|return|test)\b|&&|\|\||\[ |\(\)|^(?:Condition|Assert)\w+=|"
    r"^ExecCondition="
)
_TRUE = ("True", "true", "1")
# Variables and functions of tuned.
_VARIABLE = "${"


def setters_of(disk: udev.Disk, root: Path, planned: Planned | None = None) -> list[Setter]:
    """Everything below `root` that sets the scheduler of the disk, in order of acting.

    `planned` are files that are judged as if they had these texts.
    """
    offered = (knobs.text(disk.path / "queue/scheduler") or "").replace("[", "").replace("]", "")
    known = {*SCHEDULERS, *offered.split()}
    return [
        replace(each, is_refused=each.certain and each.value.strip() not in known)
        for each in _all(disk, root, planned or {})
        if each.name == "scheduler"
    ]


def others(disk: udev.Disk, root: Path) -> list[Setter]:
    """Everything that sets another file of the disk's `queue/`, in order of acting."""
    return [each for each in _all(disk, root, {}) if each.name != "scheduler"]


def _all(disk: udev.Disk, root: Path, planned: Planned) -> list[Setter]:
    settings = [
        *_boot_parameter(root),
        *_zfs(root),
        *_nixos(disk.name, root),
        *(
            Setter("udev", s.file, s.line, s.value, s.certain, s.name)
            for s in udev.queue_settings(disk, root, planned)
        ),
        *_tmpfiles(disk.name, root),
        *_units(disk.name, root),
        *_script("rc.local", disk.name, _lines_of(root / "etc/rc.local")),
        *_tlp(disk.name, root),
        *_tuned(disk.name, root, planned),
    ]
    return sorted(settings, key=lambda s: SOURCES.index(s.source))


def winner_at_boot(setters: Iterable[Setter]) -> Setter | None:
    """Whose value stays after a boot; uncertain ones count, so that none is overlooked."""
    acting = [s for s in setters if s.source not in INDIRECT and not s.is_refused]
    later = [s for s in acting if s.source != "udev"]
    return later[-1] if later else winner_of_udev(acting)


def winner_of_udev(setters: Iterable[Setter]) -> Setter | None:
    """Whose value stays when the disk is plugged in: that of the last rule."""
    return next(
        (s for s in reversed(list(setters)) if s.source == "udev" and not s.is_refused), None
    )


def is_nixos(root: Path) -> bool:
    """Whether the system's files are made from a configuration, so that rules cannot be added."""
    return (root / "etc/NIXOS").exists()


def _boot_parameter(root: Path) -> Iterator[Setter]:
    path = root / "proc/cmdline"
    for word in (_text(path) or "").split():
        name, _, value = word.partition("=")
        if name == "elevator":
            yield Setter("boot parameter", path, 1, value, certain=False)


def _zfs(root: Path) -> Iterator[Setter]:
    """`options zfs zfs_vdev_scheduler=…`: for the disks of its pools, in releases before 0.8.3."""
    for file in overriding(root, MODPROBE, "*.conf"):
        for number, line in _lines(file):
            match = re.match(r"options\s+zfs\s.*?\bzfs_vdev_scheduler=([\w-]+)", line)
            if match:
                yield Setter("ZFS", file, number, match[1], certain=False)


def _nixos(name: str, root: Path) -> Iterator[Setter]:
    """`hardware.block.scheduler`, by pattern, and `hardware.block.defaultScheduler`."""
    by_pattern, usual = None, None
    for file in sorted((root / "etc/nixos").glob("**/*.nix")):
        for number, line in enumerate((_text(file) or "").splitlines(), 1):
            if match := re.search(r'^\s*"([^"]+)"\s*=\s*"([\w-]+)";', line):
                if fnmatch.fnmatchcase(name, match[1]) and "hardware.block" in (_text(file) or ""):
                    by_pattern = Setter("NixOS", file, number, match[2])
            elif match := re.search(r'defaultScheduler\w*\s*=\s*"([\w-]+)";', line):
                usual = Setter("NixOS", file, number, match[1], certain=False)
    if value := by_pattern or usual:
        yield value


def _tmpfiles(name: str, root: Path) -> Iterator[Setter]:
    """Lines `w /sys/block/sda/queue/scheduler - - - - bfq`; the path may be a pattern."""
    for file in overriding(root, TMPFILES, "*.conf"):
        for number, line in _lines(file):
            words = line.split(None, 6)
            if words and words[0].startswith("w") and len(words) == 7:
                certain = _aims_at(words[1], name)
                if certain is not False:
                    value = words[6].strip("\"'")
                    knob = _queue_file(words[1])
                    yield Setter("tmpfiles", file, number, value, certain is True, name=knob)


def _units(name: str, root: Path) -> Iterator[Setter]:
    """Services that are wanted at boot and write a scheduler in one of their commands; those that a
    timer starts are uncertain.
    """
    wanted = {
        link.name
        for directory in UNITS
        for kind in ("wants", "requires", "upholds")
        for link in root.glob(f"{directory}/*.{kind}/*.*")
        if link.suffix in (".service", ".timer")
    }
    files = {path.name: path for path in overriding(root, UNITS, "*.service")}
    for each in sorted(wanted):
        service = each.removesuffix(".timer").removesuffix(".service") + ".service"
        stem, at, rest = service.partition("@")
        template = f"{stem}@.service" if at else service
        if file := files.get(service, files.get(template)):
            homes = (f"{d}/{unit}.d" for unit in (service, template) for d in UNITS)
            lines = _commands_of([file, *overriding(root, homes, "*.conf")])
            instance = rest.removesuffix(".service")
            yield from _script("systemd unit", name, lines, instance, each.endswith(".timer"))


def _commands_of(files: Iterable[Path]) -> list[Line]:
    """The lines of a unit and its drop-ins that act at its start; an empty `ExecStart=` removes
    those before it.
    """
    lines: list[Line] = []
    for file in files:
        pending = ""
        for number, text in _lines(file):
            if text.endswith("\\"):
                pending += text[:-1]
                continue
            line, pending = pending + text, ""
            key, _, command = line.partition("=")
            if not command.strip():
                lines = [each for each in lines if each[2].partition("=")[0] != key]
            elif key.startswith(("ExecStart", "ExecCondition", "Condition", "Assert")):
                lines.append((file, number, line))
    return lines


def _script(
    source: str, name: str, lines: Iterable[Line], instance: str = "", is_conditional: bool = False
) -> Iterator[Setter]:
    """Shell lines such as `echo bfq > /sys/block/sda/queue/scheduler`; `instance` is what %i and %I
    are in a unit. Below a condition they are uncertain.
    """
    lines = list(lines)
    # A condition of a unit is for all lines, also those before it.
    is_conditional |= any(re.match("ExecCondition|Condition|Assert", text) for _, _, text in lines)
    for file, number, written in lines:
        is_conditional = is_conditional or bool(_CONDITION.search(written))
        line = re.sub("%[iI]", instance, written) if instance else written
        path = next((w for w in re.split(r"[\s>\"';]+", line) if "/queue/" in w), "")
        aims = _aims_at(path, name)
        if aims is not False:
            match = re.search(r"(?:echo|printf)\s+(?:-\w+\s+)?['\"]?([\w-]+)['\"]?(?=[\s>|])", line)
            certain = aims is True and match is not None and not is_conditional
            value = match[1] if match else line
            yield Setter(source, file, number, value, certain, name=_queue_file(path))


def _tlp(name: str, root: Path) -> Iterator[Setter]:
    """`DISK_IOSCHED`, by the place of the disk in `DISK_DEVICES`; the last definition counts."""
    files = [root / "usr/share/tlp/defaults.conf", *sorted((root / "etc/tlp.d").glob("*.conf"))]
    devices, chosen = ["nvme0n1", "sda"], None
    for file in (*files, root / "etc/tlp.conf"):
        for number, line in _lines(file):
            key, equals, value = line.partition("=")
            words = value.strip().strip("\"'").split()
            if equals and key.strip() == "DISK_DEVICES":
                devices = words
            elif equals and key.strip() == "DISK_IOSCHED":
                chosen = (file, number, words)
    if chosen is None:
        return
    file, number, words = chosen
    at = next((i for i, each in enumerate(devices) if each == name), None)
    by_id = [w for i, w in enumerate(words) if i < len(devices) and "-" in devices[i]]
    if at is not None and at < len(words) and words[at] != "keep":
        yield Setter("TLP", file, number, words[at])
    elif at is None and any(word != "keep" for word in by_id):
        yield Setter("TLP", file, number, " ".join(by_id), certain=False)


def _tuned(name: str, root: Path, planned: Planned) -> Iterator[Setter]:
    """`elevator=` of the active profile's disk plugins, and its lines for sysfs.

    As tuned 2.20 does: sections of one name are one unit, the first disk unit that matches a disk
    has it, and the priority orders units.
    """
    active = root / "etc/tuned/active_profile"
    units: dict[str, Unit] = {}
    for profile in planned.get(active, _text(active) or "").split():
        _merge_profile(units, root, profile, planned, [])
    order = {section: int(_option(unit, "priority", "0") or 0) for section, unit in units.items()}
    has_disk: list[bool] = []  # of each unit that may have it: whether it does
    for section in sorted(units, key=order.__getitem__):
        unit = units[section]
        kind, devices = _option(unit, "type", section), _option(unit, "devices", "*")
        is_known = not any(key in unit for key in TUNED_MATCHES)
        if _option(unit, "enabled", "true") not in _TRUE:
            continue
        if kind == "sysfs":
            for path, (value, file) in unit.items():
                aims = _aims_at(path, name)
                if value and aims is not False:
                    certain = is_known and aims is True and _VARIABLE not in value
                    line = _line_of(file, path, value)
                    yield Setter("tuned", file, line, value, certain, name=_queue_file(path))
        elif kind == "disk" and (_VARIABLE in devices or _is_listed(name, devices)):
            is_known = is_known and _VARIABLE not in devices
            if not any(has_disk) and (value := _option(unit, "elevator", "")):
                file = unit["elevator"][1]
                certain = is_known and not has_disk and _VARIABLE not in value
                yield Setter("tuned", file, _line_of(file, "elevator", value), value, certain)
            has_disk.append(is_known)


def _merge_profile(
    units: dict[str, Unit], root: Path, profile: str, planned: Planned, seen: list[Path]
) -> None:
    """Add the units of a profile and, before them, of those that it includes."""
    optional = profile.removeprefix("-")
    files = [root / directory / optional / "tuned.conf" for directory in PROFILES]
    present = (each for each in files if each not in seen and (each in planned or each.exists()))
    if not (file := next(present, None)) or len(seen) > INCLUDES_MAX:
        return
    seen.append(file)
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",)
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(planned.get(file, _text(file) or ""))
    except configparser.Error:
        return
    for each in re.split(r"[\s,;]+", parser.get("main", "include", fallback="")):
        if each:
            _merge_profile(units, root, each, planned, seen)
    for section in parser.sections():
        unit = {key: (value, file) for key, value in parser[section].items()}
        old = {} if _option(unit, "replace", "") in _TRUE else units.get(section, {})
        dropped = re.split(r"\s*[,;]\s*", _option(unit, "drop", ""))
        # These have their defaults again.
        gone = {"type", "enabled", "devices", "drop", *dropped}
        units[section] = {key: each for key, each in old.items() if key not in gone} | unit


def _option(unit: Unit, key: str, usual: str) -> str:
    return unit[key][0] if key in unit else usual


def _is_listed(name: str, devices: str) -> bool:
    """Whether tuned's list of patterns has the disk; `!` excludes, and alone it means the rest."""
    words = [word for word in re.split(r"[\s,;]+", devices) if word]
    refused = [word[1:] for word in words if word.startswith("!")]
    allowed = [word for word in words if not word.startswith("!")] or ["*"]
    is_in = any(fnmatch.fnmatchcase(name, word) for word in allowed)
    return is_in and not any(fnmatch.fnmatchcase(name, word) for word in refused)


def _line_of(file: Path, key: str, value: str) -> int:
    wanted = re.compile(rf"\s*{re.escape(key)}\s*=\s*{re.escape(value)}\s*(?:#.*)?$")
    return next((n for n, line in _lines(file) if wanted.match(line)), 0)


def _queue_file(path: str) -> str:
    """The part of a path below `queue/`."""
    return path.rpartition("/queue/")[2]


def _aims_at(path: str, name: str) -> bool | None:
    """Whether a path, perhaps a pattern, is in `queue/` of the disk; None if it may be."""
    place, is_in, file = path.rpartition("/queue/")
    if not is_in or not re.fullmatch(r"(?:iosched/)?\w+", file):
        return False
    if re.search(r"[$%`({]", place):
        return None
    places = (f"/sys/block/{name}", f"/sys/class/block/{name}")
    if any(fnmatch.fnmatchcase(each, place) for each in places):
        return True
    return place.startswith("/sys/devices/") and Path(place).name == name


def overriding(root: Path, directories: Iterable[str], pattern: str) -> list[Path]:
    """Files by name; of one name only that of the first directory counts, and /dev/null none."""
    files: dict[str, Path] = {}
    for directory in directories:
        for path in (root / directory).glob(pattern):
            files.setdefault(path.name, path)
    return [files[name] for name in sorted(files)]


def _lines_of(file: Path) -> Iterator[Line]:
    yield from ((file, number, line) for number, line in _lines(file))


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are no comments."""
    for number, line in enumerate((_text(file) or "").splitlines(), 1):
        if line.strip() and not line.lstrip().startswith(("#", ";")):
            yield number, line.strip()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
