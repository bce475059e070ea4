"""From readings of foreign files to an experiment, its plan and its runs; all or nothing."""

from __future__ import annotations

import itertools
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.nouns import (
    METRICS,
    Candidate,
    Cell,
    Experiment,
    Metric,
    Plan,
    Run,
    Stopping,
    Target,
    Workload,
    from_json,
    to_json,
)
from schedlab.nouns.checked_line import encode
from schedlab.nouns.quantities import counted
from schedlab.store.files import make_directory, sync_directory, write_atomic
from schedlab.store.folder import RUNS, Folder, without_none
from schedlab.store.importers.distinct import tell_apart

RUNS_MAX = 1_000_000
Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Reading:
    """One run of a foreign file: what it measured (first metric: the primary one), and its place
    in the file. `block` names the repetition; empty: numbered in the order of the file. `options`
    (of the load), `subject` (a disk, a file) and `program` (with its version) tell runs apart
    (`distinct.py`). `bounds` are those of a run.
    """

    place: str
    candidate: str
    workload: str
    metrics: Mapping[str, float]
    block: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    histograms: Mapping[str, Rows] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    subject: str = ""
    program: str = ""
    bounds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """The user's options for imported data: `controls` are workloads that cannot depend on the
    candidate, `blocked` whether block by block every candidate was run.
    """

    title: str = ""
    baseline: str = ""
    blocked: bool = False
    controls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def noted(self, notes: Iterable[str]) -> Options:
        """These options with what was assumed of the files, each once."""
        return replace(self, notes=(*self.notes, *dict.fromkeys(notes)))


def labelled(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(candidate, file) of arguments typed `CANDIDATE=FILE` or `FILE` (candidate: its stem)."""
    pairs = []
    for text in arguments:
        label, equals, file = text.partition("=")
        whole = not equals or Path(text).exists()
        pairs.append((Path(text).stem, Path(text)) if whole else (label, Path(file)))
    return pairs


@dataclass(frozen=True)
class Imported:
    """A whole import in memory; `histograms[i]` belongs to `runs[i]`."""

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    histograms: tuple[Mapping[str, Rows], ...]
    source: Mapping[str, Any]

    def as_json(self, folder: Path) -> dict[str, object]:
        """A summary of the import to `folder`, as plain JSON types."""
        experiment = self.experiment
        return {
            "schema": 1,
            "folder": str(folder),
            "runs": len(self.runs),
            "blocks": experiment.stopping.blocks,
            "blocked": experiment.blocked,
            "baseline": experiment.baseline,
            "candidates": [candidate.label for candidate in experiment.candidates],
            "workloads": [workload.label for workload in experiment.workloads],
            "notes": list(experiment.notes),
        }

    def lines(self, folder: Path) -> list[str]:
        """The same as text."""
        experiment = self.experiment
        count = ", ".join((
            counted(len(experiment.candidates), "candidate"),
            counted(len(experiment.workloads), "workload"),
            counted(experiment.stopping.blocks, "repetition"),
        ))  # fmt: skip
        notes = [f"note: {note}" for note in experiment.notes]
        return [f"imported {counted(len(self.runs), 'run')} ({count}) to {folder}", *notes]

    def save(self, path: Path) -> Folder:
        """Write the result folder: whole, or not at all."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise SpecError(f"{path}: is not empty", "name another folder with --out")
        try:
            make_directory(path.parent)
            temporary = path.parent / f".{path.name}.{os.urandom(6).hex()}"
            make_directory(temporary)
        except OSError as error:
            raise SpecError(f"{path}: {error.strerror}", "name a writable folder") from error
        try:
            host = {"imported_from": self.source}
            folder = Folder.create(temporary, self.experiment, self.plan, host)
            pairs = zip(self.runs, self.histograms, strict=True)
            stored = (to_json(folder.with_bulk(run, rows)) for run, rows in pairs)
            write_atomic(temporary / RUNS, "".join(f"{encode(each)}\n" for each in stored))
            temporary.replace(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(path.parent)
        return Folder(path)


def assemble(readings: Iterable[Reading], options: Options, source: Mapping[str, Any]) -> Imported:
    """An import from readings; SpecError naming the place of what does not fit together."""
    rows = list(itertools.islice(readings, RUNS_MAX + 1))
    if len(rows) > RUNS_MAX:
        raise SpecError(f"more than {RUNS_MAX} runs", "import a part of the file")
    if not rows:
        raise SpecError(f"{source['file']}: has no measurement", "name the right file")
    rows, differences = tell_apart(rows)
    options = options.noted(differences)
    numbered = _with_blocks(rows)
    _refuse_twice(numbered)
    made = without_none(to_json(_experiment(numbered, options, source)))
    experiment = from_json(Experiment, made, str(source["file"]))  # as it will be read again
    cells: list[Cell] = []
    positions: dict[int, int] = {}
    for block, row in numbered:
        position = positions.get(block, 0)
        positions[block] = position + 1
        cells.append(Cell(block, position, row.workload, row.candidate, 0))
    runs = tuple(_run(cell, row) for cell, (_, row) in zip(cells, numbered, strict=True))
    histograms = tuple(row.histograms for _, row in numbered)
    return Imported(experiment, Plan(tuple(cells)), runs, histograms, source)


def _run(cell: Cell, row: Reading) -> Run:
    return Run(
        block=cell.block,
        position=cell.position,
        workload=cell.workload,
        candidate=cell.candidate,
        seed=0,
        attempt=1,
        status="ok",
        started_at="",
        elapsed_s=row.metrics.get("elapsed_s", math.nan),
        metrics=dict(row.metrics),
        properties={"place": row.place, **row.properties},
        bounds=dict(row.bounds),
    )


def _with_blocks(rows: list[Reading]) -> list[tuple[int, Reading]]:
    """Rows with their block number: order of the names given, or of occurrence."""
    names = sorted({row.block for row in rows if row.block}, key=_natural)
    numbers = {name: i for i, name in enumerate(names)}
    seen: dict[tuple[str, str], int] = {}
    numbered = []
    for row in rows:
        key = (row.candidate, row.workload)
        count = seen.get(key, 0)
        seen[key] = count + 1
        numbered.append((numbers[row.block] if row.block else count, row))
    return numbered


def _natural(text: str) -> tuple[int, int, str]:
    whole = text.isascii() and text.isdigit() and len(text) < 18
    return (0, int(text), "") if whole else (1, 0, text)


def _refuse_twice(numbered: list[tuple[int, Reading]]) -> None:
    places: dict[tuple[int, str, str], str] = {}
    for block, row in numbered:
        first = places.setdefault((block, row.workload, row.candidate), row.place)
        if first is not row.place:
            raise SpecError(
                f"{row.place}: {row.candidate}, {row.workload}, repetition {row.block!r} "
                f"is already in {first}",
                "name the column that tells them apart in --workload or --block",
            )


def _experiment(
    numbered: list[tuple[int, Reading]], options: Options, source: Mapping[str, Any]
) -> Experiment:
    rows = [row for _, row in numbered]
    candidates: dict[str, Candidate] = {}
    for row in rows:
        candidates.setdefault(row.candidate, Candidate(row.candidate, dict(row.settings)))
    workloads = _workloads(rows, options.controls)
    baseline = options.baseline or next(iter(candidates))
    if baseline not in candidates:
        raise SpecError(
            f"baseline {baseline!r} is not in the data", f"one of {', '.join(candidates)}"
        )
    return Experiment(
        title=options.title or f"import of {Path(source['file']).name}",
        kind="import",
        target=Target("none"),
        candidates=tuple(candidates.values()),
        workloads=workloads,
        baseline=baseline,
        seed=0,
        stopping=Stopping(blocks=1 + max(block for block, _ in numbered)),
        aa_arm=False,
        blocked=options.blocked,
        notes=options.noted(_notes(rows)).notes,
        metrics={name: m for name, m in options.metrics.items() if name not in METRICS},
    )


def _workloads(rows: list[Reading], controls: tuple[str, ...]) -> tuple[Workload, ...]:
    """Workloads in the order of the file; the first metric seen of each is its primary one."""
    metrics: dict[str, dict[str, None]] = {}
    parameters: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        metrics.setdefault(row.workload, {}).update(dict.fromkeys(row.metrics))
        parameters.setdefault(row.workload, row.parameters)
    if unknown := sorted(set(controls) - set(metrics)):
        raise SpecError(f"control {unknown[0]!r} is not a workload", f"one of {', '.join(metrics)}")
    workloads = []
    for label, names in metrics.items():
        primary, *secondary = names
        control = label in controls
        parts = dict(parameters[label])
        workloads.append(
            Workload(label, "imported", primary, parts, tuple(secondary), negative_control=control)
        )
    return tuple(workloads)


def _notes(rows: list[Reading]) -> list[str]:
    """The design that the order of the rows implies."""
    notes = []
    orders: dict[str, list[str]] = {}
    for row in rows:
        orders.setdefault(row.workload, []).append(row.candidate)
    changes = [[c for c, _ in itertools.groupby(order)] for order in orders.values()]
    repeated = any(len(order) > len(set(order)) > 1 for order in orders.values())
    if repeated and all(len(change) == len(set(change)) for change in changes):
        notes.append(
            "runs of one candidate were made one after the other, not interleaved (as the order "
            "of the rows says): a drift of the machine looks like a difference"
        )
    return notes
