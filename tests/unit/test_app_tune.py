"""A tuning run without a device: its blocks, when it ends, its fresh comparison, its folder."""

from __future__ import annotations

import json
import shutil
import statistics
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from experiments import Clock

pytest.importorskip("optuna")

from schedlab.app.measure import measure
from schedlab.app.tune import tune
from schedlab.app.tune import view as tune_view
from schedlab.app.tune.tune import State, Tuning, TuningRequest, Watcher, entry_label, setting_text
from schedlab.design.plan import cell_seed
from schedlab.errors import Interrupted, SpecError
from schedlab.kinds import Outcome
from schedlab.nouns import Candidate, Experiment, Run, Target, Workload
from schedlab.run.admitted import Permission
from schedlab.run.io.io import IoSession
from schedlab.store.folder import Folder
from schedlab.tune.goal import Constraint
from schedlab.tune.race import Interval
from schedlab.tune.search import Contender, Match, Observation
from schedlab.tune.space import SchedulerSpace, Space, Tunable

# A tunable of the work itself needs no request queue.
WORKERS = "workload.workers"
SPACE = Space((SchedulerSpace("as-is", (Tunable(WORKERS, 1, 64, default=16),)),))


def base_of(directory, *labels):
    """Reads of a file under the setting that there is: needs neither root nor a device."""
    directory.mkdir(exist_ok=True)
    works = tuple(
        Workload(label, "file-test", "iops", {"test": "random-read", "seconds": 0.4},
                 secondary=("latency_ns_p99",))
        for label in labels or ("w",)
    )  # fmt: skip
    target = Target("directory", str(directory), 1 << 20)
    default = Candidate("as-is", {"scheduler": "as-is"})
    return Experiment("Tuning as-is: reads", "io", target, (default,), works, "as-is", 7,
                      aa_arm=False)  # fmt: skip


def tuning_of(tmp_path, *labels, **question):
    """A tuning run whose search knows its space, and no block yet."""
    asked = TuningRequest(SPACE, **{"seed": 5, **question})
    return tune._tuning(tmp_path / "tuning", base_of(tmp_path / "files", *labels), asked)


def ask_of(block, challenger, incumbent=0, **changes):
    settings = {"scheduler": "as-is", WORKERS: 10 + challenger}
    usual = Match(block, challenger, incumbent, settings, has_aa=False)
    return replace(usual, **changes)


def run_of(block, workload, candidate, elapsed_s=2.0, **changes):
    usual = Run(block, 0, workload, candidate, 1, 1, "ok", "", elapsed_s, {"iops": 100.0},
                session="s")  # fmt: skip
    return replace(usual, **changes)


def test_names_of_settings():
    plain = {"scheduler": "bfq"}
    tuned = {"scheduler": "bfq", "low_latency": 0, "slice_idle": 2}
    assert entry_label(Contender(0, tuned), "none") == "none"
    assert entry_label(Contender(1, plain), "none") == "bfq"
    assert entry_label(Contender(3, tuned), "none") == "bfq #3"
    assert setting_text(tuned) == "bfq:low_latency=0,slice_idle=2"
    assert setting_text(plain) == "bfq"


def test_a_block_is_challenger_incumbent_and_sometimes_its_second_run(tmp_path):
    tuning = tuning_of(tmp_path, "v", "w", "x")
    first = ask_of(0, 1, has_aa=True)
    tuning.search.enter(first)
    assert tuning.labels(first) == ("as-is #1", "as-is", "as-is (A/A)")
    assert tuning.candidates([first]) == (
        Candidate("as-is", {"scheduler": "as-is"}),
        Candidate("as-is #1", {"scheduler": "as-is", WORKERS: 11}),
        Candidate("as-is (A/A)", {"scheduler": "as-is"}),
    )
    cells = tuning.cells(first)
    assert [cell.position for cell in cells] == list(range(9))
    assert {cell.block for cell in cells} == {0}
    works = [cell.workload for cell in cells]
    assert [works[n] for n in (0, 3, 6)] == list(dict.fromkeys(works))  # one after the other
    arms = {work: {c.candidate for c in cells if c.workload == work} for work in "vwx"}
    assert arms == {work: {"as-is", "as-is #1", "as-is (A/A)"} for work in "vwx"}
    assert all(cell.seed == cell_seed(5, 0, cell.workload) for cell in cells)
    second = ask_of(1, 1)
    assert len(tuning.cells(second)) == 6
    assert {cell.candidate for cell in tuning.cells(second)} == {"as-is", "as-is #1"}
    assert {cell.seed for cell in tuning.cells(second)} == {cell_seed(5, 1, w) for w in "vwx"}
    assert "as-is (A/A)" not in {c.label for c in tuning.candidates([second])}
    asked = [tuning.cells(ask_of(n, 1)) for n in range(9)]
    for key, least in (("workload", 4), ("candidate", 2)):
        orders = {tuple(dict.fromkeys(getattr(cell, key) for cell in cells)) for cells in asked}
        assert len(orders) >= least


def test_the_time_of_a_fresh_block_is_by_the_median_run(tmp_path):
    tuning = tuning_of(tmp_path, "v", "w")
    runs = [
        run_of(0, "w", "a", 3.0),
        run_of(0, "w", "b", 50.0),
        run_of(0, "v", "a", 2.0, status="discarded"),
        run_of(0, "v", "a", 3.0),
    ]
    assert tune._verdict_block_s(tuning, [], 3) == 0.0
    # 3 s, and four runs for three that count: 4 s a run, of three settings and twice the default.
    assert tune._verdict_block_s(tuning, runs, 3) == 40.0
    assert tune._verdict_block_s(tuning, runs, 1) == 24.0
    lost = [run_of(0, "w", "a", 3.0, status="discarded")] * 2
    assert tune._verdict_block_s(tuning, lost, 1) == 36.0


@pytest.mark.parametrize(
    ("elapsed_s", "ends_s"),
    [
        (0.5, 60.0),  # 9 s for the fresh comparison: two thirds of the time
        (2.0, 54.0),  # 6 · 3 · 2 = 36 s are left for it
        (5.0, 30.0),  # not all of them: a third of the time is for the search
    ],
)
def test_a_search_leaves_time_for_the_fresh_comparison(tmp_path, elapsed_s, ends_s):
    tuning = tuning_of(tmp_path, budget_s=90.0)
    runs = [run_of(0, "w", "a", elapsed_s)]
    tuning.asks.append(ask_of(0, 1))
    tuning.spent_s = ends_s - 0.01
    assert not tune._is_searched(tuning, runs)
    tuning.spent_s = ends_s
    assert tune._is_searched(tuning, runs)
    tuning.asks.clear()  # nothing to compare yet
    assert not tune._is_searched(tuning, runs)
    tuning.spent_s = 90.0
    assert tune._is_searched(tuning, runs)
    tuning.spent_s = 0.0
    tuning.search.exhausted = True
    assert tune._is_searched(tuning, runs)


def test_a_block_is_complete_when_all_its_cells_ended_in_one_session(tmp_path):
    tuning = tuning_of(tmp_path)
    ask = ask_of(2, 1)
    both = [run_of(2, "w", "as-is"), run_of(2, "w", "as-is #1")]
    other = run_of(1, "w", "as-is", session="other")

    def complete(*runs):
        return tune._is_complete(tuning, ask, runs)

    assert complete(*both, other)
    assert not complete(both[0], other)
    assert not complete(both[0], replace(both[1], session="t"))
    failed = replace(both[1], status="discarded")
    assert not complete(both[0], replace(failed, attempt=2))
    assert complete(both[0], replace(failed, attempt=3))
    assert not complete()


def test_a_block_without_a_value_only_uses_its_number(tmp_path):
    tuning = tuning_of(tmp_path)
    ask = ask_of(0, 1)
    tuning.search.enter(ask)
    tune._tell(tuning, ask, [run_of(0, "w", "as-is #1")], is_complete=True)
    assert (tuning.asks, tuning.search.blocks) == ([], 1)
    both = [run_of(1, "w", "as-is"), run_of(1, "w", "as-is #1", metrics={"iops": 200.0})]
    tune._tell(tuning, ask_of(1, 1), both, is_complete=False)
    assert (tuning.asks, tuning.search.blocks) == ([], 2)
    later = [replace(run, block=2) for run in both]
    tune._tell(tuning, ask_of(2, 1), later, is_complete=True)
    assert (tuning.asks, tuning.search.blocks) == ([ask_of(2, 1)], 3)
    assert tuning.search.entries[1].differences == [pytest.approx(0.693147)]


def test_where_a_search_is(tmp_path):
    tuning = tuning_of(tmp_path, budget_s=90.0)
    ask = ask_of(3, 1)
    tuning.search.tell(ask, Observation(difference=0.25))
    tuning.spent_s = 70.0
    state = tune._state(tuning, ask)
    assert (state.block, state.trial, state.left_s) == (4, 1, 20.0)
    assert (state.incumbent, state.incumbent_interval) == ("as-is", None)
    assert state.challenger == "as-is #1"
    assert state.challenger_interval is not None
    assert state.challenger_interval.mean == 0.25
    tuning.spent_s = 95.0
    assert tune._state(tuning, ask).left_s == 0.0


def test_a_line_about_the_search():
    state = State(4, 1, "none", None, "bfq #1", Interval(0.25, 0.1, 0.4, 0.0), 90.0)
    assert tune_view.state_line(state) == (
        "block 4: best none, trying bfq #1 +28% (+11% to +49%), 90 s left"
    )
    endless = replace(state, challenger_interval=Interval(-0.25, 0.0, float("inf"), 0.0))
    assert "trying bfq #1 -22%, 90 s" in tune_view.state_line(endless)


class Known(IoSession):
    """Stands in for a target whose reads are faster the more `workers` there are."""

    def __init__(self):
        self.opened = 0

    def measure(self, cell, workload, candidate):
        assert (workload.label, candidate.label) in self.admitted.kinds
        workers = float(candidate.settings.get(WORKERS, 16))
        value = 1000.0 + 10 * workers + cell.position + cell.block % 3
        return Outcome({"iops": value, "latency_ns_p99": 1e9 / value}, histograms={})


def stand_in(monkeypatch):
    """Everything is measured on the stand-in, and a look at the clock takes 0.75 s."""
    known = Known()

    @contextmanager
    def opened(admitted, observer, *of_simulations):
        known.admitted = admitted
        known.opened += 1
        yield known

    monkeypatch.setattr(measure, "opened", opened)
    monkeypatch.setattr(tune, "time", Clock(0.75, 1.0))
    monkeypatch.setattr(measure, "explain", lambda *_: None)
    return known


@pytest.fixture
def target(monkeypatch):
    return stand_in(monkeypatch)


def start(tmp_path, **question):
    asked = TuningRequest(SPACE, **{"seed": 5, "budget_s": 12.0, "is_probed": True, **question})
    return tune.start(base_of(tmp_path / "files"), asked, tmp_path / "t", Permission(trust=True))


@dataclass(frozen=True)
class Searched:
    """A search of 12 s that is over, and what was said meanwhile."""

    tuning: Tuning
    admitted: Any
    target: Known
    states: list[State]
    said: list[str]

    @property
    def watcher(self):
        return Watcher(self.states.append, measure.Observer(report=self.said.append))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        target = stand_in(monkeypatch)
        over = Searched(*start(tmp_path_factory.mktemp("search")), target, [], [])
        tune.run(over.tuning, over.admitted, over.watcher)
        yield over


def test_a_search_and_its_fresh_comparison(searched):
    tuning, states = searched.tuning, searched.states
    # 0.75 s are spent with every block, and two thirds of 12 s are for the search.
    assert tuning.spent_s == 8.25
    assert [state.block for state in states] == list(range(1, 12))
    assert [state.left_s for state in states][:2] == [11.25, 10.5]
    text = (tuning.path / "trials.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["spent_s"] for line in lines][:3] == [0.0, 0.75, 1.5]
    assert [line["has_aa"] for line in lines][:5] == [True, False, False, False, True]
    found = Folder.open(tuning.path / "search")
    assert {run.block for run in found.runs()} == set(range(11))
    assert len({run.session for run in found.runs()}) == 1
    assert len(found.plan.cells) == len(found.runs())
    assert len(found.experiment.candidates) == len(tuning.candidates(tuning.asks))
    fresh = Folder.open(tuning.path / "verdict").experiment
    assert (fresh.title, fresh.seed, fresh.aa_arm) == (
        "The best settings found by tuning as-is: reads", 6, True
    )  # fmt: skip
    assert fresh.baseline == fresh.candidates[0].label == "as-is"
    assert fresh.stopping.blocks == 20
    best = fresh.candidates[1]
    assert best.settings[WORKERS] == 64
    assert f"{best.label} is as-is:workload.workers=64" in fresh.notes
    assert len(fresh.notes) == sum(len(c.settings) > 1 for c in fresh.candidates[1:])
    assert tune_view.winner_of(tuning) == best.label
    assert searched.target.opened == 3  # The comparison lays its files out twice.
    # Nothing is left.
    assert tune.run(tuning, searched.admitted, searched.watcher) == tuning.path / "verdict"
    assert searched.target.opened == 3
    assert searched.said[-1].startswith("nothing left to measure")


def test_a_search_that_goes_on_has_spent_the_time_of_both(tmp_path, target):
    tuning, admitted = start(tmp_path)
    tuning.spent_s = 4.0
    tune._search(tuning, admitted, Watcher(lambda state: None, measure.Observer()))
    lines = map(json.loads, (tuning.path / "trials.jsonl").read_text().splitlines())
    assert [line["spent_s"] for line in lines][:3] == [4.0, 4.75, 5.5]


def test_only_a_folder_with_nothing_but_what_a_kill_left_is_begun_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tune.measure, "create", lambda admitted, path: None)
    for more, is_left in (("notes.txt", True), (".hidden", False)):
        path = tmp_path / more
        path.mkdir()
        for name in ("runs.jsonl", "host.json", more):
            (path / name).touch()
        tune._create(None, path)
        assert path.exists() is is_left


def test_what_was_searched_is_loaded(searched, monkeypatch):
    tuning = searched.tuning
    again, _ = tune.load(tuning.path, Permission(trust=True))
    assert (again.question, again.asks) == (tuning.question, tuning.asks)
    assert again.base == tuning.base
    assert [e.settings for e in again.search.entries] == [e.settings for e in tuning.search.entries]
    assert again.search.incumbent == tuning.search.incumbent
    runs = Folder.open(tuning.path / "search").runs()
    lasting = [replace(run, elapsed_s=1.0 + at % 7) for at, run in enumerate(runs)]
    elapsed = sum(run.elapsed_s for run in lasting if run.block == 10)
    monkeypatch.setattr(Folder, "runs", lambda folder: lasting)
    again, _ = tune.load(tuning.path, Permission(trust=True))
    assert again.spent_s == pytest.approx(7.5 + elapsed)


def test_the_page_of_a_search(searched, monkeypatch):
    tuning = searched.tuning
    monkeypatch.setattr(tuning.search, "importance", lambda scheduler: {scheduler: 0.75})
    shown = tune_view.view(tuning)
    best = tune_view.winner_of(tuning)
    assert shown.title == "Tuning as-is: reads"
    assert shown.basis == (
        f"11 blocks, {len(tuning.search.entries) - 1} settings in 8 s; then 20 blocks of the "
        "best ones and the default."
    )
    fresh = tune_view.verdict_of(tuning).record.experiment.candidates[1:]
    assert len(fresh) > 1 and shown.lines == [
        f"{each.label} is {setting_text(each.settings)}." for each in fresh
    ]  # fmt: skip
    assert f"{best} is as-is:workload.workers=64." in shown.lines
    assert shown.headline.startswith(f"Take {best}: ") and "than with as-is" in shown.headline
    assert shown.commands == []  # it is the workload's: nothing that `apply` could set
    assert shown.importance == {"as-is": 0.75}
    assert shown.metrics is not None
    assert [metric.name for metric in shown.metrics] == ["iops", "latency_ns_p99"]
    assert [trial.label for trial in shown.trials][:2] == ["as-is", "as-is #1"]
    assert (shown.trials[0].mean, shown.trials[0].low, shown.trials[0].blocks) == (None, None, 0)
    trial = next(t for t in shown.trials if t.label == best)
    assert trial.setting == "as-is:workload.workers=64"
    assert trial.is_finalist and trial.is_feasible
    mine = [run.metrics["iops"] for run in Folder.open(tuning.path / "search").runs()
            if run.candidate == best]  # fmt: skip
    assert len({*mine}) > 1 and trial.first == pytest.approx(statistics.geometric_mean(mine))
    assert trial.second is not None and trial.second == pytest.approx(1e9 / trial.first)
    assert trial.blocks == len(tuning.search.entries[int(best.partition("#")[2])].differences)
    assert trial.low is not None and trial.mean is not None and trial.high is not None
    misses = [f"{each.label} misses" for each in fresh]
    with monkeypatch.context() as patch:
        patch.setattr(tune_view, "missed", lambda tuning, label: [f"{label} misses"])
        assert tune_view.view(tuning).lines == [*shown.lines, *misses]
    assert trial.low < trial.mean < trial.high
    files = tune_view.write_reports(tuning, shown)
    assert files["tune"] == str(tuning.path / "tune.html") and Path(files["verdict"]).exists()
    document = tune_view.as_json(tuning, shown, files)
    assert document["winner"] == {"scheduler": "as-is", WORKERS: 64}
    assert (document["blocks"], document["schema"]) == (11, 1)
    assert tune_view.text(shown, Path("x.html")).endswith("\n\nReport: x.html")


def test_a_missed_constraint_is_named(searched):
    tuning = replace(searched.tuning)
    best = tune_view.winner_of(tuning)
    strict = Constraint("latency_ns_p99", 5e5, True, "latency_ns_p99<500us")
    wide = Constraint("latency_ns_p99", 7e5, True, "latency_ns_p99<700us")
    unknown = Constraint("latency_ns_p50", 1.0, True, "latency_ns_p50<1ns")
    tuning.question = replace(tuning.question, constraints=(strict, wide, unknown))
    assert tune_view.missed(tuning, best) == [
        f"{best} misses latency_ns_p99<500us: 609\u00a0µs in the final measurement.",
        f"{best}: latency_ns_p50<1ns could not be checked, as no run had requests enough for "
        "latency_ns_p50: measure longer, --seconds.",
    ]
    assert tune_view.winner_of(tuning) == ""
    tuning.question = replace(tuning.question, constraints=(wide,))
    assert tune_view.missed(tuning, best) == []


@pytest.mark.parametrize(
    ("kind", "named", "lines"),
    [
        ("device", False, ["apply bfq:x=1 /dev/sdb", "undo /dev/sdb"]),
        ("device", True, ["apply {} /dev/sdb", "undo /dev/sdb"]),
        ("switch", False, ["apply bfq:x=1 sda sdb", "undo sda sdb"]),
    ],
)
def test_how_the_winner_is_applied(tmp_path, kind, named, lines):
    tuning = tuning_of(tmp_path)
    device, below = Target("device", "/dev/sdb"), Target("directory", "/srv", switch=("sda", "sdb"))
    target = device if kind == "device" else below
    tuning.base = replace(tuning.base, target=target)
    folder = tmp_path / "tuning/verdict"
    apply, undo = (line.format(folder) for line in lines)
    expected = [f"apply: schedlab {apply}", f"undo: schedlab {undo}"]
    assert tune_view._commands(tuning, "bfq:x=1", named) == expected
    assert tune_view._commands(tuning, "", named) == []


def test_settings_of_the_machine_are_applied_to_no_disk(tmp_path):
    tuning = tuning_of(tmp_path)
    ratio = "sysctl.vm.dirty_ratio"
    switch = Target("directory", "/srv", switch=("sdb", ratio))
    tuning.base = replace(tuning.base, target=switch)
    assert tune_view._commands(tuning, f"bfq:{ratio}=5", False) == [
        f"apply: schedlab apply bfq:{ratio}=5 sdb", "undo: schedlab undo sdb machine"
    ]  # fmt: skip
    assert tune_view._commands(tuning, f"as-is:{ratio}=5", False) == [
        f"apply: schedlab apply as-is:{ratio}=5", "undo: schedlab undo machine"
    ]  # fmt: skip


def test_a_search_that_is_stopped_says_how_it_goes_on(tmp_path, target, monkeypatch):
    tuning, admitted = start(tmp_path)

    def stopped(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Known, "measure", stopped)
    with pytest.raises(Interrupted, match="all finished runs are kept") as raised:
        tune.run(tuning, admitted, Watcher())
    assert raised.value.hint == f"schedlab tune --resume {tmp_path / 't'}"


def finalists(tuning, *batches):
    """Settings that the search found, the best first."""
    settings = [{"scheduler": "as-is", WORKERS: batch} for batch in batches]
    entries = [Contender(n + 1, each) for n, each in enumerate(settings)]
    tuning.search.entries += entries
    tuning.search.finalists = lambda: list(entries)


@pytest.mark.parametrize(
    ("spent_s", "settings", "blocks"),
    [
        # A run takes 2 s, a block of three settings and twice the default 10 s.
        (10.0, 3, 9),
        (40.0, 3, 6),
        (41.0, 2, 7),  # a block of two settings takes 8 s, of one 6 s
        (60.0, 1, 6),
        (99.0, 1, 6),
    ],
)
def test_the_fresh_comparison_fits_the_rest_of_the_time(tmp_path, spent_s, settings, blocks):
    tuning, admitted = start(tmp_path, budget_s=100.0)
    Folder.open(tuning.path / "search").append(run_of(0, "w", "as-is", 2.0))
    finalists(tuning, 8, 4, 2)
    tuning.spent_s = spent_s
    tune._begin_verdict(tuning, admitted)
    fresh = Folder.open(tuning.path / "verdict").experiment
    assert [c.label for c in fresh.candidates] == [
        "as-is", "as-is #1", "as-is #2", "as-is #3"
    ][: 1 + settings]  # fmt: skip
    assert fresh.stopping.blocks == blocks


def test_without_a_setting_there_is_no_fresh_comparison(tmp_path):
    tuning, admitted = start(tmp_path)
    with pytest.raises(SpecError, match="no setting met the constraints") as raised:
        tune._begin_verdict(tuning, admitted)
    assert raised.value.hint == "use a longer --budget, or a looser --subject-to"
    finalists(tuning, 8)
    tuning.question = replace(tuning.question, seed=2**32 - 1)
    tune._begin_verdict(tuning, admitted)
    fresh = Folder.open(tuning.path / "verdict").experiment
    assert (fresh.seed, fresh.stopping.blocks) == (0, 6)


def test_a_folder_for_a_search(tmp_path):
    tuning, _ = start(tmp_path)
    assert {path.name for path in tuning.path.iterdir()} == {"search", "tune.json"}
    with pytest.raises(SpecError, match="is not empty") as raised:
        start(tmp_path)
    assert raised.value.hint == f"name another folder, or --resume {tuning.path}"
    # A kill before the question leaves the folder of the search, and it is made anew.
    (tuning.path / "tune.json").rename(tuning.path / ".tune.json.0123456789ab")
    (tuning.path / "search/experiment.toml").unlink()
    start(tmp_path)
    (tuning.path / "tune.json").unlink()
    Folder.open(tuning.path / "search").append(run_of(0, "w", "as-is"))
    with pytest.raises(SpecError, match="is not empty"):
        start(tmp_path)
    shutil.rmtree(tuning.path / "search")
    (tuning.path / "search").mkdir()
    (tuning.path / "search/mine").touch()
    with pytest.raises(SpecError, match="is not empty"):
        start(tmp_path)
    with pytest.raises(SpecError, match="is not a tune folder") as raised:
        tune.load(tmp_path / "files", Permission())
    assert raised.value.hint == "name what `tune` printed"


@pytest.mark.parametrize("text", ["", '{"space": ', "[" * 100_000, "[1]", "\0"])
def test_a_damaged_question_is_an_error_that_names_it(tmp_path, text):
    tuning, _ = start(tmp_path)
    (tuning.path / "tune.json").write_text(text)
    with pytest.raises(SpecError, match=r"tune\.json") as raised:
        tune.load(tuning.path, Permission())
    assert raised.value.hint


@pytest.mark.parametrize("spent", [{}, {"spent_s": None}, {"spent_s": "long"}])
def test_a_block_without_its_time_is_an_error_that_names_it(tmp_path, spent):
    tuning, _ = start(tmp_path)
    tuning.lines.append({**vars(ask_of(0, 1)), **spent})
    with pytest.raises(
        SpecError, match=r"trials\.jsonl, line 1: has no time in 'spent_s'"
    ) as raised:
        tune.load(tuning.path, Permission())
    assert raised.value.hint == "restore the file from a copy"
