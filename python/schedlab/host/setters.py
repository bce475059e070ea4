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

from schedlab.host import knobs, udev

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
UNITS = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
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
# What lines below it depend on: of a shell, and of a unit.
_CONDITION = re.compile(
    r"\b(?:if|case|for|while|until|exit|return|test)\b|&&|\|\||\[ |\(\)|^(?:Condition|Assert)\w+=|"
    r"^ExecCondition="
)
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
        *_script("rc.local", disk.name, root / "etc/rc.local"),
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
    """Services that are wanted at boot and write a scheduler in one of their commands."""
    wanted = {
        link.name
        for directory in UNITS
        for kind in ("wants", "requires", "upholds")
        for link in root.glob(f"{directory}/*.{kind}/*.service")
    }
    for file in overriding(root, UNITS, "*.service"):
        if "/queue/" not in (_text(file) or ""):
            continue
        stem, at, rest = file.name.partition("@")
        if file.name in wanted:
            instance = rest.removesuffix(".service") if at else ""
            yield from _script("systemd unit", name, file, instance)
        elif rest == ".service":
            for each in sorted(wanted):
                if each.startswith(f"{stem}@"):
                    instance = each.removeprefix(f"{stem}@").removesuffix(".service")
                    yield from _script("systemd unit", name, file, instance)


def _script(source: str, name: str, file: Path, instance: str = "") -> Iterator[Setter]:
    """Shell lines such as `echo bfq > /sys/block/sda/queue/scheduler`; `instance` is what %i and %I
    are in a unit. Below a condition they are uncertain.
    """
    is_conditional = False
    for number, written in _lines(file):
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
    """`elevator=` of the active profile's disk plugins, those of included profiles first."""
    active = root / "etc/tuned/active_profile"
    for profile in planned.get(active, _text(active) or "").split():
        yield from _tuned_profile(name, root, profile, planned)


def _tuned_profile(
    name: str, root: Path, profile: str, planned: Planned, depth: int = 0
) -> Iterator[Setter]:
    files = [root / directory / profile / "tuned.conf" for directory in PROFILES]
    file = next((each for each in files if each in planned or each.exists()), None)
    if file is None or depth > INCLUDES_MAX:
        return
    parser = configparser.ConfigParser(
        strict=False,
        interpolation=None,
        delimiters=("=",),
        allow_no_value=True,
        inline_comment_prefixes=("#",),
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(planned.get(file, _text(file) or ""))
    except configparser.Error:
        return
    included = parser.get("main", "include", fallback="") or ""
    for each in re.split(r"[\s,]+", included.strip()):
        if each:
            yield from _tuned_profile(name, root, each, planned, depth + 1)
    for section in parser.sections():
        options = parser[section]
        kind = options.get("type", section)
        if (options.get("enabled") or "true").lower() in ("false", "0"):
            continue
        is_known = not any(key in options for key in TUNED_MATCHES)
        if kind == "disk" and (value := options.get("elevator")):
            devices = options.get("devices") or "*"
            is_known = is_known and _VARIABLE not in value + devices
            if _VARIABLE in devices or _is_listed(name, devices):
                line = _line_of(file, "elevator", value)
                yield Setter("tuned", file, line, value, is_known)
        elif kind == "sysfs":
            for path, value in options.items():
                aims = _aims_at(path, name)
                if value and aims is not False:
                    line = _line_of(file, path, value)
                    certain = is_known and aims is True and _VARIABLE not in value
                    yield Setter("tuned", file, line, value, certain, name=_queue_file(path))


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
