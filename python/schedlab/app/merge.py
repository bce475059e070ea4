"""Join result folders that are sessions of one experiment: `schedlab merge DIR DIR…`.

Folders are joined when their experiments agree in everything but the seed, and were measured on
one machine under one kernel. The runs keep the session that they were measured in, so the analysis
treats every folder as what it is: one boot and one set of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.app.difference import REPORTED, environment_differences
from schedlab.errors import SpecError
from schedlab.spec import Cell, Experiment, Plan, Record, to_json
from schedlab.store.folder import Folder

# What differs between two folders of one experiment.
FREE = ("seed", "notes")


def merge(paths: Sequence[Path], out: Path) -> Folder:
    """A new folder with the sessions of all; SpecError naming what does not agree."""
    if len(paths) < 2:
        raise SpecError("there is nothing to merge", "name two or more result folders")
    folders = [Folder.open(path) for path in paths]
    records = [folder.record() for folder in folders]
    for path, record in zip(paths, records, strict=True):
        _require_whole_plan(path, record)
        _require_same(paths[0], records[0], path, record)
    _require_own_sessions(paths, records)
    experiment, cells, moved = _joined(records)
    merged = Folder.create(out, experiment, Plan(cells, ()), records[0].host)
    kept = {work.label for work in experiment.workloads}
    for folder, path, offset in zip(folders, paths, moved, strict=True):
        for run in (each for each in folder.runs() if each.workload in kept):
            session = run.session or path.name
            raw = folder.raw_of(run)
            merged.append(replace(run, block=run.block + offset, session=session, raw={}), raw)
    return merged


def _require_whole_plan(path: Path, record: Record) -> None:
    mode = record.experiment.stopping.mode
    if mode != "fixed":
        raise SpecError(
            f"{path}: was measured until its stopping rule ended it ({mode})",
            "merge folders with a fixed number of blocks: its level holds for one folder only",
        )
    if not record.analysed_runs:
        raise SpecError(f"{path}: has no runs", "omit it")


def _require_same(first: Path, one: Record, path: Path, other: Record) -> None:
    """SpecError with the first line of the experiments, or the fact of the hosts, that differs."""
    differs = {
        **_differences(_stated(one), _stated(other)),
        **{
            name: values
            for name, values in environment_differences(one.host, other.host).items()
            if name not in REPORTED or name == "kernel.release"
        },
    }
    for name, (was, now) in differs.items():
        raise SpecError(
            f"{path}: is not the same experiment as {first}: {name} is {now!r}, there {was!r}",
            "merge repetitions of one experiment: schedlab reproduce DIR",
        )


def _stated(record: Record) -> dict[str, Any]:
    """What two folders must agree in, as plain JSON: the experiment, and what its budget led to."""
    experiment = to_json(record.experiment)
    for name in FREE:
        experiment.pop(name, None)
    stopping = experiment["stopping"]
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
    return replace(first, stopping=stopping, workloads=works), tuple(cells), moved


def _is_fixed(record: Record) -> bool:
    return not record.experiment.stopping.budget_s
