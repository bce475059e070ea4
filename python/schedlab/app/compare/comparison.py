"""From what a user asks for to a comparison of I/O schedulers: target, candidates, workloads."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from schedlab.app import targets
from schedlab.app.measure import budget
from schedlab.design.candidates import label_candidates, parse_candidate, parse_candidates
from schedlab.design.io_families import USUAL_FAMILIES, Load, family_named, workloads
from schedlab.errors import SpecError, nearest
from schedlab.host import devices
from schedlab.host.queues import queues_below
from schedlab.host.settings import knobs
from schedlab.kinds import declared, typed
from schedlab.kinds.file_access import IOZONE_SEVEN, TESTS
from schedlab.nouns import Candidate, Experiment, Kind, Objective, Stopping, Target, Workload
from schedlab.nouns.quantities import duration_text

__all__ = ["Load", "Place", "comparison", "stopping_of", "target_of"]

SCRATCH_BYTES = 1 << 30
FILE_BYTES = 1 << 30
BLOCKS_MAX = 40
BLOCKS_SEQUENTIAL = 20
QUICK_BUDGET_S = 60.0
USUAL = Stopping(blocks=12)


@dataclass(frozen=True)
class Place:
    """The target options: at most one of `scratch_bytes`, `device`, `directory`, `model`.

    `size_bytes` is that of the file or emulated device; 0: the usual one.
    """

    scratch_bytes: int | None = None
    scratch_directory: str = "/var/tmp"
    device: str | None = None
    destroy_data: str | None = None
    read_only: bool = False
    allow_unknown_data: bool = False
    directory: str | None = None
    size_bytes: int = 0
    switch: tuple[str, ...] = ()
    model: str | None = None
    queue_depth: int = 0
    dilate: float = 1.0
    rotational: str = ""
    filesystem: str = ""


def target_of(place: Place) -> Target:
    """Where the work goes; SpecError when the options contradict each other."""
    chosen = {
        "--scratch": place.scratch_bytes is not None,
        "--device": place.device is not None,
        "--directory": place.directory is not None,
        "--model": place.model is not None,
    }
    named = [name for name, is_given in chosen.items() if is_given]
    if "--model" in named and "--scratch" in named:
        named.remove("--scratch")  # the size of the emulated device
    if len(named) > 1:
        raise SpecError(f"{' and '.join(named)} cannot be used together", "use one of them")
    if place.destroy_data and place.destroy_data != place.device:
        raise SpecError(
            f"--destroy-data {place.destroy_data}: is not the device of --device",
            "name the same device in both",
        )
    if place.read_only and (place.destroy_data or not place.device):
        other = (
            "it cannot be used with --destroy-data" if place.destroy_data else "it needs --device"
        )
        raise SpecError(f"--read-only: {other}", "omit it")
    check_model_options(place)
    facts = {"rotational": place.rotational}
    if place.device:
        size = devices.size_bytes(place.device)
        agreed = bool(place.destroy_data)
        return Target("device", place.device, size, agreed, place.switch, **facts)  # type: ignore[arg-type]
    if place.directory:
        size = place.size_bytes or FILE_BYTES
        return Target("directory", str(Path(place.directory).resolve()), size, switch=place.switch)
    common = {**facts, "filesystem": place.filesystem, "switch": place.switch}
    size = place.scratch_bytes or SCRATCH_BYTES
    if place.model:
        from schedlab.host.emulated.emulated import Emulation, own_size_bytes

        size = place.scratch_bytes or place.size_bytes
        size = size or own_size_bytes(Emulation(place.model)) or SCRATCH_BYTES
        how = {"queue_depth": place.queue_depth, "dilate": place.dilate}
        return Target("emulated", "", size, model=place.model, **common, **how)  # type: ignore[arg-type]
    return Target("scratch", place.scratch_directory, size, **common)  # type: ignore[arg-type]


def check_model_options(place: Place) -> None:
    """SpecError for options of an emulated device where there is none."""
    for option, is_given in {
        "--queue-depth": place.queue_depth != 0,
        "--dilate": place.dilate != 1,
    }.items():
        if is_given and place.model is None:
            raise SpecError(f"{option}: works only with an emulated device", "--model disk7200")


def candidates_of(
    schedulers: str | None, labels: str | None, target: Target, typed: Sequence[str] = ()
) -> Named:
    """The candidates that were named, `typed` each by itself, else all that the target offers."""
    if schedulers or typed:
        named = parse_candidates(schedulers) if schedulers else ()
        candidates = (*named, *map(parse_candidate, typed))
    elif target.kind == "directory" and not targets.queues_named(target):
        below = queues_below(target.path).queues
        raise SpecError(
            f"--directory {target.path}: no disk is named, so no scheduler can be switched",
            f"--switch {','.join(below)} switches what is below it (`schedlab doctor --path "
            f"{target.path}` shows what else that affects), --schedulers as-is switches nothing",
        )
    else:
        names = targets.offered(target, queues_of(target))
        candidates = label_candidates([(name, {}) for name in names])
    return labelled(candidates, labels) if labels else Named(candidates)


def queues_of(target: Target) -> tuple[str, ...]:
    """The queues whose schedulers are offered."""
    if target.kind == "device":
        return (knobs.kernel_name(target.path),)
    return targets.queues_named(target)


@dataclass(frozen=True)
class Named:
    """Candidates, and notes on what their names mean."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()


def labelled(candidates: tuple[Candidate, ...], labels: str) -> Named:
    """The candidates under the user's names, and a note on each that explains it."""
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(candidates) or len({*names, ""}) <= len(names):
        raise SpecError(
            f"--labels {labels}: not a different name for each of {len(candidates)} candidates",
            "write as many names as candidates, e.g. before,after",
        )
    pairs = list(zip(names, candidates, strict=True))
    notes = tuple(f"{name} is {candidate.label}" for name, candidate in pairs)
    return Named(tuple(replace(candidate, label=name) for name, candidate in pairs), notes)


def families_of(names: Sequence[str] | None, tests: Sequence[str] | None) -> list[str]:
    """The families of workloads; `tests` asks for the file tests."""
    families = list(names or (["file-tests"] if tests else USUAL_FAMILIES))
    for name in families:
        family_named(name)
    return families


def comparison(
    place: Place,
    load: Load,
    *,
    schedulers: str | None = None,
    labels: str | None = None,
    candidates: Sequence[str] = (),
    families: Sequence[str] | None = None,
    **design: Unpack[Design],
) -> Experiment:
    """The experiment; SpecError or HostError naming what cannot be.

    Workloads that write are omitted, with a note, on a device that may only be read.
    """
    target = target_of(place)
    named = candidates_of(schedulers, labels, target, candidates)
    notes = list(named.notes)
    for test in load.tests or ():
        if test not in TESTS:
            raise SpecError(f"test {test!r} is not known", nearest(test, TESTS))
    chosen = families_of(families, load.tests)
    load = replace(load, tests=load.tests or IOZONE_SEVEN)
    works = workloads(chosen, load, design.get("objective", "throughput"))
    if target.kind == "device" and not target.destroy_data:
        reading = tuple(work for work in works if not typed(work).writes())
        if len(reading) < len(works) and not place.read_only:
            notes.append(f"omitted: workloads that write; {target.path} is read-only here")
        works = reading
    budget_s = design.get("stopping", USUAL).budget_s
    if budget_s and works:
        count = len(named.candidates) + design.get("aa_arm", True)
        works, omitted = budget.fitting(works, count, budget_s)
        design["omitted"] = omitted
        if omitted:
            time = duration_text(budget_s)
            notes.append(f"omitted: six blocks do not fit into {time}: {', '.join(omitted)}")
    if not works:
        raise SpecError(
            "no workload is left", f"name tests that read, or --destroy-data {target.path}"
        )
    title = f"I/O schedulers on {targets.describe(target)}"
    return experiment_of("io", title, target, named.candidates, works, notes, **design)


class Design(TypedDict, total=False):
    """How it is measured and judged, as in `Experiment`; without a seed it gets a new one."""

    stopping: Stopping
    margin: float
    aa_arm: bool
    objective: Objective
    seed: int | None
    omitted: tuple[str, ...]


def experiment_of(
    kind: Kind,
    title: str,
    target: Target,
    candidates: tuple[Candidate, ...],
    works: Sequence[Workload],
    notes: Iterable[str] = (),
    **design: Unpack[Design],
) -> Experiment:
    """The experiment whose first candidate is the baseline."""
    how: dict[str, Any] = {"stopping": USUAL, "notes": tuple(notes), **design}
    if how.setdefault("seed") is None:
        how["seed"] = secrets.randbits(32)
    of = (target, candidates, tuple(works), candidates[0].label)
    return Experiment(title, kind, *of, metrics=declared(works), **how)


def stopping_of(
    *,
    blocks: int | None = None,
    budget_s: float | None = None,
    until_decided: bool = False,
    precision: float | None = None,
    may_extend: int | None = None,
    quick: bool = False,
    sessions: int = 1,
) -> Stopping:
    """When to stop. `--quick` is a budget, too. Blocks and budget are of each session."""
    if until_decided and precision:
        raise SpecError(
            "--until-decided and --precision cannot be used together", "use one of them"
        )
    if quick and not (blocks or until_decided or precision):
        budget_s = budget_s or QUICK_BUDGET_S
    if sessions > 1 and (until_decided or precision or may_extend):
        raise SpecError(
            "--sessions repeats a fixed plan",
            "omit --until-decided, --precision and --may-extend",
        )
    if may_extend and (until_decided or precision):
        raise SpecError(
            "--may-extend announces a second end of a fixed plan",
            "omit --until-decided and --precision, or omit it",
        )
    if until_decided or precision:
        mode = "until-decided" if until_decided else "precision"
        most = blocks or BLOCKS_SEQUENTIAL
        return Stopping(mode, most, precision or 0.0, budget_s or 0.0)  # type: ignore[arg-type]
    usual = BLOCKS_MAX if budget_s else USUAL.blocks
    total = (blocks or usual) * sessions
    return Stopping("fixed", total, 0.0, budget_s or 0.0, may_extend or 0, sessions)
