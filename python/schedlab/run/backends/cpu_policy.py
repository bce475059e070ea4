"""The settings of a CPU candidate: policy, nice, slice, weight, quota, autogroup, kernel knobs.

Settings are typed once here, for the command line, experiment files and the session alike.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from schedlab.cpu.refusals import SCHED_EXT
from schedlab.cpu.settings import POLICIES, PRIORITY_DEFAULT, REAL_TIME, deadline_share
from schedlab.design.candidates import typed_candidate
from schedlab.errors import HostError, SchedlabError, SpecError, nearest
from schedlab.host import settings as host_settings
from schedlab.host.knobs import ticks_per_second
from schedlab.spec import Candidate

SIDES = ("work", "load", "all")
SLICE_MS = (0.1, 100.0)
KEYS = ("policy", "priority", "nice", "slice_ms", "period_ms", "weight", "max", "group_idle",
        "autogroup", "apply_to", "ext", "ext_args")  # fmt: skip
_HINT = "e.g. --policies other,batch,rr:10ms,fifo,other:slice=3ms,nice=5"


@dataclass(frozen=True)
class CpuPolicy:
    """One candidate's settings, checked. `weight` 0 and `max` "" leave the cgroups alone.

    `autogroup` is `shared` (one session with schedlab), `own` (one each), `off`, or empty: a
    command gets its own session, built-in work stays in the shared one. `ext` is the program
    that loads a sched_ext scheduler, with its arguments in `ext_args`. `knobs` are settings of the
    machine by the names of host/settings.py, such as `knob.base_slice_ns` or `governor`.
    """

    policy: str = "other"
    priority: int = PRIORITY_DEFAULT
    nice: int = 0
    slice_ms: float | None = None
    period_ms: float | None = None
    weight: int = 0
    max: str = ""
    group_idle: bool = False
    autogroup: str = ""
    apply_to: str = "work"
    ext: str = ""
    ext_args: str = ""
    knobs: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def uses_groups(self) -> bool:
        """Whether cpu cgroups are needed."""
        return bool(self.weight or self.max or self.group_idle)

    @property
    def host_settings(self) -> dict[str, str | int | float]:
        """Settings of the machine, also those that the policy needs: name and value."""
        values = dict(self.knobs)
        if self.policy == "rr" and self.slice_ms is not None:
            values["knob.sched_rr_timeslice_ms"] = int(self.slice_ms)
        if self.autogroup == "off":
            values["knob.sched_autogroup_enabled"] = 0
        return values

    def covers(self, is_load: bool) -> bool:
        """Whether it is given to the load, or to the work."""
        return self.apply_to in ("all", "load" if is_load else "work")

    def attributes(self, tasks: int, cpu_count: int) -> dict[str, Any]:
        """`Attributes` of crates/load/src/cpu/attributes.rs for `tasks` tasks on so many CPUs."""
        values: dict[str, Any] = {"policy": self.policy, "nice": self.nice}
        if self.policy in REAL_TIME:
            values["priority"] = self.priority
        if self.policy == "deadline":
            period_ns = int((self.period_ms or 10.0) * 1e6)
            usual_ns = int(period_ns * deadline_share(tasks, cpu_count))
            runtime_ns = int(self.slice_ms * 1e6) if self.slice_ms else usual_ns
            return {**values, "slice_ns": runtime_ns, "period_ns": period_ns}
        if self.slice_ms is not None and self.policy in ("other", "batch"):
            values["slice_ns"] = int(self.slice_ms * 1e6)
        return values


def policy_of(candidate: Candidate) -> CpuPolicy:
    """The candidate's settings; SpecError naming the key and its valid values."""
    where = f"candidate {candidate.label!r}"
    settings = {k: v for k, v in candidate.settings.items() if not k.startswith("workload.")}
    knobs = {k: v for k, v in settings.items() if is_of_machine(k)}
    own = {k: v for k, v in settings.items() if k not in knobs}
    if unknown := [key for key in own if key not in KEYS]:
        raise SpecError(f"{where}: {unknown[0]!r} is not a setting", nearest(unknown[0], KEYS))
    policy = policy_name(own, where)
    parsed = CpuPolicy(
        policy=policy,
        priority=_number(own, "priority", PRIORITY_DEFAULT, (1, 99), where),
        nice=_number(own, "nice", 0, (-20, 19), where),
        slice_ms=time_ms(own, "slice_ms", where),
        period_ms=time_ms(own, "period_ms", where),
        weight=_number(own, "weight", 0, (1, 10_000), where),
        max=str(own.get("max", "")),
        group_idle=bool(_number(own, "group_idle", 0, (0, 1), where)),
        autogroup=_word(own, "autogroup", ("", "shared", "own", "off"), where),
        apply_to=_word({"apply_to": "work", **own}, "apply_to", SIDES, where),
        ext=str(own.get("ext", "")),
        ext_args=str(own.get("ext_args", "")),
        knobs=knobs,
    )
    _check(parsed, where)
    return parsed


def is_of_machine(name: str) -> bool:
    """Whether a setting of a candidate is one of the host, and none of its tasks or groups."""
    return name not in KEYS and ("." in name or host_settings.is_machine(name))


def policy_name(settings: Mapping[str, Any], where: str) -> str:
    """The policy, usually `other`; SpecError with the nearest one."""
    policy = str(settings.get("policy", "other"))
    if policy not in POLICIES:
        raise SpecError(f"{where}: policy {policy!r} is not known", nearest(policy, POLICIES))
    return policy


def time_ms(settings: Mapping[str, Any], key: str, where: str) -> float | None:
    """A setting in ms, None where it is omitted; SpecError unless it is finite and above 0."""
    if key not in settings:
        return None
    value = settings[key]
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SpecError(f"{where}: {key} = {value!r}", "a number of milliseconds above 0")
    return float(value)


def _check(policy: CpuPolicy, where: str) -> None:
    """Settings that contradict each other."""
    if policy.slice_ms is not None and policy.policy in ("fifo", "idle", "ext"):
        raise SpecError(
            f"{where}: policy {policy.policy} has no slice", "use other, batch, rr or deadline"
        )
    if policy.policy == "rr" and policy.slice_ms is not None:
        whole_ms = int(policy.slice_ms)
        # It may already be what the kernel makes of a request: whole ticks, such as 6.67 ms.
        if policy.slice_ms not in (whole_ms, effective_slice_ms("rr", whole_ms)):
            _refuse_quantum(where)
    if policy.nice and policy.policy not in ("other", "batch"):
        raise SpecError(f"{where}: nice has no effect under {policy.policy}", "use other or batch")
    if policy.policy in REAL_TIME and policy.uses_groups:
        raise SpecError(
            f"{where}: {policy.policy} tasks are not subject to weights and quotas",
            "omit weight, max and group-idle",
        )
    if policy.max and not re.fullmatch(r"\d+/\d+", policy.max):
        raise SpecError(
            f"{where}: max {policy.max!r} is not QUOTA/PERIOD", "max=50000/100000 (in µs)"
        )
    for name, value in policy.host_settings.items():
        try:
            host_settings.check(name, value, host_settings.SettingScope())
        except SchedlabError as error:
            raise type(error)(f"{where}: {error}", error.hint) from error
    if policy.policy == "ext":
        refuse_ext(SCHED_EXT)
        _check_ext(policy, where)
    elif policy.ext or policy.ext_args:
        raise SpecError(
            f"{where}: ext and args belong to policy ext", "ext:scx_lavd,args=--verbose"
        )


def _refuse_quantum(where: str) -> NoReturn:
    raise SpecError(f"{where}: the quantum of rr must be in whole ms", "rr:10ms")


def _check_ext(policy: CpuPolicy, where: str) -> None:
    """The program that loads the scheduler is there."""
    if not policy.ext:
        raise SpecError(f"{where}: no scheduler is named", "ext:scx_lavd, or ext:/path/of/program")
    try:
        shlex.split(policy.ext_args)
    except ValueError as error:
        raise SpecError(
            f"{where}: args {policy.ext_args!r}: {error}", "close the quotes"
        ) from error
    if shutil.which(policy.ext) is None:
        raise HostError(
            f"{where}: program {policy.ext!r} is not found", "use its full path, or install it"
        )


def refuse_ext(root: Path) -> None:
    """HostError where no sched_ext scheduler can be measured."""
    if not root.exists():
        raise HostError(
            "policy ext: this kernel was built without CONFIG_SCHED_CLASS_EXT",
            "boot a kernel (Linux 6.12 or newer) that has it",
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
            settings["ext"] = first
        elif colon:
            settings["slice_ms"] = _milliseconds(first)
        groups.append((word, settings))
    for label, settings in groups:
        if settings["policy"] == "rr" and float(settings.get("slice_ms", 0)) % 1:
            _refuse_quantum(f"policy {label!r}")
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


def effective_slice_ms(policy: str, slice_ms: float) -> float:
    """The slice that the kernel applies: rr rounds up to jiffies, EEVDF clamps to 0.1–100 ms."""
    if policy == "rr":
        hz = ticks_per_second()
        return math.ceil(slice_ms * hz / 1000) * 1000 / hz
    if policy in ("other", "batch"):
        return min(max(slice_ms, SLICE_MS[0]), SLICE_MS[1])
    return slice_ms


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
        raise SpecError(f"{where}: {key} = {value!r}", nearest(value, words))
    return value
