"""The executor: discards and repeats, leaves a cell missing after three failures, resumes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from experiments import experiment

from schedlab.design.plan import make_plan
from schedlab.errors import GateError, Interrupted
from schedlab.kinds import Outcome
from schedlab.nouns import (
    GateFinding,
    Stopping,
    Workload,
)
from schedlab.run import executor as executor_module
from schedlab.run.admitted import OVERHEAD_S, Admitted, Permission
from schedlab.run.executor import (
    BUSY_REPEATS_LEAST,
    BUSY_REPEATS_SHARE,
    Executor,
    Rules,
)
from schedlab.store.folder import Folder


class Scripted:
    """A session whose outcomes are given by a function of (cell, attempt)."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.calls = []

    def measure(self, cell, workload, candidate):
        self.calls.append(cell.key)
        return self.outcome(cell, self.calls.count(cell.key))


def good(cell, attempt):
    return Outcome({"iops": 1.0}, histograms={"latency_ns": [[1, 1, 1]]})


@pytest.fixture
def folder(tmp_path):
    works = tuple(Workload(label, "file-test", "iops") for label in "wv")
    asked = experiment(workloads=works, stopping=Stopping(blocks=4))
    return Folder.create(tmp_path / "r", asked, make_plan(asked), {})


def executor(folder, stop=lambda blocks: None):
    return Executor(Admitted(folder.experiment, Permission(), {}), folder, Rules(stop))


def run_all(folder, session, stop=lambda blocks: None):
    progress = []
    reason = executor(folder, stop).run(session, progress.append)
    return reason, progress


def test_every_cell_is_measured_once_in_the_planned_order(folder):
    session = Scripted(good)
    reason, progress = run_all(folder, session)
    assert session.calls == [cell.key for cell in folder.plan.cells]
    assert reason == "all 4 blocks are done"
    assert (progress[-1].done, progress[-1].total, progress[-1].eta_s) == (24, 24, 0)
    assert [each.done for each in progress] == list(range(25))  # also before the first run
    assert [each.block for each in progress[1:]] == [1 + n // 6 for n in range(24)]
    assert [each.last and each.last.key for each in progress] == [None, *session.calls]


def test_a_run_that_fails_a_gate_is_kept_and_repeated(folder):
    first = folder.plan.cells[0].key

    def outcome(cell, attempt):
        if cell.key == first and attempt == 1:
            return Outcome({"iops": 9.0}, gates=(GateFinding("knob-changed", "x"),))
        return good(cell, attempt)

    run_all(folder, Scripted(outcome))
    runs = [run for run in folder.runs() if run.key == first]
    assert [(run.status, run.attempt) for run in runs] == [("discarded", 1), ("ok", 2)]


def test_three_failures_leave_one_cell_missing_and_nothing_else(folder):
    bad = folder.plan.cells[7].key

    def outcome(cell, attempt):
        if cell.key == bad:
            raise GateError("always", "it fails")
        return good(cell, attempt)

    run_all(folder, Scripted(outcome))
    assert folder.record().missing_cells == (bad,)
    assert executor(folder).left == ()
    failed = [run for run in folder.runs() if run.status == "discarded"]
    assert [run.gates[0] for run in failed] == [GateFinding("always", "it fails")] * 3
    assert len(folder.record().analysed_runs) == 23


def test_the_rest_is_planned_once_after_the_pilot_block(folder):
    calls = []
    rules = Rules(plan_is_complete=lambda: bool(calls), plan_rest=lambda: calls.append(1))
    pilot = Executor(Admitted(folder.experiment, Permission(), {}), folder, rules)
    assert pilot.run(Scripted(good), lambda progress: None) == "all 4 blocks are done"
    assert calls == [1]


def test_what_was_interrupted_goes_on_where_it_stopped(folder):
    def outcome(cell, attempt):
        if cell.block == 2:
            raise Interrupted("interrupted")
        return good(cell, attempt)

    with pytest.raises(Interrupted):
        run_all(folder, Scripted(outcome))
    session = Scripted(good)
    run_all(folder, session)
    assert session.calls == [cell.key for cell in folder.plan.cells if cell.block >= 2]


def test_a_stop_rule_is_asked_after_each_block_but_the_last(folder):
    asked = []
    reason, _ = run_all(folder, Scripted(good), lambda n: asked.append(n) or (n == 2 and "enough"))
    assert asked == [1, 2]
    assert reason == "enough"
    assert max(run.block for run in folder.runs()) == 1


def test_what_is_over_is_not_begun_again(folder):
    run_all(folder, Scripted(good), lambda n: n == 2 and "enough")
    session = Scripted(good)
    assert executor(folder, lambda n: n == 2 and "enough").over() == "enough"
    assert run_all(folder, session, lambda n: n == 2 and "enough")[0] == "enough"
    assert not session.calls
    run_all(folder, session)
    assert executor(folder).over() == "all 4 blocks are done"
    assert {key[0] for key in session.calls} == {2, 3}


def decided_first(folder, seen):
    """Rules that end the workload `v` after two blocks."""

    def workloads(blocks):
        seen.append(blocks)
        return ("w",) if blocks >= 2 else None

    return Rules(workloads=workloads)


def test_a_decided_workload_gets_no_more_runs(folder):
    experiment = replace(folder.experiment, stopping=Stopping("until-decided", 4))
    folder.write_experiment(experiment)
    seen = []
    rules, session = decided_first(folder, seen), Scripted(good)
    admitted = Admitted(experiment, Permission(), {})
    reason = Executor(admitted, folder, rules).run(session, lambda progress: None)
    assert reason == "all 4 blocks are done"
    blocks = {
        label: sorted({run.block for run in folder.runs() if run.workload == label})
        for label in ("w", "v")
    }
    assert blocks == {"w": [0, 1, 2, 3], "v": [0, 1]}
    assert seen == [1, 2, 3]  # before the first block there is nothing to decide by
    assert not folder.record().missing[0]  # what was left out on purpose is not missing

    again = Executor(admitted, folder, Rules())  # as a resumed run finds it
    assert again.ended == {"v": 2} and again.over() == "all 4 blocks are done"

    # Where no workload ends early, runs that are missing are still to be made.
    fixed = replace(experiment, stopping=Stopping(blocks=4))
    folder.write_experiment(fixed)
    resumed = Executor(Admitted(fixed, Permission(), {}), folder, Rules())
    assert resumed.ended == {} and resumed.over() is None


@pytest.mark.parametrize(("disturbed", "counts"), [(1, 1), (2, 2)])
def test_a_busy_machine_costs_few_repeats_also_when_resumed_after_each_block(
    folder, disturbed, counts
):
    """The repeats that earlier processes made count: a search is a process for every block. One
    that was disturbed as well counts twice.
    """

    def busy(cell, attempt):
        findings = (GateFinding("others", "x"),) if attempt <= disturbed else ()
        return Outcome({"iops": 1.0}, gates=findings)

    for blocks in range(1, 5):
        run_all(
            folder, Scripted(busy), lambda count, last=blocks: "enough" if count >= last else None
        )
    runs = folder.runs()
    finished = [run for run in runs if run.status == "ok"]
    assert len(finished) == len(folder.plan.cells)
    most = (BUSY_REPEATS_LEAST + BUSY_REPEATS_SHARE * len(finished)) / counts
    assert most - 1 <= len(runs) - len(finished) <= most + 1


def test_a_block_that_was_cut_short_ends_no_workload(folder):
    """Resumed after the first run of block 1: the other workload had not come yet."""
    folder.write_experiment(replace(folder.experiment, stopping=Stopping("until-decided", 4)))

    def outcome(cell, attempt):
        if cell.block == 1 and cell.position > 0:
            raise Interrupted("interrupted")
        return good(cell, attempt)

    with pytest.raises(Interrupted):
        run_all(folder, Scripted(outcome))
    assert len([run for run in folder.runs() if run.block == 1]) == 1
    assert executor(folder).ended == {}
    run_all(folder, Scripted(good))
    assert len(folder.runs()) == 24


def test_all_that_a_run_gives_is_stored(folder):
    full = Outcome(
        {"iops": 1.0},
        properties={"errors": 0},
        histograms={"latency_ns": [[1, 2, 3]]},
        bounds={"iops": "at-most"},
        series={"w": [[0, 1, 2, 3]]},
        output={"out": b"printed"},
    )
    runner = Executor(Admitted(folder.experiment, Permission(), {}), folder, Rules(), "of-today")
    runner.run(Scripted(lambda cell, attempt: full), lambda progress: None)
    run = folder.runs()[0]
    fields = (run.metrics, run.properties, run.bounds, run.session)
    assert fields == ({"iops": 1.0}, {"errors": 0}, {"iops": "at-most"}, "of-today")
    assert folder.raw_of(run) == {"latency_ns": [[1, 2, 3]], "series w": [[0, 1, 2, 3]]}
    assert len([*folder.path.glob("raw/output/*.out")]) == 24


COST_S = {"w": 1.0, "v": 3.0}


class Clocked(Scripted):
    """A session whose runs take the time of their workload, by a clock of its own."""

    def __init__(self, monkeypatch):
        super().__init__(good)
        self.now_s = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(executor_module, "time", clock)

    def measure(self, cell, workload, candidate):
        self.now_s += COST_S[cell.workload]
        return super().measure(cell, workload, candidate)


@pytest.mark.parametrize(
    ("budget_s", "blocks"),
    [(1.0, 1), (22.8, 1), (22.9, 2), (34.2, 2), (34.3, 3), (45.8, 4), (0.0, 4)],
)
def test_a_budget_ends_before_the_block_that_exceeds_it_by_a_twentieth(
    folder, monkeypatch, budget_s, blocks
):
    """A block takes 12 s; the first is measured whatever it takes."""
    stopping, ends = Stopping(blocks=4, budget_s=budget_s), (1, 3, 4)
    folder.write_experiment(replace(folder.experiment, stopping=stopping))
    folder.write_plan(replace(folder.plan, ends=ends))
    reason, progress = run_all(folder, Clocked(monkeypatch))
    assert progress[-1].done == 6 * blocks
    used = f"the budget of {budget_s:g} s is used up after {blocks} blocks"
    assert reason == ("all 4 blocks are done" if blocks == 4 else used)
    # Where the clock ended it is an announced end, and the plan; of one block nothing can be said.
    end = blocks if blocks > 1 else 4
    assert folder.plan.ends == (*(each for each in ends if each < end), end)
    assert len(folder.plan.cells) == 6 * end


def test_a_budget_that_ends_inside_the_first_of_two_sessions_leaves_the_plan(tmp_path, monkeypatch):
    """Two blocks fit into each session; only the last one can say how many there are."""
    works = tuple(Workload(label, "file-test", "iops") for label in "wv")
    asked = experiment(workloads=works, stopping=Stopping(blocks=6))
    folder = Folder.create(tmp_path / "r", asked, make_plan(asked), {})
    folder.write_experiment(replace(asked, stopping=Stopping(blocks=6, budget_s=30.0, sessions=2)))
    for number, (blocks, end) in enumerate(((2, 6), (4, 4))):
        reason = executor(folder).run(Clocked(monkeypatch), lambda progress: None, number)
        assert reason == f"the budget of 30 s is used up after {blocks} blocks"
        assert folder.plan.ends == (end,)


def test_a_first_block_that_was_cut_short_is_finished_whatever_it_takes(folder, monkeypatch):
    folder.write_experiment(replace(folder.experiment, stopping=Stopping(blocks=4, budget_s=1.0)))
    session = Clocked(monkeypatch)

    def outcome(cell, attempt):
        if cell.position == 1:
            raise Interrupted("interrupted")
        return good(cell, attempt)

    session.outcome = outcome
    with pytest.raises(Interrupted):
        run_all(folder, session)
    assert run_all(folder, Clocked(monkeypatch))[0] == "the budget of 1 s is used up after 1 blocks"


def test_the_time_left_is_that_of_the_workloads_that_are_left(folder, monkeypatch):
    _, progress = run_all(folder, Clocked(monkeypatch))
    cells = folder.plan.cells
    for each in progress:
        known = [COST_S[cell.workload] for cell in cells[: each.done]]
        usual_s = sum(known) / len(known) if known else 0.0  # of a workload that has not come yet
        seen = {cell.workload for cell in cells[: each.done]}
        left = [COST_S[c.workload] if c.workload in seen else usual_s for c in cells[each.done :]]
        assert each.eta_s == sum(left)
    assert [run.elapsed_s for run in folder.runs()] == [COST_S[cell.workload] for cell in cells]


def test_a_session_ends_with_its_share_of_the_blocks(folder):
    stopping = Stopping(blocks=4, sessions=2)
    folder.write_experiment(replace(folder.experiment, stopping=stopping))
    for number, reason in enumerate(("2 blocks done", "all 4 blocks are done")):
        runner = executor(folder)
        assert runner.run(Scripted(good), lambda progress: None, number) == reason
        assert runner.next_block == runner.session_end(number) == 2 * (number + 1)


@pytest.mark.parametrize(("blocks", "reason"), [(1, "the only block is done"), (2, "1 block done")])
def test_the_words_of_one_block(tmp_path, blocks, reason):
    work = Workload("w", "file-test", "iops")
    asked = experiment(workloads=(work,), stopping=Stopping(blocks=blocks, sessions=blocks))
    folder = Folder.create(tmp_path / "one", asked, make_plan(asked), {})
    assert executor(folder).run(Scripted(good), lambda progress: None) == reason


def always(*names):
    """A session in which the same gates fail in every run."""
    findings = tuple(GateFinding(name, "x") for name in names)
    return Scripted(lambda cell, attempt: Outcome({"iops": 1.0}, gates=findings))


@pytest.mark.parametrize("gate", ["others", "steal", "frequency", "foreign-io"])
def test_what_other_programs_cause_repeats_a_run_once(folder, gate):
    run_all(folder, always(gate))
    first, second, *_ = folder.runs()
    assert [(run.status, run.gates[0].fatal) for run in (first, second)] == [
        ("discarded", True), ("ok", False),
    ]  # fmt: skip
    assert first.key == second.key


def test_load_by_others_excuses_no_other_gate(folder):
    run_all(folder, always("others", "swap"))
    assert {run.status for run in folder.runs()} == {"discarded"}
    assert len(folder.runs()) == 3 * 24


def test_failures_of_our_own_use_up_no_repeats_for_a_busy_machine(folder):
    def outcome(cell, attempt):
        gate = "swap" if cell.block == 0 else "others"
        findings = (GateFinding(gate, "x"),) if attempt == 1 else ()
        return Outcome({"iops": 1.0}, gates=findings)

    run_all(folder, Scripted(outcome))
    first = next(run for run in folder.runs() if run.block == 1)
    assert first.status == "discarded"


def test_the_estimate_of_a_run_is_that_of_its_own_workload(folder):
    times = {("w", "none"): 1.0, ("w", "bfq"): 4.0, ("v", "none"): 50.0}
    kinds = {key: SimpleNamespace(estimate_s=lambda s=s: s) for key, s in times.items()}
    admitted = Admitted(folder.experiment, Permission(), kinds)
    assert admitted.estimate_s("w") == pytest.approx(2.5 + OVERHEAD_S)
