"""A kernel in virtual time: two boots of one machine are equal to the bit, and its ends are clear.

Needs qemu, busybox, and a kernel: one of this machine, or `schedlab kernel get 6.12`.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from described import LOAD, check_places

from schedlab.app.measure import virtual, virtual_boots
from schedlab.app.measure.measure import Observer
from schedlab.design.plan import cell_seed
from schedlab.errors import HostError, Interrupted
from schedlab.guest import kernels
from schedlab.guest.machine import QEMU
from schedlab.nouns import Candidate, Experiment, Stopping, Target, Workload
from schedlab.result import Result
from schedlab_sim.predict import predict

SCHEDLAB = [sys.executable, "-m", "schedlab"]
DEADLINE_S = 300
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "examples" / "fifo.bpf.c"


@pytest.fixture(scope="module")
def kernel():
    for tool in (QEMU, "busybox"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    usable = [each for each in kernels.every() if each.options and not each.lacks]
    if not usable:
        pytest.skip("no kernel is here: schedlab kernel get 6.12")
    return usable[-1]


def experiment(policy="rr"):
    work = Workload("two", "calculation", "calculations", {"processes": 2, "seconds": 1.0})
    candidates = (Candidate(policy, {"policy": policy}), Candidate("batch", {"policy": "batch"}))
    stopping = Stopping(blocks=1)
    return Experiment(
        "two workers", "cpu", Target("none"), candidates, (work,), policy, 7,
        stopping=stopping, aa_arm=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(kernel, tmp_path_factory):
    """Two workers on one CPU of a kernel that preempts itself, as that of many desktops does."""
    out = tmp_path_factory.mktemp("virtual") / "first"
    boot = virtual.booted(experiment(), kernel, "preempt=full")
    boot.run(lambda message: None, out)
    return out


def test_two_workers_start_together_where_the_kernel_preempts_itself(folder):
    """The first of two real-time workers kept the starter from waking the second: 74 : 26."""
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    for row in rows:
        shares = [worker["cpu_burst_s"] for worker in row["properties"]["workers"]]
        assert min(shares) / sum(shares) > 0.47, row["candidate"]


def test_a_load_is_measured_under_the_kernels_schedulers_and_the_rest_is_predicted(
    kernel, monkeypatch
):
    monkeypatch.setattr(predict, "KERNEL_DRAWS", 1)
    monkeypatch.setattr(predict, "KERNEL_SECONDS", (1.0, 1.0))
    monkeypatch.setattr(predict, "DRAWS", 2)
    (load,) = predict.loads_of("readers3-deep", None)
    seen = []
    found = predict.predict("sd-card", load, "none,mq-deadline", seen.append, kernel=kernel.release)
    assert found.code == "same"
    assert found.nearest == "readers3-deep"
    assert f"Linux {kernel.release} in virtual time: 2 of 2 runs" in seen


def test_a_second_boot_is_equal_to_the_bit(folder, tmp_path):
    again = tmp_path / "again"
    command = [*SCHEDLAB, "reproduce", str(folder), "--out", str(again)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "identical, 2 of 2 runs"), done.stderr
    assert (again / "runs.jsonl").read_bytes() == (folder / "runs.jsonl").read_bytes()
    assert (again / "host.json").read_bytes() == (folder / "host.json").read_bytes()


def test_an_own_program_is_repeated_to_the_bit(kernel, tmp_path):
    """Its digest, which a folder keeps, is no part of the machine: else it was another one."""
    (tmp_path / "count.py").write_text("print(sum(range(10**5)))")
    words = ["cpu", "compare", "--kernel", kernel.release, "--policies", "other,batch", "--no-aa"]
    words += ["--blocks", "1", "--unconfined", "--load", "1", "--out", tmp_path / "out", "--"]
    subprocess.run([*SCHEDLAB, *words, "python3", tmp_path / "count.py"], check=True)
    again = virtual.reproduce(tmp_path / "out", tmp_path / "again")
    assert virtual.identity(*again) == ("identical, 2 of 2 runs", True)


def test_a_state_that_is_made_again_has_the_same_memory(folder, kernel, tmp_path):
    """So a session is the same on another machine, whose cache has a state of its own."""
    boot = virtual.booted(experiment(), kernel, "preempt=full")
    assert boot.facts == Result.load(folder).record.host["virtual"]
    boot._make_state(tmp_path / "again")
    digests = []
    for directory in (boot._state(), tmp_path / "again"):
        with (directory / "ram").open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    assert digests[0] == digests[1]


def test_the_answer_says_what_it_holds_for(folder, kernel):
    result = Result.load(folder)
    facts = result.record.host["virtual"]
    assert facts["kernel"] == kernel.release and facts["words"] == "preempt=full"
    assert len(facts["digest"]) == 64
    text = " ".join(result.text(width=200).split())
    assert "Virtual time: " in text and "proven the best" not in text
    assert f"in virtual time, Linux {kernel.release.partition('+')[0]}, one CPU, 500 M" in text
    assert "no caches, no SMP" in text


def test_a_panic_is_an_error_with_its_cause(kernel, tmp_path):
    boot = virtual.booted(experiment(), kernel, "rdinit=/none root=/dev/none")
    with pytest.raises(HostError, match=r"panicked: .*(VFS|init)"):
        boot.run(lambda message: None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_error_inside_is_the_error_here(kernel, tmp_path):
    broken = experiment("other")
    work = Workload("two", "calculation", "calculations", {"processes": 2, "cpus": [5]})
    broken = type(broken)(**{**broken.__dict__, "workloads": (work,)})
    with pytest.raises(HostError) as error:
        virtual.booted(broken, kernel).run(lambda message: None, tmp_path / "out")
    assert "5" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("number", "is_ours", "code", "words"),
    [(signal.SIGKILL, False, 2, "qemu was killed"), (signal.SIGINT, True, 130, "interrupted")],
)
def test_a_machine_that_is_ended_leaves_nothing(kernel, tmp_path, number, is_ours, code, words):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*SCHEDLAB, "kernel", "check", kernel.release]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    machine = awaited_child(process.pid)
    os.kill(process.pid if is_ours else machine, number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, words in errors) == (code, True), errors
    assert list(tmp_path.glob("schedlab-virtual-*")) == []
    assert not Path(f"/proc/{machine}/exe").exists()


def test_a_machine_ends_with_its_owner_and_the_next_start_removes_its_files(kernel, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*SCHEDLAB, "kernel", "check", kernel.release]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    machine = awaited_child(process.pid)
    process.kill()
    process.wait()
    deadline = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{machine}/exe").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (left,) = tmp_path.glob("schedlab-virtual-*")
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    awaited_child(process.pid)
    assert not left.exists()
    process.send_signal(signal.SIGINT)
    process.wait(DEADLINE_S)
    assert list(tmp_path.glob("schedlab-virtual-*")) == []


def test_kernels_are_candidates_and_their_boots_are_repeated_to_the_bit(kernel, tmp_path):
    others = [each for each in kernels.every() if each.options and each.release != kernel.release]
    if not others:
        pytest.skip("there is one kernel: schedlab kernel get 6.1")
    names = f"{others[0].release},{kernel.release}"
    result = virtual.measure(experiment("other"), names, tmp_path / "out")
    runs = result.folder.runs()
    labels = [f"{name} × {policy}" for name in names.split(",") for policy in ("other", "batch")]
    assert {run.candidate for run in runs} == set(labels)
    assert len({run.seed for run in runs}) == 1  # all meet the same load
    text = " ".join(result.text(width=200).split())
    assert "1 boot of each" in text and "proven" not in text
    assert "One boot of each shows figures but bounds no risk" in text
    again = virtual.reproduce(tmp_path / "out", tmp_path / "again")
    assert virtual.identity(*again) == ("identical, 4 of 4 runs", True)


def test_a_disk_answers_large_reads_on_time(kernel, tmp_path):
    """Memory is copied word by word: a byte an instruction made 128 KiB 4 % late. And replies begin
    early by what their length takes: else 1 MiB, as the page cache reads it, is 1.4 ms late. The
    kernel gathers no huge pages meanwhile: it did so for 4 ms at a time. The latest of all replies
    is .4 to 1.1 ms late, by the seed."""
    words = ["compare", "--kernel", kernel.release, "--model", "disk7200", "--schedulers", "none"]
    words += ["--workloads", "readers,cached-reads", "--blocks", "1", "--no-aa"]
    subprocess.run([*SCHEDLAB, *words, "--out", tmp_path / "out"], check=True, timeout=DEADLINE_S)
    runs = list(map(json.loads, (tmp_path / "out" / "runs.jsonl").read_text().splitlines()))
    seen = [(run["attempt"], run["status"], run["gates"]) for run in runs]
    assert seen == [(1, "ok", [])] * 2
    for run in runs:
        assert run["properties"]["emulated"]["lateness"]["max_ns"] < 2_000_000
    long = next(run for run in runs if run["workload"] == "reads from the page cache")
    assert long["properties"]["emulated"]["lateness"]["p99_ns"] < 100_000


def test_described_processes_ask_the_guest_for_the_places_of_the_simulation(kernel, tmp_path):
    (tmp_path / "load.toml").write_text(tomli_w.dumps(LOAD))
    words = ["compare", "--kernel", kernel.release, "--model", "sd-card", "--no-aa", "--explain"]
    words += ["--schedulers", "none,mq-deadline", "--workloads", tmp_path / "load.toml"]
    words += ["--blocks", "1", "--seconds", "7", "--seed", "5", "--out", tmp_path / "out"]
    subprocess.run([*SCHEDLAB, *words], check=True, timeout=DEADLINE_S)
    record = Result.load(tmp_path / "out").record
    seed = cell_seed(5, 0, "load")
    assert {run.seed for run in record.runs} == {seed} and len(record.recordings) == 2
    for recording in record.recordings.values():
        check_places(recording.path, record.experiment.target.size_bytes, seed)


def test_an_interruption_keeps_the_whole_rounds(kernel, tmp_path):
    def stop(message):
        if message.startswith("boot 2 of 2"):
            raise Interrupted("interrupted")

    of = experiment()
    two = replace(of, stopping=replace(of.stopping, blocks=2, sessions=2))
    with pytest.raises(Interrupted, match="kept 1 of 2 rounds") as caught:
        virtual.measure(two, kernel.release, tmp_path / "out", Observer(report=stop))
    assert caught.value.hint == f"schedlab analyse {tmp_path / 'out'}"
    kept = Result.load(tmp_path / "out")
    assert len(kept.folder.runs()) == 2 and kept.record.experiment.stopping.sessions == 1
    plan = virtual_boots.stored_plan(tmp_path / "out")
    assert plan and plan.boots == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]


def test_an_own_scheduler_is_measured_and_one_with_a_fault_is_ejected(tmp_path):
    able = [each for each in kernels.every() if "sched_ext" in each.offers]
    if not able or not shutil.which("clang"):
        pytest.skip("needs clang, and a kernel with sched_ext: schedlab kernel get 7.2")
    candidates = [Candidate("other", {"policy": "other"})]
    for name, words in (("fifo", []), ("forget", ["-DFORGET"])):
        compiled = tmp_path / f"{name}.bpf.o"
        clang = ["clang", "-O2", "-g", "-target", "bpf", *words]
        subprocess.run([*clang, "-c", EXAMPLE, "-o", compiled], check=True)
        candidates.append(Candidate(name, {"policy": "ext", "ext": str(compiled)}))
    work = Workload("w", "wakeup", "response_ns_p99", {"seconds": 1.0})
    asked = Experiment(
        "own", "cpu", Target("none"), tuple(candidates), (work,), "other", 7,
        stopping=Stopping(blocks=1), aa_arm=False,
    )  # fmt: skip
    result = virtual.measure(asked, able[-1].release, tmp_path / "out")
    runs = {run.candidate: run for run in result.folder.runs()}
    assert (runs["fifo"].status, runs["fifo"].properties["sched_ext"]) == ("ok", "fifo")
    (ejected,) = [gate for gate in runs["forget"].gates if gate.gate == "ext-ejected"]
    assert "runnable task stall" in ejected.detail
    text = " ".join(result.text(width=300).split())
    assert "forget: 3 of 3 runs discarded: scheduler ejected (runnable task stall)" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to become another user")
def test_an_ordinary_user_needs_no_root(kernel):
    """With the system's Python, which such a user can read; the image is made by that user."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = shutil.which(f"python{version}", path="/usr/bin")
    if python is None:
        pytest.skip(f"/usr/bin has no Python {version}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        home = Path(name)
        home.chmod(0o755)
        shutil.copy(kernel.image, home / "bzImage")
        modules = home / "lib/modules"
        shutil.copytree(kernel.modules, modules / kernel.release, symlinks=True)
        for directory in ("cache", "tmp"):
            (home / directory).mkdir()
            os.chown(home / directory, 65534, 65534)
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": name, "TMPDIR": f"{name}/tmp",
            "XDG_CACHE_HOME": f"{name}/cache", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }  # fmt: skip
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        command = [*user, python, "-m", "schedlab", "kernel", "check", f"{name}/bzImage"]
        done = subprocess.run(
            command, env=environment, cwd=name, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Can measure     I/O schedulers, emulated disks" in done.stdout + done.stderr
        assert list((home / "tmp").iterdir()) == []


def awaited_child(pid):
    """The process id of qemu below a process."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"-icount" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                return int(child)
        time.sleep(0.05)
    raise AssertionError("no machine was started")
