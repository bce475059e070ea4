"""A budget: what fits, the pilot block, the rest of the plan, and the extension of a folder."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from experiments import run_of

from schedlab.app import options
from schedlab.app.measure import budget
from schedlab.app.measure.budget import (
    extend,
    extended,
    fitting,
    is_planned,
    pilot_plan,
    pilot_runs,
    plan_rest,
    ramps,
    shortest_s,
    usual_seconds,
    whole_plan,
)
from schedlab.app.measure.measure import planned_lines
from schedlab.design.candidates import parse_candidates
from schedlab.design.plan import make_plan
from schedlab.errors import SpecError
from schedlab.kinds import Outcome, typed
from schedlab.nouns import (
    Experiment,
    Plan,
    Planning,
    RateSeries,
    Record,
    Stopping,
    Target,
    Workload,
)
from schedlab.run.admitted import Admitted, Permission
from schedlab.run.io import explain as explaining
from schedlab.store.folder import Folder

BESIDE = "reader-beside-writers"


def file_test(label, **parameters):
    return Workload(label, "file-test", "iops", {"test": "random-read", **parameters})


def question(*works, stopping, **changes):
    """none and bfq, with the A/A arm: three runs of a workload in a block."""
    usual = Experiment(
        "t", "io", Target("scratch", size_bytes=1 << 30), parse_candidates("none,bfq"),
        works, "none", 1, stopping,
    )  # fmt: skip
    return replace(usual, **changes)


def run(cell, elapsed_s, value, metric="iops", **changes):
    return run_of(cell, {metric: value}, elapsed_s=elapsed_s, **changes)


def folder_of(path, experiment, plan=None):
    return Folder.create(path / "result", experiment, plan or make_plan(experiment), {})


def test_the_shortest_run_saves_what_its_window_can():
    free = file_test("free")
    kind = typed(free)
    assert usual_seconds(free) == kind.seconds > 0.4
    assert shortest_s(free) == pytest.approx(kind.estimate_s() - (kind.seconds - 0.4) + 0.1)
    fixed = file_test("fixed", seconds=2.0)
    assert usual_seconds(fixed) == 0.0
    assert shortest_s(fixed) == pytest.approx(typed(fixed).estimate_s() + 0.1)
    assert usual_seconds(Workload("c", "command", "elapsed_s", {"argv": ["true"]})) == 0.0
    assert usual_seconds(Workload("n", "calculation", "calculations_per_cpu_s")) == 0.0


def test_workloads_are_kept_in_their_order_while_six_blocks_fit(monkeypatch):
    times_s = {"a": 1.0, "b": 2.0, "c": 0.5}
    monkeypatch.setattr(budget, "shortest_s", lambda work: times_s[work.label])
    works = [file_test(label) for label in times_s]

    def labels(budget_s):
        kept, omitted = fitting(works, 3, budget_s)
        return [work.label for work in kept], omitted

    # A block of a takes 3 s, of b 6 s, of c 1.5 s.
    assert labels(63.0) == (["a", "b", "c"], ())
    assert labels(62.9) == (["a", "b"], ("c",))
    assert labels(54.0) == (["a", "b"], ("c",))
    assert labels(53.9) == (["a", "c"], ("b",))
    assert labels(27.0) == (["a", "c"], ("b",))
    assert labels(26.9) == (["a"], ("b", "c"))
    assert labels(0.1) == (["a"], ("b", "c"))
    assert fitting([], 3, 10.0) == ((), ())
    works[0] = replace(works[0], negative_control=True)  # the last to be kept, and yet the first
    assert labels(63.0) == (["a", "b", "c"], ()) and labels(46.0) == (["b", "c"], ("a",))
    works[0] = replace(works[0], negative_control=True)  # it comes last
    assert labels(46.0) == (["b", "c"], ("a",)) and labels(0.1) == (["b"], ("a", "c"))


def test_the_pilot_takes_a_sixth_of_the_budget():
    works = (file_test("free"), file_test("fixed", seconds=9.0))
    experiment = question(*works, stopping=Stopping(blocks=40, budget_s=54.0))
    cells = pilot_plan(experiment).cells
    assert len(cells) == 6 and {cell.block for cell in cells} == {0}
    # A sixth of 54 s for six runs is 1.5 s each, of which 0.7 s are not measured.
    seconds = {cell.workload: cell.seconds for cell in cells}
    assert seconds == {"free": pytest.approx(0.8), "fixed": 0.0}
    least = pilot_plan(replace(experiment, stopping=Stopping(budget_s=30.0))).cells
    assert {cell.seconds for cell in least if cell.workload == "free"} == {0.4}
    longer = Workload("longer", "reader-beside-writers", "iops")
    both = question(works[0], longer, stopping=Stopping(budget_s=30.0))
    assert {cell.workload: cell.seconds for cell in pilot_plan(both).cells} == {
        "free": 0.4, "longer": 0.8
    }  # fmt: skip
    ample = pilot_plan(replace(experiment, stopping=Stopping(budget_s=9000.0))).cells
    assert {cell.seconds for cell in ample} == {0.0}


def test_the_rest_of_a_plan_follows_what_there_is():
    works = (file_test("a"), file_test("b"), file_test("c"))
    experiment = question(*works, stopping=Stopping(blocks=40, budget_s=60.0))
    pilot = pilot_plan(experiment)
    planning = Planning(3, run_s={"a": 0.75}, ramp_s={"b": 1.5}, omitted={"c": "time"})
    plan = whole_plan(experiment, pilot, planning)
    assert plan.cells[:9] == pilot.cells
    further = plan.cells[9:]
    assert [cell.block for cell in further] == [1] * 6 + [2] * 6
    lengths = {(cell.workload, cell.seconds, cell.ramp_seconds) for cell in further}
    assert lengths == {("a", 0.75, 0.0), ("b", 0.0, 1.5)}
    assert whole_plan(experiment, pilot, replace(planning, blocks=1)).cells == pilot.cells
    assert plan.ends == (3,)  # Announced before the runs that it calls for, as is an extension.
    assert whole_plan(experiment, plan, replace(planning, blocks=5)).ends == (3, 5)
    assert {cell.block for cell in whole_plan(experiment, Plan(()), planning).cells} == {0, 1, 2}


def series(first, burst, *, block=0, measured_from_s=0.0):
    """Rates of 100 ms; `burst` bins of ten times as much come first."""
    level = [first + (n % 3) for n in range(60)]
    values = (*(10 * rate for rate in level[:burst]), *level[burst:])
    return RateSeries(block, "g", "1/s", 0.1, values, measured_from_s)


def record_of(experiment, runs, **changes):
    return replace(Record(experiment, make_plan(experiment), tuple(runs)), **changes)


def test_a_pilot_run_is_its_window_and_the_rest():
    works = (file_test("free"), file_test("fixed", seconds=2.0))
    experiment = question(*works, stopping=Stopping(blocks=2))
    cells = make_plan(experiment).cells
    cells = tuple(replace(c, seconds=1.25 if c.workload == "free" else 0.0) for c in cells)
    runs = [run(cell, 2.0, 20.0) for cell in cells if cell.block == 0]
    rates = {("free", "none"): (series(1, 2, block=1), series(70, 4, measured_from_s=1.5)),
             ("fixed", "none"): (series(80, 4),)}  # fmt: skip
    record = replace(record_of(experiment, runs), plan=Plan(cells), series=rates)
    pilot = {(p.workload, p.candidate): p for p in pilot_runs(record)}
    assert len(pilot) == 6
    free = pilot["free", "none"]
    assert (free.measured_s, free.overhead_s) == (1.25, 0.75)
    assert free.log_value == pytest.approx(2.995732)
    assert free.bins == rates["free", "none"][1].values[15:]
    assert free.shortest_s == 0.4
    fixed = pilot["fixed", "none"]
    assert (fixed.measured_s, fixed.overhead_s, fixed.bins) == (2.0, 0.0, ())
    assert pilot["free", "bfq"].bins == ()


def test_each_workload_has_the_window_that_was_planned_for_it():
    windows = {"a": 0.75, "b": 1.0, "c": 1.25}
    experiment = question(*map(file_test, windows), stopping=Stopping(blocks=2))
    cells = tuple(replace(c, seconds=windows[c.workload]) for c in make_plan(experiment).cells)
    runs = [run(cell, 2.0, 20.0) for cell in cells if cell.block == 0]
    pilot = pilot_runs(replace(record_of(experiment, runs), plan=Plan(cells)))
    assert [(p.workload, p.measured_s, p.overhead_s) for p in pilot] == [
        (label, s, 2.0 - s) for label, s in windows.items() for _ in range(3)
    ]


def test_only_values_of_the_first_block_and_its_arms_are_pilot_runs():
    experiment = question(
        Workload("w", BESIDE, "reader_latency_ns_mean"), stopping=Stopping(blocks=2)
    )
    cells = {cell.key: cell for cell in make_plan(experiment).cells}
    name = "reader_latency_ns_mean"
    runs = [
        run(cells[0, "w", "none"], 9.0, 0.5, name),
        run(cells[0, "w", "bfq"], 9.0, 0.0, name),
        run(replace(cells[0, "w", "bfq"], candidate="other"), 9.0, 5.0, name),
        run(cells[1, "w", "none"], 9.0, 5.0, name),
        run(cells[0, "w", "none (A/A)"], 9.0, 5.0, name, status="discarded"),
        run(cells[0, "w", "none (A/A)"], 1.0, 5.0, name),
    ]
    pilot = pilot_runs(record_of(experiment, runs))
    assert [p.candidate for p in pilot] == ["none", "none (A/A)"]
    # Of a latency less is better.
    assert [p.log_value for p in pilot] == pytest.approx([0.693147, -1.609438])
    usual_s = usual_seconds(experiment.workloads[0])
    assert pilot[0].measured_s == usual_s > 1.0
    assert [p.overhead_s for p in pilot] == [pytest.approx(9.0 - usual_s), 0.0]


def test_pilot_runs_come_by_workload_in_their_order():
    """A budget keeps the first ones; the runs of a block come in a random order."""
    works = [file_test("b"), file_test("c"), file_test("a")]
    experiment = question(*works, stopping=Stopping(blocks=1))
    runs = [run(cell, 1.0, 10.0) for cell in reversed(make_plan(experiment).cells)]
    runs.sort(key=lambda each: each.workload, reverse=True)
    pilot = pilot_runs(record_of(experiment, runs))
    assert list(dict.fromkeys(p.workload for p in pilot)) == ["b", "c", "a"]


def test_a_ramp_is_found_in_the_rates_of_the_first_block():
    def found(kind, *rates, label="w", **parameters):
        work = Workload("w", kind, "reader_latency_ns_mean", parameters)
        asked = question(work, stopping=Stopping(blocks=2))
        return ramps(record_of(asked, [], series={(label, "none"): rates}))

    assert found(BESIDE, series(80, 20)) == {"w": pytest.approx(2.0, abs=0.3)}
    both = found(BESIDE, series(80, 0), series(80, 20))  # the second needs it
    assert both == {"w": pytest.approx(2.0, abs=0.3)}
    works = [Workload(label, BESIDE, "reader_latency_ns_mean", {}) for label in "vw"]
    rates = {("v", "none"): (series(80, 0),), ("w", "none"): (series(80, 20),)}
    asked = question(*works, stopping=Stopping(blocks=2))
    assert ramps(record_of(asked, [], series=rates)) == both  # the second workload alone
    assert ramps(record_of(asked, [], series={("w", "none"): rates["w", "none"]})) == both
    torn = replace(series(80, 20), values=(math.nan, *series(80, 20).values[1:]))
    for hidden in (torn, series(80, 20, block=1), series(80, 0)):
        assert found(BESIDE, hidden) == {}
    assert found(BESIDE, series(80, 20), label="v") == {}
    assert found(BESIDE, series(80, 18), ramp_seconds=1.0) == {}  # the user set it
    assert found("weights", series(80, 8)) == {}  # its own is 1 s
    assert found("file-test", series(80, 20), test="read") == {}  # it has none


def pilot_folder(path, works, stopping, elapsed_s):
    """A folder after its pilot; the runs of none, bfq and the A/A arm give 100, 150 and 110."""
    experiment = question(*works, stopping=stopping)
    folder = folder_of(path, experiment, pilot_plan(experiment))
    values = {"none": 100.0, "bfq": 150.0, "none (A/A)": 110.0}
    for cell in folder.plan.cells:
        if cell.workload != "mute":
            folder.append(run(cell, elapsed_s, values[cell.candidate]))
    return folder


def test_after_the_pilot_the_rest_is_planned(tmp_path):
    works = [file_test("kept", seconds=2.0), file_test("mute", seconds=2.0)]
    folder = pilot_folder(tmp_path, works, Stopping(blocks=40, budget_s=30.0), 1.5)
    assert not is_planned(folder)
    planning = plan_rest(folder)
    assert is_planned(folder) and folder.planning == planning
    # A block takes 4.5 s: the pilot and five more are 27 s.
    assert (planning.blocks, planning.fits) == (6, True)
    assert planning.seconds_per_block == 4.5
    assert planning.run_s == {}  # the user fixed the window
    assert planning.omitted == {"mute": "no-value"}
    assert planning.bound is not None and 0.1 < planning.bound < 2
    cells = folder.plan.cells
    assert {cell.block for cell in cells} == set(range(6))
    assert {cell.workload for cell in cells if cell.block} == {"kept"}
    fewer = pilot_folder(tmp_path / "few", works, Stopping(blocks=5, budget_s=30.0), 1.5)
    assert plan_rest(fewer).blocks == 5
    parts = Stopping(blocks=40, budget_s=30.0, sessions=3)
    assert plan_rest(pilot_folder(tmp_path / "parts", works, parts, 1.5)).blocks == 18


def test_a_window_that_is_free_is_chosen(tmp_path):
    works = [file_test("a", seconds=2.0), file_test("w"), file_test("z", seconds=2.0)]
    folder = pilot_folder(tmp_path, works, Stopping(blocks=40, budget_s=200.0), 3.0)
    planning = plan_rest(folder)
    assert set(planning.run_s) == {"w"}
    lengths = {(cell.workload, cell.seconds) for cell in folder.plan.cells if cell.block}
    assert lengths == {("a", 0.0), ("w", planning.run_s["w"]), ("z", 0.0)}


@pytest.mark.parametrize("longer", ["v", "w"])
def test_the_longer_ramp_of_a_workload_is_time_of_its_own_runs(tmp_path, monkeypatch, longer):
    works = [Workload(name, BESIDE, "reader_latency_ns_mean", {"seconds": 2.0}) for name in "vw"]
    declared_s = typed(works[0]).ramp_seconds
    experiment = question(*works, stopping=Stopping(blocks=40, budget_s=200.0))
    folder = folder_of(tmp_path, experiment, pilot_plan(experiment))
    for cell in folder.plan.cells:
        folder.append(run(cell, 4.0, 5e6, "reader_latency_ns_mean"))
    monkeypatch.setattr(budget, "ramps", lambda record: {longer: declared_s + 1.25})
    found = {}

    def planned(pilot, *_, **__):
        found.update({name: {p.overhead_s for p in pilot if p.workload == name} for name in "vw"})
        raise SpecError("enough", "")

    monkeypatch.setattr(budget, "plan_budget", planned)
    with pytest.raises(SpecError, match="enough"):
        plan_rest(folder)
    (own,), (other,) = found.pop(longer), next(iter(found.values()))
    assert own == pytest.approx(other + 1.25)


def test_the_longer_ramp_counts_as_time_of_a_run(tmp_path, monkeypatch):
    work = Workload("w", BESIDE, "reader_latency_ns_mean", {"seconds": 2.0})
    kind = typed(work)
    declared_s = kind.ramp_seconds
    experiment = question(work, stopping=Stopping(blocks=40, budget_s=200.0))
    folder = folder_of(tmp_path, experiment, pilot_plan(experiment))
    for cell in folder.plan.cells:
        folder.append(run(cell, 4.0, 5e6, "reader_latency_ns_mean"))
    monkeypatch.setattr(budget, "ramps", lambda record: {"w": declared_s + 1.25})
    planning = plan_rest(folder)
    assert planning.ramp_s == {"w": declared_s + 1.25}
    assert planning.seconds_per_block == pytest.approx(3 * 5.25)
    assert {c.ramp_seconds for c in folder.plan.cells if c.block} == {declared_s + 1.25}


def test_a_pilot_without_a_value_is_an_error(tmp_path):
    folder = pilot_folder(tmp_path, [file_test("mute")], Stopping(budget_s=30.0), 1.5)
    with pytest.raises(SpecError, match="no run of the first block gave a value") as raised:
        plan_rest(folder)
    assert raised.value.hint == "read the messages above"


def finished(path, stopping, blocks):
    """A folder whose first blocks are measured: three runs of 2.5 s in each."""
    experiment = question(file_test("w"), stopping=stopping)
    folder = folder_of(path, experiment)
    for cell in folder.plan.cells:
        if cell.block < blocks:
            folder.append(run(cell, 2.5, 100.0 + cell.block))
    return folder


def blocks_of(plan):
    return {cell.block for cell in plan.cells}


def test_without_a_wish_a_folder_stays(tmp_path):
    folder = finished(tmp_path, Stopping(blocks=4), 4)
    same = extended(folder, folder.experiment, None, None)
    assert (same.experiment, same.plan) == (folder.experiment, folder.plan)
    assert same.planning is None
    before = sorted(path.name for path in folder.path.iterdir())
    extend(folder, same)
    assert sorted(path.name for path in folder.path.iterdir()) == before


def test_blocks_are_added_to_those_that_there_are(tmp_path):
    folder = finished(tmp_path, Stopping(blocks=4), 4)
    more = extended(folder, folder.experiment, 9, None)
    assert more.experiment.stopping.blocks == 9
    assert blocks_of(more.plan) == set(range(9)) and more.plan.cells[:12] == folder.plan.cells
    assert more.planning == Planning(blocks=9)
    assert blocks_of(folder.plan) == set(range(4)) and folder.planning is None
    extend(folder, more)
    written = Folder.open(folder.path)
    assert (written.plan, written.planning) == (more.plan, more.planning)
    assert folder.experiment == more.experiment
    # Each extension is announced beside those before.
    assert extended(folder, folder.experiment, 12, None).plan.ends == (4, 9, 12)


@pytest.mark.parametrize("last", ["write_plan", "write_planning", "write_experiment"])
def test_an_extension_that_a_kill_cut_short_is_repeated(tmp_path, monkeypatch, last):
    folder = finished(tmp_path, Stopping(blocks=4), 4)
    whole = extended(folder, folder.experiment, 9, None)
    write = getattr(Folder, last)

    def killed(self, *what):
        write(self, *what)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Folder, last, killed)
        with pytest.raises(KeyboardInterrupt):
            extend(folder, whole)
    extend(folder, extended(folder, folder.experiment, 9, None))
    assert (folder.experiment, folder.plan, folder.planning) == (
        whole.experiment, whole.plan, Planning(blocks=9)
    )  # fmt: skip


@pytest.mark.parametrize(("budget_s", "blocks"), [(22.5, 7), (29.9, 7), (30.0, 8), (1.0, 5)])
def test_a_budget_is_as_many_blocks_as_fit(tmp_path, budget_s, blocks):
    folder = finished(tmp_path, Stopping(blocks=4), 4)  # 7.5 s a block
    assert blocks_of(extended(folder, folder.experiment, None, budget_s).plan) == set(range(blocks))


def test_a_budget_before_the_first_run_is_one_block(tmp_path):
    folder = finished(tmp_path, Stopping(blocks=1), 0)
    assert extended(folder, folder.experiment, None, 90.0).plan == folder.plan


def test_a_plan_is_not_cut_short_afterwards(tmp_path):
    """A second end would be one more look, at a moment that was chosen by what was seen."""
    folder = finished(tmp_path / "a", Stopping(blocks=12), 2)
    with pytest.raises(SpecError, match="12 blocks are planned, of which 2 are measured"):
        extended(folder, folder.experiment, 5, None)
    for same in (
        extended(folder, folder.experiment, 12, None),
        extended(folder, folder.experiment, None, 7.5),
    ):
        assert same.plan == folder.plan and same.plan.ends == (12,)
    # Before the rest is planned, a budget is only how long is measured now.
    pilot = finished(tmp_path / "b", Stopping(blocks=40, budget_s=60.0), 0)
    same = extended(pilot, pilot.experiment, None, 30.0)
    assert same.plan == pilot.plan and same.planning is None


def test_an_extension_may_be_announced_and_a_stopping_rule_has_a_most(tmp_path):
    folder = finished(tmp_path / "a", Stopping(blocks=4, may_extend=8), 4)
    assert folder.plan.ends == extended(folder, folder.experiment, 8, None).plan.ends == (4, 8)
    folder = finished(tmp_path / "b", Stopping("until-decided", blocks=8), 4)
    with pytest.raises(SpecError, match="the plan has at most 8 blocks") as raised:
        extended(folder, folder.experiment, 9, None)
    assert raised.value.hint == f"start a new folder: schedlab run {folder.path} --blocks 9"


def test_a_budgets_folder_is_extended_from_what_was_measured(tmp_path):
    folder = finished(tmp_path, Stopping(blocks=40, budget_s=60.0), 5)
    folder.write_plan(Plan(tuple(c for c in folder.plan.cells if c.block < 5)))
    folder.write_planning(Planning(5, run_s={"w": 0.75}))
    more = extended(folder, folder.experiment, 7, None)
    assert more.experiment == folder.experiment
    assert more.planning == Planning(7, run_s={"w": 0.75})
    assert {cell.seconds for cell in more.plan.cells if cell.block >= 5} == {0.75}
    assert blocks_of(more.plan) == set(range(7))


def test_an_explanatory_run_is_as_long_as_the_scored_ones(tmp_path):
    experiment = question(file_test("w"), stopping=Stopping(blocks=40, budget_s=60.0))
    planning = Planning(3, run_s={"w": 0.75}, ramp_s={"w": 1.5})
    folder = folder_of(tmp_path, experiment, whole_plan(experiment, Plan(()), planning))
    cells = []

    def measure(cell, workload, candidate):
        cells.append(cell)
        return Outcome({"iops": 1.0})

    session = SimpleNamespace(target=SimpleNamespace(device="loop9"), measure=measure)
    admitted = Admitted(experiment, Permission(trust=True), {})
    # It starts no process, so there is nothing to capture.
    assert explaining.explain(admitted, folder, session, ["w"])
    assert {(cell.seconds, cell.ramp_seconds) for cell in cells} == {(0.75, 1.5)}
    assert (cells[0].block, cells[0].position, cells[0].candidate) == (0, 0, "none")
    assert cells[0].seed == folder.plan.cells[0].seed


def test_a_planning_in_words():
    planning = Planning(6, ramp_s={"w": 2.25}, omitted={"a": "time", "b": "variance"}, bound=0.254)
    assert planned_lines(planning) == [
        "omitted, because the budget is too short: a, b",
        "ramp of w: 2.2 s, where its rates became steady",
        "planned: 6 blocks; the best should be at most 1.25× ahead (from one block)",
    ]
    short = "the budget is short: the answer will be rough"
    assert planned_lines(Planning(5, bound=1.0, target_s=600.0)) == [
        "planned: 5 blocks; the best should be at most 2.0× ahead (from one block)",
        f"{short} (10 % need about 10 min)",
    ]
    assert planned_lines(Planning(7, fits=False)) == ["planned: 7 blocks", short]
    assert planned_lines(Planning(6)) == ["planned: 6 blocks"]


def test_options_of_a_resumed_experiment():
    def refused(typed, extends):
        with pytest.raises(SpecError) as raised:
            options.check_resumed(typed, extends)
        return str(raised.value), raised.value.hint

    options.check_resumed(["--resume", "--blocks", "--budget", "--json", "--trust", "--read-only"])
    own, new = "would change nothing: a resumed experiment keeps its own", "start a new experiment"
    assert refused(["--seed", "--resume", "--margin"], True) == (
        f"--margin, --seed {own}",
        f"with --resume use --blocks or --budget, or {new} without --resume",
    )
    # A sweep of quanta and a search have their own end.
    asked = refused(["--budget", "--resume"], False)
    assert asked == (f"--budget {own}", f"{new} without --resume")
