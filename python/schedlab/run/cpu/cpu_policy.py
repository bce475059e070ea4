"""CPU candidates: their settings as typed and as written in files, as a `CpuPolicy`."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.cpu.policy import (
    DEADLINE_PERIOD_MS,
    POLICIES,
    PRIORITY_DEFAULT,
    REAL_TIME,
    CpuPolicy,
    effective_slice_ms,
)
from schedlab.cpu.refusals import SCHED_EXT
from schedlab.design.candidates import typed_candidate
from schedlab.errors import HostError, SchedlabError, SpecError, nearest
from schedlab.host.settings import settings as host_settings
from schedlab.kinds import OVERRIDE
from schedlab.nouns import Candidate

SIDES = ("work", "load", "all")
KEYS = ("policy", "priority", "nice", "slice_ms", "period_ms", "weight", "max", "group_idle",
        "autogroup", "apply_to", "ext", "ext_args")  # fmt: skip
COMMANDS = ("run", "undo")
_EM_BPF = 247  # include/uapi/linux/elf-em.h
_COMPILE = "clang -O2 -g -target bpf -c FILE.bpf.c -o FILE.bpf.o, then ext:FILE.bpf.o"
_HINT = "e.g. --policies other,batch,rr:10ms,fifo,other:slice=3ms,nice=5"


def policy_of(candidate: Candidate, priority: int = PRIORITY_DEFAULT) -> CpuPolicy:
    """The candidate's settings; SpecError naming the key and its valid values.

    `priority` is that of a workload, for candidates without one. Whether a machine has the settings
    is asked where they are set (`check_here`): it may be a machine in virtual time.
    """
    where = f"candidate {candidate.label!r}"
    settings = {k: v for k, v in candidate.settings.items() if not k.startswith(OVERRIDE)}
    knobs = {k: v for k, v in settings.items() if is_of_machine(k)}
    own = {k: v for k, v in settings.items() if k not in knobs}
    if unknown := [key for key in own if key not in KEYS]:
        raise SpecError(f"{where}: {unknown[0]!r} is not a setting", nearest(unknown[0], KEYS))
    values: dict[str, Any] = {
        "policy": _word({"policy": "other", **own}, "policy", tuple(POLICIES), where),
        "priority": _number(own, "priority", priority, (1, 99), where),
        "nice": _number(own, "nice", 0, (-20, 19), where),
        "slice_ms": time_ms(own, "slice_ms", where),
        "period_ms": time_ms(own, "period_ms", where),
        "weight": _number(own, "weight", 0, (1, 10_000), where),
        "max": str(own.get("max", "")),
        "group_idle": bool(_number(own, "group_idle", 0, (0, 1), where)),
        "autogroup": _word(own, "autogroup", ("", "shared", "own", "off"), where),
        "apply_to": _word({"apply_to": "work", **own}, "apply_to", SIDES, where),
        "ext": str(own.get("ext", "")),
        "ext_args": str(own.get("ext_args", "")),
        "knobs": knobs,
    }
    try:
        policy = CpuPolicy(**values)
        policy.check_deadline(policy.period_ms or DEADLINE_PERIOD_MS)
        host_settings.check_commands(knobs)
        if policy.policy == "ext":
            _check_ext(policy)
    except SchedlabError as error:
        raise type(error)(f"{where}: {error}", error.hint) from error
    return policy


def is_of_machine(name: str) -> bool:
    """Whether a setting of a candidate is one of the host, and none of its tasks or groups."""
    is_host = "." in name or name in COMMANDS or host_settings.is_machine(name)
    return name not in KEYS and is_host


def time_ms(settings: Mapping[str, Any], key: str, where: str) -> float | None:
    """A setting in ms, None where it is omitted; SpecError unless it is finite and above 0."""
    if key not in settings:
        return None
    value = settings[key]
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SpecError(f"{where}: {key} = {value!r}", "a number of milliseconds above 0")
    return float(value)


def _check_ext(policy: CpuPolicy) -> None:
    """A scheduler is named: a program that loads it, or a compiled object."""
    if not policy.ext:
        raise SpecError("no scheduler is named", "ext:scx_lavd, or ext:FILE.bpf.o")
    try:
        shlex.split(policy.ext_args)
    except ValueError as error:
        raise SpecError(f"args {policy.ext_args!r}: {error}", "close the quotes") from error
    if policy.ext.endswith(".c"):
        raise SpecError(f"{policy.ext}: is not compiled", _COMPILE)


def is_bpf_object(path: Path) -> bool:
    """Whether a file is a compiled BPF program, by its ELF header."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(20)
    return head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == _EM_BPF


def check_here(policy: CpuPolicy, label: str) -> None:
    """SpecError or HostError where this machine lacks a setting of a candidate, or cannot load its
    scheduler."""
    try:
        for name, value in policy.host_settings.items():
            host_settings.check(name, value, host_settings.SettingScope())
        if policy.policy == "ext":
            refuse_ext(SCHED_EXT)
            _check_loader(policy.ext)
    except SchedlabError as error:
        raise type(error)(f"candidate {label!r}: {error}", error.hint) from error


def _check_loader(ext: str) -> None:
    if not is_bpf_object(Path(ext)) and shutil.which(ext) is None:
        raise HostError(f"program {ext!r} is not found", "use its full path, or install it")


def refuse_ext(root: Path) -> None:
    """HostError where no sched_ext scheduler can be measured."""
    if not root.exists():
        raise HostError(
            "policy ext: this kernel was built without CONFIG_SCHED_CLASS_EXT",
            "boot a kernel (Linux 6.12 or newer) that has it; or in virtual time: --kernel 7.2",
        )
    state = (root / "state").read_text().strip()
    if state != "disabled":
        name = (root / "root" / "ops").read_text().strip() if (root / "root/ops").exists() else "?"
        raise HostError(
            f"policy ext: the scheduler {name} is loaded (state {state})",
            "stop it first: systemctl stop scx.service",
        )


def refuse_locked(policy: CpuPolicy, cpus: set[int], hogs: int) -> None:
    """SpecError for real-time hogs on every CPU: the machine would not answer any more."""
    everywhere = cpus >= os.sched_getaffinity(0)
    if policy.policy in REAL_TIME and policy.covers(is_load=True) and hogs and everywhere:
        raise SpecError(
            f"a load under {policy.policy} on every CPU locks the machine",
            f"keep a CPU free: --cpus {','.join(map(str, sorted(cpus)[:-1])) or '0'}",
        )


def parse_policies(text: str) -> tuple[Candidate, ...]:
    """Candidates of `other,rr:10ms,other:slice=3ms,nice=5`; a word with = and no : continues.

    Slices that the kernel clamps or rounds to one value are one candidate.
    """
    groups: list[tuple[str, dict[str, str | int | float]]] = []
    for word in (part.strip() for part in text.split(",")):
        head, colon, first = word.partition(":")
        if not colon and "=" in word and groups:
            _add(groups[-1][1], word)
            groups[-1] = (f"{groups[-1][0]},{word}", groups[-1][1])
            continue
        if head not in POLICIES:
            raise SpecError(f"policy {word!r} is not known", nearest(head, POLICIES))
        settings: dict[str, str | int | float] = {"policy": head}
        if colon and "=" in first:
            _add(settings, first)
        elif colon and head == "ext":
            settings["ext"] = str(Path(first).resolve()) if Path(first).is_file() else first
        elif colon:
            settings["slice_ms"] = _milliseconds(first)
        groups.append((word, settings))
    for label, settings in groups:
        if settings["policy"] == "rr" and float(settings.get("slice_ms", 0)) % 1:
            raise SpecError(f"policy {label!r}: the quantum of rr must be in whole ms", "rr:10ms")
    return tuple(Candidate(label, settings) for label, settings in _merged(groups))


def parse_policy(text: str) -> Candidate:
    """One candidate with settings of the machine: `perf=other governor=performance`."""
    typed = typed_candidate(text, "other")
    (policy,) = parse_policies(typed.head)
    settings = dict(policy.settings)
    for key, value in typed.settings.items():
        _add(settings, f"{key}={value}")
    return Candidate(typed.label, settings)


def _merged(
    groups: list[tuple[str, dict[str, str | int | float]]],
) -> list[tuple[str, dict[str, str | int | float]]]:
    """The first of several that the kernel makes the same of; each twice-named gets a number."""
    merged: list[tuple[str, dict[str, str | int | float]]] = []
    typed: list[dict[str, str | int | float]] = []
    for label, settings in groups:
        effective = {**settings}
        if "slice_ms" in settings:
            effective["slice_ms"] = effective_slice_ms(
                str(settings["policy"]), float(settings["slice_ms"])
            )
        name = label
        if effective != settings:
            name = f"{label} (is {effective['slice_ms']:g} ms)"
        same = [
            known for (_, other), known in zip(merged, typed, strict=True) if other == effective
        ]
        if same and settings not in same:
            continue  # two requests, one quantum: measured once
        number = 1 + sum(1 for other, _ in merged if other.split("#")[0] == name)
        merged.append((name if number == 1 else f"{name}#{number}", effective))
        typed.append(settings)
    return merged


def _add(settings: dict[str, str | int | float], word: str) -> None:
    key, equals, value = word.partition("=")
    names = {"slice": "slice_ms", "period": "period_ms", "group-idle": "group_idle",
             "apply": "apply_to", "args": "ext_args"}  # fmt: skip
    name = names.get(key, key)
    if not equals or not value or (name not in KEYS and not is_of_machine(name)):
        raise SpecError(f"setting {word!r} is not understood", _HINT)
    if name in ("slice_ms", "period_ms"):
        settings[name] = _milliseconds(value)
    else:
        settings[name] = int(value) if re.fullmatch(r"-?\d+", value) else value


def _milliseconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|)", text)
    if not match or float(match[1]) <= 0:
        raise SpecError(f"slice {text!r} is not a time", "write 3ms, 100us or 0.1ms")
    return float(match[1]) * {"us": 1e-3, "ms": 1.0, "": 1.0, "s": 1e3}[match[2]]


def _number(
    settings: Mapping[str, Any], key: str, usual: int, limits: tuple[int, int], where: str
) -> int:
    if key not in settings:
        return usual
    value = settings[key]
    if not isinstance(value, int) or not limits[0] <= value <= limits[1]:
        raise SpecError(
            f"{where}: {key} = {value!r}", f"a whole number from {limits[0]} to {limits[1]}"
        )
    return value


def _word(settings: Mapping[str, Any], key: str, words: tuple[str, ...], where: str) -> str:
    value = str(settings.get(key, words[0]))
    if value not in words:
        raise SpecError(f"{where}: {key} {value!r} is not known", nearest(value, words))
    return value
