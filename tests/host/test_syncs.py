"""Captures of fsync and its kin beside programs that count and time their own calls."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_emulated import fixed

from schedlab import _core
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control
from schedlab.run.io import durability

PROGRAM = """
import json, mmap, os, sys, time
directory, times = sys.argv[1], {}
def timed(name, call, *arguments):
    began = time.monotonic_ns()
    call(*arguments)
    times.setdefault(name, []).append(time.monotonic_ns() - began)
plain = os.open(directory + "/plain", os.O_CREAT | os.O_RDWR)
synced = os.open(directory + "/synced", os.O_CREAT | os.O_RDWR | os.O_DSYNC)
os.truncate(plain, 4096)
page = mmap.mmap(plain, 4096)
for i in range(20):
    os.pwrite(plain, b"x" * 512, 512 * i)
    timed("fsync", os.fsync, plain)
    timed("fdatasync", os.fdatasync, plain)
    timed("synced write", os.pwrite, synced, b"x", i)
    timed("synced write", os.pwritev, plain, [b"y"], i, os.RWF_DSYNC)
    page[0] = i
    timed("msync", page.flush)
with open("/proc/self/mem", "rb"):
    os.write(plain, b"z")
print(json.dumps(times))
"""


@pytest.fixture
def captures(root_with_loop):
    """Skips where this kernel refuses the capture."""
    watched, problem = durability.watch(durability.Places())
    if watched is None:
        pytest.skip(problem)
    watched.finish()


def run_program(directory):
    argv = [sys.executable, "-c", PROGRAM, str(directory)]
    return json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)


def rows_of(result):
    return {row["call"]: row for row in result["calls"]}


def closes(result):
    of = result["accounting"]
    return of["entered"] == of["returned"] + of["in_flight"] + of["lost"]


def test_every_call_of_a_followed_program_is_counted_once(captures, tmp_path):
    capture = _core.SyncCapture(json.dumps({"follows": [[os.getpid(), "children"]]}))
    own = run_program(tmp_path)
    descriptor = os.open(tmp_path / "ours", os.O_CREAT | os.O_RDWR)
    os.fsync(descriptor)  # children are counted, not we
    os.close(descriptor)
    result = json.loads(capture.finish())
    rows = rows_of(result)
    assert {name: row["returned"] for name, row in rows.items()} == {
        name: len(times) for name, times in own.items()
    }
    assert closes(result)
    assert result["accounting"]["lost"] == result["accounting"]["in_flight"] == 0
    for name, row in rows.items():
        # The program's clock encloses that of the kernel.
        assert 0 < row["sum_ns"] < sum(own[name])
        assert row["max_ns"] <= max(own[name])
        assert sum(row["parts_ns"]) == row["sum_ns"]
        assert sum(count for *_, count in row["bins"]) == row["returned"]
        assert row["process"].startswith("python")


def test_a_call_for_which_no_row_is_left_is_lost(captures, tmp_path):
    own_name, more = Path("/proc/self/comm"), 300
    called = own_name.read_text()
    capture = _core.SyncCapture(json.dumps({"follows": [[os.getpid(), "itself"]]}))
    descriptor = os.open(tmp_path / "ours", os.O_CREAT | os.O_RDWR)
    try:
        for number in range(more):
            own_name.write_text(f"name {number}")
            os.fsync(descriptor)
    finally:
        own_name.write_text(called)
        os.close(descriptor)
    result = json.loads(capture.finish())
    assert closes(result)
    assert result["accounting"]["entered"] == more
    assert result["accounting"]["lost"] == more - len(result["calls"]) > 0


def test_calls_on_other_file_systems_are_not_counted(captures, mounted_loop, tmp_path):
    device, place = mounted_loop
    queue = Path(device).name
    places = durability.places_of([queue])
    assert durability.places_of([queue], place) == places
    watched, _ = durability.watch(places)
    run_program(tmp_path)
    run_program(place)
    seen = watched.finish()
    assert seen.of("fsync").returned == 40
    assert seen.of("synced_write").returned == 40
    assert seen.of("journal_commit").returned >= 1
    chain = seen.chain()
    assert chain.calls == 80
    assert chain.flush_s > 0
    assert chain.written


@pytest.mark.usefixtures("needs_fuse")
def test_a_call_that_waits_is_in_flight_and_has_an_age(captures, state, tmp_path):
    with Control() as control:
        device = control.emulated(Emulation(fixed(tmp_path, "1ms")))
        descriptor = os.open(device.path, os.O_RDWR)
        capture = _core.SyncCapture(json.dumps({"follows": [[os.getpid(), "itself"]]}))
        os.kill(device.server.process_id, signal.SIGSTOP)
        try:
            os.pwrite(descriptor, b"x" * 4096, 0)
            thread = threading.Thread(target=os.fsync, args=(descriptor,))
            thread.start()
            deadline = time.monotonic() + 30
            while not (waiting := json.loads(capture.snapshot())["waiting"]):
                assert time.monotonic() < deadline
        finally:
            os.kill(device.server.process_id, signal.SIGCONT)
        ((_, _, call, age_ns),) = waiting
        assert call == "fsync"
        assert age_ns >= 0
        with contextlib.suppress(OSError):
            thread.join()
        os.close(descriptor)
        result = json.loads(capture.finish())
        assert closes(result)
        assert rows_of(result)["fsync"]["returned"] == 1


def test_a_capture_that_begins_and_ends_under_calls_closes(captures, tmp_path):
    argv = [sys.executable, "-c",
            "import os, sys\nf = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\n"
            "while True: os.pwrite(f, b'x', 0), os.fdatasync(f)"]  # fmt: skip
    callers = [subprocess.Popen([*argv, tmp_path / str(i)]) for i in range(3)]
    try:
        for _ in range(5):
            watched, _ = durability.watch(durability.Places())
            before, deadline = watched.seen(), time.monotonic() + 30
            while (watched.seen() - before).identity["returned"] < 20:
                assert time.monotonic() < deadline
            identity = watched.finish().identity
            assert identity["lost"] == 0
            assert identity["entered"] == identity["returned"] + identity["in_flight"]
    finally:
        for caller in callers:
            caller.kill()
            caller.wait()
