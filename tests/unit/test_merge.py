"""Several sessions of one experiment: measured in one folder, or merged from several."""

from dataclasses import replace

import pytest
from experiments import experiment, run_of

from schedlab.app.fleet.merge import _stated, merge
from schedlab.app.measure.budget import whole_plan
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.kinds import Outcome
from schedlab.nouns import Planning, Stopping, Workload
from schedlab.result import Result
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.executor import Executor, Rules
from schedlab.store.exporters import fio, iozone
from schedlab.store.folder import Folder

HOST = {"kernel": {"release": "6.18"}, "cpu": {"model": "x", "usable": 2}}


class Steady:
    """bfq does twice as much; each block is a bit faster than the one before."""

    def measure(self, cell, workload, candidate):
        value = (2.0 if candidate.label == "bfq" else 1.0) * (1 + 0.01 * cell.block)
        value *= 1 + 0.001 * cell.position
        return Outcome({"iops": value}, histograms={"latency_ns": [[1, 2, 3]]})


def measured(path, session, host=HOST, source=None, **changes):
    asked = experiment(**changes)
    folder = Folder.create(path, asked, make_plan(asked), host)
    executor = Executor(Admitted(asked, Permission(), {}), folder, Rules(), session)
    executor.run(source or Steady(), lambda progress: None)
    return path


@pytest.mark.parametrize(("planned", "level"), [(0, 1 / 8), (4, 0.7), (5, 0.3 / 8)])
def test_all_folders_of_a_plan_are_its_end(tmp_path, planned, level):
    """Without a plan any number may have been looked at; before its end the plan has a reserve."""
    paths = [measured(tmp_path / str(n), f"s{n}", seed=n) for n in range(4)]
    assert Result(merge(paths, tmp_path / "all", of=planned)).answer.level == level
    with pytest.raises(SpecError, match="4 folders are named"):
        merge(paths, tmp_path / "more", of=3)


class Interrupting(Steady):
    """Ctrl-C in the last block."""

    def measure(self, cell, workload, candidate):
        if cell.block == 2:
            raise KeyboardInterrupt
        return super().measure(cell, workload, candidate)


def test_no_session_is_merged_twice_whichever_it_is_of_a_folder(tmp_path):
    one = measured(tmp_path / "one", "s1")
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "two", "s7", source=Interrupting(), seed=7)
    two = Folder.open(tmp_path / "two")
    rest = Executor(Admitted(two.experiment, Permission(), {}), two, Rules(), "s1")
    rest.run(Steady(), lambda progress: None)
    assert [run.session for run in two.runs()] == ["s7"] * 6 + ["s1"] * 3
    with pytest.raises(SpecError, match="have the same session"):
        merge([one, two.path], tmp_path / "all")


def test_every_folder_is_that_of_the_first_and_has_its_own_end(tmp_path):
    paths = [measured(tmp_path / str(n), f"s{n}", seed=n) for n in range(2)]
    other = measured(tmp_path / "other", "s2", margin=0.25)
    with pytest.raises(SpecError, match=f"{other}"):
        merge([*paths, other], tmp_path / "all")
    longer = measured(tmp_path / "longer", "s3", stopping=Stopping(blocks=5))
    hosts = merge([*paths, longer], tmp_path / "hosts", hosts=True, of=5)
    assert hosts.record().plan.ends == (3 + 3 + 5 + 2 * 5,)


def test_what_is_next_of_a_plan_is_the_folder_that_is_missing(tmp_path):
    """Two of three were told to measure forty more."""

    class Equal(Steady):
        def measure(self, cell, workload, candidate):
            return Outcome({"iops": 1.0 + 0.5 * (cell.position % 2)})

    paths = [measured(tmp_path / str(n), f"s{n}", source=Equal(), seed=n) for n in range(2)]
    for planned, said in ((3, True), (2, False), (0, False)):
        merged = Result(merge(paths, tmp_path / f"of-{planned}", of=planned))
        assert ("a folder that was planned" in merged.text()) == said, merged.text()


def test_a_folder_that_was_interrupted_is_not_at_its_end(tmp_path):
    first = measured(tmp_path / "0", "s0")
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "1", "s1", source=Interrupting())
    answer = Result(merge([first, tmp_path / "1"], tmp_path / "all", of=2)).answer
    assert (answer.blocks, answer.level) == (5, 0.3 / 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"margin": 0.05}, "margin is 0.05, there 0.02"),
        ({"stopping": Stopping(blocks=4)}, "stopping.blocks is 4, there 3"),
        ({"workloads": (Workload("w", "file-test", "iops", {"depth": 2}),)}, "parameters.depth"),
        ({"host": {**HOST, "kernel": {"release": "6.19"}}}, "kernel.release is '6.19'"),
        ({"stopping": Stopping("until-decided", 3)}, "until-decided"),
    ],
)
def test_only_repetitions_of_one_experiment_are_merged(tmp_path, changes, message):
    first = measured(tmp_path / "a", "s1")
    second = measured(tmp_path / "b", "s2", **changes)
    with pytest.raises(SpecError, match=message.replace(".", r"\.")):
        merge([first, second], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_runs_without_a_session_have_that_of_their_folder(tmp_path):
    paths = [measured(tmp_path / name, "", seed=n) for n, name in enumerate(("a", "b"))]
    runs = merge(paths, tmp_path / "all").runs()
    assert [run.session for run in runs] == ["a"] * 9 + ["b"] * 9


def test_one_folder_twice_is_one_session(tmp_path):
    first = measured(tmp_path / "a", "s1")
    with pytest.raises(SpecError, match="same session"):
        merge([first, first], tmp_path / "all")


def budgeted(path, session, seconds=0.75, budget_s=60.0):
    """A folder whose pilot block had the workload `gone` too, which the budget then omitted."""
    kind = ("file-test", "throughput_bytes_per_s", {"test": "read", "record_bytes": 4096})
    asked = experiment(
        workloads=(Workload("w", *kind), Workload("gone", *kind)),
        stopping=Stopping(blocks=40, budget_s=budget_s),
        seed=len(session),
    )
    planning = Planning(3, run_s={"w": seconds}, omitted={"gone": "time"})
    plan = whole_plan(asked, make_plan(asked, blocks=1), planning)
    folder = Folder.create(path, asked, plan, HOST, planning)
    for cell in plan.cells:
        folder.append(run_of(cell, {"throughput_bytes_per_s": 1e6}, session=session))
    return path


@pytest.mark.parametrize("format_", [fio, iozone])
def test_what_both_budgets_omitted_is_not_merged(tmp_path, format_):
    """The second has more time, as the repetition of an extended experiment has."""
    paths = [budgeted(tmp_path / "a", "s1"), budgeted(tmp_path / "b", "s22", budget_s=90.0)]
    result = Result(merge(paths, tmp_path / "all"))
    merged = result.record
    assert {run.workload for run in merged.runs} == {"w"} and len(merged.runs) == 18
    assert not merged.missing[0] and merged.experiment.stopping.blocks == 6
    assert format_.write(merged, result.parameters, tmp_path / "out")


def test_budgets_that_chose_other_windows_are_not_merged(tmp_path):
    paths = [budgeted(tmp_path / "a", "s1"), budgeted(tmp_path / "b", "s22", seconds=0.5)]
    with pytest.raises(SpecError, match=r"planned\.w\.seconds is 0\.5, there 0\.75"):
        merge(paths, tmp_path / "all")
    planned = _stated(Folder.open(paths[0]).record(), ())["planned"]
    assert planned == {"w": {"seconds": 0.75, "ramp_seconds": 0.0}}


def test_a_block_of_several_sessions_makes_no_more_sessions_than_blocks(tmp_path):
    """It was resumed twice; the repetition of the merged folder passes the door."""
    paths = [measured(tmp_path / n, n, stopping=Stopping(blocks=1)) for n in "ab"]
    for path in paths:
        runs = Folder.open(path).runs()
        (path / "runs.jsonl").write_text("")
        for run in runs:
            Folder.open(path).append(replace(run, session=f"{run.session}{run.position}", raw={}))
    stopping = merge(paths, tmp_path / "all").experiment.stopping
    assert (stopping.blocks, stopping.sessions) == (2, 2)
