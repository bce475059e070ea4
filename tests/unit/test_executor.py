"""The executor: discards and repeats, leaves a cell missing after three failures, resumes."""

from dataclasses import replace

import pytest

from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import GateError, Interrupted
from schedlab.kinds import Outcome
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.executor import (
    BUSY_REPEATS_LEAST,
    BUSY_REPEATS_SHARE,
    Executor,
    Rules,
)
from schedlab.spec import Experiment, GateFinding, Stopping, Target, Workload
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
    experiment = Experiment(
        title="t",
        kind="io",
        target=Target("scratch", size_bytes=1 << 20),
        candidates=parse_candidates("none,bfq"),
        workloads=(Workload("w", "file-test", "iops"), Workload("v", "file-test", "iops")),
        baseline="none",
        seed=1,
        stopping=Stopping(blocks=4),
    )
    return Folder.create(tmp_path / "r", experiment, make_plan(experiment), {})


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
    failed = [run for run in folder.runs() if run.status == "discarded"]
    assert [run.gates[0] for run in failed] == [GateFinding("always", "it fails")] * 3
    assert len(folder.record().analysed_runs) == 23


def test_a_starved_run_is_a_result_with_a_bound(folder):
    starved = Outcome({"iops": 0.5}, bounds={"iops": "at-most"})
    run_all(folder, Scripted(lambda cell, attempt: starved))
    runs = folder.record().analysed_runs
    assert len(runs) == 24
    assert {run.bounds["iops"] for run in runs} == {"at-most"}


def test_the_rest_is_planned_once_after_the_pilot_block(folder):
    done = []
    rules = Rules(plan_is_complete=lambda: bool(done), plan_rest=lambda: done.append(1))
    pilot = Executor(Admitted(folder.experiment, Permission(), {}), folder, rules)
    assert pilot.run(Scripted(good), lambda progress: None) == "all 4 blocks are done"
    assert done == [1]


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
    rules, session = decided_first(folder, []), Scripted(good)
    admitted = Admitted(experiment, Permission(), {})
    reason = Executor(admitted, folder, rules).run(session, lambda progress: None)
    assert reason == "all 4 blocks are done"
    blocks = {
        label: sorted({run.block for run in folder.runs() if run.workload == label})
        for label in ("w", "v")
    }
    assert blocks == {"w": [0, 1, 2, 3], "v": [0, 1]}
    assert folder.record().notices == ()  # what was left out on purpose is not missing

    again = Executor(admitted, folder, Rules())  # as a resumed run finds it
    assert again.ended == {"v": 2} and again.over() == "all 4 blocks are done"


def test_a_busy_machine_costs_few_repeats_also_when_resumed_after_each_block(folder):
    """The repeats that earlier processes made count: a search is a process for every block."""

    def busy(cell, attempt):
        return Outcome({"iops": 1.0}, gates=(GateFinding("others", "x"),))

    for blocks in range(1, 5):
        run_all(
            folder, Scripted(busy), lambda done, last=blocks: "enough" if done >= last else None
        )
    runs = folder.runs()
    finished = [run for run in runs if run.status == "ok"]
    assert len(finished) == len(folder.plan.cells)
    most = BUSY_REPEATS_LEAST + BUSY_REPEATS_SHARE * len(finished) + 1
    assert 0 < len(runs) - len(finished) <= most
