"""Join result folders that are sessions of one experiment: `schedlab merge DIR DIR…`.

Folders are joined when their experiments agree in everything but the seed, and were measured on
one machine under one kernel. The runs keep the session that they were measured in, so the analysis
treats every folder as what it is: one boot and one set of files.

With `--hosts` each folder is a machine by the name of the folder: kernel, hardware, device and
the candidates that there are may differ, and the machines are the units of the answer. `--of N`
says how many folders were planned before the first was measured: all of them are a planned end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.app.compare.difference import REPORTED, environment_differences, require_same_clock
from schedlab.app.targets import disks_named
from schedlab.errors import SpecError
from schedlab.nouns import Candidate, Cell, Experiment, Plan, Record, to_json
from schedlab.store.folder import Folder

# What differs between two folders of one experiment, and of one that several hosts measured.
FREE = ("seed", "notes", "omitted", "digests")
FREE_OF_HOSTS = (*FREE, "target", "candidates", "stopping")


def merge(paths: Sequence[Path], out: Path, *, hosts: bool = False, of: int = 0) -> Folder:
    """A new folder with the sessions of all; SpecError naming what does not agree.

    `of` is the number of folders that were planned (0: nobody planned one).
    """
    if len(paths) < 2:
        raise SpecError("there is nothing to merge", "name two or more result folders")
    if 0 < of < len(paths):
        raise SpecError(f"--of {of}: {len(paths)} folders are named", f"--of {len(paths)}")
    folders = [Folder.open(path) for path in paths]
    records = [folder.record() for folder in folders]
    for path, record in zip(paths, records, strict=True):
        _require_whole_plan(path, record)
        _require_same(paths[0], records[0], path, record, hosts)
    _require_own_sessions(paths, records)
    _require_one_meaning(paths, records)
    names = _host_names(paths) if hosts else [""] * len(paths)
    experiment, cells, moved = _joined(records)
    facts = _facts(names, records) if hosts else records[0].host
    merged = Folder.create(out, experiment, Plan(cells, _ends(records, of)), facts)
    kept = {work.label for work in experiment.workloads}
    for folder, path, host, offset in zip(folders, paths, names, moved, strict=True):
        for run in (each for each in folder.runs() if each.workload in kept):
            session = run.session or path.name
            raw = folder.raw_of(run)
            joined = replace(run, block=run.block + offset, session=session, host=host, raw={})
            merged.append(joined, raw)
    return merged


def _ends(records: Sequence[Record], of: int) -> tuple[int, ...]:
    """The announced number of blocks, where these folders are some `of` a plan.

    While folders are missing, or one is not finished, that number is not reached.
    """
    blocks = [max(record.plan.ends or (record.plan.blocks,)) for record in records]
    missing = of - len(blocks)
    return (sum(blocks) + missing * max(blocks),) if of else ()


def _host_names(paths: Sequence[Path]) -> list[str]:
    """The names of the folders; SpecError where two are alike."""
    names = [path.resolve().name for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"two folders are called {name}", "call each as its host")
    return names


def _facts(names: Sequence[str], records: Sequence[Record]) -> dict[str, object]:
    """Facts that all hosts share, and the facts of each."""
    first = records[0].host
    common = {key: value for key, value in first.items()
              if all(record.host.get(key) == value for record in records)}  # fmt: skip
    every = {name: {**record.host, "measured_device": _measured_device(record)}
             for name, record in zip(names, records, strict=True)}  # fmt: skip
    return {**common, "hosts": every}


def _measured_device(record: Record) -> dict[str, object]:
    """Name, model and firmware of the first disk that was measured; empty where it is not known."""
    target, devices = record.experiment.target, record.host.get("devices", {})
    for name in (Path(path).name for path in disks_named(target)):
        if name in devices:
            return {"name": name, **{key: str(devices[name].get(key) or "")
                                     for key in ("model", "firmware")}}  # fmt: skip
    return {}


def _require_whole_plan(path: Path, record: Record) -> None:
    mode = record.experiment.stopping.mode
    if mode != "fixed":
        raise SpecError(
            f"{path}: was measured until its stopping rule ended it ({mode})",
            "merge folders with a fixed number of blocks: its level holds for one folder only",
        )
    if not record.analysed_runs:
        raise SpecError(f"{path}: has no runs", "omit it")


def _require_same(first: Path, one: Record, path: Path, other: Record, hosts: bool) -> None:
    """SpecError with the first line of the experiments, or the fact of the hosts, that differs."""
    require_same_clock(one, other)
    free = FREE_OF_HOSTS if hosts else FREE
    differs = _differences(_stated(one, free), _stated(other, free))
    if not hosts:
        differs |= {
            name: values
            for name, values in environment_differences(one.host, other.host).items()
            if name not in REPORTED or name == "kernel.release"
        }
    for name, (was, now) in differs.items():
        raise SpecError(
            f"{path}: is not the same experiment as {first}: {name} is {now!r}, there {was!r}",
            "merge repetitions of one experiment: schedlab reproduce DIR",
        )


def _stated(record: Record, free: Sequence[str]) -> dict[str, object]:
    """The part that two folders must share, as plain JSON: the experiment and its budget's plan."""
    experiment = to_json(record.experiment)
    kind = experiment["target"]["kind"]
    for name in free:
        experiment.pop(name, None)
    experiment["target_kind"] = kind
    stopping = experiment.get("stopping", {})
    stopping.pop("sessions", None)
    if record.planning:
        stopping["blocks"] = stopping["budget_s"] = 0
        experiment["planned"] = {
            cell.workload: {"seconds": cell.seconds, "ramp_seconds": cell.ramp_seconds}
            for cell in record.plan.cells
            if cell.workload not in record.omitted
        }
    return dict(experiment)


def _differences(one: Any, other: Any, name: str = "") -> dict[str, tuple[Any, Any]]:
    """The places where two JSON values differ, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        differences: dict[str, tuple[Any, Any]] = {}
        for key in dict.fromkeys([*one, *other]):
            differences |= _differences(one.get(key), other.get(key), f"{name}.{key}".strip("."))
        return differences
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        differences = {}
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            differences |= _differences(a, b, f"{name}[{number}]")
        return differences
    return {} if one == other else {name: (one, other)}


def _require_own_sessions(paths: Sequence[Path], records: Sequence[Record]) -> None:
    seen: dict[str, Path] = {}
    for path, record in zip(paths, records, strict=True):
        for session in {run.session for run in record.runs if run.session}:
            if session in seen:
                raise SpecError(
                    f"{path} and {seen[session]} have the same session", "name each folder once"
                )
            seen[session] = path


def _require_one_meaning(paths: Sequence[Path], records: Sequence[Record]) -> None:
    """SpecError where a label means other settings in another folder: a label is one candidate."""
    first: dict[str, tuple[Path, Candidate]] = {}
    for path, record in zip(paths, records, strict=True):
        for each in record.experiment.candidates:
            place, candidate = first.setdefault(each.label, (path, each))
            if candidate != each:
                raise SpecError(
                    f"{each.label} is {_settings(each)} in {path}, and {_settings(candidate)} in "
                    f"{place}",
                    "omit the folder that is wrong, or measure them under names of their own",
                )


def _settings(candidate: Candidate) -> str:
    return ",".join(f"{key}={value}" for key, value in candidate.settings.items()) or "no setting"


def _joined(records: Sequence[Record]) -> tuple[Experiment, tuple[Cell, ...], list[int]]:
    """(the experiment of all, its cells, by how much the blocks of each folder are moved)."""
    first = records[0].experiment
    omitted = set.intersection(*(set(record.omitted) for record in records))
    works = tuple(work for work in first.workloads if work.label not in omitted)
    cells: list[Cell] = []
    moved: list[int] = []
    sessions = 0
    for record in records:
        blocks_done = {run.block for run in record.analysed_runs}
        offset = max((cell.block for cell in cells), default=-1) + 1
        moved.append(offset)
        kept = (
            cell
            for cell in record.plan.cells
            if cell.workload not in omitted and (cell.block in blocks_done or _is_fixed(record))
        )
        cells += [replace(cell, block=cell.block + offset) for cell in kept]
        sessions += len({run.session for run in record.analysed_runs})
    blocks = max(cell.block for cell in cells) + 1
    # A block that was resumed has several sessions; a repetition cannot have more than blocks.
    stopping = replace(first.stopping, blocks=blocks, budget_s=0.0, sessions=min(sessions, blocks))
    every = {c.label: c for record in records for c in record.experiment.candidates}
    joined = replace(first, stopping=stopping, workloads=works, candidates=tuple(every.values()))
    return joined, tuple(cells), moved


def _is_fixed(record: Record) -> bool:
    return not record.experiment.stopping.budget_s
