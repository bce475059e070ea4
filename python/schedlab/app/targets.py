"""An experiment's target on this machine: its queues, what is written, what is refused.

Nothing is opened for writing here and nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.app.setting_checks import check_allowed, check_settings
from schedlab.errors import SIMULATED_QUEUE, HostError, SpecError, nearest
from schedlab.host import devices, scratch
from schedlab.host.safety.consent import objections
from schedlab.host.settings import knobs, settings
from schedlab.kinds import WorkloadKind
from schedlab.kinds.command import Command
from schedlab.kinds.fio_job import FioJob
from schedlab.kinds.live_load import LiveLoad
from schedlab.nouns import Candidate, Experiment, Target
from schedlab.nouns.quantities import size_text
from schedlab.run.admitted import Permission
from schedlab.run.candidate_settings import AS_IS
from schedlab.run.io.io import emulation_of
from schedlab.store.files import is_made_here

SMALLEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Resolution:
    """The request queues that are switched, what is written and what to know, in words."""

    queues: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolve(
    experiment: Experiment, kinds: Iterable[WorkloadKind], permission: Permission
) -> Resolution:
    """Check the target against the machine; SpecError or HostError with what helps."""
    used = tuple(kinds)
    target = experiment.target
    if experiment.kind != "io":
        if target.kind != "none":
            raise SpecError(
                f"target.kind = {target.kind!r}: experiments of kind {experiment.kind!r} have none",
                'target = { kind = "none" }',
            )
        _check_keys(target)
        named = [name for each in experiment.candidates for name in each.settings]
        beyond = settings.beyond_target(n for n in named if settings.is_beyond(n))
        check_allowed(beyond if experiment.kind == "cpu" else (), target.switch)
        return Resolution()
    if target.kind == "none":
        raise SpecError("target.kind = 'none': block I/O needs a target", 'kind = "scratch"')
    _check_keys(target)
    if all(isinstance(kind, LiveLoad) for kind in used):
        return _with_settings(_live(experiment, permission), experiment, used)
    _check_sizes(target, used)
    resolved = _with_settings(
        {
            "scratch": _scratch,
            "emulated": _emulated,
            "device": _device,
            "directory": _directory,
        }[target.kind](experiment, used, permission),
        experiment,
        used,
    )
    if target.kind not in ("directory", "device") or resolved.queues:
        notes = check_offered(experiment.candidates, target, resolved.queues)
        return Resolution(resolved.queues, resolved.writes, (*resolved.notes, *notes))
    return resolved


def queues_named(target: Target) -> tuple[str, ...]:
    """The request queues that --switch names, without the settings of the machine."""
    return tuple(name for name in target.switch if not settings.is_beyond(name))


def disks_named(target: Target) -> tuple[str, ...]:
    """The device that is measured, or those that --switch names."""
    return (target.path,) if target.kind == "device" else queues_named(target)


def _with_settings(
    resolved: Resolution, experiment: Experiment, kinds: tuple[WorkloadKind, ...]
) -> Resolution:
    """The same, after a look at what candidates set; its notes name what others feel."""
    candidates, target = experiment.candidates, experiment.target
    notes = check_settings(candidates, target, resolved.queues, kinds)
    return replace(resolved, notes=(*resolved.notes, *notes))


def _check_keys(target: Target) -> None:
    """Keys that belong to another kind of target are refused, not ignored."""
    belongs = {
        "destroy_data": ("device",),
        "switch": ("directory",),
        "rotational": ("scratch", "emulated", "device"),
        "filesystem": ("scratch", "emulated"),
        "model": ("emulated",),
        "queue_depth": ("emulated",),
        "dilate": ("emulated",),
    }
    usual = Target(target.kind)
    for key, kinds in belongs.items():
        value = queues_named(target) if key == "switch" else getattr(target, key)
        if value != getattr(usual, key) and target.kind not in kinds:
            raise SpecError(
                f"target.{key}: does not belong to a target of kind {target.kind!r}",
                f"omit it, or use kind = {kinds[0]!r}",
            )


def _live(experiment: Experiment, permission: Permission) -> Resolution:
    """Queues in use are switched only with a yes; nothing is written."""
    target = experiment.target
    if not permission.in_use:
        raise HostError(f"{target.path} is in use, and would be switched", "allow it: --yes")
    queues: tuple[str, ...]
    felt: tuple[str, ...]
    if target.kind == "device":
        queues, felt = (knobs.device_name(target.path),), tuple[str, ...]()
    else:
        queues, felt = _switched(target)
    return Resolution(queues, (), (*felt, *check_offered(experiment.candidates, target, queues)))


def _check_sizes(target: Target, kinds: Iterable[WorkloadKind]) -> None:
    """The target has a size, and every record fits into it."""
    size = devices.size_bytes(target.path) if target.kind == "device" else target.size_bytes
    if target.kind != "device" and (size < SMALLEST_BYTES or size % 4096):
        raise SpecError(
            f"target.size_bytes = {size}: not a multiple of 4096 of at least 1 MiB",
            'size_bytes = "256M"',
        )
    for kind in kinds:
        if kind.device_commands() and target.kind != "emulated":
            raise SpecError(
                f"{kind.kind}: sets the queue depth of the device, which works only on a model",
                'kind = "emulated", or --model disk7200',
            )
        used = kind.used_bytes(size)
        if used > size:
            raise SpecError(
                f"{kind.kind}: uses {size_text(used)} of a target of {size_text(size)}",
                "use a larger target, or smaller records",
            )
        record = getattr(kind, "record_bytes", 0) or getattr(kind, "block_bytes", 0)
        if record > (kind.used_bytes(size) or size):
            raise SpecError(
                f"{kind.kind}: a record of {size_text(record)} does not fit into "
                f"{size_text(kind.used_bytes(size))}",
                "use a larger target, or smaller records",
            )


def _scratch(
    experiment: Experiment, kinds: tuple[WorkloadKind, ...], permission: Permission
) -> Resolution:
    target = experiment.target
    scratch.require_root(_without_root(experiment))
    if target.filesystem == "none":
        _check_bare('filesystem = "none"', kinds)
    scratch.check_space(Path(target.path or "/var/tmp"), target.size_bytes)
    size = size_text(target.size_bytes)
    return Resolution(writes=(f"a temporary file of {size} in {target.path or '/var/tmp'}",))


def _emulated(
    experiment: Experiment, kinds: tuple[WorkloadKind, ...], permission: Permission
) -> Resolution:
    from schedlab.host.emulated.emulated import require_fuse

    scratch.require_root(_without_root(experiment))
    if experiment.target.filesystem == "none":
        _check_bare('filesystem = "none"', kinds)
    require_fuse()
    emulation_of(experiment.target).describe()
    return Resolution(writes=("the memory of an emulated device",))


def _without_root(experiment: Experiment) -> str:
    """The nearest question that needs no root: files here, or the schedulers simulated."""
    if all(c.settings.get("scheduler", AS_IS) == AS_IS for c in experiment.candidates):
        return "the same with --directory ."
    model = experiment.target.model
    return f"{SIMULATED_QUEUE} --device {model}" if model else SIMULATED_QUEUE


def _check_bare(where: str, kinds: Iterable[WorkloadKind]) -> None:
    """A command may use a bare device as it likes; other workloads may need a file system."""
    for kind in kinds:
        if kind.needs_files and not isinstance(kind, Command):
            raise SpecError(
                f"{where}: {kind.kind} needs a file system, and this is a bare device",
                "use --scratch or --directory",
            )
        if isinstance(kind, Command) and (kind.copy_in or kind.fresh != "never"):
            raise SpecError(
                f"{where}: a bare device has no file system to copy to",
                "omit --copy-in and --fresh, or use --scratch SIZE --fs ext4",
            )


def _device(
    experiment: Experiment, kinds: tuple[WorkloadKind, ...], permission: Permission
) -> Resolution:
    """A device is written to only with a consent; one in use is loaded only with a yes."""
    path = experiment.target.path
    name = knobs.device_name(path)
    _check_bare(path, kinds)
    writing = any(kind.writes() for kind in kinds)
    if not writing:
        # A consent to writes has looked already, and holds the device itself.
        is_ours = any(consent.covers(path) for consent in permission.consents)
        reasons = [] if is_ours else objections(path, allow_unknown_data=True)
        if reasons and not permission.in_use:
            raise HostError(
                f"{path}: {'; '.join(reasons)}",
                "--read-only measures only reads on it; --scratch SIZE makes a temporary device",
            )
        return Resolution((name,))
    if not experiment.target.destroy_data:
        raise SpecError(
            f"{path}: a workload writes, and target.destroy_data is false",
            f"measure only reads, or allow it: --destroy-data {path}",
        )
    if not any(consent.covers(path) for consent in permission.consents):
        raise SpecError(
            f"{path}: writing would destroy its data, and you have not allowed it",
            f"confirm it: --destroy-data {path}",
        )
    return Resolution((name,), (f"everything on {path} is overwritten",))


def _directory(
    experiment: Experiment, kinds: tuple[WorkloadKind, ...], permission: Permission
) -> Resolution:
    """Files go into a new subdirectory; queues below are switched only when they are named."""
    target = experiment.target
    path = Path(target.path)
    if all(kind.brings_files for kind in kinds):
        if not path.is_dir():
            raise HostError(f"{path} is not a directory", f"mkdir -p {path}")
        for kind in kinds:
            if isinstance(kind, Command) and kind.fresh != "never" and not kind.copy_in:
                raise SpecError(
                    f"{path}: fresh = {kind.fresh!r} has nothing to copy there",
                    "name it: --copy-in DIR; schedlab never recreates your own file system",
                )
        for kind in kinds:
            _check_own_files(kind, path)
        writes: tuple[str, ...] = (f"whatever files the commands write in {path}",)
    else:
        scratch.check_space(path, target.size_bytes)
        size = size_text(target.size_bytes)
        writes = (f"a new subdirectory of {path}, {size}, removed at the end",)
    schedulers = {str(c.settings.get("scheduler", AS_IS)) for c in experiment.candidates}
    tuned = [k for c in experiment.candidates for k in c.settings if not k.startswith("workload.")]
    if queues_named(target):
        queues, felt = _switched(target)
        return Resolution(queues, writes, felt)
    of_queue = [k for k in tuned if settings.scope_of(k) in ("queue", "device")]
    if schedulers != {AS_IS} or any(key != "scheduler" for key in of_queue):
        below = ",".join(devices.disks_below(path)) or "NAME"
        raise SpecError(
            f"{path}: no scheduler would be set, because no request queue is named",
            f"name the queue that may be switched: --switch {below}",
        )
    return Resolution((), writes)


def _check_own_files(kind: WorkloadKind, directory: Path) -> None:
    """SpecError for a file of the user that would be replaced by a copy, or changed by a job."""
    if isinstance(kind, Command) and kind.copy_in:
        into = directory / Path(kind.copy_in).resolve().name
        if os.path.lexists(into) and not is_made_here(into):
            raise SpecError(
                f"{into}: would be replaced by the copy of {kind.copy_in}, and schedlab did not "
                "make it",
                f"move it away, or name another directory: mv {into} {into}.mine",
            )
    if isinstance(kind, FioJob):
        kind.check_files(Path(kind.job_file).name, directory, is_ours=False)


def _switched(target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the named queues, which must be exactly those below the directory; who else feels it)."""
    from schedlab.host.queues import queues_below

    below = queues_below(target.path)
    names = tuple(dict.fromkeys(knobs.device_name(name) for name in queues_named(target)))
    if missing := [name for name in below.queues if name not in names]:
        raise SpecError(
            f"{target.path}: its files are on {missing[0]} too, which --switch does not name",
            f"--switch {','.join(below.queues)}",
        )
    if foreign := [name for name in names if name not in below.queues]:
        raise SpecError(
            f"--switch {foreign[0]}: no file of {target.path} is on it",
            f"--switch {','.join(below.queues)}",
        )
    return names, tuple(f"it also affects {mount}" for mount in below.mounts)


def describe(target: Target) -> str:
    """The target in a few words."""
    size = size_text(target.size_bytes)
    if target.kind == "scratch":
        return f"a temporary loop device of {size}"
    if target.kind == "emulated":
        return f"an emulated {target.model} of {size}"
    return f"{target.path} ({size})"


def offered(target: Target, queues: tuple[str, ...]) -> tuple[str, ...]:
    """The schedulers that every queue of the target can be set to."""
    if target.kind in ("scratch", "emulated"):
        return devices.loop_schedulers()
    if not queues:
        return (AS_IS,)
    first, *others = (knobs.offered(queue) for queue in queues)
    return tuple(name for name in first if all(name in other for other in others))


def check_offered(
    candidates: Iterable[Candidate], target: Target, queues: tuple[str, ...]
) -> tuple[str, ...]:
    """HostError for a scheduler that the kernel does not offer here; a note per former name."""
    names = offered(target, queues)
    wanted = dict.fromkeys(str(c.settings.get("scheduler", AS_IS)) for c in candidates)
    todays = {name: todays_name(name, names, target) for name in wanted if name != AS_IS}
    return tuple(
        f"{name} is its name in older kernels: measured as {today}"
        for name, today in todays.items()
        if today != name
    )


def todays_name(scheduler: str, names: Sequence[str], target: Target) -> str:
    """The name of a scheduler among the offered `names`; HostError where it is none of them."""
    today = scheduler if scheduler in names else knobs.RENAMED.get(scheduler, scheduler)
    if today in names:
        return today
    close = nearest(scheduler, names)
    hint = close if "mean" in close else f"use some of: {','.join(names)}"
    raise HostError(
        f"scheduler {scheduler!r} is not offered for {describe(target)}",
        knobs.of_successor(scheduler, names) or hint,
    )
