"""Bursts of programs whose switches, numbers and times are known."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedlab._core import BurstCapture, probe_burst_sources

UNUSABLE = {name: why for name, why in probe_burst_sources() if why}


@pytest.fixture(params=["bpf", "perf"])
def method(request):
    if request.param in UNUSABLE:
        pytest.skip(UNUSABLE[request.param])
    return request.param


@pytest.fixture
def bpf():
    if "bpf" in UNUSABLE:
        pytest.skip(UNUSABLE["bpf"])


def captured(options, *programs, beside=lambda program: None):
    """Programs that wait for a byte, then run to their end: (what was found, its records, what
    each said). `beside` is called with each program when all of them run."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    running = [
        subprocess.Popen([sys.executable, "-c", code, *words], **pipes) for code, *words in programs
    ]
    for program in running:
        assert program.stdout.read(1) == b"."
    capture = BurstCapture([program.pid for program in running], json.dumps(options))
    for program in running:
        program.stdin.write(b"x")
    for program in running:
        beside(program)
    said = [program.communicate()[0].decode().split() for program in running]
    assert [program.returncode for program in running] == [0] * len(running)
    text, records = capture.finish()
    return json.loads(text), records, said


SLEEPER = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.write(1, b".")
os.read(0, 1)
for _ in range(int(sys.argv[2])):
    time.sleep(float(sys.argv[3]))
"""


def test_bursts_of_all_cpus_are_in_the_order_of_their_ends(method):
    cpus = sorted(os.sched_getaffinity(0))
    programs = [(SLEEPER, str(cpu), "100", "1e-4") for cpu in (cpus[0], cpus[-1])]
    found, records, _ = captured({"method": method}, *programs)
    assert found["lost"] == 0 and len(records) >= 200
    assert [record[0] for record in records] == sorted(record[0] for record in records)


def test_a_ring_that_is_emptied_in_time_loses_nothing(method):
    """Ten times what fits into it, at a rate of which a hundredth fits."""
    options = {"method": method, "ring_bytes": 1 << 16, "drain_ms": 2}
    cpu = str(max(os.sched_getaffinity(0)))
    found, records, _ = captured(options, (SLEEPER, cpu, "14000", "0"))
    assert found["lost"] == 0
    (task,) = found["tasks"]
    assert task["bursts"] - task["untraced_starts"] * (method == "perf") == len(records) > 13_000


PARENT = """
import ctypes, os, struct, time
os.write(1, b".")
os.read(0, 1)
first = os.fork()
if first:
    os.waitpid(first, 0)
    # struct clone_args: the signal at the end, the number that the child is to have.
    number = ctypes.c_int(first)
    wanted = struct.pack("10Q", 0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(number), 1)
    second = ctypes.CDLL(None, use_errno=True).syscall(435, wanted, len(wanted))
    if second < 0:
        raise SystemExit(print("refused"))
if not first or not second:
    for _ in range(10):
        time.sleep(0.001)
    os._exit(0)
os.waitpid(second, 0)
print(first)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the number of a process is chosen")
def test_a_number_that_is_used_again_is_one_task(method):
    found, _, [[child]] = captured({"method": method}, (PARENT,))
    if child == "refused":
        pytest.skip("needs to choose the number of a process (CAP_CHECKPOINT_RESTORE)")
    bursts = {task["task"]: task["bursts"] for task in found["tasks"]}
    assert len(found["tasks"]) == len(bursts) == 2
    assert bursts[int(child)] >= 20


FORKING = """
import os
os.write(1, b".")
os.read(0, 1)
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_tasks_that_find_no_room_are_counted(bpf):
    for room, found_tasks in ((1, 1), (3, 3), (9, 6)):
        found, *_ = captured({"method": "bpf", "tasks_max": room}, (FORKING,))
        assert (len(found["tasks"]), found["lost_tasks"]) == (found_tasks, 6 - found_tasks)


SPINNER = """
import os, time
while time.process_time() < 0.5: pass
os.write(1, b".")
while True: pass
"""


def charged_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@contextmanager
def spinning():
    with subprocess.Popen([sys.executable, "-c", SPINNER], stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout
            assert program.stdout.read(1) == b"."
            yield program
        finally:
            program.kill()


def test_what_a_task_used_before_is_not_its_first_burst(bpf):
    """It is on a CPU when a capture begins, after half a second, and stays there; but now and then
    the kernel throttles it, or a task of higher priority preempts it, at that very moment.
    """
    assert any(untraced_starts() for _ in range(10))


def untraced_starts():
    """How often a task was on a CPU already where a capture first saw it: 0 or 1."""
    with spinning() as program:
        try:
            os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            pytest.skip("needs a real-time policy")
        began_s = time.monotonic()
        capture = BurstCapture([program.pid], json.dumps({"method": "bpf"}))
        before_ns = charged_ns(program.pid)
        time.sleep(0.05)
        used_ns = charged_ns(program.pid) - before_ns
        program.kill()
        program.wait()
        lasted_s = time.monotonic() - began_s
    (task,) = json.loads(capture.finish()[0])["tasks"]
    # The kernel charges a running task at its ticks.
    assert used_ns - 20e6 < task["total_ns"] < lasted_s * 1e9 + 20e6
    return task["untraced_starts"]


def test_totals_of_the_kernel_have_a_histogram_when_records_are_lost(bpf):
    options = {"method": "bpf", "ring_bytes": 4096, "drain_ms": 60_000}
    found, records, _ = captured(options, (SLEEPER, str(max(os.sched_getaffinity(0))), "500", "0"))
    (task,) = found["tasks"]
    assert found["lost"] > 0 and task["bursts"] == found["lost"] + len(records)
    assert sum(count for *_, count in task["histogram"]) == task["bursts"]
    assert all(high == 2 * low - 1 for low, high, _ in task["histogram"])  # an octave each


SIGNALLED = """
import os, signal
wanted = {signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.write(1, b".")
os.read(0, 1)
for _ in range(60_000):
    signal.sigwait(wanted)
"""


def test_nobody_is_woken_while_it_runs(bpf):
    """So many short sleeps that some kernels do not trace each switch and wake-up."""

    def wake(program):
        while program.poll() is None:
            program.send_signal(signal.SIGUSR1)

    found, records, _ = captured({"method": "bpf"}, (SIGNALLED,), beside=wake)
    assert found["lost"] == 0
    for (before_ns, _, _, was_preempted, _), after in itertools.pairwise(records):
        woken_ns = after[4][1]
        assert bool(woken_ns) != was_preempted
        assert not woken_ns or before_ns <= woken_ns <= after[0] - after[1]


ENDING = """
import os, time
os.write(1, b".")
os.read(0, 1)
until = time.monotonic() + 0.02
while time.monotonic() < until: pass
print(time.monotonic_ns(), flush=True)
os._exit(0)
"""


def test_the_last_burst_ends_with_the_program(method):
    _, records, [[alive_ns]] = captured({"method": method}, (ENDING,))
    assert records[-1][0] > int(alive_ns)


ELSEWHERE = """
import json, os
from schedlab._core import BlockCapture, BurstCapture
for capture, options in (
    (BurstCapture, ([os.getpid()], json.dumps({"method": "bpf"}))),
    (BlockCapture, (json.dumps({"device": "/dev/loop0"}),)),
):
    try:
        capture(*options)
    except OSError as error:
        assert "PID namespace" in str(error), error
    else:
        raise SystemExit(f"{capture} has begun")
"""


def test_where_processes_have_other_numbers_nothing_is_captured(bpf):
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr.startswith("unshare:"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
