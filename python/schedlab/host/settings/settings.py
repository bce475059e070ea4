"""Settings of every layer, each by one name: the files that it means, and what else feels it.

    for knob, text in settings.resolve("sysctl.vm.dirty_bytes", "100M", Place()):
        control.write_knob(knob, text)

This is the only place that knows a setting's files: `compare`, `live`, `tune`, `apply`,
`cpu compare` and every `--dry-run` ask here. `check` refuses at the door what a run would refuse.
A name that no other row of `TABLE` has is a file of the device's `queue/` or `queue/iosched/`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schedlab.errors import SIMULATED_QUEUE, HostError, SpecError, as_root, nearest
from schedlab.host import facts
from schedlab.host.settings import knobs
from schedlab.host.settings.control_groups import cpu_hierarchy, existing_group, io_hierarchy
from schedlab.nouns.quantities import parse_size

SYSCTL = Path("/proc/sys")
DEBUG = Path("/sys/kernel/debug/sched")
CPUFREQ = Path("/sys/devices/system/cpu/cpufreq")
NO_TURBO = Path("/sys/devices/system/cpu/intel_pstate/no_turbo")
MODULES = Path("/sys/module")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Files of DEBUG that are settings of the CPU scheduler; the others report or belong to a CPU.
DEBUG_NAMES = (
    "base_slice_ns", "min_granularity_ns", "latency_ns", "idle_min_granularity_ns",
    "wakeup_granularity_ns", "migration_cost_ns", "nr_migrate", "tunable_scaling", "preempt",
)  # fmt: skip
Scope = Literal["queue", "device", "work", "group", "machine", "command"]
#: What feels a setting, in words.
FEEL: Mapping[Scope, str] = {
    "queue": "everything on the device",
    "device": "everything on the device",
    "work": "the measured work alone",
    "group": "all programs of that control group",
    "machine": "every program of this machine",
    "command": "whatever uses what the command changes",
}
#: Who has these is not on the target alone: they need `--switch NAME`.
BEYOND: tuple[Scope, ...] = ("group", "machine", "command")
Knob = tuple[Path, str]
_GROUP_FILES = r"io\.weight|io\.max|io\.latency|cpu\.weight"
_GROUP = r"[\w@:-][\w.@:-]*(?:/[\w@:-][\w.@:-]*)*"


@dataclass(frozen=True)
class SettingScope:
    """The scope of setting names: a device by the kernel's name, and the work's control groups.

    `group` gives the work's group of a controller (`io`, `cpu`); None where no command is measured.
    """

    device: str = ""
    group: Callable[[str], Path] | None = None


@dataclass(frozen=True)
class SettingFamily:
    """One row of the table: the form of its names, what they set, and for whom."""

    form: str
    example: str
    sets: str
    scope: Scope
    needs: str
    pattern: re.Pattern[str]
    find: Callable[[re.Match[str], str, SettingScope], list[Knob]]


def family_of(name: str) -> SettingFamily:
    """The row of a name; SpecError for one that cannot be a name."""
    for family in TABLE:
        if family.pattern.fullmatch(name):
            return family
    is_sysctl = (SYSCTL / name.replace(".", "/")).is_file()
    hint = f"did you mean 'sysctl.{name}'?" if is_sysctl else _nearest(name, _first_words())
    raise SpecError(f"{name!r} is not the name of a setting", hint)


def scope_of(name: str) -> Scope:
    """Who feels a setting besides the target."""
    return family_of(name).scope


def is_machine(name: str) -> bool:
    """Whether a name is a setting of the whole machine that is a file."""
    return any(f.scope == "machine" and f.pattern.fullmatch(name) for f in TABLE)


def check_commands(names: Container[str]) -> None:
    """SpecError for a command without the one that undoes it, and the reverse."""
    if ("run" in names) != ("undo" in names):
        raise SpecError(
            "run and undo belong together", "run='modprobe x' undo='modprobe -r x'; undo may be :"
        )


def is_beyond(name: str) -> bool:
    """Whether a name, which may be that of a device, is a setting that others feel, too."""
    return any(f.scope in BEYOND and f.pattern.fullmatch(name) for f in TABLE)


def beyond_target(names: Iterable[str]) -> list[str]:
    """Those of these settings that others feel, too, in order; the CPU scheduler's are not."""
    wanted = [name for name in names if name not in ("scheduler", "undo")]
    own = [n for n in wanted if scope_of(n) in BEYOND and not n.startswith(CPU_PREFIX)]
    return list(dict.fromkeys(own))


def resolve(name: str, value: object, place: SettingScope) -> list[Knob]:
    """(knob, text to write) of a setting; SpecError or HostError where there is no such thing.

    The scheduler and commands are no files: `Control.set_scheduler` and `Control.run_command`.
    """
    family = family_of(name)
    match = family.pattern.fullmatch(name)
    assert match
    return family.find(match, knobs.as_text(value), place)  # type: ignore[arg-type]


def name_of(path: Path) -> str:
    """The name of the setting of the machine whose file this is; the way back of `resolve`."""
    if path.parent == DEBUG or (path.parent == SYSCTL / "kernel" and path.name[:6] == "sched_"):
        return path.name
    if SYSCTL in path.parents:
        return f"sysctl.{'.'.join(path.relative_to(SYSCTL).parts)}"
    if MODULES in path.parents:
        return f"module.{path.parents[1].name}.{path.name}"
    known = {knobs.GOVERNOR: "governor", "enabled": "thp", "no_turbo": "boost"}
    return known.get(path.name, path.name)


def read(path: Path) -> str:
    """The value of a knob; HostError that says why it cannot be read."""
    try:
        return knobs.read_value(path)
    except PermissionError as error:
        raise HostError(
            f"{path} may not be read, even by root: {lockdown()}",
            "boot with lockdown=none, or omit this setting",
        ) from error
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}", "omit this setting") from error


def check(name: str, value: object, place: SettingScope, governor: object = "") -> None:
    """Refuse, before anything is changed, a file setting that the kernel would not take from us.

    `governor` is the one that is set beside it, if one is.
    """
    if scope_of(name) == "command":
        _check_line(name, str(value))
    for path, text in resolve(name, value, place):
        file = knobs.keyed(path)[0]
        if not file.parent.is_dir():
            continue  # a group or a device that is made for the run
        read(path)
        _check_choice(name, file, text, str(governor))
        if not knobs.writable(path):
            raise HostError(f"{name}: {file} can only be read", _at_boot(file))
        if not os.access(file, os.W_OK):
            raise HostError(f"{name}: {file} is not yours to write", as_root(SIMULATED_QUEUE))


def refuse_zoned(queue: Path, scheduler: str) -> None:
    """HostError for a scheduler that reorders the writes of a zoned device: before Linux 6.10 only
    mq-deadline did not; since then the block layer itself keeps their order (zone write plugging).
    """
    try:
        zoned = knobs.read_value(queue / "zoned")
    except OSError:
        return
    if zoned != "none" and scheduler != "mq-deadline" and facts.release() < (6, 10):
        raise HostError(
            f"{queue.parent.name} is a zoned device: before Linux 6.10 its writes need mq-deadline",
            "use mq-deadline",
        )


def check_tunable(name: str, scheduler: str, queue: Path | None) -> None:
    """Refuse a name that is no file of `queue/` nor a tunable of the scheduler.

    `queue` is None for a loop device that is made for the run. Of a scheduler that this page does
    not know and that no device has now, any tunable passes here; the run would refuse it.
    """
    samples = [queue] if queue else sorted(knobs.SYS_BLOCK.glob("loop*/queue"))[:1]
    files = {n for each in samples for n in knobs.snapshot(each)
             if "/" not in n and knobs.writable(each / n)} - {"scheduler"}  # fmt: skip
    tunables = _tunables_of(scheduler)
    if tunables is None or name in files or name in tunables:
        return
    known = [*files, *tunables, *_first_words()]
    where = queue.parent.name if queue else "a loop device"
    owner = next((other for other, names in knobs.iosched().items() if name in names), "")
    hint = f"it is a tunable of {owner}" if owner else _nearest(name, known)
    raise HostError(f"{where}: scheduler {scheduler} has no tunable {name!r}", hint)


def lockdown() -> str:
    """The kernel's lockdown mode, in words."""
    try:
        mode = knobs.read_value("/sys/kernel/security/lockdown")
    except OSError:
        return "its lockdown mode is not known"
    return f"kernel lockdown is {mode!r}"


def _tunables_of(scheduler: str) -> set[str] | None:
    """The kernel's tunables of a scheduler, and those of devices that have it; None: not known.

    A device may be switched while it is looked at, so what it lacks is no proof.
    """
    found = set(knobs.iosched().get(scheduler, ()))
    for queue in knobs.SYS_BLOCK.glob("*/queue"):
        with contextlib.suppress(OSError):
            if knobs.read_value(queue / "scheduler") == scheduler:
                found |= set(knobs.tunables(queue))
    return found if found or scheduler in knobs.iosched() else None


def _check_choice(name: str, file: Path, text: str, governor: str) -> None:
    """The value is one of those that the file, or the one beside it, lists."""
    beside = {
        knobs.GOVERNOR: "scaling_available_governors",
        knobs.PREFERENCE: "energy_performance_available_preferences",
    }
    listing = file.with_name(beside.get(file.name, file.name))
    if file.name == knobs.PREFERENCE:
        now = read(file.with_name(knobs.GOVERNOR))
        if text != "performance" == (governor or now):
            raise SpecError(
                f"{name} = {text!r}: governor performance has no other than performance",
                f"{name}={text} governor=powersave",
            )
        if now == "performance":
            return  # the list is that of the governor now
    try:
        content = listing.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if listing == file and "[" not in content:
        return
    words = content.replace("[", "").replace("]", "").split()
    if text not in words:
        raise SpecError(f"{name} = {text!r} is not offered", _nearest(text, words))


def _at_boot(file: Path) -> str:
    if file.parent.name == "parameters":
        module = file.parents[1].name
        return f"set it when the module is loaded: options {module} {file.name}=… in modprobe.d"
    return "it reports a fact of this machine"


def _check_line(key: str, line: str) -> None:
    """SpecError for a line that the shell does not understand, or whose program it does not find.

    An `undo` that cannot run would be left for `recover`.
    """
    word = (line.split() or [""])[0]
    probes = [["-n", "-c", line]]
    if re.fullmatch(r"[\w./+-]+", word):
        probes.append(["-c", 'command -v -- "$0"', word])
    for probe in probes:
        ended = subprocess.run(["/bin/sh", *probe], capture_output=True, text=True, check=False)
        if ended.returncode:
            reason = ended.stderr.strip() or f"{word} is not found"
            raise SpecError(f"{key}={line!r}: {reason}", f"try it: sh -c {shlex.quote(line)}")


def _nearest(word: str, known: Iterable[str]) -> str:
    return nearest(word, set(known), listed_max=30)


def _first_words() -> list[str]:
    return [family.example.partition("=")[0] for family in TABLE]


def _bytes(name: str, text: str) -> str:
    """`100M` as bytes, where the file counts bytes; else the text."""
    return (
        str(parse_size(text)) if name.endswith("bytes") and re.search(r"[a-zA-Z]", text) else text
    )


def _queue(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    name, queue = match[0], knobs.SYS_BLOCK / place.device / "queue"
    inside = (queue / "iosched" / name).is_file() or (
        not (queue / name).is_file() and any(name in names for names in knobs.iosched().values())
    )
    return [(queue / "iosched" / name if inside else queue / name, text)]


def _sysctl(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    path = SYSCTL.joinpath(*match["name"].split("."))
    if not path.is_file():
        names = [f"sysctl.{'.'.join(p.relative_to(SYSCTL).parts)}" for p in _files(path.parent)]
        known = names or [f"sysctl.{p.name}.…" for p in sorted(SYSCTL.glob("*"))]
        raise HostError(f"this kernel has no sysctl {match['name']}", _nearest(match[0], known))
    return [(path, _bytes(path.name, text))]


def _cpu_knob(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    name = match["name"]
    if name.startswith("sched_"):
        path = SYSCTL / "kernel" / name
        known = [p.name for p in _files(SYSCTL / "kernel") if p.name.startswith("sched_")]
    else:
        path = DEBUG / name
        known = [each for each in DEBUG_NAMES if (DEBUG / each).exists()]
        if not DEBUG.is_dir():
            raise HostError(
                f"{name} is in debugfs, which is not mounted",
                f"mount -t debugfs debugfs {DEBUG.parent}",
            )
    if not path.exists():
        raise HostError(f"this kernel has no {name}", f"it has: {', '.join(sorted(known))}")
    return [(path, text)]


def _cpu_frequency(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    file = {"governor": knobs.GOVERNOR}.get(match[0], match[0])
    paths = sorted(CPUFREQ.glob(f"policy*/{file}"))
    if not paths:
        raise HostError(
            f"{match[0]}: this machine has no {CPUFREQ}/policy*/{file}",
            "a virtual machine leaves it to its host, other machines need a cpufreq driver",
        )
    return [(path, text) for path in paths]


def _boost(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    switch = {"on": "1", "off": "0"}.get(text, text)
    if switch not in ("0", "1"):
        raise SpecError(f"boost = {text!r} is not on or off", "boost=off")
    if (CPUFREQ / "boost").exists():
        return [(CPUFREQ / "boost", switch)]
    if NO_TURBO.exists():
        return [(NO_TURBO, {"0": "1", "1": "0"}[switch])]
    raise HostError(f"boost: there is neither {CPUFREQ}/boost nor {NO_TURBO}", "omit this setting")


def _module(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    module, parameter = match["module"].replace("-", "_"), match["parameter"]
    home = MODULES / module / "parameters"
    if not (MODULES / module).is_dir():
        raise HostError(f"module {module} is not loaded", f"modprobe {module}")
    if not (home / parameter).is_file():
        names = [f"module.{module}.{p.name}" for p in _files(home)]
        raise HostError(f"module {module} has no parameter {parameter}", _nearest(match[0], names))
    return [(home / parameter, _bytes(parameter, text))]


def _thp(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    if not THP.exists():
        raise HostError(f"thp: this kernel has no {THP}", "omit this setting")
    return [(THP, text)]


def _of_work(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    if place.group is None:
        raise SpecError(
            f"{match[0]} belongs to a COMMAND or a fio job, and none is measured",
            "name a group: cgroup.GROUP.io.weight, or measure a command: -- COMMAND",
        )
    home = place.group(match["file"].partition(".")[0])
    return group_knobs(home, match["file"], text, place.device)


def _of_group(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    file = match["file"]
    root = cpu_hierarchy() if file.startswith("cpu.") else io_hierarchy().root
    return group_knobs(existing_group(root, match["group"]), file, text, place.device)


def group_knobs(home: Path, file: str, text: str, device: str) -> list[Knob]:
    """The knobs of a control group: `io.weight`, `io.max`, `io.latency` or `cpu.weight`.

    HostError where this kernel, or its version of control groups, has no such thing.
    """
    if file == "cpu.weight":
        weight = _whole(file, text, 10_000)
        if (cpu_hierarchy() / "cpu.shares").exists():
            return [(home / "cpu.shares", str(max(2, round(weight * 10.24))))]
        return [(home / "cpu.weight", str(weight))]
    is_v2 = io_hierarchy().is_v2
    if file == "io.weight":
        weight = _whole(file, text, 1000)
        names = ("io.bfq.weight", "io.weight") if is_v2 else ("blkio.bfq.weight",)
        present = [name for name in names if (home / name).exists()]
        if not home.exists():
            present = [names[-1]]
        if not present:
            raise HostError(
                f"{home} has none of {', '.join(names)}",
                "weights need CONFIG_BFQ_GROUP_IOSCHED (modprobe bfq) or CONFIG_BLK_CGROUP_IOCOST",
            )
        key = "@default" if is_v2 else ""
        return [(home / f"{name}{key}", str(weight)) for name in present]
    number = _number(device)
    if file == "io.max":
        return _limits(home, number, is_v2, text)
    if not is_v2:
        raise HostError(
            "cgroup.io.latency needs cgroup v2", "boot with systemd's unified hierarchy"
        )
    return [(home / f"io.latency@{number}", text if "=" in text else f"target={text}")]


def _limits(home: Path, number: str, is_v2: bool, text: str) -> list[Knob]:
    limits = dict(word.partition("=")[::2] for word in re.split(r"[\s,]+", text))
    names = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}
    for key in limits:
        if key not in names:
            raise SpecError(f"cgroup.io.max: {key!r} is no limit", _nearest(key, names))
    plain = {k: v if v == "max" else str(parse_size(v)) for k, v in limits.items()}
    if not is_v2:
        return [(home / f"blkio.throttle.{names[k]}_device@{number}", v.replace("max", "0"))
                for k, v in plain.items()]  # fmt: skip
    return [(home / f"io.max@{number}", " ".join(f"{k}={v}" for k, v in plain.items()))]


def _cost(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    where = io_hierarchy()
    file = where.root / match["file"]
    if not where.is_v2 or not file.exists():
        raise HostError(
            f"{match[0]} needs {match['file']} of cgroup v2 (CONFIG_BLK_CGROUP_IOCOST)",
            "boot with systemd's unified hierarchy, or compare without it",
        )
    pairs = [word.partition("=") for word in re.split(r"[\s,]+", text.strip())]
    plain = [f"{key}={_bytes('bytes' if key.endswith('bps') else key, v)}" for key, _, v in pairs]
    return [(Path(f"{file}@{_number(place.device)}"), " ".join(plain))]


def _no_file(match: re.Match[str], text: str, place: SettingScope) -> list[Knob]:
    return []


def _number(device: str) -> str:
    """`MAJOR:MINOR` of the device; its name where it is made for the run."""
    if not device:
        raise HostError("a limit needs a single device below the files", "--scratch or --device")
    path = knobs.SYS_BLOCK / device / "dev"
    return knobs.read_value(path) if path.exists() else device


def _whole(name: str, text: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or not 1 <= int(text) <= most:
        raise SpecError(f"cgroup.{name} = {text!r}", f"a whole number from 1 to {most}")
    return int(text)


def _files(directory: Path) -> list[Path]:
    try:
        return [path for path in sorted(directory.iterdir()) if path.is_file()]
    except OSError:
        return []


def _family(
    form: str, example: str, sets: str, scope: Scope, needs: str, pattern: str,
    find: Callable[[re.Match[str], str, SettingScope], list[Knob]],
) -> SettingFamily:  # fmt: skip
    return SettingFamily(form, example, sets, scope, needs, re.compile(pattern), find)


CPU_PREFIX = "knob."
_CPU_NAMES = "|".join(DEBUG_NAMES)
TABLE = (
    _family("sysctl.NAME", "sysctl.vm.dirty_bytes=100M",
            "a file of `/proc/sys`; sizes may have a unit where the name ends in `bytes`",
            "machine", "root", r"sysctl\.(?P<name>\w[\w-]*(?:\.\w[\w-]*)+)", _sysctl),
    _family("cgroup.io.weight, cgroup.cpu.weight", "cgroup.io.weight=300",
            "the share of the command or fio job (usually 100)", "work",
            "root; bfq, or io.cost on cgroup v2; of CPUs the cpu controller",
            r"cgroup\.(?P<file>io\.weight|cpu\.weight)", _of_work),
    _family("cgroup.io.max", "cgroup.io.max=rbps=100M,wiops=500",
            "limits of the command or fio job on the device", "work", "root",
            r"cgroup\.(?P<file>io\.max)", _of_work),
    _family("cgroup.io.latency", "cgroup.io.latency=target=5000",
            "the latency in µs that the command's group is protected for", "work",
            "root; cgroup v2 and CONFIG_BLK_CGROUP_IOLATENCY",
            r"cgroup\.(?P<file>io\.latency)", _of_work),
    _family("cgroup.io.cost.qos, cgroup.io.cost.model", "cgroup.io.cost.qos=enable=1,rpct=95",
            "io.cost on the device: its quality of service, and the cost of a request", "device",
            "root; cgroup v2 and CONFIG_BLK_CGROUP_IOCOST",
            r"cgroup\.(?P<file>io\.cost\.(?:qos|model))", _cost),
    _family("cgroup.GROUP.FILE", "cgroup.system.slice/db.service.io.weight=300",
            "io.weight, io.max, io.latency or cpu.weight of a group that exists", "group",
            "root; as for the measured work",
            rf"cgroup\.(?P<group>{_GROUP})\.(?P<file>{_GROUP_FILES})", _of_group),
    _family("governor, energy_performance_preference", "governor=performance",
            "how every CPU chooses its frequency", "machine", "root; a cpufreq driver",
            "governor|energy_performance_preference", _cpu_frequency),
    _family("boost", "boost=off", "frequencies above the nominal one: `on` or `off`", "machine",
            "root; a cpufreq driver", "boost", _boost),
    _family("module.NAME.PARAMETER", "module.zfs.zfs_dirty_data_max=1073741824",
            "a parameter of a loaded module", "machine", "root; one that may be written",
            r"module\.(?P<module>[\w-]+)\.(?P<parameter>\w+)", _module),
    _family("thp", "thp=never", "transparent huge pages: `always`, `madvise`, `never`", "machine",
            "root", "thp", _thp),
    _family("knob.NAME", "knob.base_slice_ns=3000000",
            "the CPU scheduler: `sched_…` of `/proc/sys/kernel`, or a file of "
            "`/sys/kernel/debug/sched`", "machine", "root; debugfs",
            rf"(?:knob\.)?(?P<name>sched_\w+|{_CPU_NAMES}|fair_server/cpu\d+/(?:runtime|period))",
            _cpu_knob),
    _family("run, undo", "run='modprobe x' undo='modprobe -r x'",
            "a command, and the one that undoes it; `undo` must do no harm twice", "command",
            "root for what needs it", "run|undo", _no_file),
    _family("NAME", "read_ahead_kb=512",
            "a file of the device's `queue/`, or a tunable of its scheduler in `queue/iosched/`",
            "queue", "root", r"[A-Za-z0-9_][A-Za-z0-9_-]*", _queue),
)  # fmt: skip
