"""Burst capture: both sources see every burst, and a reader that cannot keep up says so."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from schedlab import _core
from schedlab._core import BurstCapture, probe_burst_sources
from schedlab.cpu.bursts import Bursts, Capture, check
from schedlab.cpu.crew import Settings, ended, held_crew, last_cpu, pids_of, ran
from schedlab.kinds.calculation import Calculation
from schedlab.nouns import Candidate
from schedlab.nouns.load_result import TaskResult
from schedlab.run.cpu import cpu_calculations
from schedlab.store.bursts import from_csv

pytestmark = pytest.mark.alone  # its figures are CPU time

ROOT_PROC = Path("/proc/sys/kernel")
UNUSABLE = {name: why for name, why in probe_burst_sources() if why}


def usable(method):
    if method in UNUSABLE:
        pytest.skip(UNUSABLE[method])


def capture_two_workers(seconds, method, **options):
    settings = Settings(2, int(seconds * 1e9), cpus=(last_cpu(),))
    with held_crew(settings, None) as (crew, _):
        capture = Capture(pids_of(crew), method, **options)
        rows = ran(crew).groups[0].tasks
        return capture.finish(), rows


@pytest.mark.machine
@pytest.mark.parametrize("method", ["bpf", "perf"])
def test_bursts_are_as_many_as_switches_and_add_up_to_the_cpu_time(method):
    usable(method)
    bursts, rows = capture_two_workers(0.6, method)
    assert (bursts.method, bursts.lost, len(bursts.tasks)) == (method, 0, 2)
    for row in rows:
        task = bursts.of(row.pid)
        # The last switch of a process may come after its account was read; and perf lets go of a
        # process at its exit, where a busy machine may interrupt it a few times more.
        switches = row.voluntary_switches + row.involuntary_switches
        assert -1 <= switches - task["bursts"] <= (5 if method == "perf" else 1)
        assert task["bursts"] > 1
        # Some kernels do not trace every switch; perf does not know the length of such a burst.
        unknown = task["untraced_starts"] if method == "perf" else 0
        assert sum(count for _, _, count in task["histogram"]) == task["bursts"] - unknown
        # A hypervisor may steal time on a shared machine: it is in the burst, not in the account.
        if not unknown and (method == "bpf" or task["bursts"] == switches):
            assert task["total_ns"] == pytest.approx(row.cpu_ns, rel=0.15)
    own = [record for record in bursts.records if record[2] == rows[0].pid]
    assert [end for end, *_ in own] == sorted(end for end, *_ in own)
    assert sum(length for _, length, *_ in own) == bursts.of(rows[0].pid)["total_ns"]


def switches_of(pid):
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if "ctxt_switches" in row)


@pytest.mark.parametrize("method", ["bpf", "perf"])
def test_a_tiny_ring_counts_what_it_lost(method):
    usable(method)
    with held_crew(Settings(2, None, cpus=(last_cpu(),)), None) as (crew, _):
        options = {"method": method, "ring_bytes": 4096, "drain_ms": 60_000}  # no process reads
        capture = BurstCapture(pids_of(crew), json.dumps(options))
        crew.start()
        deadline = time.monotonic() + 20
        while sum(map(switches_of, pids_of(crew))) < 200:
            assert time.monotonic() < deadline, "the workers were not switched"
            crew.wait(0.05)
        rows = ended(crew).groups[0].tasks
        switches = sum(row.voluntary_switches + row.involuntary_switches for row in rows)
        text, records = capture.finish()
    data = json.loads(text)
    assert data["lost"] > 0
    assert len(records) < switches
    if method == "bpf":  # its totals are kept in the kernel and miss nothing
        assert abs(len(records) + data["lost"] - switches) <= 2
        assert abs(sum(task["bursts"] for task in data["tasks"]) - switches) <= 2


def test_the_floor_gives_totals_only_and_no_false_checks():
    bursts, rows = capture_two_workers(0.1, "schedstat")
    assert not bursts.has_bursts
    assert check(bursts, sum(row.cpu_ns for row in rows), 10) == ()


@pytest.mark.machine
@pytest.mark.parametrize("method", ["bpf", "perf", "schedstat"])
def test_trace_cpu_follows_what_a_command_forks_and_exits_with_its_status(method, tmp_path):
    usable(method)
    out = tmp_path / "bursts.csv"
    command = ["--method", method, "--json", "--out", str(out)]
    command += ["--", "sh", "-c", "seq 20000 | tail -1 >&2; exit 7"]
    result = subprocess.run(
        [sys.executable, "-m", "schedlab", "trace", "cpu", *command],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 7, result.stderr
    assert "20000" in result.stderr
    data = json.loads(result.stdout)
    assert (data["method"], data["account"]["exit_status"]) == (method, 7)
    if method == "schedstat":
        assert data["tasks"] == []
        return
    assert len(data["tasks"]) >= 2
    assert data["lost"] == 0
    counted = next(c for c in data["checks"] if c["name"] == "bursts and context switches")
    assert abs(counted["found"] - counted["expected"]) <= len(data["tasks"])
    assert len(out.read_text().splitlines()) == 1 + sum(t["bursts"] for t in data["tasks"])


def test_a_command_that_is_not_there_is_named():
    result = subprocess.run(
        [sys.executable, "-m", "schedlab", "trace", "cpu", "--", "no-such-command"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "no-such-command" in result.stderr
    assert "hint: " in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time policies need root")
def test_a_run_lasts_as_long_as_asked_and_names_the_longest_wait():
    work = Calculation(processes=3, cpus=(last_cpu(),), seconds=1.0)
    began = time.monotonic()
    outcome = cpu_calculations.measured(work, Candidate("rr", {"policy": "rr"}), print)
    assert time.monotonic() - began >= 1.0
    facts = outcome.properties
    assert facts["longest_wait_ms"] == 2 * facts["effective_slice_ms"] > 0
    counts = [worker["calculations"] for worker in facts["workers"]]
    assert len(counts) == 3 and outcome.metrics["calculations"] == sum(counts)


def test_a_run_notes_accounts_that_disagree():
    records = tuple((100 * i, 50, 0, False) for i in range(40))
    tasks = ({"task": 0, "bursts": 40, "total_ns": 2_000_000_000, "untraced_starts": 0},)
    bursts = Bursts("bpf", (), tasks, records, 0, 0)

    def notes(bursts, cpu_ms, switches):
        row = TaskResult(cpu_ns=cpu_ms * 500_000, involuntary_switches=switches // 2)
        return [finding.detail for finding in cpu_calculations._trouble(bursts, [row, row])]

    assert notes(bursts, 2000, 40) == notes(bursts, 2000, 42) == []  # one more for each worker
    (note,) = notes(bursts, 2400, 40)
    assert "sum of bursts and CPU time" in note
    (note,) = notes(bursts, 2000, 60)
    assert "bursts and context switches" in note
    assert notes(structs.replace(bursts, lost=3), 2000, 40)[-1] == "3 records were lost"


KNOWN = """
import ctypes, os, struct, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.nice(7)
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
own = struct.pack("IIQiIQQQ", 48, 0, 0, 7, 0, 3_000_000, 0, 0)
ctypes.CDLL(None).syscall(314, 0, own, 0)
planned = []
for _ in range(20):
    planned.append(time.monotonic_ns() + 5_000_000)
    clock = struct.pack("qq", *divmod(planned[-1], 10**9))
    ctypes.CDLL(None).clock_nanosleep(1, 1, clock, None)
    until = time.monotonic_ns() + 1_000_000
    while time.monotonic_ns() < until:
        pass
print(os.getpid(), *planned)
"""


def traced(out, *command):
    words = ["--method", "bpf", "--json", "--out", str(out), "--", *command]
    line = [sys.executable, "-m", "schedlab", "trace", "cpu", *words]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return done.stdout, from_csv(out, out.read_text())


def test_bpf_stores_nice_slice_cpu_and_the_time_of_each_wake_up(tmp_path):
    """A process that says when it will be woken: never earlier, and before it runs."""
    usable("bpf")
    where = last_cpu()
    # It prints when it was to be woken: above the JSON of the trace.
    stdout, bursts = traced(tmp_path / "b.csv", sys.executable, "-c", KNOWN, str(where))
    pid, *planned = map(int, stdout.splitlines()[0].split())
    own = [burst for burst in bursts if burst.task == pid]
    last = own[-1].scheduling
    assert (last.cpu, last.policy, last.nice) == (where, 0, 7)
    release = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    if release >= (6, 12):  # a task has a slice of its own
        assert last.slice_ns == 3_000_000
    for before, after in itertools.pairwise(own):
        woken_ns = after.scheduling.woken_ns
        assert bool(woken_ns) != before.is_preempted
        assert not woken_ns or before.end_ns <= woken_ns <= after.end_ns - after.duration_ns
    slept = [
        (before.end_ns, after.scheduling.woken_ns) for before, after in itertools.pairwise(own)
    ]
    in_time = [w for end, w in slept if any(end <= at_ns <= w for at_ns in planned)]
    assert len(in_time) >= 10  # On a busy machine a time is over before the process can sleep.


SPIN = "import time\nwhile time.process_time() < 0.25: pass"


@pytest.mark.machine
def test_a_schedule_whose_parent_waits_is_judged(tmp_path):
    """Two round-robin processes and the shell that waits for them, within the second after which
    the kernel gives others a turn."""
    usable("bpf")
    quantum_ms = (ROOT_PROC / "sched_rr_timeslice_ms").read_text().strip()
    one = f"{sys.executable} -S -c '{SPIN}'"
    script = f"{one} & {one} & wait"
    out = tmp_path / "b.csv"
    _, bursts = traced(out, "chrt", "-r", "5", "taskset", "-c", str(last_cpu()), "sh", "-c", script)
    assert {burst.scheduling.policy for burst in bursts[2:]} == {2}
    words = ["--policy", "rr", "--quantum", f"{quantum_ms}ms", "--hz", "250", "--json"]
    command = [sys.executable, "-m", "schedlab", "sim", "cpu", *words, "--validate", str(out)]
    report = json.loads(subprocess.run(command, check=False, capture_output=True).stdout)
    assert (report["not_judged"], report["accepted"], report["tasks"]) == ("", True, 3), report
    wrong = ["20ms" if word == f"{quantum_ms}ms" else word for word in command]
    report = json.loads(subprocess.run(wrong, check=False, capture_output=True).stdout)
    assert (report["not_judged"], report["accepted"]) == ("", False)


WAITER = """
import os, sys, time
for _ in range(20):
    os.read(0, 1)
    os.write(1, b"x")
if os.fork() == 0:
    for _ in range(10):
        time.sleep(0.001)
    os._exit(0)
os.wait()
"""


def test_waits_are_those_of_the_class_and_of_what_it_forks():
    command = [sys.executable, "-c", WAITER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as one:
        assert one.stdin and one.stdout
        try:
            capture = _core.RunQueueCapture([(1, one.pid)])
        except OSError as reason:
            one.kill()
            pytest.skip(str(reason))
        for _ in range(20):
            one.stdin.write(b"x")
            one.stdout.read(1)
        one.wait()
    result = json.loads(capture.finish())
    other, own = result["classes"]
    assert result["lost_tasks"] == other["woken"]["waits"] == other["preempted"]["waits"] == 0
    woken = own["woken"]
    assert 10 <= woken["waits"] == sum(count for *_, count in woken["histogram"])
    low, high, _ = woken["histogram"][-1]
    assert low <= woken["max_ns"] <= high
    with pytest.raises(OSError, match="more than 16 classes"):
        _core.RunQueueCapture([(16, os.getpid())])
