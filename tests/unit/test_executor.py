"""The executor: discards and repeats, drops a block after three failures, goes on."""

import pytest

from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import GateError, Interrupted
from schedlab.run.executor import Executor
from schedlab.run.outcome import Outcome
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


def carry_out(folder, session, stop=lambda blocks: None):
    told = []
    reason = Executor(folder, stop).carry_out(session, told.append)
    return reason, told


def test_every_cell_is_measured_once_in_the_planned_order(folder):
    session = Scripted(good)
    reason, told = carry_out(folder, session)
    assert session.calls == [cell.key for cell in folder.plan.cells]
    assert reason == "all 4 blocks are done"
    assert (told[-1].done, told[-1].total, told[-1].eta_s) == (24, 24, 0)


def test_a_run_that_fails_a_gate_is_kept_and_repeated(folder):
    first = folder.plan.cells[0].key

    def outcome(cell, attempt):
        if cell.key == first and attempt == 1:
            return Outcome({"iops": 9.0}, gates=(GateFinding("knob-changed", "x"),))
        return good(cell, attempt)

    carry_out(folder, Scripted(outcome))
    runs = [run for run in folder.runs() if run.key == first]
    assert [(run.status, run.attempt) for run in runs] == [("discarded", 1), ("ok", 2)]


def test_three_failures_drop_the_block_and_go_on_with_the_next(folder):
    def outcome(cell, attempt):
        if cell.block == 1:
            raise GateError("always", "it fails")
        return good(cell, attempt)

    carry_out(folder, Scripted(outcome))
    assert folder.record().dropped_blocks == (1,)
    failed = {run.gates[0] for run in folder.runs() if run.status == "discarded"}
    assert failed == {GateFinding("always", "it fails")}
    assert sum(run.block == 1 for run in folder.runs()) == 3
    assert sum(run.status == "ok" for run in folder.runs()) == 18


def test_a_run_without_its_primary_metric_is_discarded(folder):
    carry_out(folder, Scripted(lambda cell, attempt: Outcome({"elapsed_s": 1.0})))
    assert {run.gates[0].gate for run in folder.runs()} == {"no-value"}


def test_what_was_interrupted_goes_on_where_it_stopped(folder):
    def outcome(cell, attempt):
        if cell.block == 2:
            raise Interrupted("interrupted")
        return good(cell, attempt)

    with pytest.raises(Interrupted):
        carry_out(folder, Scripted(outcome))
    session = Scripted(good)
    carry_out(folder, session)
    assert session.calls == [cell.key for cell in folder.plan.cells if cell.block >= 2]


def test_a_stop_rule_is_asked_after_each_block_but_the_last(folder):
    asked = []
    reason, _ = carry_out(
        folder, Scripted(good), lambda n: asked.append(n) or (n == 2 and "enough")
    )
    assert asked == [1, 2]
    assert reason == "enough"
    assert max(run.block for run in folder.runs()) == 1


def test_what_is_over_is_not_begun_again(folder):
    carry_out(folder, Scripted(good), lambda n: n == 2 and "enough")
    session = Scripted(good)
    assert Executor(folder, lambda n: n == 2 and "enough").over() == "enough"
    assert carry_out(folder, session, lambda n: n == 2 and "enough")[0] == "enough"
    assert not session.calls
    carry_out(folder, session)
    assert Executor(folder, lambda n: None).over() == "all 4 blocks are done"
    assert {key[0] for key in session.calls} == {2, 3}
