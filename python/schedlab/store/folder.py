"""A result folder: the only place where an experiment lives.

    experiment.toml   the question, frozen before the first run; its last line is a checksum
    plan.jsonl        every cell in its order, written before the first run
    runs.jsonl        one fsynced line per attempt, append-only
    host.json         the whole environment
    raw/              histograms and other bulk, one file per run
    figures/          SVG that the report shows, drawn from raw/
    explanations.json where requests waited, in runs that are not scored
    reproduce.sh      how to measure it again

Everything else in it (verdict.json, report.html, …) can be rebuilt from these. A folder may come
from a stranger: names in it never lead outside, links in it are not followed. Damage to
experiment, plan or runs is an error with its place; damage to another file loses its contents,
and `record` reports it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab.errors import SpecError, cause_of
from schedlab.nouns import (
    Cell,
    Experiment,
    Explanation,
    Plan,
    Planning,
    RateSeries,
    Record,
    Run,
    from_json,
    to_json,
)
from schedlab.nouns.capture import BlockSeen
from schedlab.nouns.checked_line import decode, encode, seal, unseal
from schedlab.nouns.convert import NUMBER_MAX, convert
from schedlab.nouns.experiment import SCHEMA_VERSION
from schedlab.nouns.names import safe_name
from schedlab.nouns.printable import all_printable, printable
from schedlab.nouns.results import (
    FACTS,
    FACTS_OF_HOST,
    PROPERTIES,
    LatencySeries,
    Recording,
)
from schedlab.store.files import (
    make_beneath,
    make_directory,
    read_beneath,
    sync_directory,
    write_atomic,
)
from schedlab.store.lines import LineFile

Histogram = Sequence[Sequence[int]]
Histograms = dict[tuple[str, str], tuple[tuple[int, int, int], ...]]
EXPERIMENT, PLAN, PLANNING, RUNS, HOST, RAW, FIGURES = (
    "experiment.toml",
    "plan.jsonl",
    "planning.json",
    "runs.jsonl",
    "host.json",
    "raw",
    "figures",
)
EXPLANATIONS = "explanations.json"
# The last comment of EXPERIMENT but one: who wrote it (host/safety/origin.py).
SEALED = re.compile(r"(.*\n)# seal ([0-9a-f]+)\n", re.DOTALL)
SealOf = Callable[[str], str]
Explained = dict[tuple[str, str], tuple[Explanation, ...]]
# Every request of one of them, below RAW, and the processes of each group in it.
REQUESTS = re.compile(r"requests-\d{2,}\.trace")
TASKS = dict[str, tuple[int, ...]]
# What commands printed, below RAW.
OUTPUT = "output"
_FIGURES_MAX = 1000
_FIGURE_BYTES_MAX = 16 << 20

# A rate over time in a file of raw/: `series NAME`, rows (t_ms, completions, bytes, latency).
SERIES = "series "
BIN_S = 0.1
# Latencies over time in such a file: `latencies NAME`, rows (t_ms, low_ns, high_ns, count).
LATENCIES = "latencies "


@dataclass(frozen=True)
class Ends:
    """The last line of a plan."""

    ends: tuple[int, ...] | None = None


class Folder:
    """One result folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs = LineFile(path / RUNS, SCHEMA_VERSION)

    @classmethod
    def create(
        cls,
        path: Path,
        experiment: Experiment,
        plan: Plan,
        host: Mapping[str, Any],
        planning: Planning | None = None,
        seal_of: SealOf | None = None,
    ) -> Folder:
        """A new folder with everything that is fixed before the first run.

        `seal_of` seals what was allowed to run here. SpecError when the folder already holds
        something or cannot be made.
        """
        check_free(path)
        folder = cls(path)
        make_beneath(path, RAW)
        write_atomic(path / HOST, json.dumps(to_json(host), indent=1) + "\n")
        folder.write_plan(plan)
        if planning is not None:
            folder.write_planning(planning)
        write_atomic(path / RUNS, "")
        # The experiment comes last: a folder that has it is complete.
        folder.write_experiment(experiment, seal_of)
        sync_directory(path.parent)
        return folder

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
        """The experiment. SpecError when the file was changed or damaged."""
        return self.sealed_experiment()[0]

    def sealed_experiment(self) -> tuple[Experiment, str, str]:
        """The experiment, its text, and the seal of who wrote that, empty where there is none."""
        file = self.path / EXPERIMENT
        try:
            text, seal = unseal(self._read(EXPERIMENT)).decode(), ""
            if sealed := SEALED.fullmatch(text):
                text, seal = sealed.groups()
            experiment = from_json(Experiment, tomllib.loads(text), str(file))
            if not 0 < experiment.margin < 1:
                raise ValueError(f"margin = {experiment.margin}: not between 0 and 1")
            return experiment, text, seal
        except (ValueError, RecursionError) as error:
            raise SpecError(f"{file}: {error}", "restore the file from a copy") from error

    def write_experiment(self, experiment: Experiment, seal_of: SealOf | None = None) -> None:
        """Freeze the experiment, or replace it as a whole when it is extended."""
        import tomli_w

        text = tomli_w.dumps(without_none(to_json(experiment)))
        if seal_of and (own := seal_of(text)):
            text += f"# seal {own}\n"
        write_atomic(self.path / EXPERIMENT, seal(text))

    @property
    def plan(self) -> Plan:
        """Every cell in its order. SpecError when a line is damaged or missing."""
        file = LineFile(self.path / PLAN, SCHEMA_VERSION)
        records = list(file.places())
        last = records[-1][1] if records else {}
        if last.get("cells") != len(records) - 1 or not set(last) <= {"cells", "ends"}:
            raise SpecError(f"{file.path}: cells are missing", "restore the file from a copy")
        ends = from_json(Ends, {"ends": last.get("ends")}, records[-1][0]).ends
        return Plan(tuple(from_json(Cell, record, at) for at, record in records[:-1]), ends)

    def write_plan(self, plan: Plan) -> None:
        """Write the plan, or replace it as a whole; its last line has the number of cells, and
        the numbers of blocks that are announced.
        """
        ends = {} if plan.ends is None else {"ends": list(plan.ends)}
        records = [*map(to_json, plan.cells), {"cells": len(plan.cells), **ends}]
        lines = [encode({"schema": SCHEMA_VERSION, **record}) + "\n" for record in records]
        write_atomic(self.path / PLAN, "".join(lines))

    @property
    def planning(self) -> Planning | None:
        """The planning after the first block; None before."""
        try:
            data = decode(self._read(PLANNING).removesuffix(b"\n"))
            for name in ("mdd", "first_blocks"):  # Of folders that are older than the answer.
                data.pop(name, None)
            return from_json(Planning, data, str(self.path / PLANNING))
        except FileNotFoundError:
            return None
        except ValueError as error:
            hint = "restore the file from a copy"
            raise SpecError(f"{self.path / PLANNING}: {error}", hint) from error

    def write_planning(self, planning: Planning) -> None:
        """Freeze the planning, or replace it as a whole."""
        write_atomic(self.path / PLANNING, encode(to_json(planning)) + "\n")

    @property
    def host(self) -> dict[str, Any]:
        """The environment as it was recorded; empty when the file is missing or damaged."""
        return self._host()[0]

    def _host(self) -> tuple[dict[str, object], list[str]]:
        try:
            data = convert(FACTS, all_printable(json.loads(self._read(HOST))), HOST)
        except FileNotFoundError:
            return {}, []
        except (OSError, ValueError, SpecError, RecursionError) as error:
            return {}, [f"{HOST} is damaged, so the environment is not known: {cause_of(error)}"]
        notices = []
        for name, facts in data.get("hosts", {}).items():
            try:
                data["hosts"][name] = convert(FACTS_OF_HOST, facts, f"{HOST}.hosts.{name}")
            except SpecError as error:
                data["hosts"][name] = {}
                notices.append(f"the environment of {name} is not known: {error}")
        return data, notices

    def runs(self) -> tuple[Run, ...]:
        """All attempts in order of time; a last line that a kill cut short is omitted.

        SpecError naming file and line when any other line is damaged.
        """
        if not (self.path / RUNS).exists():
            raise SpecError(f"{self.path / RUNS}: is missing", "restore the file from a copy")
        # What programs printed may be in a run: it is shown, never obeyed.
        return tuple(_run(all_printable(record), at) for at, record in self._runs.places())

    def append(
        self,
        run: Run,
        histograms: Mapping[str, Histogram] | None = None,
        *,
        is_repeatable: bool = False,
    ) -> None:
        """Store one attempt durably: its bulk first, then its line. HostError with the cause.

        The bulk of one that `is_repeatable` may be lost when the machine crashes.
        """
        self._runs.append(to_json(self.with_bulk(run, histograms, is_synced=not is_repeatable)))

    def with_bulk(
        self, run: Run, histograms: Mapping[str, Histogram] | None, *, is_synced: bool = True
    ) -> Run:
        """The run that names its bulk, which is stored below `raw/`."""
        if not histograms:
            return run
        name = f"{run.block:04d}-{run.position:04d}-{run.attempt}.json"
        text = encode({key: list(rows) for key, rows in histograms.items()})
        write_atomic(self.path / RAW / name, text + "\n", within=self.path, is_synced=is_synced)
        return dataclasses.replace(run, raw={**run.raw, **dict.fromkeys(histograms, name)})

    def raw_of(self, run: Run) -> dict[str, Histogram]:
        """The stored bulk of one run, by name; without what is missing or no list of rows."""
        histograms: dict[str, Histogram] = {}
        for file in dict.fromkeys(run.raw.values()):
            try:
                data = decode(self._read(f"{RAW}/{file}").removesuffix(b"\n"))
            except (OSError, ValueError, SpecError, RecursionError):
                continue
            here = {name: rows for name, rows in data.items() if run.raw.get(name) == file}
            histograms |= {name: rows for name, rows in here.items() if isinstance(rows, list)}
        return histograms

    def keep_output(self, run: Run, output: Mapping[str, bytes]) -> None:
        """Store the output of a command in this attempt, by ending: below `raw/output/`."""
        for ending, text in output.items():
            name = f"{run.block:04d}-{run.position:04d}-{run.attempt}.{safe_name(ending)}"
            make_beneath(self.path, f"{RAW}/{OUTPUT}")
            write_atomic(
                self.path / RAW / OUTPUT / name, text.decode(errors="replace"), within=self.path
            )

    def repair(self) -> bool:
        """Cut off a torn last line of `runs.jsonl`; whether there was one."""
        return self._runs.repair()

    def record(self) -> Record:
        """The whole folder in memory, with latency histograms merged per workload and candidate."""
        experiment, plan, runs = self.experiment, self.plan, self.runs()
        labels = {workload.label for workload in experiment.workloads}
        for number, run in enumerate(runs, 1):
            if run.workload not in labels:
                place = f"{self.path / RUNS}, line {number}"
                message = f"{place}: workload {run.workload!r:.80} is not in {EXPERIMENT}"
                raise SpecError(message, "restore the file from a copy")
        host, host_notices = self._host()
        merged, raw_notices = self._merged(runs)
        figures, figure_notices = self._figures()
        explained, explained_notices = self._explanations()
        notices = [*host_notices, *raw_notices, *figure_notices, *explained_notices]
        return Record(
            experiment,
            plan,
            runs,
            host,
            merged,
            tuple(map(printable, notices)),
            figures,
            series=self._series(runs),
            latencies=self._latencies(experiment, runs),
            explanations=explained,
            recordings=self._recordings() if explained else {},
            planning=self.planning,
        )

    def _merged(self, runs: Sequence[Run]) -> tuple[Histograms, list[str]]:
        """Histogram named `latency_ns` of every analysed run, added up.

        A file that is missing or damaged is omitted, with a notice.
        """
        merged: dict[tuple[str, str], Counter[tuple[int, int]]] = {}
        notices = []
        for run in runs:
            name = run.raw.get("latency_ns")
            if run.status != "ok" or name is None:
                continue
            try:
                rows = _rows(decode(self._read(f"{RAW}/{name}").removesuffix(b"\n")))
            except (OSError, ValueError, SpecError, RecursionError) as error:
                notices.append(f"the histogram {name!r} is left out: {cause_of(error)}")
                continue
            merged.setdefault((run.workload, run.candidate), Counter()).update(rows)
        return {
            key: tuple((low, high, n) for (low, high), n in sorted(counts.items()))
            for key, counts in merged.items()
        }, notices

    def _series(self, runs: Sequence[Run]) -> dict[tuple[str, str], tuple[RateSeries, ...]]:
        """Rates over time of the analysed runs; a file that cannot be read costs only itself."""
        series: dict[tuple[str, str], list[RateSeries]] = {}
        for run in runs:
            names = [name for name in run.raw if name.startswith(SERIES)]
            if run.status != "ok" or not names:
                continue
            try:
                data = decode(self._read(f"{RAW}/{run.raw[names[0]]}").removesuffix(b"\n"))
                mine = [_rates(run, name, data[name]) for name in names]
            except (OSError, ValueError, TypeError, KeyError, SpecError, RecursionError):
                continue  # already reported for the histogram in the same file
            series.setdefault((run.workload, run.candidate), []).extend(mine)
        return {key: tuple(each) for key, each in series.items()}

    def _latencies(
        self, experiment: Experiment, runs: Sequence[Run]
    ) -> dict[tuple[str, str], tuple[LatencySeries, ...]]:
        """Latencies over time in one block of each workload: of those that have them, the one in
        which the baseline was its median. A file that cannot be read costs only itself.
        """
        found: dict[tuple[str, str], tuple[LatencySeries, ...]] = {}
        for work in experiment.workloads:
            mine = [run for run in runs if run.workload == work.label and run.status == "ok"
                    and any(name.startswith(LATENCIES) for name in run.raw)]  # fmt: skip
            base = [(run.metrics.get(work.metric, 0.0), run.block) for run in mine
                    if run.candidate == experiment.baseline]  # fmt: skip
            block = sorted(base)[len(base) // 2][1] if base else None
            for run in mine:
                names = [name for name in run.raw if name.startswith(LATENCIES)]
                if run.block != block:
                    continue
                try:
                    data = decode(self._read(f"{RAW}/{run.raw[names[0]]}").removesuffix(b"\n"))
                    own = tuple(_latency_series(run, name, data[name]) for name in names)
                except (OSError, ValueError, TypeError, KeyError, SpecError, RecursionError):
                    continue  # already reported for the histogram in the same file
                found[run.workload, run.candidate] = own
        return found

    def write_capture(self, number: int, captured: BlockSeen) -> str:
        """Store a capture of the block layer; the name of its file."""
        name = f"{RAW}/capture-{number:02d}.json"
        write_atomic(self.path / name, encode(dict(captured)) + "\n", within=self.path)
        return name

    def recording_path(self, number: int) -> Path:
        """Where every request of an explanatory run goes."""
        make_beneath(self.path, RAW)
        return self.path / RAW / f"requests-{number:02d}.trace"

    def _recordings(self) -> dict[tuple[str, str], Recording]:
        """Every request of the explanatory runs, where they were recorded; a link counts as none,
        and a damaged file is reported with its explanation.
        """
        try:
            rows = json.loads(self._read(EXPLANATIONS))["explanations"]
            found = {}
            for row in rows:
                name = str(row.get("requests", ""))
                path = self.path / RAW / name
                is_file = all(not each.is_symlink() for each in (path, path.parent))
                if REQUESTS.fullmatch(name) and is_file and path.is_file():
                    groups = convert(TASKS, row.get("tasks", {}), EXPLANATIONS)
                    tasks = {number: group for group, ids in groups.items() for number in ids}
                    key = (str(row["workload"]), str(row["candidate"]))
                    found[key] = Recording(path, int(row.get("zero_ns", 0)), tasks)
            return found
        except (OSError, ValueError, TypeError, KeyError, SpecError, RecursionError):
            return {}

    def write_explanations(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store explanations of (workload, candidate), or replace them as a whole.

        Each row has `workload`, `candidate`, `capture` (a file below raw/) and `groups`, one
        `Explanation` for each actor.
        """
        data = {"schema": SCHEMA_VERSION, "explanations": [to_json(dict(row)) for row in rows]}
        write_atomic(self.path / EXPLANATIONS, json.dumps(data, indent=1) + "\n", within=self.path)

    def _explanations(self) -> tuple[Explained, list[str]]:
        """Where requests waited, by workload and candidate; a damaged file costs only itself."""
        try:
            data = json.loads(self._read(EXPLANATIONS))
            return {
                (str(row["workload"]), str(row["candidate"])): tuple(
                    from_json(Explanation, group, EXPLANATIONS) for group in row["groups"]
                )
                for row in data["explanations"]
            }, []
        except FileNotFoundError:
            return {}, []
        except (OSError, ValueError, TypeError, KeyError, SpecError, RecursionError) as error:
            return {}, [f"{EXPLANATIONS} is damaged and left out: {cause_of(error)}"]

    def _figures(self) -> tuple[tuple[str, ...], list[str]]:
        """The SVG files of the folder, by name; unreadable ones are omitted with a notice."""
        figures, notices = [], []
        for path in sorted((self.path / FIGURES).glob("*.svg"))[:_FIGURES_MAX]:
            try:
                data = read_beneath(self.path, f"{FIGURES}/{path.name}", _FIGURE_BYTES_MAX)
                figures.append(data.decode())
            except (OSError, ValueError, SpecError) as error:
                notices.append(f"the figure {path.name!r} is left out: {cause_of(error)}")
        return tuple(figures), notices

    def _read(self, name: str) -> bytes:
        return read_beneath(self.path, name)


def _run(record: Mapping[str, Any], place: str) -> Run:
    run = from_json(Run, record, place)
    properties = convert(PROPERTIES, run.properties, f"{place}.properties")
    return dataclasses.replace(run, properties=properties)


def _rows(histograms: Mapping[str, Any]) -> dict[tuple[int, int], int]:
    """Rows low, high, count of the stored latencies; ValueError when they are none."""
    rows = histograms.get("latency_ns")
    if not isinstance(rows, list):
        raise ValueError("it holds no latency_ns")
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        whole = isinstance(row, list) and len(row) == 3 and all(type(n) is int for n in row)
        if not whole or not 0 <= row[2] < 1 << 63 or not 0 <= row[0] <= row[1] < 1 << 64:
            raise ValueError(f"{str(row)[:40]} is not a row low, high, count")
        counts[row[0], row[1]] += row[2]
    return counts


def check_free(path: Path) -> None:
    """SpecError when a folder already holds something or cannot be made; it is made."""
    try:
        make_directory(path)
        occupied = any(path.iterdir())
    except OSError as error:
        raise SpecError(
            f"{path}: cannot write a result folder: {error.strerror}",
            "name a writable folder with --out DIR",
        ) from error
    if occupied:
        raise SpecError(
            f"{path}: is not empty",
            f"name another folder with --out, or: schedlab run --resume {path}",
        )


def without_none(value: Any) -> Any:
    """TOML has no null: keys without a value are omitted."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_none(v) for v in value]
    return value


def _rates(run: Run, name: str, rows: Any) -> RateSeries:
    """Completions per second of one group, in bins of 100 ms; ValueError when they are none."""
    whole = isinstance(rows, list) and all(
        isinstance(row, list) and len(row) >= 2 and all(_is_number(n) for n in row[:2])
        for row in rows
    )
    if not whole:
        raise ValueError(f"{name} is not a list of rows")
    return RateSeries(
        block=run.block,
        group=name.removeprefix(SERIES),
        unit="1/s",
        bin_s=BIN_S,
        values=tuple(float(row[1]) / BIN_S for row in rows),
        measured_from_s=run.number("measured_from_s", 0.0),
    )


def _latency_series(run: Run, name: str, rows: Any) -> LatencySeries:
    """Latencies of one group over time; ValueError when they are none."""
    whole = isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == 4 and all(_is_number(n) and n >= 0 for n in row)
        for row in rows
    )
    if not whole:
        raise ValueError(f"{name} is not a list of rows")
    return LatencySeries(
        block=run.block,
        group=name.removeprefix(LATENCIES),
        rows=tuple((int(t), int(low), int(high), int(count)) for t, low, high, count in rows),
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= NUMBER_MAX
