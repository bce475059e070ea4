"""Labs and their findings, quanta, CPU policies, own work and single loads, as they are typed."""

import hashlib
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from calls import refused
from commands import typed

from schedlab.app import options
from schedlab.app.compare import cpu_comparison, own_work, quanta
from schedlab.app.compare.comparison import Place
from schedlab.app.compare.cpu_comparison import CpuLoad, policy_comparison
from schedlab.app.compare.own_work import OwnWork, workload_of
from schedlab.app.compare.quanta import Sweep, merged_candidates, quantum_experiment
from schedlab.app.measure import labs, single_load
from schedlab.app.measure.labs import (
    Lab,
    LabChanges,
    check_options,
    lab_experiment,
    merged,
    sweep_of,
)
from schedlab.host import scratch
from schedlab.spec import Stopping, Target

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
    wrong = {**data, "scale": {"full": {"grid": {"v": {}}}}}
    said, _ = refused(lab(**wrong).scaled, "full")
    assert said == "lab mine: scale.full changes 'v', which is not a workload"


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


def test_a_lab_with_the_users_wishes():
    data = {"candidates": ["none", "bfq"], "notes": ["of these"], "stopping": {"blocks": 9, "mode":
            "fixed"}, "workloads": [{"label": "w", "kind": "file-test", "metric": "iops",
                                     "parameters": {"test": "read"}}]}  # fmt: skip
    usual = lab_experiment(lab(**data), "full")
    assert (usual.title, usual.stopping.blocks, usual.notes) == ("A lab (full)", 9, ("of these",))
    assert usual.target == Target("scratch", "/var/tmp", 1 << 30)
    wishes = LabChanges(schedulers="kyber,none", blocks=4, seed=0)
    mine = lab_experiment(lab(**data), "small", wishes)
    assert (mine.title, mine.stopping.blocks, mine.seed) == ("A lab (small, 4 blocks)", 4, 0)
    assert [c.label for c in mine.candidates] == ["kyber", "none"] and mine.notes == ()
    assert mine.baseline == "kyber"


def test_where_a_lab_works(say):
    table = {"kind": "scratch", "size_bytes": "3M", "path": "/lab"}

    def target(table, **place):
        return labs._target(lab(), {"target": table}, LabChanges(place=Place(**place)))

    assert target(table) == Target("scratch", "/var/tmp", 3 << 20)
    assert target(table, scratch_directory="/x", rotational="1", filesystem="xfs") == Target(
        "scratch", "/x", 3 << 20, rotational="1", filesystem="xfs"
    )  # fmt: skip
    assert target(table, scratch_bytes=4096) == Target("scratch", "/var/tmp", 4096)
    assert target({}) == Target("scratch", "/var/tmp", 1 << 30)
    assert target(table, model="disk7200") == Target("emulated", "", 3 << 20, model="disk7200")
    assert target(table, model="disk7200", size_bytes=8192).size_bytes == 8192
    assert target(table, directory="/srv").kind == "directory"
    say(target, table, queue_depth=3)
    emulated = {"kind": "emulated", "model": "disk7200", "size_bytes": "3M", "dilate": 4.0,
                "queue_depth": 7}  # fmt: skip
    assert target(emulated) == Target(
        "emulated", "", 3 << 20, model="disk7200", dilate=4.0, queue_depth=7
    )  # fmt: skip
    changed = target(emulated, dilate=2.0, queue_depth=5, size_bytes=8192)
    assert (changed.dilate, changed.queue_depth, changed.size_bytes) == (2.0, 5, 8192)
    none = labs._target(lab(), {}, LabChanges())
    assert none == Target("scratch", "/var/tmp", 1 << 30)


def test_quanta_of_a_lab():
    sweep = sweep_of(TABLE, LabChanges())
    assert (sweep.slices, sweep.processes, sweep.seconds, sweep.repeat) == ((1.0, 10.0), 4, 2.0, 6)
    assert (sweep.policy, sweep.priority, sweep.kernel) == ("rr", 5, "elementwise")
    assert (sweep.precision, sweep.budget_s, sweep.aa) == (False, 0.0, True)
    assert len(sweep.cpus) == 1 and sweep.seed is None
    mine = sweep_of({**TABLE, "slices_ms": 3, "kernel": "matmul"}, LabChanges(blocks=9, seed=0))
    assert (mine.slices, mine.repeat, mine.seed, mine.kernel) == ((3.0,), 9, 0, "matmul")


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
        "priority": 5, "cpus": (3,), "kernel": "matmul", "precision": False, "budget_s": 60.0,
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


def test_quanta_as_an_experiment(say):
    found = quantum_experiment(quantum(), {1.0: 1.0, 10.0: 12.5})
    assert found.title == "Quantum of rr, 4 processes, 2 s a run"
    alone = quantum_experiment(quantum(processes=1), {1.0: 1.0, 10.0: 12.5})
    assert alone.title == "Quantum of rr, 1 process, 2 s a run"
    assert (found.kind, found.baseline, found.seed, found.margin) == ("cpu", "1 ms", 11, 0.02)
    assert (found.stopping, found.aa_arm) == (Stopping("fixed", 6), True)
    (work,) = found.workloads
    assert (work.label, work.metric) == ("4 x matmul", "calculations_per_cpu_s")
    assert work.secondary == ("calculations", "fairness_jain")
    assert work.parameters == {"processes": 4, "kernel": "matmul", "cpus": [3], "priority": 5,
                               "flip": False, "seconds": 2.0}  # fmt: skip
    # A worker's share is 0.5 s, of which 12.5 ms are 2.5 %.
    assert found.notes == (
        "one quantum of 12.5 ms is 2.5% of a worker's share: the counts of the workers can differ "
        "by that much although the scheduler is fair",
    )
    assert len(quantum_experiment(quantum(), {1.0: 1.0, 2.5: 2.5}).notes) == 1  # 0.5 %
    assert quantum_experiment(quantum(cpus=(2, 3)), {1.0: 1.0, 4.0: 4.0}).notes == ()
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


def test_policies_and_their_work():
    found = policy_comparison(CpuLoad(load=3, cpus=(0, 1), seconds=2.5), seed=0)
    assert found.title == "CPU policies: wakeup"
    assert [c.label for c in found.candidates] == ["other", "batch", "fifo"]
    assert (found.baseline, found.seed, found.stopping) == ("other", 0, Stopping(blocks=12))
    assert (found.objective, found.kind, found.target) == ("latency", "cpu", Target("none"))
    (work,) = found.workloads
    assert work.parameters == {"cpus": [0, 1], "load": 3, "seconds": 2.5}
    assert work.secondary[0] == "response_ns_p50" and "load_work_per_s" in work.secondary
    idle = policy_comparison(CpuLoad(workloads=("pipe", "messaging"), load=0))
    assert [each.parameters["load"] for each in idle.workloads] == [0, 0]
    assert idle.workloads[0].secondary and idle.seed != policy_comparison(CpuLoad()).seed
    assert policy_comparison(CpuLoad()).workloads[0].parameters == {}
    said, hint = refused(policy_comparison, CpuLoad(workloads=("wake-up",)))
    assert (said, hint) == ("workload 'wake-up' is not known", "did you mean 'wakeup'?")
    for name in cpu_comparison.WORKLOADS:
        assert policy_comparison(CpuLoad(workloads=(name,), seconds=1.0)).workloads[0].kind == name


def test_which_side_gets_the_policy():
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


def test_a_command_under_policies(tmp_path, say):
    work = OwnWork(("true", "x"), parameters={"timeout_s": 5.0})
    load = CpuLoad(work=work, load=2, cpus=(1,), directory=str(tmp_path))
    (found,) = policy_comparison(load).workloads
    assert (found.kind, found.label) == ("cpu-command", "true")
    assert found.parameters["directory"] == str(tmp_path)
    assert (found.parameters["load"], found.parameters["timeout_s"]) == (2, 5.0)
    assert "directory" not in policy_comparison(replace(load, directory="")).workloads[0].parameters
    say(policy_comparison, replace(load, workloads=("pipe",)))


def test_own_work_as_a_workload(tmp_path, say):
    (tmp_path / "in").mkdir()
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    argv = (str(program), "x")
    work = workload_of(OwnWork(argv, parameters={"timeout_s": None, "ok_exit": (), "settle_s": 0.5,
                                                 "copy_in": str(tmp_path / "in")}))  # fmt: skip
    assert (work.label, work.kind) == ("program", "command")
    assert work.parameters["argv"] == list(argv) and work.parameters["settle_s"] == 0.5
    assert not {"timeout_s", "ok_exit", "shell"} & set(work.parameters)
    assert work.parameters["program_sha256"] == hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert len(work.parameters["copy_in_sha256"]) == 64
    assert work.metric == "elapsed_synced_s" and len(work.secondary) == 2
    gone = workload_of(OwnWork(argv, parameters={"copy_in": str(tmp_path / "none")}))
    assert "copy_in_sha256" not in gone.parameters
    shell = workload_of(OwnWork(("a", "|", "b"), shell=True, label="mine"))
    assert (shell.label, shell.parameters) == ("mine", {"shell": "a | b"})
    assert workload_of(OwnWork(("a",), shell=True)).label == "command"
    own = ("tps:1/s=stdout~(.*)", "elapsed")
    named = workload_of(replace(OwnWork(argv), metrics=own))
    assert named.metric == "tps" and named.secondary[0] == "elapsed_s"
    assert named.parameters["extract"] == ["tps:1/s=stdout~(.*)"]
    say(own_work.metrics_of, ["elapsed", "elapsed"])
    say(workload_of, OwnWork())


def test_a_fio_job_as_a_workload(tmp_path, say):
    job = tmp_path / "one.fio"
    job.write_text("[j]\nrw=randread\nsize=1m\n")
    work = workload_of(OwnWork(job_file=str(job)))
    assert (work.label, work.kind, work.metric) == ("one.fio", "fio-job", "j.read.iops")
    assert work.parameters["job_sha256"] == hashlib.sha256(job.read_bytes()).hexdigest()
    assert work.parameters["job_file"] == str(job)
    two = tmp_path / "two.fio"
    two.write_text("[j]\nrw=randrw\nsize=1m\n[k]\nrw=read\nsize=1m\n")
    say(workload_of, OwnWork(job_file=str(two)))
    named = workload_of(OwnWork(job_file=str(two), metrics=("k.read.iops",)))
    assert named.metric == "k.read.iops"
    say(workload_of, OwnWork(("true",), job_file=str(two)))


def test_a_command_on_a_device_may_write(say):
    asked = Place(device="/dev/sdb")
    say(own_work.comparison_of, asked, OwnWork(("true",)))
    usual = own_work.comparison_of(Place(), OwnWork(("true",)), schedulers="none,bfq", seed=0)
    assert usual.title == "true under I/O schedulers on a temporary loop device of 1 GiB"
    assert (usual.seed, usual.stopping.blocks, usual.baseline) == (0, 12, "none")
    named = own_work.comparison_of(Place(), OwnWork(("true",)), schedulers="none,bfq", labels="a,b")
    assert named.notes == ("a is none", "b is bfq") and named.seed


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


def load(path, **changes):
    """The options of a single load on a file of 8 KiB."""
    usual = {
        "test_name": "read", "path": path, "size": None, "depth": 1, "rate": None,
        "arrivals": "poisson", "engine": None, "workers": 2, "record": 4096, "seed": 5,
        "direct": True, "sync": "none", "fsync_at_end": False, "verify": False, "batch": 8,
        "allow_fallback": True, "iopoll": False, "sqpoll": False, "with_replacement": True,
        "read_percent": 70, "overwrite": False,
    }  # fmt: skip
    return usual | changes


def test_a_single_load(tmp_path, say):
    file = tmp_path / "file"
    file.write_bytes(bytes(8192))
    group = single_load.group_of(load(file))
    assert (group["name"], group["path"], group["engine"]) == ("read", str(file), "psync")
    assert (group["workers"], group["batch"]) == (2, 1)
    assert group["workload"]["arrivals"] == {"kind": "closed", "depth": 1}
    assert (group["workload"]["span"], group["workload"]["record"]) == (8192, 4096)
    deep = single_load.group_of(load(file, depth=16, test_name="randrw", size=4096))
    assert (deep["name"], deep["engine"], deep["batch"]) == ("mixed", "io_uring", 8)
    assert deep["workload"]["direction"]["read_percent"] == 70
    assert deep["workload"]["span"] == 4096
    rated = single_load.group_of(load(file, rate=9.0, test_name="randread"))
    assert rated["workload"]["arrivals"] == {"kind": "poisson", "rate_per_s": 9.0}
    assert rated["engine"] == "io_uring" and rated["workload"]["pattern"]["replacement"] is True
    assert single_load.group_of(load(file, depth=2, engine="psync"))["engine"] == "psync"
    assert "replacement" not in group["workload"]["pattern"]
    say(single_load.group_of, load(file, test_name="raed"))


def test_the_file_of_a_single_load(tmp_path, monkeypatch, say):
    file, none = tmp_path / "file", tmp_path / "none"
    file.write_bytes(bytes(8192))
    assert single_load.span_of(none, 4096) == 4096
    assert single_load.span_of(file, 16384) == 16384
    say(single_load.span_of, none, None)
    empty = tmp_path / "empty"
    empty.touch()
    say(single_load.span_of, empty, None)
    check = single_load.make_or_check_file
    check(file, 8192, keep=False)
    check(file, None, keep=False)
    say(check, file, 8193, keep=False)
    say(check, file, None, keep=True)
    made = []
    monkeypatch.setattr(scratch, "check_space", lambda *asked: made.append(asked))
    monkeypatch.setattr(scratch, "fill", lambda *asked: made.append(asked))
    check(none, 4096, keep=True)
    assert made == [(tmp_path, 4096), (none, 4096)]
