"""Measuring, resuming, repeating and previewing an experiment, with a session that is known."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refused
from experiments import Clock

from schedlab.app.admit import admit
from schedlab.app.measure import budget, measure
from schedlab.app.measure.budget import Extended
from schedlab.app.measure.files import experiment_of, stopped_by
from schedlab.app.measure.measure import Observer
from schedlab.app.preview import Preview, preview, settings_of
from schedlab.cpu.policy import RR_KNOB
from schedlab.design.plan import make_plan
from schedlab.errors import GateError, HostError, Interrupted, SpecError
from schedlab.kinds import Outcome, cached_reads, random_reads
from schedlab.nouns import Candidate, Experiment, Plan, Planning, Run, Stopping, Target, Workload
from schedlab.nouns.results import boot_of
from schedlab.run import executor
from schedlab.run.admitted import OVERHEAD_S, Admitted, Permission
from schedlab.run.io import explain as explaining
from schedlab.store.folder import Folder

TRUSTED = Permission(trust=True)
AS_IS = {"scheduler": "as-is"}
READS = Workload("reads", "file-test", "iops", {"test": "random-read", "seconds": 0.5})


def experiment(directory, **changes):
    """Files under the setting that there is, with one and with two workers."""
    directory.mkdir(exist_ok=True)
    candidates = (Candidate("one", AS_IS), Candidate("two", {**AS_IS, "workload.workers": 2}))
    usual = Experiment(
        "Reads", "io", Target("directory", str(directory), 1 << 20), candidates, (READS,), "one", 7,
        Stopping(blocks=3),
    )  # fmt: skip
    return replace(usual, **changes)


def own_command(directory, **changes):
    """The same of a command, whose workers are its own affair."""
    command = Workload("c", "command", "elapsed_s", {"argv": ["true"]})
    pair = (Candidate("one", AS_IS), Candidate("two", AS_IS))
    return experiment(directory, **{"workloads": (command,), "candidates": pair, **changes})


class Known:
    """Stands in for a target: two workers do half as much again, and a block is a bit faster."""

    def __init__(self):
        self.opened = 0
        self.runs: list[tuple[int, str, str]] = []
        self.explained: list[int] = []
        self.fails: BaseException | None = None

    def measure(self, cell, workload, candidate):
        if self.fails:
            raise self.fails
        self.runs.append(cell.key)
        value = 150.0 if candidate.label == "two" else 100.0
        return Outcome({"iops": value + cell.block + 0.1 * cell.position}, histograms={})


@pytest.fixture
def known(monkeypatch):
    target = Known()

    @contextmanager
    def opened(admitted, observer, *of_simulations):
        target.opened += 1
        yield target

    monkeypatch.setattr(measure, "opened", opened)
    monkeypatch.setattr(measure, "explain", lambda *_: target.explained.append(target.opened))
    return target


def observer(said):
    return Observer(report=said.append)


def test_a_result_has_its_date_and_a_name_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "time", SimpleNamespace(strftime=lambda _: "20260102-030405"))
    first = measure.default_folder("io")
    assert first == Path("results/20260102-030405-io")
    first.mkdir(parents=True)
    assert measure.default_folder("io") == Path("results/20260102-030405-io-2")
    for number in range(2, 99):
        Path(f"{first}-{number}").mkdir()
    assert measure.default_folder("io") == Path(f"{first}-99")
    assert measure.default_folder("cpu") == Path("results/20260102-030405-cpu")


def test_an_experiment_is_measured_into_its_folder(tmp_path, known):
    said = []
    out = tmp_path / "r"
    result = measure.run(experiment(tmp_path / "d"), out, observer=observer(said))
    assert said == ["measured: all 3 blocks are done"]
    assert known.opened == 1 and len(known.runs) == 9
    assert {run.block for run in result.folder.runs()} == {0, 1, 2}
    assert (out / "reproduce.sh").stat().st_size > 0
    again = measure.measure(admit(experiment(tmp_path / "d"), TRUSTED), result.folder,
                            observer=observer(said))  # fmt: skip
    assert said[1:] == ["nothing left to measure: all 3 blocks are done"]
    assert again.folder.path == out and known.opened == 1


@pytest.mark.parametrize(
    ("blocks", "step_s", "layouts"), [(6, 1e-6, 2), (5, 1e-6, 2), (3, 1e-6, 1), (6, 10.0, 1)]
)
def test_files_are_laid_out_twice_where_that_is_cheap(
    tmp_path, known, monkeypatch, blocks, step_s, layouts
):
    """The units stay blocks, and what another layout changes is known."""
    clock = SimpleNamespace(monotonic=Clock(step_s).monotonic, strftime=time.strftime)
    monkeypatch.setattr(measure, "time", clock)
    asked = experiment(tmp_path / "d", stopping=Stopping(blocks=blocks))
    result = measure.run(asked, tmp_path / "r")
    blocks_of = {}
    for run in result.folder.runs():
        blocks_of.setdefault(run.session, set()).add(run.block)
    assert len(blocks_of) == layouts and len({*map(boot_of, blocks_of)}) == 1
    # Too few, or too dear: the second half is measured on the files that there are.
    assert known.opened == layouts and known.explained == [layouts]
    halves = [blocks // 2, -(-blocks // 2)] if layouts == 2 else [blocks]
    assert sorted(map(len, blocks_of.values())) == halves
    answer = result.answer
    assert answer.used == "blocks" and answer.blocks == blocks
    assert {rung.name: rung.bound is not None for rung in answer.rungs} == {
        "this-boot": True, "next-boot": False, "layout": layouts == 2,
    }  # fmt: skip


@pytest.mark.parametrize(("budget_s", "layouts"), [(200.0, 2), (100.0, 1)])
def test_the_budget_is_that_of_all_layouts(tmp_path, known, monkeypatch, budget_s, layouts):
    """The second is not given the time of the first again, nor made where none is left."""
    clock = Clock(1.0)
    monkeypatch.setattr(executor, "time", clock)
    monkeypatch.setattr(budget, "is_planned", lambda folder: True)
    asked = experiment(tmp_path / "d", stopping=Stopping(blocks=40, budget_s=budget_s))
    admitted = admit(asked, TRUSTED)
    folder = measure.create(admitted, tmp_path / "r", make_plan(asked))
    measure.measure(admitted, folder)
    assert known.opened == layouts and 0.8 * budget_s < clock.now_s < 1.2 * budget_s


def test_a_file_is_not_trusted(tmp_path, known, monkeypatch, say):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    text = (
        'candidates = ["as-is"]\nstopping = { blocks = 1 }\n'
        f'target = {{ kind = "directory", path = "{tmp_path}/d", size_bytes = "1M" }}\n'
        '[[workloads]]\nkind = "command"\nparameters = { argv = ["true"] }\n'
    )
    file = tmp_path / "mine.toml"
    file.write_text(text)
    say(measure.run, file)
    assert not (tmp_path / "results").exists()
    known.measure = lambda *_: Outcome({"elapsed_s": 1.0})
    result = measure.run(file, permission=TRUSTED)
    assert result.folder.path.name.endswith("-mine")
    assert measure.run(str(file), "named", permission=TRUSTED).folder.path == Path("named")
    plain = own_command(tmp_path / "d", stopping=Stopping(blocks=1))
    assert measure.run(plain).folder.path.name.endswith("-io")  # a call is trusted


def test_a_budget_begins_with_its_pilot(tmp_path):
    asked = experiment(tmp_path / "d", stopping=Stopping(blocks=40, budget_s=60.0))
    admitted = admit(asked, TRUSTED)
    assert {cell.block for cell in measure.create(admitted, tmp_path / "r").plan.cells} == {0}


@pytest.mark.parametrize("error", [HostError("no"), SpecError("no")])
def test_a_folder_without_a_run_goes(tmp_path, known, error):
    known.fails = error
    out = tmp_path / "r"
    with pytest.raises(type(error)):
        measure.run(experiment(tmp_path / "d"), out)
    assert not out.exists()
    admitted = admit(experiment(tmp_path / "d"), TRUSTED)
    folder = measure.create(admitted, out)
    with pytest.raises(type(error)):
        measure.measure(admitted, folder, resumed=True)
    assert out.exists()
    known.fails = None
    measure.measure(admitted, folder, observer=Observer())
    known.fails = error
    budget.extend(folder, budget.extended(folder, folder.experiment, 4, None))
    with pytest.raises(type(error)):
        measure.measure(admit(folder.experiment, TRUSTED), folder)
    assert len(folder.runs()) == 9


def test_ctrl_c_says_how_it_goes_on(tmp_path, known):
    for error in (KeyboardInterrupt(), Interrupted("stop")):
        known.fails = error
        out = tmp_path / type(error).__name__
        with pytest.raises(Interrupted, match="all settings are restored") as raised:
            measure.run(experiment(tmp_path / "d"), out)
        assert raised.value.hint == f"schedlab compare --resume {out}"
        assert out.exists()


def test_each_session_opens_the_target_anew(tmp_path, known):
    said = []
    asked = experiment(tmp_path / "d", stopping=Stopping(blocks=5, sessions=3))
    result = measure.run(asked, tmp_path / "r", observer=observer(said))
    assert said == ["session 1 of 3", "session 2 of 3", "session 3 of 3",
                    "measured: all 5 blocks are done"]  # fmt: skip
    assert (known.opened, known.explained) == (3, [3])
    runs = result.folder.runs()
    sessions = [{run.session for run in runs if run.block == block} for block in range(5)]
    assert all(len(of) == 1 for of in sessions)
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3] != sessions[4]
    more = measure.resume(tmp_path / "r", blocks=7, observer=observer(said))
    assert len(more.folder.runs()) == 21 and known.opened == 4


def test_files_are_laid_out_twice_unless_a_workload_brings_its_own(tmp_path):
    own = Workload("own", "command", "elapsed_s", {"argv": ["true"]})
    for works, expected in (((READS,), True), ((READS, own), False), ((own, READS), False)):
        asked = experiment(tmp_path / "d", workloads=works, candidates=(Candidate("a", AS_IS),),
                           baseline="a")  # fmt: skip
        found = measure.has_layouts(admit(asked, TRUSTED), SimpleNamespace(runs=list))
        assert found == expected


def test_what_is_left_is_resumed_and_shown(tmp_path, known, monkeypatch, say):
    said = []
    out = tmp_path / "r"
    measure.run(experiment(tmp_path / "d"), out)
    runs = (out / "runs.jsonl").read_bytes().splitlines(keepends=True)
    (out / "runs.jsonl").write_bytes(b"".join(runs[:7]) + runs[7][:20])
    rest = measure.preview_of_rest(out, blocks=None, budget_s=None, permission=TRUSTED)
    assert len(rest.plan.cells) == 2 and rest.is_rest
    assert "2 runs in 1 blocks, about" in rest.lines()[1]
    longer = measure.preview_of_rest(out, blocks=5, budget_s=None, permission=TRUSTED)
    assert len(longer.plan.cells) == 8
    measure.resume(out, observer=observer(said))
    torn = "the last line of runs.jsonl was incomplete; its run is repeated"
    assert said == [f"{out}: {torn}", "measured: all 3 blocks are done"]
    assert len(known.runs) == 11
    monkeypatch.setattr(platform, "release", lambda: "9.9")
    for call in (measure.resume, lambda p: measure.preview_of_rest(
            p, blocks=None, budget_s=None, permission=TRUSTED)):  # fmt: skip
        say(call, out)
    (out / "host.json").unlink()
    measure.check_kernel(Folder.open(out))


@pytest.mark.parametrize(
    ("more", "reason"),
    [({}, "the budget of 1e-09 s is used up after 1 blocks"),
     ({"blocks": 4}, "all 4 blocks are done"),
     ({"budget_s": 3600.0}, "all 4 blocks are done")],
)  # fmt: skip
def test_what_a_resumed_budget_is_asked_for_replaces_it(tmp_path, known, monkeypatch, more, reason):
    said = []
    out = tmp_path / "r"
    measure.run(experiment(tmp_path / "d", stopping=Stopping(blocks=6, budget_s=1e-9)), out)
    folder = Folder.open(out)
    whole = measure.budget.extended(folder, folder.experiment, 4, None)
    monkeypatch.setattr(
        measure.budget, "extended",
        lambda folder, experiment, blocks, budget_s: whole if blocks or budget_s else Extended(
            folder.experiment, whole.plan, whole.planning),
    )  # fmt: skip
    measure.resume(out, **more, observer=observer(said))
    assert said[-1] == f"measured: {reason}"


def test_a_run_that_failed_three_times_is_not_left(tmp_path, known):
    asked = experiment(tmp_path / "d")
    folder = measure.create(admit(asked, TRUSTED), tmp_path / "r")
    usual = known.measure

    def failing(cell, workload, candidate):
        if (cell.block, cell.candidate) == (1, "two"):
            raise GateError("io-errors", "the device reported errors")
        return usual(cell, workload, candidate)

    known.measure = failing
    measure.measure(admit(asked, TRUSTED), folder)
    assert len(folder.runs()) == 8 + 3
    rest = measure.preview_of_rest(folder.path, blocks=None, budget_s=None, permission=TRUSTED)
    assert rest.plan.cells == () and rest.lines()[1].startswith("0 runs in 0 blocks")


def test_a_result_is_measured_again(tmp_path, known, monkeypatch, say):
    monkeypatch.chdir(tmp_path)
    said = []
    measure.run(experiment(tmp_path / "d"), "first")
    before, again = measure.reproduce("first", permission=TRUSTED, observer=observer(said))
    assert before.folder.path == Path("first")
    assert again.folder.path.name.endswith("-reproduce")
    plan = before.folder.plan
    assert again.folder.plan == plan
    before.folder.write_plan(Plan((*plan.cells, replace(plan.cells[0], workload="other"))))
    assert measure.reproduce("first", "b", permission=TRUSTED)[1].folder.plan == plan
    own = measure.create(admit(own_command(tmp_path / "d"), TRUSTED), Path("c"))
    say(measure.reproduce, own.path)


def test_what_a_budget_led_to_is_measured_again(tmp_path, known, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep, gone = (replace(READS, label=name, parameters={"test": "random-read"})
                  for name in ("keep", "gone"))  # fmt: skip
    asked = experiment(
        tmp_path / "d", workloads=(keep, gone), stopping=Stopping(blocks=40, budget_s=90.0)
    )
    admitted = admit(asked, TRUSTED)
    folder = measure.create(admitted, Path("budget"))
    chosen = Planning(3, run_s={"keep": 0.75}, ramp_s={"keep": 0.5}, omitted={"gone": "time"})
    folder.write_plan(budget.whole_plan(asked, folder.plan, chosen))
    folder.write_planning(chosen)
    measure.measure(admitted, folder)
    _, again = measure.reproduce("budget", "again", permission=TRUSTED)
    assert again.folder.path == Path("again")
    for name in ("plan", "planning", "experiment"):
        assert getattr(again.folder, name) == getattr(folder, name)
    assert len(again.folder.runs()) == 12 and {row.workload for row in again.answer.rows} == {
        "keep"
    }
    # All blocks of an extended experiment, in the time that they took.
    budget.extend(folder, budget.extended(folder, folder.experiment, 5, None))
    for cell in folder.plan.cells[12:]:
        old = next(run for run in folder.runs() if run.candidate == cell.candidate)
        folder.append(replace(old, block=cell.block, workload="keep", elapsed_s=20.0))
    _, longer = measure.reproduce("budget", "longer", permission=TRUSTED)
    assert longer.folder.plan.cells == folder.plan.cells and len(longer.folder.runs()) == 18
    assert longer.folder.planning == replace(chosen, blocks=5)
    assert 120 < longer.folder.experiment.stopping.budget_s < 121


def rules_of(monkeypatch, stopping, **decided):
    """The rules of a folder whose decision is known; and how often it was made."""
    from schedlab import result

    made = []

    def decision():
        made.append(1)
        return SimpleNamespace(**decided)

    folder = SimpleNamespace(
        experiment=SimpleNamespace(stopping=stopping), planning=None, path=Path("x")
    )
    monkeypatch.setattr(result, "Result", lambda folder: SimpleNamespace(decision=decision))
    said = []
    return measure.rules_of(folder, observer(said)), made, said


def test_when_to_stop(monkeypatch):
    decided = {"stop": True, "reason": "decided"}
    rules, made, _ = rules_of(monkeypatch, Stopping("fixed"), **decided)
    assert (rules.stop(4), made) == (None, [])
    assert rules.plan_is_complete()
    rules, made, _ = rules_of(monkeypatch, Stopping("until-decided"), **decided)
    assert rules.stop(4) == "decided after 4 blocks"
    assert rules.stop(4) and made == [1]
    assert rules.stop(5) == "decided after 5 blocks" and made == [1, 1]
    rules, *_ = rules_of(monkeypatch, Stopping("precision"), **{**decided, "stop": False})
    assert rules.stop(4) is None
    rules, _, said = rules_of(monkeypatch, Stopping(budget_s=9.0), **decided)
    assert not rules.plan_is_complete()
    monkeypatch.setattr(budget, "plan_rest", lambda folder: SimpleNamespace(
        omitted={}, ramp_s={}, blocks=9, bound=None, fits=True, target_s=None))  # fmt: skip
    rules.plan_rest()
    assert said == ["planned: 9 blocks"]


def explained(monkeypatch, problem="", **changes):
    """What an experiment of reads and a command has explained, and what is said about it."""
    works = (READS, Workload("own", "command", "elapsed_s", {"argv": ["true"]}))
    pair = (Candidate("one", AS_IS), Candidate("two", AS_IS))
    asked = Experiment("t", "io", Target("directory"), pair, works, "one", 1)
    kinds = {("reads", "one"): SimpleNamespace(brings_files=False),
             ("own", "one"): SimpleNamespace(brings_files=True)}  # fmt: skip
    admitted = Admitted(replace(asked, **changes), TRUSTED, kinds)
    calls = []

    def explain(admitted, folder, session, labels):
        calls.append(labels)
        return problem

    monkeypatch.setattr(explaining, "explain", explain)
    monkeypatch.setattr(explaining, "worth_explaining", lambda answer: ("own", "reads"))
    said = []
    from schedlab import result

    monkeypatch.setattr(result, "Result", lambda folder: SimpleNamespace(answer=None))
    folder = None
    measure.explain(admitted, folder, folder, observer(said))
    return calls, said


def test_what_is_explained(monkeypatch):
    found = "one more run each, to show where requests wait: reads"
    assert explained(monkeypatch) == ([("reads",)], [found])
    assert explained(monkeypatch, explain=True) == ([("reads",)], [found])
    assert explained(monkeypatch, "no BPF")[1] == [found, "the reason is unknown: no BPF"]
    assert explained(monkeypatch, kind="cpu") == ([], [])
    assert explained(monkeypatch, candidates=(Candidate("one", AS_IS),)) == ([], [])
    more = (READS, replace(READS, label="more"), replace(READS, label="most"))
    labels = ("reads", "more", "most")
    assert explained(monkeypatch, explain=True, workloads=more)[0] == [labels]
    monkeypatch.setattr(explaining, "worth_explaining", lambda answer: ())
    own = (Workload("own", "command", "elapsed_s", {"argv": ["true"]}),)
    assert explained(monkeypatch, explain=True, workloads=own) == ([], [])


@pytest.mark.parametrize(
    ("figures", "kept", "recorded"),
    [((9.0, None, None), 1, "1"), ((9.0, None, 9.0), 3, "3"), ((None,) * 3, 0, ""),
     ((1.0,), 1, "1"), ((9.0, 1.5), 2, "")],
)  # fmt: skip
def test_a_recording_is_that_of_its_capture(tmp_path, monkeypatch, figures, kept, recorded):
    """Of runs unlike the scored ones (1.0), that fail a gate (None), without a recording (1.5)."""
    tried = []

    @contextmanager
    def capturing(device, recording):
        tried.append(device)
        if figures[len(tried) - 1] != 1.5:
            recording.write_text(str(len(tried)))
        yield len(tried)

    def run(*_):
        if (figure := figures[len(tried) - 1]) is None:
            raise GateError("busy", "the machine was busy")
        return Outcome({"iops": figure})

    monkeypatch.setattr(explaining, "capturing", capturing)
    file, session = tmp_path / "requests-00.trace", SimpleNamespace(measure=run)
    given = explaining._extra_run(session, None, READS, Candidate("one"), "/dev/x", 1.0, file)
    assert (given or 0) == kept
    assert [each.read_text() for each in tmp_path.iterdir()] == [recorded] * bool(recorded)


def test_an_extra_run_is_held_to_the_median_of_all_runs():
    def run(number, candidate, value, status="ok"):
        return Run(number, 0, "reads", candidate, number, 1, status, "", 0.1, {"iops": value})

    runs = [run(1, "one", 1.0), run(2, "one", 5.0), run(3, "one", 9.0), run(4, "two", 4.0),
            run(5, "one", 7.0), run(6, "one", 90.0, "discarded"), run(7, "one", 8.0)]  # fmt: skip
    found = explaining._scored_medians(SimpleNamespace(runs=lambda: runs), [READS])
    assert found == {("reads", "one"): 7.0, ("reads", "two"): 4.0}


def test_a_preview_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    asked = experiment(tmp_path / "d", notes=("mine",))
    shown = preview(admit(asked, TRUSTED))
    lines = shown.lines()
    run_s = admit(asked, TRUSTED).estimate_s("reads")
    assert run_s > OVERHEAD_S and shown.seconds == pytest.approx(9 * run_s)
    assert lines[0] == "Reads" and lines[1].startswith("9 runs in 3 blocks, about ")
    assert lines[2:10] == [
        "", "candidates and their settings:", "  one", "  two", "    workload.workers = 2",
        "  one (A/A)", "  before every run: /proc/sys/vm/drop_caches = 3", "",
    ]  # fmt: skip
    assert lines[10] == "workloads (primary metric):" and lines[11].startswith("  reads: ")
    assert lines[12:15] == [
        "", "writes:", f"  a new subdirectory of {tmp_path}/d, 1 MiB, removed at the end"
    ]  # fmt: skip
    first = [cell for cell in shown.plan.cells if cell.block == 0]
    assert lines[15:] == ["", "first block, in its order:"] + [
        f"    {number}. reads under {cell.candidate}"
        for number, cell in zip((1, 2, 3), first, strict=True)
    ] + ["note: mine"]  # fmt: skip
    document = shown.as_json()
    assert document["settings"][1] == {"candidate": "two", "writes": [["workload.workers", "2"]]}
    assert len(document["plan"]) == 9 and document["schema"] == 1
    assert json.dumps(document["experiment"])


def test_a_preview_shows_where_the_cache_is_dropped(tmp_path, monkeypatch):
    bare, files = random_reads.RandomReads(), cached_reads.CachedReads()

    def dropped(target, queues=(), *kinds):
        kinds = kinds or (bare,)
        works = tuple(Workload(kind.kind, kind.kind, kind.metrics[0]) for kind in kinds)
        asked = replace(experiment(tmp_path), target=target, workloads=works)
        by_name = {(kind.kind, "one"): kind for kind in kinds}
        shown = Preview(Admitted(asked, TRUSTED, by_name, queues), Plan(()), (), 0)
        return [line for line in shown.lines() if "drop_caches" in line]

    every = ["  before every run: /proc/sys/vm/drop_caches = 3"]
    scratch = Target("scratch", "/var/tmp", 1 << 20)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert dropped(scratch) == [] and dropped(Target("device", "/dev/x"), ("x",)) == []
    assert dropped(replace(scratch, filesystem="ext4")) == every
    assert dropped(Target("emulated", "", 1 << 20)) == dropped(Target("directory", "/")) == every
    assert dropped(scratch, (), bare, files) == [
        "  before every run of cached-reads: /proc/sys/vm/drop_caches = 3"
    ]
    assert dropped(scratch, (), files) == every
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert dropped(replace(scratch, filesystem="ext4")) == []


def test_a_preview_of_a_budget_and_of_a_command(tmp_path):
    asked = own_command(tmp_path / "d", stopping=Stopping(blocks=40, budget_s=90.0))
    admitted = admit(asked, TRUSTED)
    lines = preview(admitted).lines()
    assert lines[1] == "a pilot block of 3 runs, then as many runs as fit, about 90 s"
    assert not any("drop_caches" in line for line in lines)
    quiet = replace(admitted, experiment=replace(asked, kind="cpu"), kinds={})
    other = Preview(
        replace(quiet, experiment=replace(quiet.experiment, kind="sim")), Plan(()), (), 0
    )
    for each in (Preview(quiet, Plan(()), (), 0), other):
        assert not any("drop_caches" in line for line in each.lines())
    assert lines[lines.index("runs:") + 1] == "  true"
    rest = Preview(admitted, preview(admitted).plan, (), 5.0, is_rest=True)
    assert rest.lines()[1] == "3 runs in 1 blocks, at least 5 s"
    bare = replace(admitted, writes=(), programs=())
    text = Preview(bare, preview(admitted).plan, (), 5.0).lines()
    assert text[text.index("writes:") + 1] == "  nothing" and "runs:" not in text


def test_settings_of_cpu_candidates_by_their_knob(tmp_path):
    cpu = Admitted(experiment(tmp_path / "d", kind="cpu"), TRUSTED, {})
    quantum = Candidate("q", {"policy": "rr", "slice_ms": 4.0, "nice": 5})
    assert settings_of(cpu, quantum) == (
        ("policy", "rr"), (RR_KNOB, "4 ms"), ("nice", "5")
    )  # fmt: skip
    for policy in ("other", "zzz"):
        assert settings_of(cpu, Candidate("q", {"policy": policy, "slice_ms": 4.5, "z": 1})) == (
            ("policy", policy), ("slice_ms", "4.5"), ("z", "1")
        )  # fmt: skip
    last = Candidate("q", {"policy": "rr", "z": 1})
    assert settings_of(cpu, last) == (("policy", "rr"), ("z", "1"))
    io = admit(experiment(tmp_path / "d"), TRUSTED)
    assert settings_of(io, Candidate("x", {"workload.workers": 2})) == (("workload.workers", "2"),)
    scratch = replace(io, experiment=replace(io.experiment, target=Target("scratch")))
    assert settings_of(scratch, Candidate("n", {"scheduler": "none", "workload.workers": 2})) == (
        ("/sys/block/loopN/queue/scheduler", "none"), ("workload.workers", "2")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "stopping"),
    [
        ({}, Stopping(blocks=6, may_extend=9, sessions=2)),
        ({"blocks": 5}, Stopping(blocks=10, sessions=2)),
        ({"budget": 60.0}, Stopping(blocks=80, budget_s=60.0, sessions=2)),
        ({"sessions": 3}, Stopping(blocks=9, sessions=3)),
        ({"blocks": 5, "budget": 60.0, "sessions": 1}, Stopping(blocks=5, budget_s=60.0)),
    ],
)
def test_a_file_is_stopped_otherwise(tmp_path, typed, stopping):
    asked = experiment(tmp_path, stopping=Stopping(blocks=6, may_extend=9, sessions=2))
    assert stopped_by(asked, typed).stopping == stopping


def test_only_fixed_plans_have_sessions(tmp_path, say):
    decided = experiment(tmp_path, stopping=Stopping("until-decided", 20))
    say(stopped_by, decided, {"sessions": 2})
    assert stopped_by(decided, {"blocks": 4}).stopping == Stopping("until-decided", 4)
    pilot = experiment(tmp_path, stopping=Stopping(blocks=40, budget_s=60.0))
    assert stopped_by(pilot, {"sessions": 2}).stopping == Stopping("fixed", 80, 0.0, 60.0, 0, 2)
    assert stopped_by(pilot, {"blocks": 3}).stopping == Stopping(blocks=3)


def test_what_people_omit_in_a_file(say):
    work = {"kind": "file-test", "parameters": {"test": "read"}}
    names = ["none", "bfq:low_latency=0"]
    usual = experiment_of({"candidates": names, "workloads": [work]}, "a/b.toml")
    assert (usual.title, usual.kind, usual.baseline) == ("b", "io", "none")
    assert usual.target == Target("scratch", size_bytes=1 << 30)
    assert usual.workloads[0].label == "file-test" and usual.workloads[0].metric
    assert usual.candidates[1].settings == {"scheduler": "bfq", "low_latency": 0}
    assert experiment_of({"kind": "cpu"}, "x").target == Target("none")
    policies = experiment_of({"kind": "cpu", "candidates": ["other", "rr:20ms"]}, "x").candidates
    assert policies == (
        Candidate("other", {"policy": "other"}),
        Candidate("rr:20ms", {"policy": "rr", "slice_ms": 20.0}),
    )
    share = experiment_of({"margin": "5%", "target": {"kind": "scratch", "size_bytes": "2M"},
                           "seed": 4}, "x")  # fmt: skip
    assert (share.margin, share.target.size_bytes, share.seed) == (0.05, 2 << 20, 4)
    said, hint = refused(experiment_of, {"workloads": 5}, "x.toml")
    assert (said, hint) == ("x.toml.workloads = 5", "expected a list")
    flat = {"workloads": [{"kind": "file-test", "test": "read"}]}
    say(experiment_of, flat, "x.toml")
    wrong = {"workloads": [{"kind": "file-test", "parameters": {"record_bytes": "4q"}}]}
    say(experiment_of, wrong, "x.toml")
