"""Tune the settings of schedulers: search block by block, then measure the best ones again.

A tune folder has `tune.json` (the question, and the probed space), `trials.jsonl` (one line per
block before it is run) and `search/` (a result folder that grows with the search). `verdict/` is
the final comparison of the best settings with the kernel's default. A search is resumed by
replaying the results of its blocks. The search selects what it measures, so its blocks never
enter the verdict.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlab.app.admit import admit, admit_candidates, require_unchanged
from schedlab.app.measure import measure
from schedlab.app.tune.space import probe
from schedlab.design.plan import cell_seed
from schedlab.errors import Interrupted, SpecError
from schedlab.host.safety import origin
from schedlab.nouns import (
    AA_SUFFIX,
    Candidate,
    Cell,
    Experiment,
    Plan,
    Run,
    Stopping,
    from_json,
    to_json,
)
from schedlab.nouns.reading import read_text
from schedlab.result import Result
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.executor import Executor, Rules
from schedlab.run.io.io import IoSession
from schedlab.store.files import make_directory, write_atomic
from schedlab.store.folder import EXPERIMENT, Folder
from schedlab.store.lines import LineFile
from schedlab.tune.goal import Constraint, observed
from schedlab.tune.race import Interval
from schedlab.tune.search import Contender, Match, Search, require_optuna
from schedlab.tune.space import Settings, Space

QUESTION, TRIALS, SEARCH, VERDICT = "tune.json", "trials.jsonl", "search", "verdict"
RESTORE = "restore the file from a copy"
# What a result folder may hold before its first run.
HALF = {"raw", "host.json", "plan.jsonl", "runs.jsonl", "experiment.toml", "reproduce.sh"}
# The search ends at the first share of the time, or early enough for so many blocks of the fresh
# comparison, but not before the second share.
SEARCH_SHARE, SEARCH_LEAST = 2 / 3, 1 / 3
BLOCKS_LEAST, BLOCKS_MOST = 6, 20


@dataclass(frozen=True)
class TuningRequest:
    """Device, settings and goal of a search; `space` is the table's until the device was probed."""

    space: Space
    constraints: tuple[Constraint, ...] = ()
    budget_s: float = 1800.0
    seed: int = 1
    margin: float = 0.02
    is_probed: bool = False
    schema: int = 1


@dataclass(frozen=True)
class State:
    """Where a search is after a block; intervals are of log ratios to the default."""

    block: int
    trial: int
    incumbent: str
    incumbent_interval: Interval | None
    challenger: str
    challenger_interval: Interval | None
    left_s: float


@dataclass(frozen=True)
class Watcher:
    """Callbacks: `watch` after every block of the search, `observer` as everywhere."""

    watch: Callable[[State], None] = lambda state: None
    observer: measure.Observer = measure.SILENT


@dataclass
class Tuning:
    """One tune folder: the question, the blocks so far, and the search that has seen them."""

    path: Path
    base: Experiment
    question: TuningRequest
    search: Search
    fresh: Experiment | None = None  # the final comparison, where it was begun
    asks: list[Match] = field(default_factory=list)
    spent_s: float = 0.0

    @property
    def lines(self) -> LineFile:
        """The blocks that were started."""
        return LineFile(self.path / TRIALS)

    def label(self, number: int) -> str:
        """The label of an entry in plan, runs and reports."""
        return entry_label(self.search.entries[number], self.base.baseline)

    def labels(self, ask: Match) -> tuple[str, str, str]:
        """Challenger, incumbent and its A/A arm."""
        incumbent = self.label(ask.incumbent)
        return self.label(ask.challenger), incumbent, incumbent + AA_SUFFIX

    def candidates(self, asks: Sequence[Match]) -> tuple[Candidate, ...]:
        """All candidates of these blocks, the default first."""
        by_label = {self.base.baseline: self.base.candidates[0].settings}
        for ask in asks:
            challenger, incumbent, again = self.labels(ask)
            by_label[challenger] = ask.settings
            by_label[incumbent] = self.search.entries[ask.incumbent].settings
            if ask.has_aa:
                by_label[again] = by_label[incumbent]
        return tuple(Candidate(label, settings) for label, settings in by_label.items())

    def cells(self, ask: Match) -> list[Cell]:
        """The runs of a block: workloads, and the arms on each, in random order."""
        rng = random.Random(f"{self.question.seed}/{ask.block}")
        arms = list(self.labels(ask)[: 3 if ask.has_aa else 2])
        works = [w.label for w in self.base.workloads]
        order = [(w, a) for w in rng.sample(works, len(works)) for a in rng.sample(arms, len(arms))]
        return [
            Cell(ask.block, position, work, arm, cell_seed(self.question.seed, ask.block, work))
            for position, (work, arm) in enumerate(order)
        ]


def entry_label(entry: Contender, default: str) -> str:
    """The scheduler, and a number where tunables are set."""
    if entry.number == 0:
        return default
    scheduler = str(entry.settings["scheduler"])
    plain = len(entry.settings) == 1
    return scheduler if plain else f"{scheduler} #{entry.number}"


def start(
    base: Experiment, question: TuningRequest, out: Path, permission: Permission
) -> tuple[Tuning, Admitted]:
    """A new tune folder; SpecError or HostError before anything is changed."""
    require_optuna()
    admitted = admit(base, permission)
    make_directory(out)
    names = {path.name for path in out.iterdir() if not path.name.startswith(f".{QUESTION}.")}
    if names - {SEARCH}:
        raise SpecError(f"{out}: is not empty", f"name another folder, or --resume {out}")
    _create(admitted, out / SEARCH)
    # It comes last: a folder that has it can be resumed.
    _write_question(out, question)
    return _tuning(out, admitted.experiment, question), admitted


def _create(admitted: Admitted, path: Path) -> None:
    """A result folder without runs, also where a kill left half of one."""
    runs = path / "runs.jsonl"
    if path.is_dir() and not (runs.exists() and runs.stat().st_size):
        names = {each.name for each in path.iterdir() if not each.name.startswith(".")}
        if names <= HALF:
            shutil.rmtree(path)
    measure.create(admitted, path)


def load(path: Path, permission: Permission) -> tuple[Tuning, Admitted]:
    """An existing tune folder; its search has all complete blocks."""
    require_optuna()
    if not (path / QUESTION).is_file():
        raise SpecError(f"{path}: is not a tune folder (no {QUESTION})", "name what `tune` printed")
    question, ours = _question_in(path / QUESTION)
    origin.check(path, ours, permission.trust)
    folder = Folder.open(path / SEARCH)
    measure.check_resumable(folder, measure.SILENT)
    grown, trusted = measure.trusted_experiment(folder, permission)
    base = replace(grown, candidates=grown.candidates[:1])
    tuning = _tuning(path, base, question)
    if (path / VERDICT / EXPERIMENT).is_file():
        tuning.fresh, _ = measure.trusted_experiment(Folder(path / VERDICT), permission)
    runs = folder.runs()
    tuning.lines.repair()
    for place, record in tuning.lines.places():
        try:
            spent_s = float(record.pop("spent_s"))
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"{place}: has no time in 'spent_s'", RESTORE) from error
        ask = from_json(Match, record, place)
        _check_searched(tuning, ask, place)
        elapsed = [run.elapsed_s for run in runs if run.block == ask.block]
        tuning.spent_s = spent_s + sum(elapsed)
        _tell(tuning, ask, runs, is_complete=_is_complete(tuning, ask, runs))
    return tuning, require_unchanged(admit(base, trusted))


def _check_searched(tuning: Tuning, ask: Match, place: str) -> None:
    """SpecError for a setting that the search cannot have tried."""
    tunables = (each for of in tuning.question.space.schedulers for each in of.tunables)
    known = {*tuning.base.candidates[0].settings, *(each.name for each in tunables)}
    for name in ask.settings.keys() - known:
        raise SpecError(f"{place}: {name!r:.80} is not in the space of the search", RESTORE)


def _question_in(path: Path) -> tuple[TuningRequest, bool]:
    """The question, and whether this user wrote it here."""
    try:
        data: Any = json.loads(read_text(path, RESTORE))
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path}: is not JSON: {error}", RESTORE) from error
    plain, ours = origin.unsealed(data) if isinstance(data, dict) else (data, False)
    return from_json(TuningRequest, plain, str(path)), ours


def _tuning(path: Path, base: Experiment, question: TuningRequest) -> Tuning:
    default: Settings = dict(base.candidates[0].settings)
    return Tuning(
        path, base, question, Search(question.space, default, question.seed, question.margin)
    )


def _write_question(path: Path, question: TuningRequest) -> None:
    write_atomic(path / QUESTION, json.dumps(origin.sealed(to_json(question)), indent=1) + "\n")


def _is_complete(tuning: Tuning, ask: Match, runs: Sequence[Any]) -> bool:
    """Whether all cells of a block are over and in one session: a kill leaves others."""
    tuning.search.enter(ask)
    wanted = {cell.key for cell in tuning.cells(ask)}
    mine = [run for run in runs if run.block == ask.block]
    ended = {run.key for run in mine if run.status == "ok" or run.attempt >= 3}
    return wanted <= ended and len({run.session for run in mine}) == 1


def _tell(tuning: Tuning, ask: Match, runs: Sequence[Any], is_complete: bool) -> None:
    """Add a block to the search; one without a value only uses up its number."""
    seen = None
    if is_complete:
        constraints = tuning.question.constraints
        seen = observed(ask, tuning.labels(ask), tuning.base, constraints, runs)
    if seen is None:
        tuning.search.skip(ask)
        return
    tuning.asks.append(ask)
    tuning.search.tell(ask, seen)


def run(tuning: Tuning, admitted: Admitted, watcher: Watcher) -> Path:
    """Search, then measure the best again; the folder of the verdict. Resumes where it stopped.

    Interrupted after Ctrl-C, everything restored.
    """
    try:
        if tuning.fresh is None:
            if not _is_searched(tuning, Folder.open(tuning.path / SEARCH).runs()):
                _search(tuning, admitted, watcher)
            tuning.fresh = _begin_verdict(tuning, admitted)
        _finish_verdict(tuning, admitted, watcher)
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(
            "interrupted; all settings are restored, and all finished runs are kept",
            f"schedlab tune --resume {tuning.path}",
        ) from error
    return tuning.path / VERDICT


def _is_searched(tuning: Tuning, runs: Sequence[Run]) -> bool:
    """Whether the search is over, or the rest of the time is for the fresh comparison."""
    question = tuning.question
    left_s = question.budget_s - BLOCKS_LEAST * _verdict_block_s(tuning, runs, 1)
    ends_s = min(question.budget_s * SEARCH_SHARE, max(question.budget_s * SEARCH_LEAST, left_s))
    if not tuning.asks:  # without a block there is nothing to compare
        ends_s = question.budget_s
    return tuning.search.is_over or tuning.spent_s >= ends_s


def _verdict_block_s(tuning: Tuning, runs: Sequence[Run], finalists: int) -> float:
    """Time of a block of the fresh comparison, repeated runs included; the default runs twice.

    By the median of the runs: the time of a bad setting does not predict that of the best ones.
    """
    if not runs:
        return 0.0
    finished = sum(run.status == "ok" for run in runs)
    cell_s = statistics.median(run.elapsed_s for run in runs) * len(runs) / max(1, finished)
    return cell_s * (finalists + 2) * len(tuning.base.workloads)


def _search(tuning: Tuning, admitted: Admitted, watcher: Watcher) -> None:
    folder = Folder.open(tuning.path / SEARCH)
    began, before_s = time.monotonic(), tuning.spent_s
    with measure.opened(admitted, watcher.observer) as session:
        assert isinstance(session, IoSession)
        if not tuning.question.is_probed:
            space, notes = probe(session, tuning.question.space)
            for note in notes:
                watcher.observer.report(f"note: {note}")
            tuning.question = replace(tuning.question, space=space, is_probed=True)
            _write_question(tuning.path, tuning.question)
            tuning.search = _tuning(tuning.path, tuning.base, tuning.question).search
        name = measure.session_id()
        while not _is_searched(tuning, folder.runs()) and (ask := tuning.search.ask()):
            tuning.lines.append({**to_json(ask), "spent_s": tuning.spent_s})
            asks = [*tuning.asks, ask]
            grown = replace(tuning.base, candidates=tuning.candidates(asks))
            folder.write_experiment(grown, origin.seal_of)
            folder.write_plan(Plan(tuple(cell for each in asks for cell in tuning.cells(each))))
            session.admitted = admit_candidates(admitted, tuning.candidates([ask]))
            block = replace(session.admitted, experiment=grown)
            Executor(block, folder, Rules(), name).run(session, lambda progress: None)
            tuning.spent_s = before_s + time.monotonic() - began
            _tell(tuning, ask, folder.runs(), is_complete=True)
            watcher.watch(_state(tuning, ask))


def _state(tuning: Tuning, ask: Match) -> State:
    search = tuning.search
    return State(
        block=ask.block + 1,
        trial=ask.challenger,
        incumbent=tuning.label(search.incumbent),
        incumbent_interval=search.interval_of(search.incumbent),
        challenger=tuning.label(ask.challenger),
        challenger_interval=search.interval_of(ask.challenger),
        left_s=max(0.0, tuning.question.budget_s - tuning.spent_s),
    )


def _begin_verdict(tuning: Tuning, admitted: Admitted) -> Experiment:
    """The final comparison, with its own seed, in its folder."""
    entries = tuning.search.finalists()
    if not entries:
        raise SpecError(
            "no setting met the constraints within the time",
            "use a longer --budget, or a looser --subject-to",
        )
    runs = Folder.open(tuning.path / SEARCH).runs()
    left_s = tuning.question.budget_s - tuning.spent_s
    while len(entries) > 1 and BLOCKS_LEAST * _verdict_block_s(tuning, runs, len(entries)) > left_s:
        entries.pop()
    block_s = _verdict_block_s(tuning, runs, len(entries))
    blocks = min(BLOCKS_MOST, max(BLOCKS_LEAST, int(left_s / block_s) if block_s else 0))
    named = [(tuning.label(entry.number), entry.settings) for entry in entries]
    notes = [f"{label} is {setting_text(s)}" for label, s in named if len(s) > 1]
    experiment = replace(
        tuning.base,
        title=tuning.base.title.replace("Tuning", "The best settings found by tuning", 1),
        candidates=(
            *tuning.base.candidates[:1],
            *(Candidate(label, settings) for label, settings in named),
        ),
        seed=(tuning.question.seed + 1) % 2**32,
        stopping=Stopping(blocks=blocks),
        aa_arm=True,
        notes=(*tuning.base.notes, *notes),
    )
    _create(admit(experiment, admitted.permission), tuning.path / VERDICT)
    return experiment


def _finish_verdict(tuning: Tuning, admitted: Admitted, watcher: Watcher) -> None:
    folder = Folder.open(tuning.path / VERDICT)
    measure.check_resumable(folder, watcher.observer)
    assert tuning.fresh is not None
    fresh = require_unchanged(admit(tuning.fresh, admitted.permission))
    measure.measure(fresh, folder, resumed=True, observer=watcher.observer)


def setting_text(settings: Mapping[str, str | int | float]) -> str:
    """`bfq:low_latency=0,slice_idle=0`, as `apply` takes it."""
    scheduler = str(settings["scheduler"])
    tunables = ",".join(f"{k}={v}" for k, v in settings.items() if k != "scheduler")
    return f"{scheduler}:{tunables}" if tunables else scheduler


def verdict_of(tuning: Tuning) -> Result:
    """The fresh comparison."""
    return Result.load(tuning.path / VERDICT)
