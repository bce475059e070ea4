"""Labs and their findings, quanta, CPU policies, own work and single loads, as they are typed."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import refused, shown
from commands import typed

from schedlab.app import options
from schedlab.app.compare import cpu_comparison, own_work, quanta
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.compare.own_work import OwnWork, workload_of
from schedlab.app.compare.quanta import Sweep, merged_candidates, quantum_experiment
from schedlab.app.measure import labs
from schedlab.app.measure.labs import (
    Lab,
    LabChanges,
    check_options,
    lab_experiment,
    merged,
    sweep_of,
)

STUDY = {"title": "A lab", "study": " what \n was  done "}
TABLE = {"slices_ms": [1, 10], "processes": 4, "seconds": "2s", "repeat": 6, "policy": "rr",
         "priority": 5}  # fmt: skip


def lab(**data):
    return Lab("mine", {**STUDY, **data})


def test_a_lab_in_words():
    assert (lab().title, lab().study, lab().kind) == ("A lab", "what was done", "io")
    assert lab(kind="cpu").kind == "cpu"


def test_a_scale_changes_a_lab():
    work = {"label": "w", "kind": "file-test", "parameters": {"test": "read", "seconds": 5},
            "grid": {"workers": [1, 2], "depth": [3]}}  # fmt: skip
    small = {"target": {"size_bytes": "2M"}, "parameters": {"w": {"seconds": 1}},
             "grid": {"w": {"workers": [7]}}, "margin": 0.5}  # fmt: skip
    scales = {"small": small, "small-emulated": {"parameters": {"w": {"seconds": 2}}}}
    data = {"target": {"kind": "scratch", "size_bytes": "1G"}, "workloads": [work],
                            "scale": scales}  # fmt: skip
    found = lab(**data).scaled("small")
    assert found["target"] == {"kind": "scratch", "size_bytes": "2M"}
    assert found["margin"] == 0.5 and "scale" not in found
    assert found["workloads"][0]["parameters"] == {"test": "read", "seconds": 1}
    assert found["workloads"][0]["grid"] == {"workers": [7], "depth": [3]}
    emulated = lab(**data).scaled("small", is_emulated=True)
    assert emulated["workloads"][0]["parameters"]["seconds"] == 2
    assert emulated["workloads"][0]["grid"]["workers"] == [7]
    for is_emulated in (False, True):
        full = lab(**data).scaled("full", is_emulated=is_emulated)
        assert full["workloads"][0]["parameters"]["seconds"] == 5
        assert full["target"]["size_bytes"] == "1G"
    assert lab(**data).data["workloads"][0]["parameters"]["seconds"] == 5
    scales["small-virtual"] = {"grid": {"w": {"depth": [4]}}}
    virtual = lab(**data).scaled("small", is_emulated=True, is_virtual=True)["workloads"][0]
    assert virtual["grid"] == {"workers": [7], "depth": [4]}
    assert virtual["parameters"]["seconds"] == 2
    wrong = {**data, "scale": {"full": {"grid": {"v": {}}}}}
    said, _ = refused(lab(**wrong).scaled, "full")
    assert said == "lab mine: scale.full changes 'v', which is not a workload"


def test_a_lab_is_smaller_in_virtual_time_and_says_so():
    """All of it took 43 minutes, and ended without an answer."""
    study, said = labs.lab_named("iozone-schedulers"), []
    changes = LabChanges(place=Place(model="disk7200"), schedulers="none,bfq", kernel="6.12")
    small = lab_experiment(study, "small", changes, said.append)
    assert len(small.workloads) == 6 and small.stopping.blocks == 3
    assert [text.partition(",")[0] for text in said] == ["sized for virtual time"]
    labels = {work.label for work in small.workloads}
    assert small.statements and all({*of.workloads} <= labels for of in small.statements)
    full = lab_experiment(study, "full", changes, said.append)
    assert len(full.workloads) == 63 and len(full.statements) > 60 and len(said) == 1


def test_tables_are_merged_and_all_else_is_replaced():
    base = {"a": {"x": 1, "y": {"z": 2}}, "b": [1], "c": {"d": 1}}
    changes = {"a": {"y": {"w": 3}}, "b": [2], "c": 5, "e": {}}
    a = {"x": 1, "y": {"z": 2, "w": 3}}
    assert merged(base, changes) == {"a": a, "b": [2], "c": 5, "e": {}}
    assert base["a"] == {"x": 1, "y": {"z": 2}}


def test_labs_that_simulate_heed_few_options(say):
    check_options(lab(kind="sim"), dict.fromkeys(("--seed", "--blocks", "--dask", "--dry-run")))
    say(check_options, lab(kind="sim"), dict.fromkeys(("--device", "--dask")))
    check_options(lab(), {"--seed": (), "--device": ()})
    quanta_lab = lab(sweep=TABLE)
    check_options(quanta_lab, dict.fromkeys(("--scale", "--blocks", "--seed", "--dry-run")))
    say(check_options, quanta_lab, dict.fromkeys(("--fs", "--blocks", "--schedulers")))
    say(labs.lab_named, "rr-quantun")


def test_a_lab_with_the_users_wishes(golden):
    data = {"candidates": ["none", "bfq"], "notes": ["of these"], "stopping": {"blocks": 9, "mode":
            "fixed"}, "workloads": [{"label": "w", "kind": "file-test", "metric": "iops",
                                     "parameters": {"test": "read"}}]}  # fmt: skip
    wishes = LabChanges(schedulers="kyber,none", blocks=4, seed=0)
    text = shown(
        {
            "as it is": lab_experiment(lab(**data), "full", LabChanges(seed=1)),
            "other schedulers and blocks": lab_experiment(lab(**data), "small", wishes),
        }
    )
    golden("experiments/lab.txt", text)


def test_where_a_lab_works(golden, say):
    table = {"kind": "scratch", "size_bytes": "3M", "path": "/lab"}
    emulated = {"kind": "emulated", "model": "disk7200", "size_bytes": "3M", "dilate": 4.0,
                "queue_depth": 7}  # fmt: skip

    def target(table, **place):
        return labs._target(lab(), {"target": table}, LabChanges(place=Place(**place)))

    asked = [
        (table, {}), (table, {"scratch_directory": "/x", "rotational": "1", "filesystem": "xfs"}),
        (table, {"scratch_bytes": 4096}), ({}, {}), (table, {"model": "disk7200"}),
        (table, {"model": "disk7200", "size_bytes": 8192}), (table, {"directory": "/srv"}),
        (emulated, {}), (emulated, {"dilate": 2.0, "queue_depth": 5, "size_bytes": 8192}),
    ]  # fmt: skip
    golden("experiments/lab-targets.txt", shown({f"{t}, {p}": target(t, **p) for t, p in asked}))
    say(target, table, queue_depth=3)
    assert labs._target(lab(), {}, LabChanges()) == target({})


def test_quanta_of_a_lab():
    sweep = sweep_of(TABLE, LabChanges())
    assert (sweep.slices, sweep.processes, sweep.seconds, sweep.repeat) == ((1.0, 10.0), 4, 2.0, 6)
    assert (sweep.policy, sweep.priority, sweep.calculation) == ("rr", 5, "elementwise")
    assert (sweep.precision, sweep.budget_s, sweep.aa) == (False, 0.0, True)
    assert len(sweep.cpus) == 1 and sweep.seed is None
    mine = sweep_of(
        {**TABLE, "slices_ms": 3, "calculation": "matmul"}, LabChanges(blocks=9, seed=0)
    )
    assert (mine.slices, mine.repeat, mine.seed, mine.calculation) == ((3.0,), 9, 0, "matmul")


def test_quanta_of_a_lab_are_set_only_on_request(monkeypatch):
    probed = []

    def effective(sweep, report):
        probed.append(sweep.slices)
        return {ms: 4 * ms for ms in sweep.slices}

    monkeypatch.setattr(labs, "effective_slices", effective)
    plain = lab_experiment(lab(sweep=TABLE), "small")
    assert [c.label for c in plain.candidates] == ["1 ms", "10 ms"] and probed == []
    found = lab_experiment(lab(sweep=TABLE), "small", probe=True)
    assert [c.label for c in found.candidates] == ["1 ms (is 4 ms)", "10 ms (is 40 ms)"]
    assert probed == [(1.0, 10.0)]


def quantum(**changes):
    usual = {
        "slices": (1.0, 10.0), "processes": 4, "seconds": 2.0, "repeat": 6, "policy": "rr",
        "priority": 5, "cpus": (3,), "calculation": "matmul", "precision": False, "budget_s": 60.0,
        "aa": True, "seed": 11,
    }  # fmt: skip
    return Sweep(**usual | changes)


def test_quanta_that_become_one_are_measured_once():
    found, notes = merged_candidates("rr", {1.0: 4.0, 2.5: 4.0, 10.0: 10.0, 20.0: 24.0})
    assert [(c.label, c.settings["slice_ms"], c.settings["effective_ms"]) for c in found] == [
        ("1 ms (is 4 ms)", 1.0, 4.0), ("10 ms", 10.0, 10.0), ("20 ms (is 24 ms)", 20.0, 24.0)
    ]  # fmt: skip
    assert found[0].settings["policy"] == "rr"
    assert notes == ["1 ms and 2.5 ms both become 4 ms: measured once, as 1"]
    silent, notes = merged_candidates("other", {3.0: None, 5.0: None})
    assert [(c.label, c.settings["effective_ms"]) for c in silent] == [("3 ms", 3.0)]
    assert notes == ["5 ms: this kernel does not report its quantum; measured once"]


def test_quanta_as_an_experiment(golden, say):
    found = {
        "four workers": quantum_experiment(quantum(), {1.0: 1.0, 10.0: 12.5}),
        "one worker": quantum_experiment(quantum(processes=1), {1.0: 1.0, 10.0: 12.5}),
        "0.5 % of a share": quantum_experiment(quantum(), {1.0: 1.0, 2.5: 2.5}),
        "two CPUs": quantum_experiment(quantum(cpus=(2, 3)), {1.0: 1.0, 4.0: 4.0}),
    }
    golden("experiments/quanta.txt", shown(found))
    say(quantum_experiment, quantum(), {1.0: 4.0, 2.0: 4.0})


@pytest.mark.parametrize(
    ("aa", "budget_s", "blocks"),
    # A segment of four processes and 100 ms takes 0.44 s for each of two quanta and the A/A arm.
    [(True, 60.0, 45), (False, 60.0, 68), (True, 1.0, 5), (False, 5.28, 6)],
)
def test_precise_quanta_flip_inside_a_run(aa, budget_s, blocks):
    asked = quantum(precision=True, aa=aa, budget_s=budget_s)
    found = quantum_experiment(asked, {1.0: 1.0, 100.0: 100.0})
    assert found.stopping.blocks == blocks
    assert found.title.endswith(f"{blocks} paired segments, quantum flipped inside one run")
    assert (found.margin, found.aa_arm, found.notes) == (0.005, aa, ())
    assert found.workloads[0].secondary == ("calculations_per_cpu_s_raw",)
    assert "seconds" not in found.workloads[0].parameters
    alone = replace(asked, processes=1)
    assert refused(quantum_experiment, alone, {1.0: 1.0, 100.0: 100.0}) == (
        "--precision needs a shared CPU", "use more --processes than CPUs"
    )  # fmt: skip
    assert quantum_experiment(replace(asked, processes=2), {1.0: 1.0, 9.0: 9.0})


def test_options_of_a_sweep():
    typed = {**vars(quantum()), "cpus": (), "aa": None, "seed": None}
    found = quanta.sweep_of(typed)
    assert len(found.cpus) == 1 and found.aa
    first, second = (quantum_experiment(found, {1.0: 1.0, 10.0: 10.0}).seed for _ in range(2))
    assert first != second
    assert not quanta.sweep_of({**typed, "precision": True}).aa
    mine = quanta.sweep_of({**typed, "precision": True, "aa": True, "cpus": (1, 2), "seed": 0})
    assert (mine.cpus, mine.aa, mine.seed) == ((1, 2), True, 0)


def test_policies_and_their_work(golden):
    loads = {
        "load and CPUs": CpuLoad(load=3, cpus=(0, 1), seconds=2.5),
        "no load": CpuLoad(workloads=("pipe", "messaging"), load=0),
        "as usual": CpuLoad(),
        "all": CpuLoad(workloads=tuple(cpu_comparison.WORKLOADS), seconds=1.0),
    }
    made = {name: policy_comparison(load, seed=0) for name, load in loads.items()}
    # Notes depend on the kernel.
    golden("experiments/cpu.txt", shown({name: replace(of, notes=()) for name, of in made.items()}))
    assert policy_comparison(CpuLoad()).seed != policy_comparison(CpuLoad()).seed
    said, hint = refused(policy_comparison, CpuLoad(workloads=("wake-up",)))
    assert (said, hint) == ("workload 'wake-up' is not known", "did you mean 'wakeup'?")


def test_which_side_gets_the_policy(monkeypatch):
    named = policy_comparison(CpuLoad(), policies="other,batch:apply_to=work", apply_to="load")
    assert [c.settings.get("apply_to") for c in named.candidates] == ["load", "work"]
    usual = policy_comparison(CpuLoad(), policies="other,batch")
    assert [c.settings.get("apply_to") for c in usual.candidates] == [None, None]
    merged = "policies with the same effective quantum are measured once"
    assert merged not in usual.notes
    twice = policy_comparison(CpuLoad(), policies="other:150ms,other:200ms,batch")
    assert merged in twice.notes and len(twice.candidates) == 2
    nice = policy_comparison(CpuLoad(), policies="other:slice=3ms,nice=5,batch")
    assert merged not in nice.notes and len(nice.candidates) == 2
    monkeypatch.setattr(
        cpu_comparison,
        "notes_of",
        lambda policies, works: [*(of.policy for of in policies), len(works)],
    )
    several = policy_comparison(CpuLoad(workloads=("pipe", "wakeup")), policies="other,batch")
    assert several.notes == ("other", "batch", 2)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program and a directory here, so that golden files name them alike everywhere."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("program").write_text("#!/bin/sh\n")
    Path("program").chmod(0o755)
    return "./program"


def test_a_command_under_policies(program, golden, say):
    work = OwnWork((program, "x"), parameters={"timeout_s": 5.0})
    load = CpuLoad(work=work, load=2, cpus=(1,), directory="in")
    loads = {"in": load, "anywhere": replace(load, directory="")}
    works = {name: policy_comparison(each).workloads[0] for name, each in loads.items()}
    golden("experiments/cpu-command.txt", shown(works))
    say(policy_comparison, replace(load, workloads=("pipe",)))


def test_own_work_as_a_workload(program, golden, say):
    argv = (program, "x")
    parameters = {"timeout_s": None, "ok_exit": (), "settle_s": 0.5, "copy_in": "in"}
    works = {
        "copied": OwnWork(argv, parameters=parameters),
        "nothing to copy": OwnWork(argv, parameters={"copy_in": "none"}),
        "labelled": OwnWork(("a", "|", "b"), shell=True, label="mine"),
        "of a shell": OwnWork(("a",), shell=True),
        "metrics": OwnWork(argv, metrics=("tps:1/s=stdout~(.*)", "elapsed")),
    }
    text = shown({name: workload_of(work) for name, work in works.items()})
    golden("experiments/commands.txt", text)
    say(own_work.metrics_of, ["elapsed", "elapsed"])
    say(workload_of, OwnWork())


def test_a_fio_job_as_a_workload(tmp_path, monkeypatch, golden, say):
    monkeypatch.chdir(tmp_path)
    Path("one.fio").write_text("[j]\nrw=randread\nsize=1m\n")
    Path("two.fio").write_text("[j]\nrw=randrw\nsize=1m\n[k]\nrw=read\nsize=1m\n")
    two = OwnWork(job_file="two.fio", metrics=("k.read.iops",))
    works = {"one": workload_of(OwnWork(job_file="one.fio")), "two": workload_of(two)}
    golden("experiments/fio.txt", shown(works).replace(f"{tmp_path}/", ""))
    say(workload_of, replace(two, metrics=()))
    Path("both.fio").write_text("[j]\nrw=randrw\nsize=1m\n")
    say(workload_of, OwnWork(job_file="both.fio"))
    # A file that is refused is asked for no metric.
    Path("refused.fio").write_text("[j]\nrw=randrw\nsize=1m\nioengine=null\n")
    say(workload_of, OwnWork(job_file="refused.fio"))
    say(workload_of, OwnWork(("true",), job_file="two.fio"))


def test_a_command_on_a_device_may_write(program, golden, say):
    say(own_work.comparison_of, Place(device="/dev/sdb"), OwnWork((program,)))
    asked = (Place(), OwnWork((program,)))
    made = {
        "schedulers": own_work.comparison_of(*asked, schedulers="none,bfq", seed=0),
        "labels": own_work.comparison_of(*asked, schedulers="none,bfq", labels="a,b", seed=1),
    }
    golden("experiments/own-work.txt", shown(made))


def test_options_of_a_command(monkeypatch, tmp_path, say):
    monkeypatch.setattr(options, "usual_user", lambda: "")
    monkeypatch.setenv("HOUSE", "blue")
    printed = []

    def own(text, *command):
        return options.own_work_of(command, typed("compare", *text.split()), printed.append)

    work = own(
        "--env A=1=2 --env HOUSE --env GONE_AWAY --env EMPTY= --ok-exit 0 --ok-exit 3 "
        f"--sync outside --stdin {tmp_path}/in --setup a --cleanup b --prepare c --conclude d "
        "--timeout 1m --clear-env --ignore-exit --keep-daemons --output-limit 8k --warm-up 2 "
        f"--writable {tmp_path} --cache warm --settle 5s --copy-in {tmp_path} --fresh run "
        "--anyway --confine --user me", "true",
    )  # fmt: skip
    assert work is not None and printed == []
    assert work.parameters == {
        "environment": {"A": "1=2", "HOUSE": "blue", "GONE_AWAY": "", "EMPTY": ""},
        "ok_exit": [0, 3], "sync": "outside", "stdin": f"{tmp_path}/in", "setup": "a",
        "cleanup": "b", "prepare_run": "c", "conclude_run": "d", "timeout_s": 60.0,
        "clear_environment": True, "ignore_exit": True, "keep_daemons": True,
        "output_limit_bytes": 8192, "warm_up": 2, "writable": [str(tmp_path)], "cache": "warm",
        "settle_s": 5.0, "copy_in": str(tmp_path), "fresh": "run", "anyway": True,
        "confine": "files", "user": "me",
    }  # fmt: skip
    assert own("") is None
    for words in ("--setup x", "--shell", "--ok-exit 1", "--user me", "--metric m", "--env A=1",
                  "--stdin x", "--unconfined"):  # fmt: skip
        say(own, words)
    contradiction = refused(own, "--confine --unconfined", "true")
    assert contradiction[0] == "--confine and --unconfined contradict each other"
    free = own("--unconfined", "true")
    assert free is not None and free.parameters == {"confine": "nothing"}
    job = own(f"--fio {tmp_path}/j")
    assert job is not None and job.job_file == f"{tmp_path}/j"
    monkeypatch.setattr(options, "usual_user", lambda: "me")
    mine = own("", "true")
    assert mine is not None and mine.parameters == {"user": "me"}
    assert printed == ["the command runs as me (--user root overrides)"]
    root = own("--user root", "true")
    assert root is not None and root.parameters["user"] == "root" and len(printed) == 1


def test_who_called_sudo(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    users = {7: SimpleNamespace(pw_name="me")}
    monkeypatch.setattr(own_work, "pwd", SimpleNamespace(getpwuid=lambda uid: users[uid]))
    for uid, name in {"7": "me", "0": "", "": "", "x": "", "8": ""}.items():
        monkeypatch.setenv("SUDO_UID", uid)
        assert own_work.usual_user() == name
    monkeypatch.setenv("SUDO_UID", "7")
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert own_work.usual_user() == ""
