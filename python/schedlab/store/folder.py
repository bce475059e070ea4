"""A result folder: the only place where an experiment lives.

    experiment.toml   what was asked, frozen before the first run
    plan.jsonl        every cell in its order, written before the first run
    runs.jsonl        one fsynced line per attempt, append-only
    host.json         the whole environment
    raw/              histograms and other bulk, one file per run
    figures/          SVG that the report shows, drawn from raw/
    reproduce.sh      how to measure it again

Everything else in it (verdict.json, report.html, …) can be rebuilt from these.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError
from schedlab.spec import Cell, Experiment, Plan, Record, Run, from_json, to_json
from schedlab.store.files import append_line, sync_directory, write_atomic

Histogram = Sequence[Sequence[int]]
EXPERIMENT, PLAN, RUNS, HOST, RAW, FIGURES = (
    "experiment.toml",
    "plan.jsonl",
    "runs.jsonl",
    "host.json",
    "raw",
    "figures",
)


class Folder:
    """One result folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls, path: Path, experiment: Experiment, plan: Plan, host: Mapping[str, Any]
    ) -> Folder:
        """A new folder with everything that is fixed before the first run.

        SpecError when the folder already holds something or cannot be made.
        """
        import tomli_w

        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise SpecError(
                    f"{path}: is not empty",
                    f"name another folder with --out, or go on with --resume {path}",
                )
            (path / RAW).mkdir()
            write_atomic(path / HOST, json.dumps(to_json(host), indent=1) + "\n")
            lines = "".join(json.dumps(to_json(cell)) + "\n" for cell in plan.cells)
            write_atomic(path / PLAN, lines)
            write_atomic(path / RUNS, "")
            # The experiment comes last: a folder that has it is complete.
            write_atomic(path / EXPERIMENT, tomli_w.dumps(_without_none(to_json(experiment))))
        except OSError as error:
            raise SpecError(
                f"{path}: cannot write a result folder: {error.strerror}",
                "name a writable folder with --out DIR",
            ) from error
        sync_directory(path)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """An existing folder; SpecError when it is none."""
        if not (path / EXPERIMENT).is_file():
            raise SpecError(
                f"{path}: is not a result folder (no {EXPERIMENT})",
                "name the folder that `schedlab compare` printed",
            )
        return cls(path)

    @property
    def experiment(self) -> Experiment:
        """What was asked."""
        file = self.path / EXPERIMENT
        try:
            return from_json(Experiment, tomllib.loads(file.read_text()), str(file))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SpecError(f"{file}: {error}", "restore the file from a copy") from error

    @property
    def plan(self) -> Plan:
        """Every cell in its order."""
        return Plan(tuple(from_json(Cell, data, at) for at, data in _lines(self.path / PLAN)))

    @property
    def host(self) -> dict[str, Any]:
        """The environment as it was recorded."""
        file = self.path / HOST
        try:
            data = json.loads(file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise SpecError(f"{file}: {error}", "restore the file from a copy") from error
        return data if isinstance(data, dict) else {}

    def runs(self) -> tuple[Run, ...]:
        """All attempts in the order of running; a last line that a kill tore off is left out.

        SpecError naming file and line when any other line is damaged.
        """
        return tuple(from_json(Run, data, at) for at, data in _lines(self.path / RUNS, torn=True))

    def append(self, run: Run, histograms: Mapping[str, Histogram] | None = None) -> None:
        """Store one attempt durably: its bulk first, then its line."""
        if histograms:
            name = f"{run.block:04d}-{run.position:04d}-{run.attempt}.json"
            write_atomic(
                self.path / RAW / name, json.dumps({k: list(v) for k, v in histograms.items()})
            )
            run = _with_raw(run, dict.fromkeys(histograms, name))
        append_line(self.path / RUNS, json.dumps(to_json(run)))

    def mend(self) -> bool:
        """Cut off a torn last line, so that appending goes on cleanly; whether there was one."""
        file = self.path / RUNS
        content = file.read_bytes()
        if not content or content.endswith(b"\n"):
            return False
        with file.open("r+b") as handle:
            handle.truncate(content.rfind(b"\n") + 1)
            os.fsync(handle.fileno())
        return True

    def record(self) -> Record:
        """The whole folder in memory, with latency histograms merged per workload and candidate."""
        experiment, plan, runs = self.experiment, self.plan, self.runs()
        missing = len({c.key for c in plan.cells} - {r.key for r in runs if r.status == "ok"})
        notices = [f"{missing} of {len(plan.cells)} planned runs are missing"] if missing else []
        figures = [p.read_text("utf-8") for p in sorted((self.path / FIGURES).glob("*.svg"))]
        return Record(
            experiment,
            plan,
            runs,
            self.host,
            self._merged(runs),
            tuple(notices),
            tuple(figures),
        )

    def _merged(
        self, runs: Sequence[Run]
    ) -> dict[tuple[str, str], tuple[tuple[int, int, int], ...]]:
        """Histogram named `latency_ns` (or the only one) of every analysed run, added up."""
        merged: dict[tuple[str, str], Counter[tuple[int, int]]] = {}
        for run in runs:
            if run.status != "ok" or not run.raw:
                continue
            name = "latency_ns" if "latency_ns" in run.raw else next(iter(run.raw))
            file = self.path / RAW / run.raw[name]
            try:
                rows = json.loads(file.read_text())[name]
            except (OSError, ValueError, KeyError) as error:
                raise SpecError(f"{file}: {error}", "restore the file from a copy") from error
            counts = merged.setdefault((run.workload, run.candidate), Counter())
            for low, high, count in rows:
                counts[low, high] += count
        return {
            key: tuple((low, high, n) for (low, high), n in sorted(counts.items()))
            for key, counts in merged.items()
        }


def _with_raw(run: Run, raw: Mapping[str, str]) -> Run:
    import dataclasses

    return dataclasses.replace(run, raw={**run.raw, **raw})


def _without_none(value: Any) -> Any:
    """TOML has no null: keys without a value are left out."""
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_none(v) for v in value]
    return value


def _lines(file: Path, torn: bool = False) -> Iterator[tuple[str, Any]]:
    """(place, value) of every line of a JSON-lines file; `torn` forgives an unfinished last one."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}", "restore the file from a copy") from error
    tail = lines.pop() if lines else b""
    if tail and not torn:
        lines.append(tail)
    for number, line in enumerate(lines, 1):
        place = f"{file}, line {number}"
        try:
            yield place, json.loads(line)
        except ValueError as error:
            raise SpecError(
                f"{place}: not JSON: {line[:60]!r}",
                f"delete that line (sed -i {number}d {file}); --resume measures its cell again",
            ) from error
